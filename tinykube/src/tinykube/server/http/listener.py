"""Listening sockets with TLS: start, stop accepting, graceful close."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp.web_protocol import RequestHandler

from tinykube.server.http.connections import Connections, Handler
from tinykube.server.settings import ConnectionLimits

_BACKLOG = 256
"""The maximum number of connections accepted before one of them can be rejected."""
_LONGEST_HEADER_BYTES = 64 * 1024
_MOST_HEADERS = 256


def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Resolve the listening addresses; synchronous, because the host is nearly always an address or localhost."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


class _LimitedSocket(socket.socket):
    """A listening socket that closes connections beyond the limit immediately, before the TLS handshake."""

    admit: Callable[[socket.socket], bool]

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raise BlockingIOError, as for no connection, if it was rejected."""
        connection, address = super().accept()
        if not self.admit(connection):
            connection.close()
            raise BlockingIOError
        return connection, address


def _listening_socket(family: int, address: Any, admit: Callable[[socket.socket], bool]) -> socket.socket:
    listening = _LimitedSocket(family, socket.SOCK_STREAM)
    try:
        listening.admit = admit
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


class Listener:
    """Serves a handler over TLS. Call :meth:`start`, then :meth:`stop_accepting`, then :meth:`aclose`."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._handler = handler
        self._tls = tls
        self._connections: Connections | None = None
        self._servers: list[asyncio.Server] = []

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises OSError if the address is unavailable."""
        settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "max_line_size": _LONGEST_HEADER_BYTES,
            "max_field_size": _LONGEST_HEADER_BYTES,
            "max_headers": _MOST_HEADERS,
            "lingering_time": 1.0,
        }
        connections = self._connections = Connections(
            self._handler, self._limits, reserve=2 * _BACKLOG, **settings
        )
        loop = asyncio.get_running_loop()
        for family, address in _addresses(host, port):
            self._servers.append(
                await loop.create_server(
                    connections,
                    sock=_listening_socket(family, address, connections.admit),
                    ssl=self._tls,
                    backlog=_BACKLOG,
                    ssl_handshake_timeout=self._limits.head_seconds,
                )
            )
        bound: int = self._servers[0].sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> Sequence[RequestHandler]:
        """The open connections."""
        return () if self._connections is None else self._connections.connections

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones continue."""
        for server in self._servers:
            server.close()

    async def aclose(self, timeout_seconds: float) -> None:
        """Close all connections: idle ones immediately, others after their request or the timeout."""
        self.stop_accepting()
        if self._connections is not None:
            self._connections.stop_checking()
            await self._connections.shutdown(timeout_seconds)
        for server in self._servers:
            await server.wait_closed()
