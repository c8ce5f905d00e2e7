"""The one clock and the one random source, both injected by the caller.

No other module reads the time or a random number directly (the linter enforces this), so a test can run a
day of backoff in a millisecond and replay any jitter from its seed.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time: monotonic seconds, wall-clock time and sleep."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for timers and latencies; the origin is arbitrary."""
        ...

    def wall(self) -> datetime:
        """Return the current time in UTC, timezone-aware, for people and other machines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of :meth:`monotonic` time; zero or less yields once."""
        ...


class SystemClock:
    """The clock of the running event loop; virtual if the loop's time is virtual, as in tests."""

    def monotonic(self) -> float:
        """Return the loop's time inside a loop and the system's outside of one; both are monotonic."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()  # noqa: TID251 - the one place

    def wall(self) -> datetime:
        """Return the system's current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(max(seconds, 0.0))
