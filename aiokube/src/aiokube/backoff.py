"""How long to wait before the next try: per key growing, and overall no more than so many a second.

Facts from upstream (behaviour 0.2): a retry waits for the longer of its key's own exponential delay and the
turn it draws from one token bucket of the whole queue (10 a second after a burst of 100). Plain adds draw
nothing. Nothing here gives up: the delay stops growing at its cap, and the caller goes on trying.
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
    """Delays of ``base``, ``base x factor``, ``base x factor^2`` ... seconds, never above ``cap_seconds``.

    ``jitter`` (0 to 1) is the share of a delay that chance may take away: 0.2 gives something between 80 % and
    100 % of it, so the cap holds with jitter too. Raises ``ValueError`` for numbers that make no sense.
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
        """Return how long to wait after so many failures before this one (0 gives the base).

        Without ``rng`` there is no jitter. The answer is never negative and never above the cap.
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
    """Says when a key that failed may come again: the longer of its own backoff and the bucket's turn.

    Remembers a count of failures for each key until :meth:`forget`. Memory is bounded: beyond
    ``remembered_keys`` the key whose last failure lies furthest back starts anew from the base delay.
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
        """Count one more failure of the key and return how long to wait before the next try."""
        failures = self._failures.pop(key, 0)
        if len(self._failures) >= self._limit:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = failures + 1
        delay = self._backoff.delay_seconds(failures, self._rng)
        return delay if self._bucket is None else max(delay, self._bucket.reserve())

    def forget(self, key: K) -> None:
        """Begin anew with this key: it works again, or it is gone."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often the key has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        """Return how many keys are remembered as failing."""
        return len(self._failures)


def default_retry_limiter(clock: Clock, rng: random.Random | None = None) -> RetryLimiter[K]:
    """Return upstream's default for controllers: 5 ms doubling to 1000 s, 10 retries a second, burst 100."""
    return RetryLimiter(
        ExponentialBackoff(), bucket=TokenBucket(per_second=10.0, burst=100, clock=clock), rng=rng
    )
