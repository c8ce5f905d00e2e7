"""aiohttp's connections, extended by disconnect notification for watches, deadlines and a connection limit."""

import asyncio
import logging
import math
import resource
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from tinykube.server.http.codec import LARGEST_BODY_BYTES
from tinykube.server.settings import ConnectionLimits

_LOG = logging.getLogger(__name__)

_READ_BUFFER_BYTES = 16 * 1024
_MOST_CONNECTIONS = 50_000
_SAFE_UNREAD_SECONDS = 5.0
_IDLE_LOOK_SECONDS = 0.1

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

    __slots__ = (
        "_had_request",
        "_on_made",
        "_on_read",
        "_on_unread",
        "_unread_since",
        "_waiting_since",
        "on_lost",
    )

    def __init__(
        self,
        manager: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        on_made: Callable[[asyncio.BaseTransport], None],
        on_unread: "Callable[[Connection], None]",
        on_read: "Callable[[Connection], None]",
        **settings: Any,
    ) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.on_lost: Callable[[], None] | None = None
        self._on_made = on_made
        self._on_unread = on_unread
        self._on_read = on_read
        self._waiting_since: float | None = None
        self._unread_since: float | None = None
        self._had_request = False

    def pause_writing(self) -> None:
        """Record when the client stopped reading."""
        super().pause_writing()
        self._unread_since = self._loop.time()
        self._on_unread(self)

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        super().resume_writing()
        self._unread_since = None
        self._on_read(self)

    def check(self, now: float, limits: ConnectionLimits) -> None:
        """Close the connection if its client has missed a deadline; called every few seconds."""
        if self.transport is None:
            return
        limit = limits.idle_seconds if self._had_request else limits.head_seconds
        if self.idle_seconds(now) > limit or self.unread_seconds(now) > limits.write_seconds:
            self.transport.abort()

    def idle_seconds(self, now: float) -> float:
        """Return the time since a check first found the connection without a request."""
        if self._current_request is not None:
            self._waiting_since = None
            return 0.0
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since

    def unread_seconds(self, now: float) -> float:
        """Return the time since the client stopped reading."""
        return 0.0 if self._unread_since is None else now - self._unread_since

    def abort(self) -> None:
        """Close the connection without waiting for unsent data."""
        if self.transport is not None:
            self.transport.abort()

    def note_request(self) -> None:
        """Restart the idle time. Without it, a connection whose requests all end between two checks would count as idle."""
        self._waiting_since = None
        self._had_request = True

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads too slowly: writers should wait."""
        return self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving a client, with a read buffer of request size."""
        _shrink_read_buffer(transport)
        self._on_made(transport)
        self._waiting_since = self._loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Notify the writer of this connection that the client has disconnected."""
        super().connection_lost(exc)
        self._on_read(self)
        callback, self.on_lost = self.on_lost, None
        if callback is not None:
            callback()

    def log_exception(self, *args: Any, **details: Any) -> None:
        """Log internal errors; malformed HTTP is the client's fault, and may contain secrets."""
        error = details.get("exc_info")
        if isinstance(error, HttpProcessingError):
            _LOG.debug("a client sent malformed HTTP: %s", type(error).__name__)
        elif isinstance(error, ConnectionError):  # a traceback for each client that leaves would fill the log
            _LOG.debug("a client has left: %s", type(error).__name__)
        else:
            super().log_exception(*args, **details)


