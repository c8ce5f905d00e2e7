"""The work queue: what has to be looked at, each key once, no key twice at a time.

It is the boundary between noticing (informers add keys) and acting (workers get keys), and the only buffer
between them. It carries keys, never events, so its length is bounded by the number of keys however fast
things change.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from aiokube.backoff import RetryLimiter, default_retry_limiter
from aiokube.clock import Clock

K = TypeVar("K", bound=Hashable)

# Overtaken entries of the timer heap are swept out when they outnumber the live ones by this many.
_SWEEP_SLACK = 64


class QueueClosed(Exception):  # noqa: N818 - a signal to workers that it is time to go, not a failure
    """There is nothing more to get: the queue has been closed."""


class QueueObserver(Protocol):
    """Where a queue's counts go, for whoever keeps metrics (upstream's ``workqueue_*`` family).

    Called synchronously on the hot path: be quick and do not raise. ``workqueue_depth``,
    ``_unfinished_work_seconds`` and ``_longest_running_processor_seconds`` are read from
    :meth:`WorkQueue.statistics` when somebody asks.
    """

    def on_add(self) -> None:
        """Take note that a key began to wait (``workqueue_adds_total``); an add of a waiting key is none."""
        ...

    def on_get(self, waited_seconds: float) -> None:
        """Take note of how long a key was due before a worker took it (``workqueue_queue_duration_seconds``)."""
        ...

    def on_done(self, worked_seconds: float) -> None:
        """Take note of how long a worker held a key (``workqueue_work_duration_seconds``)."""
        ...

    def on_retry(self) -> None:
        """Take note of a rate-limited add (``workqueue_retries_total``)."""
        ...


class QueueStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue is, at one moment. Durations are 0 where there is nothing to measure."""

    name: str
    depth: int
    """Keys that a worker could take now."""
    delayed: int
    """Keys whose time has not come."""
    in_flight: int
    """Keys that workers hold."""
    failing: int
    """Keys that have failed and not succeeded since."""
    oldest_age_seconds: float
    """For how long the key that is due the longest has been so."""
    longest_running_seconds: float
    """For how long the longest-held key has been held."""
    unfinished_seconds: float
    """The sum of that over all keys held."""
    adds: int
    retries: int
    closed: bool


