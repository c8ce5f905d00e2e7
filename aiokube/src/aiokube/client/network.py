"""Sockets that detect a dead peer, and the mapping of network errors to ours."""

import os
import socket
import ssl
from typing import Any, NamedTuple

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from aiokube.client.errors import (
    ConnectionFailedError,
    RequestTimedOutError,
    ResponseTruncatedError,
    TlsError,
    TransportError,
    UnexpectedResponseError,
)

# The errors of aiohttp for a request; its parser's error is occasionally not wrapped.
HTTP_ERRORS = (aiohttp.ClientError, HttpProcessingError)

# A kube-apiserver closes idle connections after 90 seconds; closing earlier avoids a race with a new request.
KEEP_IDLE_CONNECTION_SECONDS = 60.0

# A peer that vanished is detected after 5 + 3 * 3 seconds. An idle connection costs a packet every 5 s.
_PROBE_AFTER_SECONDS = 5
_PROBE_EVERY_SECONDS = 3
_PROBES = 3
_UNACKNOWLEDGED_MILLISECONDS = 14_000


_TLS_WORDS = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS there",
    "HTTP_REQUEST": "the server does not speak TLS there",
}


class Peer(NamedTuple):
    """The other end of a connection, for messages."""

    host: str
    port: int
    through: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.through}"


def make_connector() -> aiohttp.TCPConnector:
    """Return an unlimited pool (callers limit requests) of sockets that probe a silent peer."""
    return aiohttp.TCPConnector(
        limit=0, keepalive_timeout=KEEP_IDLE_CONNECTION_SECONDS, socket_factory=_probing_socket
    )


def _probing_socket(address: Any) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_EVERY_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MILLISECONDS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def timed_out(
    error: TimeoutError, method: str, path: str, peer: Peer, timeout_seconds: float
) -> TransportError:
    """Return the error for a timeout of the connection or the response."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectionFailedError(f"cannot connect to {peer}: the connection request timed out")
    return RequestTimedOutError(f"{method} {path}: {peer} did not respond within {timeout_seconds:g} s")


def transport_error(
    error: aiohttp.ClientError | HttpProcessingError,
    method: str,
    path: str,
    peer: Peer,
    *,
    inside: bool = False,
) -> TransportError:
    """Map an aiohttp error to ours; ``inside`` if the response had started."""
    if inside or isinstance(error, aiohttp.ClientPayloadError):
        return ResponseTruncatedError(f"{method} {path}: the connection to {peer} broke within the response")
    handshake = _tls_problem(error)
    if handshake:
        return TlsError(f"TLS with {peer} failed: {handshake}")
    match error:
        case aiohttp.ClientConnectorDNSError():
            return ConnectionFailedError(
                f"cannot connect to {error.host}:{error.port}: no such host: {_words(error.os_error)}"
            )
        case aiohttp.ClientProxyConnectionError():
            return ConnectionFailedError(
                f"cannot connect to the proxy {error.host}:{error.port}: {_words(error.os_error)}"
            )
        case aiohttp.ClientConnectorError():
            return ConnectionFailedError(f"cannot connect to {peer}: {_words(error.os_error)}")
        case aiohttp.ClientHttpProxyError():
            return ConnectionFailedError(
                f"cannot connect to {peer}: the proxy responds with {error.status} {error.message}"
            )
        case aiohttp.ClientOSError():
            return ConnectionFailedError(
                f"{method} {path}: the connection to {peer} broke before a response: {_words(error)}",
                may_have_acted=True,
            )
        case aiohttp.ClientConnectionError():
            return ConnectionFailedError(
                f"{method} {path}: {peer} closed the connection before it responded", may_have_acted=True
            )
        case _:
            return UnexpectedResponseError(
                f"{method} {path}: {peer} does not respond with HTTP ({type(error).__name__})"
            )


def _tls_problem(error: BaseException) -> str:
    """Return the TLS problem in OpenSSL's words, ``""`` if it was not a TLS problem."""
    found: BaseException | None = error
    for _ in range(5):  # enough for any chain, and finite
        # aiohttp's own exceptions are SSL errors too, but without details.
        if isinstance(found, aiohttp.ClientConnectorCertificateError):
            found = found.certificate_error
        elif isinstance(found, aiohttp.ClientConnectorError):
            found = found.os_error
        if found is None:
            break
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"the server's certificate is not trusted: {found.verify_message}"
        if isinstance(found, ssl.SSLError):
            reason = found.reason or "the handshake was aborted"
            return _TLS_WORDS.get(reason, reason.replace("_", " ").lower())
        found = found.__cause__ or found.__context__
    return ""


def _words(error: OSError) -> str:
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or "the connection failed"
