"""Keys whose writes failed because the server could not be reached: they wait for it, not for a backoff of their own."""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from aiokube.runtime.reachability import Reachability
from aiokube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

LONGEST_WAIT_SECONDS = 300.0
"""A key is tried again after this whatever happens; it is woken long before."""
PAUSE_AFTER_KEYS = 5
"""After so many different keys have failed, with none answered since, other keys are not even tried."""


class DeferredRetries(Generic[K]):
    """Retries the keys of one queue when the server answers again.

    * While it does not, one key is tried in each turn of the source (:class:`Reachability`), the oldest first, however
      many have failed. The attempt of one key therefore tells for all.
    * Once a key, or another source of the server, is answered, keys come back: one, then two more with each success,
      so that a server which is only half back is not hit by all of them.
    * Many failed keys pause the queue: a key that comes due is deferred without an attempt.

    Deferred keys stay in the queue, as delayed ones.
    """

    def __init__(self, source: str, queue: WorkQueue[K], reachability: Reachability) -> None:
        self._source = source
        self._queue = queue
        self._reachability = reachability
        self._deferred: OrderedDict[K, None] = OrderedDict()  # the longest-waiting first
        self._trying: set[K] = set()
        self._failed_keys: set[K] = set()
        self._cause = ""
        self._retry_after_seconds = 0.0
        self._has_deferred = asyncio.Event()
        self._probe_ended = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait for the server."""
        return len(self._deferred)

    def pauses(self, key: K) -> bool:
        """Defer the key without an attempt and return True where the server does not answer."""
        if len(self._failed_keys) < PAUSE_AFTER_KEYS or key in self._trying:
            return False
        self._defer(key)
        return True

    def failed(self, key: K, cause: str, retry_after_seconds: float = 0.0) -> bool:
        """Defer a key whose attempt found no server; return whether it is the first one since the last answer."""
        is_first = not self._failed_keys
        self._trying.discard(key)
        self._failed_keys.add(key)
        self._cause, self._retry_after_seconds = cause, retry_after_seconds
        self._queue.add_rate_limited(key, at_least_seconds=LONGEST_WAIT_SECONDS)
        self._defer(key)
        self._probe_ended.set()
        return is_first

    def ended(self, key: K) -> bool:
        """Take note of an attempt that ended in any other way; return whether the server answers again with it."""
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
        self._queue.add_after(key, LONGEST_WAIT_SECONDS)  # for one that fails now, it is there already
        self._has_deferred.set()

    def _release(self, count: int) -> None:
        for _ in range(min(count, len(self._deferred))):
            key, _nothing = self._deferred.popitem(last=False)
            self._trying.add(key)
            self._queue.add(key)
        if not self._deferred:
            self._has_deferred.clear()
