"""aiohttp's connections, extended by disconnect notification for watches, deadlines and a connection limit."""

import asyncio
import logging
import resource
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from tinykube.server.http.codec import LARGEST_BODY_BYTES
from tinykube.server.settings import ConnectionLimits

_LOG = logging.getLogger(__name__)

_READ_BUFFER_BYTES = 16 * 1024
_MOST_CONNECTIONS = 50_000

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _shrink_read_buffer(transport: asyncio.BaseTransport) -> None:
    """Shrink the 256 KiB read buffer that asyncio allocates for each TLS connection; watchers never send anything.

    asyncio has no setting for it, so this changes a private attribute, and does nothing if the attribute is
    not as expected.
    """
    protocol = getattr(transport, "_ssl_protocol", None)
    buffer = getattr(protocol, "_ssl_buffer", None)
    if protocol is None or not isinstance(buffer, bytearray) or len(buffer) <= _READ_BUFFER_BYTES:
        return
    small = bytearray(_READ_BUFFER_BYTES)
    protocol.max_size = _READ_BUFFER_BYTES
    protocol._ssl_buffer = small  # noqa: SLF001
    protocol._ssl_buffer_view = memoryview(small)  # noqa: SLF001


def _room_for_connections(reserve: int) -> int:
    """Return the number of connections that leaves ``reserve`` file descriptors to the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return min(max(soft - reserve, soft // 4, 1), _MOST_CONNECTIONS)


class Connection(RequestHandler):
    """A client's connection. ``on_lost`` is called once when it ends, for any reason."""

    __slots__ = ("_had_request", "_on_made", "_unread_since", "_waiting_since", "on_lost")

    def __init__(
        self,
        manager: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        on_made: Callable[[], None],
        **settings: Any,
    ) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.on_lost: Callable[[], None] | None = None
        self._on_made = on_made
        self._waiting_since: float | None = None
        self._unread_since: float | None = None
        self._had_request = False

    def pause_writing(self) -> None:
        """Record when the client stopped reading."""
        super().pause_writing()
        self._unread_since = self._loop.time()

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        super().resume_writing()
        self._unread_since = None

    def check(self, now: float, limits: ConnectionLimits) -> None:
        """Close the connection if its client has missed a deadline; called every few seconds."""
        if self.transport is None:
            return
        if self._current_request is not None:
            self._waiting_since = None
            self._had_request = True
        elif self._waiting_since is None:
            self._waiting_since = now
        limit = limits.idle_seconds if self._had_request else limits.head_seconds
        is_idle = self._waiting_since is not None and now - self._waiting_since > limit
        is_unread = self._unread_since is not None and now - self._unread_since > limits.write_seconds
        if is_idle or is_unread:
            self.transport.abort()

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads too slowly: writers should wait."""
        return self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving a client, with a read buffer of request size."""
        _shrink_read_buffer(transport)
        self._on_made()
        self._waiting_since = self._loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Notify the writer of this connection that the client has disconnected."""
        super().connection_lost(exc)
        callback, self.on_lost = self.on_lost, None
        if callback is not None:
            callback()

    def log_exception(self, *args: Any, **details: Any) -> None:
        """Log internal errors; malformed HTTP is the client's fault, and may contain secrets."""
        error = details.get("exc_info")
        if isinstance(error, HttpProcessingError):
            _LOG.debug("a client sent malformed HTTP: %s", type(error).__name__)
        else:
            super().log_exception(*args, **details)


class Connections(web.Server):
    """Creates connections, rejects those beyond the limit, and closes those that missed a deadline.

    Bodies of more than 3 MiB are rejected while they are read.
    """

    def __init__(self, handler: Handler, limits: ConnectionLimits, *, reserve: int, **settings: Any) -> None:
        super().__init__(handler, request_factory=self._request, **settings)
        self._settings = settings
        self._limits = limits
        self._most = limits.max_connections or _room_for_connections(reserve)
        self._handshakes: deque[float] = deque()
        """The deadlines of pending TLS handshakes, earliest first."""
        self._checking: asyncio.TimerHandle | None = None
        self._refused = 0

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        loop = asyncio.get_running_loop()
        if self._checking is None:
            self._checking = loop.call_later(self._check_seconds, self._check)
        return Connection(self, loop=loop, on_made=self._handshake_done, **self._settings)

    def admit(self) -> bool:
        """Return whether a newly accepted connection may stay; if so, count it."""
        now = asyncio.get_running_loop().time()
        while self._handshakes and self._handshakes[0] < now:
            self._handshakes.popleft()
        if len(self.connections) + len(self._handshakes) < self._most:
            self._handshakes.append(now + self._limits.head_seconds)
            return True
        self._refused += 1
        if self._refused.bit_count() == 1:  # 1, 2, 4, 8, ...: a flood must not fill the log
            _LOG.warning("connections rejected: limit=%d rejected=%d", self._most, self._refused)
        return False

    def stop_checking(self) -> None:
        """Stop the deadline checks."""
        if self._checking is not None:
            self._checking.cancel()

    @property
    def _check_seconds(self) -> float:
        limits = self._limits
        return min(limits.head_seconds, limits.idle_seconds, limits.write_seconds) / 4

    def _handshake_done(self) -> None:
        if self._handshakes:
            self._handshakes.popleft()

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self.connections):
            if isinstance(connection, Connection):
                connection.check(now, self._limits)
        self._checking = loop.call_later(self._check_seconds, self._check)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=LARGEST_BODY_BYTES
        )
