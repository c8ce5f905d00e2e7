"""The sockets: TLS on one address, from start to an orderly end."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

from aiohttp.web_protocol import RequestHandler

from endpointd.apiserver.http.connections import Connections, Handler

_HEADERS_SECONDS = 30.0
_BACKLOG = 1024
_LONGEST_HEADER_BYTES = 64 * 1024
_MOST_HEADERS = 256


class Listener:
    """Serves a handler over TLS. :meth:`start`, then :meth:`stop_accepting`, then :meth:`aclose`."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext) -> None:
        self._handler = handler
        self._tls = tls
        self._connections: Connections | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError where the address cannot be had."""
        settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "max_line_size": _LONGEST_HEADER_BYTES,
            "max_field_size": _LONGEST_HEADER_BYTES,
            "max_headers": _MOST_HEADERS,
            "lingering_time": 1.0,
        }
        self._connections = Connections(self._handler, **settings)
        self._server = await asyncio.get_running_loop().create_server(
            self._connections,
            host,
            port,
            ssl=self._tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=_HEADERS_SECONDS,
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> Sequence[RequestHandler]:
        """The connections there are."""
        return () if self._connections is None else self._connections.connections

    def stop_accepting(self) -> None:
        """Take no new connections; those there are go on."""
        if self._server is not None:
            self._server.close()

    async def aclose(self, timeout_seconds: float) -> None:
        """End all connections: the idle at once, the busy after what they are doing, or after the timeout."""
        self.stop_accepting()
        if self._connections is not None:
            await self._connections.shutdown(timeout_seconds)
        if self._server is not None:
            await self._server.wait_closed()
