"""Retry delays: exponential per key, and rate-limited overall.

As in upstream (behaviour 0.2), a retry waits for the longer of the key's exponential delay and the queue's
token bucket (10 a second after a burst of 100). Plain adds take no tokens. Retries never stop: the delay
stops growing at its cap.
"""

import random
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from aiokube.clock import Clock
from aiokube.token_bucket import TokenBucket

K = TypeVar("K", bound=Hashable)

DEFAULT_REMEMBERED_KEYS = 100_000


class ExponentialBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """Delays of ``base``, ``base x factor``, ``base x factor^2`` ... seconds, up to ``cap_seconds``.

    ``jitter`` (0 to 1) is the share of a delay that is random: 0.2 gives 80 to 100 % of it, so the cap still
    holds. Raises ``ValueError`` for invalid numbers.
    """

    base_seconds: float = 0.005
    factor: float = 2.0
    cap_seconds: float = 1000.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.base_seconds <= self.cap_seconds:
            raise ValueError(
                f"a backoff needs 0 < base_seconds <= cap_seconds, got {self.base_seconds} and {self.cap_seconds}"
            )
        if self.factor < 1 or not 0 <= self.jitter <= 1:
            raise ValueError(
                f"a backoff needs factor >= 1 and 0 <= jitter <= 1, got {self.factor} and {self.jitter}"
            )

    def delay_seconds(self, failures: int, rng: random.Random | None = None) -> float:
        """Return the delay after this many earlier failures (0 gives the base).

        Without ``rng`` there is no jitter. The result is between 0 and the cap.
        """
        delay = self.base_seconds
        if self.factor > 1:
            try:
                delay = self.base_seconds * self.factor**failures
            except OverflowError:
                delay = self.cap_seconds
        delay = min(delay, self.cap_seconds)
        if self.jitter and rng is not None:
            delay *= 1.0 - self.jitter * rng.random()
        return delay


class RetryLimiter(Generic[K]):
    """Computes the retry delay of a failed key: its own backoff or the bucket's, whichever is longer.

    Failures of a key are counted until :meth:`forget`. Memory is bounded: beyond ``remembered_keys``, the
    key whose last failure is the oldest starts again from the base delay.
    """

    def __init__(
        self,
        backoff: ExponentialBackoff,
        *,
        bucket: TokenBucket | None = None,
        rng: random.Random | None = None,
        remembered_keys: int = DEFAULT_REMEMBERED_KEYS,
    ) -> None:
        self._backoff = backoff
        self._bucket = bucket
        self._rng = rng
        self._limit = remembered_keys
        self._failures: dict[K, int] = {}

    def next_delay_seconds(self, key: K) -> float:
        """Count a failure of the key and return the delay before its next attempt."""
        failures = self._failures.pop(key, 0)
        if len(self._failures) >= self._limit:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = failures + 1
        delay = self._backoff.delay_seconds(failures, self._rng)
        return delay if self._bucket is None else max(delay, self._bucket.reserve())

    def forget(self, key: K) -> None:
        """Reset the failures of a key that succeeded or was deleted."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures since the key was last forgotten."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        """Return the number of failing keys."""
        return len(self._failures)


def default_retry_limiter(clock: Clock, rng: random.Random | None = None) -> RetryLimiter[K]:
    """Return upstream's default for controllers: 5 ms doubling to 1000 s, 10 retries a second, burst 100."""
    return RetryLimiter(
        ExponentialBackoff(), bucket=TokenBucket(per_second=10.0, burst=100, clock=clock), rng=rng
    )
