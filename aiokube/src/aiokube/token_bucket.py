"""A rate limit with a burst, for client requests and for queue retries."""

from aiokube.clock import Clock


class TokenBucket:
    """A token bucket: refills at ``per_second`` up to ``burst`` tokens.

    Callers are served in order. A token can be reserved ahead of time (later callers then wait longer),
    taken only if one is available, or awaited. Raises ValueError if the rate or the burst is not positive.
    """

    def __init__(self, *, per_second: float, burst: int, clock: Clock) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(
                f"a rate limit needs per_second > 0 and burst >= 1, not {per_second:g} and {burst}"
            )
        self.per_second = per_second
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted_at = clock.monotonic()

    def reserve(self) -> float:
        """Reserve a token and return the seconds until it is available (0 if it is available now)."""
        self._flow()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.per_second)

    def take(self) -> bool:
        """Take a token if one is available; return whether it was."""
        self._flow()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def acquire(self) -> None:
        """Wait for a token. A cancelled caller returns its token for later callers."""
        delay_seconds = self.reserve()
        if delay_seconds <= 0.0:
            return
        try:
            await self._clock.sleep(delay_seconds)
        except BaseException:
            self._tokens += 1.0
            raise

    def _flow(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._counted_at) * self.per_second)
        self._counted_at = now
