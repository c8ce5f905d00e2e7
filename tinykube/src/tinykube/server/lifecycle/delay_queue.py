"""A queue of keys with delays: due keys are processed together, failed keys are retried with backoff."""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from aiokube.clock import Clock
from tinykube.server.errors import StatusError

K = TypeVar("K", bound=Hashable)

_LOG = logging.getLogger(__name__)

_TOGETHER = 64
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 60.0


class DelayQueue(Generic[K]):
    """Holds each key at most once, at the earliest time it was added for. For one consumer.

    :meth:`work` never processes a key twice at a time; a key added while it is processed is processed again.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def put(self, key: K, delay_seconds: float = 0.0) -> None:
        """Have a key looked at, at the latest after this delay."""
        due = self._clock.monotonic() + max(delay_seconds, 0.0)
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        self._earlier.set()

    def discard(self, key: K) -> None:
        """Forget a key, and how often it has failed."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def take(self) -> list[K]:
        """Wait until something is due; return all that is, earliest first (at most 64)."""
        while True:
            taken, wait_seconds = self._take_due()
            if taken:
                return taken
            self._earlier.clear()
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._earlier.wait()
            except TimeoutError:
                continue

    def _take_due(self) -> tuple[list[K], float | None]:
        """Return what is due, or how long to wait (``None``: until something is put)."""
        now = self._clock.monotonic()
        taken: list[K] = []
        while self._heap and len(taken) < _TOGETHER:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:
                heapq.heappop(self._heap)  # put for an earlier time since, taken, or discarded
                continue
            if due > now:
                return taken, due - now
            heapq.heappop(self._heap)
            del self._due[key]
            taken.append(key)
        return taken, None

    async def work(self, look: Callable[[K], Awaitable[None]]) -> None:
        """Look at every key when it is due, several at a time, for ever.

        A key whose look raises a StatusError comes again: after 0.1 s, twice that each further time, at most 60 s.
        """
        while True:
            keys = await self.take()
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(self._attempt(key, look), name=f"lifecycle {self._name} {key}")

    async def _attempt(self, key: K, look: Callable[[K], Awaitable[None]]) -> None:
        try:
            await look(key)
        except StatusError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_seconds = min(_FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 10), _LONGEST_RETRY_SECONDS)
            _LOG.warning(
                "lifecycle step failed, comes again",
                extra={
                    "loop": self._name,
                    "key": str(key),
                    "error": str(error),
                    "retry_seconds": delay_seconds,
                },
            )
            self.put(key, delay_seconds)
        else:
            self._failures.pop(key, None)