class WorkQueue(Generic[K]):
    """A fair, de-duplicating queue with delays, for any number of producers and workers on one event loop.

    It promises:

    * **Once.** A key waits at most once, however often it is added, with one deadline: the earliest that was
      asked for. A plain add is a deadline of now, so it overtakes a pending delay (a backoff too) and uses it up; a
      delayed add of a key that is due already changes nothing.
    * **One at a time.** A key is never handed out while a worker holds it. Added meanwhile, it comes again
      after :meth:`done`, so nothing that happened during the work is missed.
    * **Fair.** First come, first served. A key that comes again, from whatever cause, goes to the end.
    * **Never dropped.** A key that was added is handed out, until :meth:`close`. There is no limit of retries.

    ``None`` is no key. Whoever gets a key must call :meth:`done` for it, whatever became of the work. All methods but :meth:`get`
    and :meth:`join` return at once and may be called from synchronous handlers on the loop's thread; no method
    is for other threads. Delays are seconds of the clock's monotonic time, and the clock must be the one that
    the running loop keeps its timers by. One timer serves all delays, and only while a worker waits.
    """

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock,
        limiter: RetryLimiter[K] | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._limiter: RetryLimiter[K] = limiter if limiter is not None else default_retry_limiter(clock)
        self._observer = observer
        # Every key of _ready is in _due and not in _held; a key that is in both _due and _held comes again.
        self._ready: deque[K] = deque()
        self._due: dict[K, float] = {}  # key: since when
        self._held: dict[K, float] = {}  # key: since when
        # An entry of the heap counts only while _delayed has that very entry for its key; others were overtaken.
        self._delayed: dict[K, tuple[float, int, K]] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._timer_count = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._adds = 0
        self._retries = 0

    # ------------------------------------------------------------------------------------------ adding

    def add(self, key: K) -> None:
        """Have the key handed out as soon as its turn comes. Does nothing on a closed queue."""
        if self._closed:
            return
        now = self._clock.monotonic()
        if self._delayed:
            self._release_due(now)
            self._delayed.pop(key, None)
        self._add_due(key, now)

    def add_after(self, key: K, delay_seconds: float) -> None:
        """Have the key handed out once the delay is over, or earlier if it was asked for earlier.

        A delay of zero or less is a plain add. Does nothing on a closed queue.
        """
        if delay_seconds <= 0:
            self.add(key)
            return
        if self._closed or key in self._due:
            return
        due = self._clock.monotonic() + delay_seconds
        waiting = self._delayed.get(key)
        if waiting is not None and waiting[0] <= due:
            return
        self._timer_count += 1
        self._delayed[key] = entry = (due, self._timer_count, key)
        heapq.heappush(self._timers, entry)
        if len(self._timers) > 2 * len(self._delayed) + _SWEEP_SLACK:
            self._sweep_timers()
        if self._getters:
            self._set_alarm()

    def add_rate_limited(self, key: K, *, at_least_seconds: float = 0.0) -> float:
        """Count a failure of the key, add it after its backoff, and return that delay in seconds.

        ``at_least_seconds`` is what the other side asked for (Retry-After). An earlier deadline of the key stands.
        """
        delay = max(self._limiter.next_delay_seconds(key), at_least_seconds)
        self._retries += 1
        if self._observer is not None:
            self._observer.on_retry()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Let the key's next failure start from the shortest delay again. What is waiting stays waiting."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return how often the key was added rate-limited since it was last forgotten."""
        return self._limiter.failures(key)

    # ----------------------------------------------------------------------------------------- working

    def get_nowait(self) -> K | None:
        """Take the next key if one is due, else return None. Raises :class:`QueueClosed` as :meth:`get` does."""
        now = self._clock.monotonic()
        if self._delayed:
            self._release_due(now)
        if not self._ready:
            if self._closed and not self._due:
                raise QueueClosed(self.name)
            return None
        key = self._ready.popleft()
        since = self._due.pop(key)
        self._held[key] = now
        if self._closed and not self._due:
            self._wake_all_getters()  # nothing is left for those who still wait
        if self._observer is not None:
            self._observer.on_get(now - since)
        return key

    async def get(self) -> K:
        """Wait for the next key and take it; call :meth:`done` when the work on it has ended.

        Raises :class:`QueueClosed` once the queue is closed and empty: at once, or after what is still to be
        drained. Workers that wait are served in the order in which they came. Cancelling loses no key.
        """
        while True:
            key = self.get_nowait()
            if key is not None:
                return key
            if self._delayed:
                self._set_alarm()
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()  # this one was called for a key that another must now take
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise

    def done(self, key: K) -> None:
        """Give a key back: it may be handed out again, and is, if it was added meanwhile.

        Raises ``ValueError`` for a key that nobody holds, as that is a mistake of the caller.
        """
        started = self._held.pop(key, None)
        if started is None:
            raise ValueError(f"queue {self.name!r}: done({key!r}) for a key that nobody holds")
        if self._observer is not None:
            self._observer.on_done(self._clock.monotonic() - started)
        if key in self._due:
            self._ready.append(key)
            self._wake_getter()
        if self._idle_waiters:
            self._tell_if_idle()

    # ------------------------------------------------------------------------------------------ ending

    def close(self, *, drain: bool = False) -> None:
        """Take no more keys in, and send the workers home.

        Delayed keys are dropped. Without ``drain`` those that are due are too, and every :meth:`get` raises
        :class:`QueueClosed` from now on; with it the workers first get what is due, with what comes again
        from their hands. Await :meth:`join` to know that all is done. Closing again is harmless, and may turn a
        drain into an end.
        """
        self._closed = True
        self._delayed.clear()
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not drain:
            self._ready.clear()
            self._due.clear()
        self._wake_all_getters()
        self._tell_if_idle()

    async def join(self) -> None:
        """Return once no key is due and none is held; keys that wait for their time do not count."""
        while self._due or self._held:
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle_waiters:
                    self._idle_waiters.remove(waiter)

    @property
    def closed(self) -> bool:
        """Return whether :meth:`close` was called."""
        return self._closed

    def __len__(self) -> int:
        """Return how many keys a worker could take now."""
        if self._delayed:
            self._release_due(self._clock.monotonic())
        return len(self._ready)

    def is_pending(self, key: K) -> bool:
        """Return whether the key is due, delayed or held: whether somebody is going to look at it, or is doing so."""
        return key in self._due or key in self._delayed or key in self._held

    def held(self) -> tuple[K, ...]:
        """Return the keys that workers hold, the longest-held first."""
        return tuple(self._held)

    def statistics(self) -> QueueStatistics:
        """Return how the queue is now. Costs time in proportion to the keys due; for scrapes, not for loops."""
        now = self._clock.monotonic()
        depth = len(self)
        return QueueStatistics(
            name=self.name,
            depth=depth,
            delayed=len(self._delayed),
            in_flight=len(self._held),
            failing=len(self._limiter),
            oldest_age_seconds=max((now - since for since in self._due.values()), default=0.0),
            longest_running_seconds=max((now - since for since in self._held.values()), default=0.0),
            unfinished_seconds=sum(now - since for since in self._held.values()),
            adds=self._adds,
            retries=self._retries,
            closed=self._closed,
        )

    # ---------------------------------------------------------------------------------------- mechanics

    def _add_due(self, key: K, since: float) -> None:
        if key in self._due:
            return
        self._due[key] = since
        self._adds += 1
        if self._observer is not None:
            self._observer.on_add()
        if key not in self._held:
            self._ready.append(key)
            self._wake_getter()

    def _release_due(self, now: float) -> None:
        """Move what has come due to the end of the line, in the order of the deadlines."""
        while self._timers and self._timers[0][0] <= now:
            entry = heapq.heappop(self._timers)
            due, _, key = entry
            if self._delayed.get(key) is entry:
                del self._delayed[key]
                self._add_due(key, due)

    def _sweep_timers(self) -> None:
        self._timers = list(self._delayed.values())
        heapq.heapify(self._timers)

    def _set_alarm(self) -> None:
        """Have the loop call when the first delay is over."""
        due = self._timers[0][0]
        loop = asyncio.get_running_loop()
        when = loop.time() + (due - self._clock.monotonic())  # exact: no second alarm for a rounding
        if self._alarm is not None:
            if self._alarm.when() <= when:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(when, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._release_due(self._clock.monotonic())
        if self._delayed and self._getters:
            self._set_alarm()

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all_getters(self) -> None:
        while self._getters:
            self._wake_getter()

    def _tell_if_idle(self) -> None:
        if not self._due and not self._held:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)
