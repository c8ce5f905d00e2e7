"""Watches on the wire: each a chunked answer that lasts, each batch a chunk, written when it is there."""

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
"""So many are written to in one turn of the loop: those who write objects are not held up for longer than that takes."""


def pace_seconds(watches: int, seconds_a_write: float = 0.0) -> float:
    """Return how long a watch waits after it was written to, with so many of them open.

    ``seconds_a_write`` is what writing to one takes now: writing to all of them gets two fifths of the time, so that a
    server that is short of CPU goes on to answer requests. 150 ms are never exceeded.
    """
    pace = min(watches * _PACE_SECONDS_A_WATCH, _LONGEST_PACE_SECONDS)
    needed = watches * seconds_a_write / _SHARE_OF_WRITING
    pace = max(pace, min(needed, _LONGEST_UNDER_LOAD_SECONDS))
    return pace if pace >= _SHORTEST_PACE_SECONDS else 0.0


class _Stream:
    """One watch and its client. ``handed_back`` is there while the pump writes to it, and set when it cannot."""

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
        """Leave it to its task: it ends, or its client has to be waited for."""
        if self.handed_back is not None and not self.handed_back.done():
            self.handed_back.set_result(None)


class _Pump:
    """Writes to all streams that have something to tell and whose clients keep up.

    One callback writes to many: no task, future or timer is spent on a delivery. What a delivery costs then is nearly
    all in the system call, not in the bytes. So where many watch, each of them is written to at most once in a
    while (50 ms, from three hundred of them on; below twenty, at once; longer where the server is short of CPU), and
    what happens meanwhile goes out together. The first change after a silence is never held back.
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
        """Write to a stream from now on, when its watch has something to tell, until it is handed back."""
        if not stream.is_queued:
            stream.watch.arm(lambda: self._woken(stream))

    def close(self) -> None:
        """Hold nothing back any more."""
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
        # In the order of their times, or nearly: the pace changes only as watches come and go.
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
        """Fit the pace to so many watches; none: nothing is held back any more."""
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
                except Exception as error:  # noqa: BLE001 - its task is told, and ends the stream
                    stream.handed_back.set_exception(error)
        if count == _STREAMS_A_TURN:
            # Full turns alone are looked at: what a few take says little of what many will.
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
        if batch == () or stream.connection.is_backed_up:
            stream.hand_back()
        else:
            self.watch(stream)


class Streams:
    """The watches that are being served, so that the server can end them all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: set[Watch] = set()
        self._pump = _Pump(clock)
        self._closing = False

    def __len__(self) -> int:
        """Count the watches that are open."""
        return len(self._open)

    def close(self) -> None:
        """End all watches cleanly, and those that are still to come at once: their clients see the end of the stream."""
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

        The headers go out at once. A client that does not read holds only its own watch: the batches wait in the
        history that all share, until it has been left too far behind.
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
            transport.abort()  # the answer has begun: no refusal can follow
            raise
        finally:
            connection.on_lost = None
            self._count(opened, is_open=False)
            opened.close()
        return response

    async def _leave_to_pump(self, stream: _Stream) -> None:
        """Let the pump write, until it hands back or the watch has something to tell by itself (a bookmark, its end)."""
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
