"""Watch streams: chunked responses; each batch is one chunk, written when it is available."""

import asyncio
from collections import deque

from aiohttp import web

from aiokube.clock import Clock
from tinykube.server.http.connections import Connection
from tinykube.server.http.frames import Framer, chunk
from tinykube.server.http.responses import NOT_CACHED, add_warnings
from tinykube.server.verbs.watch import Failure, Watch

_PACE_SECONDS_A_WATCH = 150e-6
_LONGEST_PACE_SECONDS = 0.05
_SHORTEST_PACE_SECONDS = 0.003
_LONGEST_UNDER_LOAD_SECONDS = 0.15
_SHARE_OF_WRITING = 0.4
_WEIGHT_OF_THE_NEWEST = 0.05
_STREAMS_A_TURN = 100
"""The maximum number of writes per iteration of the loop, which bounds the delay of other requests."""


def pace_seconds(watches: int, seconds_a_write: float = 0.0) -> float:
    """Return the interval between writes to a watch, for this many open watches.

    ``seconds_a_write`` is the current cost of a write: writing to all watches gets two fifths of the CPU
    time, so that a busy server still handles requests. The interval is at most 150 ms.
    """
    pace = min(watches * _PACE_SECONDS_A_WATCH, _LONGEST_PACE_SECONDS)
    needed = watches * seconds_a_write / _SHARE_OF_WRITING
    pace = max(pace, min(needed, _LONGEST_UNDER_LOAD_SECONDS))
    return pace if pace >= _SHORTEST_PACE_SECONDS else 0.0


class _Stream:
    """A watch and its client. ``handed_back`` exists while the pump writes to it, and is set when the pump cannot continue."""

    __slots__ = ("connection", "framer", "handed_back", "is_queued", "not_before", "transport", "watch")

    def __init__(
        self, watch: Watch, framer: Framer, connection: Connection, transport: asyncio.WriteTransport
    ) -> None:
        self.watch = watch
        self.framer = framer
        self.connection = connection
        self.transport = transport
        self.not_before = 0.0
        self.is_queued = False
        self.handed_back: asyncio.Future[None] | None = None

    def hand_back(self) -> None:
        """Return it to its task: it ends, or its client reads too slowly."""
        if self.handed_back is not None and not self.handed_back.done():
            self.handed_back.set_result(None)


