"""A rate limit with a burst, for requests of a client and for retries of a queue."""

from aiokube.clock import Clock


class TokenBucket:
    """Turns at a steady rate after a burst: ``per_second`` tokens flow in, at most ``burst`` are ready.

    First come, first served. A turn can be reserved ahead (later callers then wait longer), taken only if it is
    ready now, or awaited. Raises ValueError for a rate or a burst that is not positive.
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
        """Take a turn, now or later, and return how many seconds ahead it is (0 for now)."""
        self._flow()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.per_second)

    def take(self) -> bool:
        """Take a turn if one is ready; return whether there was one."""
        self._flow()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def acquire(self) -> None:
        """Return when it is the caller's turn. A cancelled caller gives its turn back to later callers."""
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