class Connections(web.Server):
    """Makes the connections of a server, bounds their number and what their clients leave unread, and closes those past a deadline.

    When there is no room for a new connection, the one that has been without a request or in its handshake for longest
    is closed, unless that is less than ``safe_seconds``; else the new one is refused. Of more than ``max_unread`` connections whose clients do
    not read, the longest unread is closed. Bodies of more than 3 MiB are refused while they are read.
    """

    def __init__(self, handler: Handler, limits: ConnectionLimits, *, reserve: int, **settings: Any) -> None:
        super().__init__(handler, request_factory=self._request, **settings)
        self._settings = settings
        self._limits = limits
        self._most = limits.max_connections or _room_for_connections(reserve)
        self._handshakes: dict[int, tuple[socket.socket, float]] = {}
        """Handshakes under way by file descriptor, the oldest first: the socket, and since when."""
        self._unread: dict[Connection, None] = {}
        """Connections whose clients do not read, the longest unread first."""
        self._idle_seen_at = -math.inf
        self._checking: asyncio.TimerHandle | None = None
        self._refused = 0

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        loop = asyncio.get_running_loop()
        if self._checking is None:
            self._checking = loop.call_later(self._check_seconds, self._check)
        return Connection(
            self,
            loop=loop,
            on_made=self._handshake_done,
            on_unread=self.now_unread,
            on_read=self.now_read,
            **self._settings,
        )

    def admit(self, accepted: socket.socket) -> bool:
        """Return whether a newly accepted connection may stay; if so, count it."""
        now = asyncio.get_running_loop().time()
        self._forget_ended_handshakes(now)
        if len(self.connections) + len(self._handshakes) >= self._most and not self._make_room(now):
            self._refused += 1
            if self._refused.bit_count() == 1:  # 1, 2, 4, 8, ...: a flood must not fill the log
                _LOG.warning("connections rejected: limit=%d rejected=%d", self._most, self._refused)
            return False
        number = accepted.fileno()
        self._handshakes.pop(number, None)
        self._handshakes[number] = accepted, now
        return True

    def _forget_ended_handshakes(self, now: float) -> None:
        while self._handshakes:
            number, (waiting, since) = next(iter(self._handshakes.items()))
            if waiting.fileno() == number and now - since < self._limits.head_seconds:
                return
            del self._handshakes[number]

    def _make_room(self, now: float) -> bool:
        """Close the oldest handshake, or idle connections; return whether there is room now."""
        if self._handshakes:
            number, (waiting, since) = next(iter(self._handshakes.items()))
            if now - since >= self._limits.safe_seconds:
                del self._handshakes[number]
                with suppress(OSError):
                    waiting.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes it
                return True
        if (
            now - self._idle_seen_at < _IDLE_LOOK_SECONDS
        ):  # a search for each new connection would be quadratic
            return False
        self._idle_seen_at = now
        idle = [
            (seconds, connection)
            for connection in self.connections
            if isinstance(connection, Connection)
            and (seconds := connection.idle_seconds(now)) >= self._limits.safe_seconds
        ]
        idle.sort(key=lambda entry: -entry[0])
        for _, connection in idle[: max(self._most // 16, 1)]:
            connection.abort()
        return bool(idle)

    def now_unread(self, connection: Connection) -> None:
        """Count a connection whose client does not read, and close the longest unread beyond the limit."""
        self._unread[connection] = None
        now = asyncio.get_running_loop().time()
        while len(self._unread) > self._limits.max_unread:
            oldest = next(iter(self._unread))
            if oldest.unread_seconds(now) < _SAFE_UNREAD_SECONDS:
                break
            del self._unread[oldest]
            oldest.abort()

    def now_read(self, connection: Connection) -> None:
        """Forget a connection whose client has read, or left."""
        self._unread.pop(connection, None)

    def stop_checking(self) -> None:
        """Stop the deadline checks."""
        if self._checking is not None:
            self._checking.cancel()

    @property
    def _check_seconds(self) -> float:
        limits = self._limits
        return min(limits.head_seconds, limits.idle_seconds, limits.write_seconds) / 4

    def _handshake_done(self, transport: asyncio.BaseTransport) -> None:
        made = transport.get_extra_info("socket")
        if made is not None:
            self._handshakes.pop(made.fileno(), None)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self.connections):
            if isinstance(connection, Connection):
                connection.check(now, self._limits)
        self._checking = loop.call_later(self._check_seconds, self._check)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        protocol.note_request()
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=LARGEST_BODY_BYTES
        )
