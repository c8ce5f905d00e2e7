"""Keys whose writes failed because the server was unreachable: retried as soon as it responds."""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from aiokube.runtime.reachability import Reachability
from aiokube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

LONGEST_WAIT_SECONDS = 300.0
"""The maximum wait of a key; usually it is woken long before."""
PAUSE_AFTER_KEYS = 5
"""After this many different keys have failed without a response, other keys are not attempted."""


class DeferredRetries(Generic[K]):
    """Retries the keys of one queue when the server responds again.

    * While it does not, each turn of the source (:class:`Reachability`) attempts one key, the oldest first,
      for any number of failed keys: one attempt is representative for all.
    * After a response to a key, or to another source of the server, keys are retried: one at first, then two
      more per success, which spares a server that has only partly recovered.
    * Many failed keys pause the queue: due keys are deferred without an attempt.

    Deferred keys stay in the queue as delayed keys.
    """

    def __init__(self, source: str, queue: WorkQueue[K], reachability: Reachability) -> None:
        self._source = source
        self._queue = queue
        self._reachability = reachability
        self._deferred: OrderedDict[K, None] = OrderedDict()  # in the order of waiting
        self._trying: set[K] = set()
        self._failed_keys: set[K] = set()
        self._cause = ""
        self._retry_after_seconds = 0.0
        self._has_deferred = asyncio.Event()
        self._probe_ended = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of keys that wait for the server."""
        return len(self._deferred)

    def pauses(self, key: K) -> bool:
        """Defer the key without an attempt and return True if the server is unreachable."""
        if len(self._failed_keys) < PAUSE_AFTER_KEYS or key in self._trying:
            return False
        self._defer(key)
        return True

    def failed(self, key: K, cause: str, retry_after_seconds: float = 0.0) -> bool:
        """Defer a key after a failed attempt; return whether it is the first one since a response."""
        is_first = not self._failed_keys
        self._trying.discard(key)
        self._failed_keys.add(key)
        self._cause, self._retry_after_seconds = cause, retry_after_seconds
        self._queue.add_rate_limited(key, at_least_seconds=LONGEST_WAIT_SECONDS)
        self._defer(key)
        self._probe_ended.set()
        return is_first

    def ended(self, key: K) -> bool:
        """Record an attempt with any other outcome; return whether it shows that the server has recovered."""
        self._deferred.pop(key, None)
        if key not in self._trying and key not in self._failed_keys:
            return False
        self._trying.discard(key)
        self._failed_keys.clear()
        self._reachability.answered(self._source)
        self._release(2)
        self._probe_ended.set()
        return True

    async def run(self) -> None:
        """Retry until cancelled."""
        try:
            while True:
                await self._has_deferred.wait()
                await self._reachability.wait_turn(
                    self._source, self._cause, at_least_seconds=self._retry_after_seconds
                )
                self._probe_ended.clear()
                self._release(1)
                while self._trying:
                    await self._probe_ended.wait()
                    self._probe_ended.clear()
        finally:
            self._reachability.forget(self._source)

    def _defer(self, key: K) -> None:
        self._deferred[key] = None
        self._deferred.move_to_end(key)
        self._queue.add_after(
            key, LONGEST_WAIT_SECONDS
        )  # no effect for a key in progress: it is delayed already
        self._has_deferred.set()

    def _release(self, count: int) -> None:
        for _ in range(min(count, len(self._deferred))):
            key, _nothing = self._deferred.popitem(last=False)
            self._trying.add(key)
            self._queue.add(key)
        if not self._deferred:
            self._has_deferred.clear()
