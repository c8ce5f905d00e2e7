"""The work queue: keys to reconcile, each once, and no key by two workers at a time.

It separates noticing changes (informers add keys) from acting on them (workers take keys), and is the only
buffer between them. It holds keys, not events, so its length is bounded by the number of keys at any rate of
change.
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

# The timer heap is rebuilt when its obsolete entries outnumber the live ones by this many.
_SWEEP_SLACK = 64


class QueueClosed(Exception):  # noqa: N818 - a signal to workers that it is time to go, not a failure
    """The queue is closed and empty."""


class QueueObserver(Protocol):
    """Receives the counts of a queue, for metrics (upstream's ``workqueue_*`` family).

    Called synchronously on the hot path: be fast and do not raise. ``workqueue_depth``,
    ``_unfinished_work_seconds`` and ``_longest_running_processor_seconds`` come from
    :meth:`WorkQueue.statistics` on demand.
    """

    def on_add(self) -> None:
        """Record that a key was added (``workqueue_adds_total``); an add of a waiting key does not count."""
        ...

    def on_get(self, waited_seconds: float) -> None:
        """Record how long a due key waited for a worker (``workqueue_queue_duration_seconds``)."""
        ...

    def on_done(self, worked_seconds: float) -> None:
        """Record how long a worker held a key (``workqueue_work_duration_seconds``)."""
        ...

    def on_retry(self) -> None:
        """Record a rate-limited add (``workqueue_retries_total``)."""
        ...


class QueueStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a queue's state. Durations are 0 if there is nothing to measure."""

    name: str
    depth: int
    """Keys that a worker could take now."""
    delayed: int
    """Keys that are not due yet."""
    in_flight: int
    """Keys that workers hold."""
    failing: int
    """Keys whose last reconcile failed."""
    oldest_age_seconds: float
    """How long the oldest due key has been waiting."""
    longest_running_seconds: float
    """How long the longest-held key has been held."""
    unfinished_seconds: float
    """The sum of these times over all held keys."""
    adds: int
    retries: int
    closed: bool


class WorkQueue(Generic[K]):
    """A fair, de-duplicating queue with delays, for any number of producers and workers on one event loop.

    Guarantees:

    * **Once.** A key waits at most once, however often it is added, with one deadline: the earliest
      requested. A plain add has the deadline now, so it overrides a pending delay (a backoff too); a delayed
      add of a key that is already due has no effect.
    * **One at a time.** A key is never returned while a worker holds it. If it is added during that time, it
      is returned again after :meth:`done`, so no change during the work is missed.
    * **Fair.** First come, first served. A key that is added again, for any reason, goes to the end.
    * **Never dropped.** An added key is always returned, until :meth:`close`. Retries are unlimited.

    ``None`` is not a valid key. Every key that was taken must be passed to :meth:`done`, for any outcome
    of the work. All methods except :meth:`get` and :meth:`join` return immediately and may be called
    from synchronous handlers on the loop's thread; no method is thread-safe. Delays are seconds of the
    clock's monotonic time, and the clock must be the one of the running loop. One timer serves all delays,
    and only while a worker waits.
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
        # Every key of _ready is in _due and not in _held; a key in both _due and _held is returned again
        # after done().
        self._ready: deque[K] = deque()
        self._due: dict[K, float] = {}  # key: since when
        self._held: dict[K, float] = {}  # key: since when
        # A heap entry is live only while _delayed has that very entry for its key.
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
        """Add a key that is due now. No effect on a closed queue."""
        if self._closed:
            return
        now = self._clock.monotonic()
        if self._delayed:
            self._release_due(now)
            self._delayed.pop(key, None)
        self._add_due(key, now)

    def add_after(self, key: K, delay_seconds: float) -> None:
        """Add a key that is due after a delay, or earlier if an earlier deadline is pending.

        A delay of zero or less is a plain add. No effect on a closed queue.
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

        ``at_least_seconds`` is the delay that the server asked for (Retry-After). An earlier deadline of the
        key stays.
        """
        delay = max(self._limiter.next_delay_seconds(key), at_least_seconds)
        self._retries += 1
        if self._observer is not None:
            self._observer.on_retry()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the backoff of a key. A pending add of the key stays pending."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of rate-limited adds since the key was last forgotten."""
        return self._limiter.failures(key)

    # ----------------------------------------------------------------------------------------- working

    def get_nowait(self) -> K | None:
        """Take the next due key, or return None. Raises :class:`QueueClosed` like :meth:`get`."""
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
            self._wake_all_getters()  # no key is left for the other waiters
        if self._observer is not None:
            self._observer.on_get(now - since)
        return key

    async def get(self) -> K:
        """Wait for the next key and take it; call :meth:`done` when the work on it has ended.

        Raises :class:`QueueClosed` if the queue is closed, after a drain has finished. Waiting workers are
        served in order. Cancelling loses no key.
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
                    self._wake_getter()  # this getter was woken for a key that another must now take
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise

    def done(self, key: K) -> None:
        """Release a key; if it was added during the work, it is returned again.

        Raises ``ValueError`` for a key that no worker holds, which is a bug of the caller.
        """
        started = self._held.pop(key, None)
        if started is None:
            raise ValueError(f"queue {self.name!r}: done({key!r}) for a key that no worker holds")
        if self._observer is not None:
            self._observer.on_done(self._clock.monotonic() - started)
        if key in self._due:
            self._ready.append(key)
            self._wake_getter()
        if self._idle_waiters:
            self._tell_if_idle()

    # ---------------------------------------------------------------------------------------------------
    # closing

    def close(self, *, drain: bool = False) -> None:
        """Stop accepting keys, and make the workers exit.

        Delayed keys are dropped. Without ``drain`` due keys are dropped too, and every :meth:`get` raises
        :class:`QueueClosed` from now on; with it, workers first receive the due keys, including those added
        again while held. Await :meth:`join` for the end of the work. Closing again is harmless, and may end
        a drain.
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
        """Wait until no key is due or held; delayed keys do not count."""
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
        """Whether :meth:`close` was called."""
        return self._closed

    def __len__(self) -> int:
        """Return the number of keys that a worker could take now."""
        if self._delayed:
            self._release_due(self._clock.monotonic())
        return len(self._ready)

    def is_pending(self, key: K) -> bool:
        """Return whether the key is due, delayed or held: a reconcile will follow or is in progress."""
        return key in self._due or key in self._delayed or key in self._held

    def held(self) -> tuple[K, ...]:
        """Return the keys that workers hold, the longest-held first."""
        return tuple(self._held)

    def statistics(self) -> QueueStatistics:
        """Return a snapshot of the queue. Costs O(due keys); meant for scrapes, not for loops."""
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

    # -------------------------------------------------------------------------------------------------
    # internals

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
        """Move delayed keys that have become due to the end of the queue, in the order of their deadlines."""
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
        """Schedule a callback for the first deadline."""
        due = self._timers[0][0]
        loop = asyncio.get_running_loop()
        when = loop.time() + (due - self._clock.monotonic())  # exact, so that rounding causes no second alarm
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
