"""A bound on the requests per second, for those who have to be gentle with a server."""

from aiokube.clock import Clock


class RateLimiter:
    """A token bucket: ``burst`` requests at once, then ``per_second`` a second, first come first served.

    Nothing is limited unless a client is given one; watches are never limited. A caller that is cancelled while
    it waits gives its turn back to those who come after it.
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
        self._updated = clock.monotonic()

    def reserve(self) -> float:
        """Take the next turn, and return how many seconds from now it is (0 at once)."""
        now = self._clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._updated) * self.per_second)
        self._updated = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.per_second)

    async def acquire(self) -> None:
        """Return when it is the caller's turn."""
        delay = self.reserve()
        if delay <= 0.0:
            return
        try:
            await self._clock.sleep(delay)
        except BaseException:
            self._tokens += 1.0
            raise
