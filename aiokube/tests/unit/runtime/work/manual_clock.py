"""A clock that a test turns by hand, for what needs no event loop."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    def __init__(self, start: float = 1000.0) -> None:
        self.now = start
        self._start = start

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now - self._start)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here should sleep, asked for {seconds} s")

    def advance(self, seconds: float) -> None:
        self.now += seconds
