"""HTTP transport: a connection pool for one server, with credentials and careful retries."""

import asyncio
import io
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from aiokube import __version__
from aiokube.client.bounded import MAX_ANSWER_BYTES, read_whole
from aiokube.client.chunks import Chunks, abort
from aiokube.client.config import ClusterConfig, Impersonation
from aiokube.client.credentials import Credential
from aiokube.client.error_responses import error_from_response, retry_after_seconds
from aiokube.client.errors import (
    ApiError,
    ServiceUnavailableError,
    TlsError,
    TooManyRequestsError,
    UnauthorizedError,
)
from aiokube.client.guard import Guard, GuardedBody
from aiokube.client.network import HTTP_ERRORS, Peer, make_connector, timed_out, transport_error
from aiokube.client.tls import TlsContexts
from aiokube.clock import Clock
from aiokube.token_bucket import TokenBucket

log = logging.getLogger(__name__)

USER_AGENT = f"aiokube/{__version__}"
JSON = "application/json"
READ_BUFFER_BYTES = 1024 * 1024

_WRITE_AT_ONCE_BYTES = 512 * 1024
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_READING = frozenset({"GET", "HEAD"})
_TIMEOUT_DEFAULT_SECONDS = 60.0
# Old sessions that may still be read; any beyond this number have no reader left.
_RETIRED_SESSIONS = 3
# Enough for a live server to respond to requests that were sent before its connections were distrusted.
_DISTRUSTED_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and for how long, to retry requests that a server throttles.

    At most ``attempts`` retries, each after the delay that the server asked for. If the delay exceeds
    ``longest_wait_seconds``, the error is raised immediately, so that the caller can decide.
    """

    attempts: int = 10
    longest_wait_seconds: float = 30.0

    def delay_seconds(
        self, error: ApiError, method: str, attempt: int, header_seconds: float | None
    ) -> float | None:
        """Return the delay before the next attempt, None for no further attempt.

        Only responses with a Retry-After header are retried. After 429 the server has not processed the
        request, so any request is safe to retry; after 503 only idempotent ones are.
        """
        if header_seconds is None or attempt >= self.attempts or header_seconds > self.longest_wait_seconds:
            return None
        if isinstance(error, TooManyRequestsError):
            return header_seconds
        if isinstance(error, ServiceUnavailableError) and method in _IDEMPOTENT:
            return header_seconds
        return None


class _Request(NamedTuple):
    method: str
    path: str
    url: URL
    body: bytes | None
    headers: dict[str, str]
    timeout_seconds: float
    read_body: bool
    is_limited: bool
    retry_throttled: bool
    guard: Guard | None = None
    limit_bytes: int = MAX_ANSWER_BYTES


class Transport:
    """Sends requests to one server; safe for concurrent use by tasks of one event loop.

    * Credentials are requested before each request. A 401 renews them once and repeats the request.
    * 429 and 503 responses with Retry-After are retried (:class:`RetryPolicy`).
    * If a connection breaks before a response, idempotent methods (GET, PUT, DELETE) are retried once;
      others raise ConnectionFailedError, which states whether the server may have acted.
    * A failed handshake reloads the TLS files and is retried once if they have changed.
    * Redirects are refused. There is no cookie jar. Only method, path, code and duration are logged.

    ``timeout_seconds`` covers a request from sending to the last byte, without the wait for the rate limit.
    Cancelling a caller closes its connection. Close the transport with :meth:`aclose`. ``new_session`` replaces the HTTP
    library's connections, for a server in this process.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        clock: Clock,
        limiter: TokenBucket | None = None,
        user_agent: str = USER_AGENT,
        retry: RetryPolicy | None = None,
        timeout_seconds: float = _TIMEOUT_DEFAULT_SECONDS,
        new_session: Callable[[], aiohttp.ClientSession] | None = None,
    ) -> None:
        self._config = config
        self._new_session = new_session or self._connected_session
        self._clock = clock
        self._limiter = limiter
        self._retry = retry or RetryPolicy()
        self._timeout_seconds = timeout_seconds
        self._base = config.server.rstrip("/")
        self._is_tls = self._base.startswith("https:")
        self._tls = TlsContexts(config.tls, clock=clock)
        self._server_hostname = config.tls.server_name or None
        self._proxy = URL(config.proxy_url) if config.proxy_url else None
        self._peer = _peer(self._base, self._proxy)
        self._headers = _default_headers(user_agent, config.impersonation)
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._unanswered: set[asyncio.Timeout] = set()
        self._closed = False

    @property
    def server(self) -> str:
        """The server's URL, for messages."""
        return self._base

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        compressed: bool = False,
        retry_throttled: bool = True,
        timeout_seconds: float | None = None,
        guard: Guard | None = None,
        limit_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        """Send one request and return the body of a successful response (2xx).

        ``path`` and ``query`` are percent-encoded by the caller. ``compressed`` allows gzip. Without
        ``retry_throttled``, the refusal of a busy server is raised immediately. ``guard`` runs before every
        attempt of a request other than GET (:mod:`aiokube.client.guard`). Raises AnswerTooLargeError for a
        body beyond ``limit_bytes``, ApiError, TransportError, ConfigError, and the errors of the guard.
        """
        headers = {"Accept-Encoding": "gzip"} if compressed and self._config.compression else {}
        if body is not None:
            headers["Content-Type"] = content_type
        if accept != JSON:
            headers["Accept"] = accept
        timeout = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        url = self._url(path, query)
        request = _Request(
            method,
            path,
            url,
            body,
            headers,
            timeout,
            read_body=True,
            is_limited=True,
            retry_throttled=retry_throttled,
            guard=None if method in _READING else guard,
            limit_bytes=limit_bytes,
        )
        _, body_of_answer = await self._exchange(request)
        return body_of_answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: str = "",
        *,
        retry_throttled: bool = True,
        compressed: bool = False,
        is_watch: bool = True,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET whose response is read as it arrives; a watch may never end.

        Entering returns after a successful status. The iterator yields the bytes that have arrived, and ends
        with the response. Raises ResponseTruncatedError if the connection breaks, and the errors of
        :meth:`send` on entering. Leaving closes the connection of an unfinished response.
        """
        url = self._url(path, query)
        headers = {"Accept-Encoding": "gzip"} if compressed and self._config.compression else {}
        request = _Request(
            "GET",
            path,
            url,
            None,
            headers,
            self._timeout_seconds,
            read_body=False,
            is_limited=not is_watch,
            retry_throttled=retry_throttled,
        )
        response, _ = await self._exchange(request)
        try:
            yield Chunks(response, request.path, self._peer)
        finally:
            abort(response)

    async def _close_retired(self) -> None:
        while len(self._retired) > _RETIRED_SESSIONS:
            await self._retired.pop(0).close()

    def distrust_connections(self) -> None:
        """Stop using open connections for new requests: one turned out to be dead, and others may be.

        Pending requests get a short time to finish; connections that are being read stay open.
        """
        if self._session is not None:
            self._retired.append(self._session)
            self._session = None
        deadline = asyncio.get_running_loop().time() + _DISTRUSTED_ANSWER_SECONDS
        for limit in self._unanswered:
            when = limit.when()
            if not limit.expired() and when is not None and when > deadline:
                limit.reschedule(deadline)

    async def aclose(self) -> None:
        """Close all connections; pending requests fail. Idempotent."""
        self._closed = True
        for session in (*self._retired, self._session):
            if session is not None:
                await session.close()

    # ------------------------------------------------------------------------------------------------
    # attempts

    async def _exchange(self, request: _Request) -> tuple[aiohttp.ClientResponse, bytes]:
        credentials = self._config.credentials
        credential = await credentials.current()
        await self._close_retired()
        waits = 0
        may_renew = may_look = True
        while True:
            if self._limiter is not None and request.is_limited:
                await self._limiter.acquire()
            tls = self._tls.context(credential.certificate) if self._is_tls else None
            try:
                response, answer, error = await self._attempt(request, credential, tls)
            except TlsError:
                if may_look and self._has_newer_tls(credential, tls):
                    may_look = False
                    continue
                raise
            if error is None:
                return response, answer
            if isinstance(error, UnauthorizedError) and may_renew:
                may_renew = False
                refused, credential = credential, await credentials.renewed(credential)
                if credential is not refused or self._has_newer_tls(credential, tls):
                    continue
            delay = self._delay_seconds(error, request, response, waits)
            if delay is None:
                if isinstance(error, UnauthorizedError):
                    error.identity = self._config.identity
                raise error
            waits += 1
            await self._clock.sleep(delay)

    def _delay_seconds(
        self, error: ApiError, request: _Request, response: aiohttp.ClientResponse, waits: int
    ) -> float | None:
        if not request.retry_throttled:
            return None
        header_seconds = retry_after_seconds(response.headers, self._clock)
        return self._retry.delay_seconds(error, request.method, waits, header_seconds)

    async def _attempt(
        self, request: _Request, credential: Credential, tls: ssl.SSLContext | None
    ) -> tuple[aiohttp.ClientResponse, bytes, ApiError | None]:
        """Send the request once, and read the body unless the request is a stream."""
        answer = b""
        started = self._clock.monotonic()
        error: ApiError | None = None
        body = _sendable(request.body, request.guard)
        try:
            async with asyncio.timeout(request.timeout_seconds) as limit:
                self._unanswered.add(limit)
                planned = limit.when()
                try:
                    response = await self._send(request, body, credential, tls)
                    if response.status >= 300:
                        error = await error_from_response(response, request.method, request.path, self._clock)
                    elif request.read_body:
                        answer = await read_whole(
                            response, request.limit_bytes, f"{request.method} {request.path}"
                        )
                finally:
                    self._unanswered.discard(limit)
        except TimeoutError as timeout:
            self._log(request, "no response in time", started)
            seconds = request.timeout_seconds
            if limit.when() != planned:  # cut short: its connection is distrusted
                seconds = round(self._clock.monotonic() - started, 1)
            raise timed_out(timeout, request.method, request.path, self._peer, seconds) from None
        except HTTP_ERRORS as problem:
            if isinstance(body, GuardedBody) and body.refusal is not None:
                raise body.refusal from None
            failure = transport_error(problem, request.method, request.path, self._peer)
            self._log(request, type(failure).__name__, started)
            raise failure from None
        self._log(request, response.status, started)
        return response, answer, error

    async def _send(
        self,
        request: _Request,
        body: bytes | io.BytesIO | None,
        credential: Credential,
        tls: ssl.SSLContext | None,
    ) -> aiohttp.ClientResponse:
        headers = request.headers
        if credential.authorization is not None:
            headers = {"Authorization": credential.authorization, **headers}
        return await self._open_session().request(
            request.method,
            request.url,
            data=body,
            headers=headers,
            ssl=tls if tls is not None else True,
            server_hostname=self._server_hostname,
            proxy=self._proxy,
            allow_redirects=False,
        )

    def _has_newer_tls(self, credential: Credential, used: ssl.SSLContext | None) -> bool:
        if used is None:
            return False
        return self._tls.context(credential.certificate, check=True) is not used

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            if self._closed:
                raise RuntimeError(f"the client of {self._base} is closed")
            self._session = self._new_session()
        return self._session

    def _connected_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=make_connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=15.0),
            read_bufsize=READ_BUFFER_BYTES,
        )

    def _url(self, path: str, query: str) -> URL:
        return URL(f"{self._base}{path}?{query}" if query else self._base + path, encoded=True)

    def _log(self, request: _Request, outcome: int | str, started: float) -> None:
        if log.isEnabledFor(logging.DEBUG):
            milliseconds = (self._clock.monotonic() - started) * 1000.0
            log.debug(
                "request: verb=%s path=%s outcome=%s milliseconds=%.1f",
                request.method,
                request.path,
                outcome,
                milliseconds,
            )


def _sendable(body: bytes | None, guard: Guard | None) -> bytes | io.BytesIO | None:
    if guard is not None:
        guard()
        return GuardedBody(body, guard) if body is not None else None
    # aiohttp warns about large bytes, which it writes in one go; a file is written in chunks.
    return io.BytesIO(body) if body is not None and len(body) > _WRITE_AT_ONCE_BYTES else body


def _default_headers(user_agent: str, impersonation: Impersonation | None) -> CIMultiDict[str]:
    headers = CIMultiDict({"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": user_agent})
    if impersonation is not None:
        headers["Impersonate-User"] = impersonation.user
        if impersonation.uid:
            headers["Impersonate-Uid"] = impersonation.uid
        for group in impersonation.groups:
            headers.add("Impersonate-Group", group)
        for key, values in impersonation.extra.items():
            for value in values:
                headers.add(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value)
    return headers


def _peer(server: str, proxy: URL | None) -> Peer:
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    through = f" through the proxy {proxy.host}:{proxy.port}" if proxy is not None else ""
    return Peer(parts.hostname or "", port, through)
