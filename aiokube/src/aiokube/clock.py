"""The one clock and the one source of chance, injected from the top.

Nothing below the command line reads time or chance by itself (the linter holds it), so a test can run a
day of backoff in a millisecond and replay any jitter from its seed.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the program sees it."""

    def monotonic(self) -> float:
        """Seconds that never go back; for every timer and every lag. The origin means nothing."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC, timezone-aware: for what people and other machines read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` of :meth:`monotonic` time; zero or less yields once."""
        ...


class SystemClock:
    """The clock of the running event loop: virtual where the loop is, as in tests."""

    def monotonic(self) -> float:
        """Return the loop's time inside a loop, the system's outside of one (both monotonic)."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()  # noqa: TID251 - the one place

    def wall(self) -> datetime:
        """Return the system's time of day in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(max(seconds, 0.0))