class _Pump:
    """Writes to all streams with pending batches whose clients keep up.

    One callback writes to many streams: deliveries need no task, future or timer. The cost of a delivery is
    then mostly the system call, not its size. With many watches, each is therefore written at most once per
    interval (50 ms from three hundred watches on; immediately below twenty; longer if CPU is scarce), and
    changes in between are sent together. The first change after a quiet period is never delayed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pace_seconds = 0.0
        self._watches = 0
        self._seconds_a_write = 0.0
        self._due: deque[_Stream] = deque()
        self._later: deque[_Stream] = deque()
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, stream: _Stream) -> None:
        """Write to a stream whenever its watch has a batch, until it is handed back."""
        if not stream.is_queued:
            stream.watch.arm(lambda: self._woken(stream))

    def close(self) -> None:
        """Deliver everything without delay from now on."""
        self._due.extend(self._later)
        self._later.clear()
        self._schedule()

    def _woken(self, stream: _Stream) -> None:
        stream.is_queued = True
        wait_seconds = stream.not_before - self._clock.monotonic()
        if wait_seconds <= 0.0:
            self._due.append(stream)
            self._schedule()
            return
        # Nearly in time order: the interval changes only as watches start and end.
        self._later.append(stream)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self._time_has_come)

    def _schedule(self) -> None:
        if not self._is_scheduled and self._due:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_due)

    def _time_has_come(self) -> None:
        self._timer = None
        soon = self._clock.monotonic() + 0.1 * self.pace_seconds
        while self._later and self._later[0].not_before <= soon:
            self._due.append(self._later.popleft())
        self._schedule()
        if self._later:
            wait_seconds = self._later[0].not_before - self._clock.monotonic()
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self._time_has_come)

    def set_pace(self, watches: int) -> None:
        """Adapt the interval to the number of watches; without watches, nothing is delayed."""
        self._watches = watches
        self.pace_seconds = pace_seconds(watches, self._seconds_a_write)

    def _write_due(self) -> None:
        self._is_scheduled = False
        due = self._due
        count = min(len(due), _STREAMS_A_TURN)
        began = self._clock.monotonic()
        next_time = began + self.pace_seconds
        for _ in range(count):
            stream = due.popleft()
            stream.is_queued = False
            if stream.handed_back is not None and not stream.handed_back.done():
                try:
                    self._write(stream, next_time)
                except Exception as error:  # noqa: BLE001 - passed to its task, which ends the stream
                    stream.handed_back.set_exception(error)
        if count == _STREAMS_A_TURN:
            # Only full turns are measured: the cost of a few writes does not predict that of many.
            taken = (self._clock.monotonic() - began) / count
            self._seconds_a_write += (taken - self._seconds_a_write) * _WEIGHT_OF_THE_NEWEST
            self.set_pace(self._watches)
        self._schedule()

    def _write(self, stream: _Stream, next_time: float) -> None:
        if stream.transport.is_closing():
            stream.hand_back()
            return
        batch = stream.watch.take()
        if batch:
            stream.transport.write(stream.framer.chunk(batch))
            stream.not_before = next_time
        if batch == () or stream.connection.is_backed_up or stream.watch.has_more:
            stream.hand_back()
        else:
            self.watch(stream)


class Streams:
    """The open watches, so that the server can end them all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: set[Watch] = set()
        self._pump = _Pump(clock)
        self._closing = False

    def __len__(self) -> int:
        """Return the number of open watches."""
        return len(self._open)

    def close(self) -> None:
        """End all watches cleanly, and later ones immediately: clients see the end of the stream."""
        self._closing = True
        for watch in tuple(self._open):
            watch.close()
        self._pump.close()

    async def serve(
        self,
        request: web.BaseRequest,
        opened: Watch | Failure,
        framer: Framer,
        content_type: str,
        *,
        audit_id: str,
        warnings: list[str],
    ) -> web.StreamResponse:
        """Write a watch to its client until one of them ends it.

        Headers are sent immediately. A slow client only delays its own watch: its batches wait in the shared
        history until it falls too far behind.
        """
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        response.headers["Content-Type"] = content_type
        response.headers["Audit-Id"] = audit_id
        response.headers["Cache-Control"] = NOT_CACHED
        add_warnings(response, warnings)
        writer = await response.prepare(request)
        if writer is None or request.transport is None:
            return response
        transport = request.transport
        writer.send_headers()
        if isinstance(opened, Failure):
            transport.write(chunk(framer.frame((opened,))))
            return response
        connection = request.protocol
        assert isinstance(connection, Connection)  # noqa: S101 - the server makes no others
        stream = _Stream(opened, framer, connection, transport)
        self._count(opened, is_open=True)
        connection.on_lost = opened.close
        if self._closing:
            opened.close()
        try:
            while not transport.is_closing():
                batch = opened.take()
                if batch is None:
                    await self._leave_to_pump(stream)
                    continue
                if not batch:
                    break
                transport.write(framer.chunk(batch))
                stream.not_before = self._clock.monotonic() + self._pump.pace_seconds
                await writer.drain()
        except Exception:
            transport.abort()  # the response has started: an error response is no longer possible
            raise
        finally:
            connection.on_lost = None
            self._count(opened, is_open=False)
            opened.close()
        return response

    async def _leave_to_pump(self, stream: _Stream) -> None:
        """Let the pump write until it hands back, or the watch is due (a bookmark, its end)."""
        wait_seconds = max(stream.watch.due_at - self._clock.monotonic(), 0.0)
        stream.handed_back = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(wait_seconds):
                self._pump.watch(stream)
                await stream.handed_back
        except TimeoutError:
            pass
        finally:
            stream.handed_back = None
            stream.watch.disarm()

    def _count(self, watch: Watch, *, is_open: bool) -> None:
        if is_open:
            self._open.add(watch)
        else:
            self._open.discard(watch)
        self._pump.set_pace(0 if self._closing else len(self._open))
