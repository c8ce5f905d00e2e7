"""Connections: aiohttp's, which tell a watch when its client has gone, and streams written as whole chunks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from endpointd.apiserver.http.codec import LARGEST_BODY_BYTES

_LOG = logging.getLogger(__name__)

_READ_BUFFER_BYTES = 16 * 1024

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _shrink_read_buffer(transport: asyncio.BaseTransport) -> None:
    """Give back the 256 KiB that asyncio keeps for reading on each TLS connection; watchers never send anything.

    asyncio has no setting for it, so this reaches into its TLS protocol, and leaves alone what does not look as known.
    """
    protocol = getattr(transport, "_ssl_protocol", None)
    buffer = getattr(protocol, "_ssl_buffer", None)
    if protocol is None or not isinstance(buffer, bytearray) or len(buffer) <= _READ_BUFFER_BYTES:
        return
    small = bytearray(_READ_BUFFER_BYTES)
    protocol.max_size = _READ_BUFFER_BYTES
    protocol._ssl_buffer = small  # noqa: SLF001
    protocol._ssl_buffer_view = memoryview(small)  # noqa: SLF001


class Connection(RequestHandler):
    """One client's connection. ``on_lost`` is called once when it ends, however that happens."""

    __slots__ = ("on_lost",)

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.on_lost: Callable[[], None] | None = None

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads more slowly than it is written to: whoever writes should wait."""
        return self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a client, with a read buffer of the size that requests have."""
        _shrink_read_buffer(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell whoever writes to this client that nobody reads any more."""
        super().connection_lost(exc)
        told, self.on_lost = self.on_lost, None
        if told is not None:
            told()

    def log_exception(self, *args: Any, **details: Any) -> None:
        """Log what went wrong in here; what is no HTTP is the client's business, and may hold its secrets."""
        error = details.get("exc_info")
        if isinstance(error, HttpProcessingError):
            _LOG.debug("a client sent what is no HTTP: %s", type(error).__name__)
        else:
            super().log_exception(*args, **details)


class Connections(web.Server):
    """Makes the connections of a server. Bodies of more than 3 MiB are refused while they are read."""

    def __init__(self, handler: Handler, **settings: Any) -> None:
        super().__init__(handler, request_factory=self._request, **settings)
        self._settings = settings

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return Connection(self, loop=asyncio.get_running_loop(), **self._settings)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=LARGEST_BODY_BYTES
        )
