"""Bulk work in short slices, so that no turn of the event loop takes long.

Bulk work (a relist, an audit, building the state of a large service) is a generator that yields the number
of steps since its last yield. The code between two yields is synchronous, so it sees, and leaves, consistent
state.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from typing import TypeVar

from aiokube.clock import Clock

R = TypeVar("R")

Steps = Generator[int, None, R]
"""Bulk work: yields the number of steps since the last yield, and returns its result."""

STEPS_A_YIELD = 50
"""The approximate number of steps between two yields of bulk work; one object is about one step."""


class LoopPacer:
    """Divides loop turns among bulk work that shares this pacer: one slice per turn, in arrival order.

    A slice ends after ``slice_steps`` steps or ``slice_seconds``, whichever comes first, so the length of a
    turn is bounded for any number of concurrent activities. Use one pacer per event loop.
    """

    __slots__ = (
        "_clock",
        "_deadline",
        "_is_armed",
        "_slice_seconds",
        "_slice_steps",
        "_steps_left",
        "_waiting",
    )

    def __init__(self, clock: Clock, *, slice_seconds: float = 0.005, slice_steps: int = 250) -> None:
        self._clock = clock
        self._slice_seconds = slice_seconds
        self._slice_steps = slice_steps
        self._steps_left = slice_steps
        self._deadline = 0.0
        self._is_armed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def spend(self, steps: int = 1) -> bool:
        """Count steps against the current turn; return True if the caller must now await :meth:`next_turn`."""
        now = self._clock.monotonic()
        if not self._is_armed:
            self._is_armed = True
            self._deadline = now + self._slice_seconds
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._steps_left -= steps
        return self._steps_left <= 0 or now >= self._deadline

    async def next_turn(self) -> None:
        """Return in a later turn of the loop, when the caller's slice begins."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if not self._is_armed:
            self._is_armed = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        await waiter

    async def run(self, steps: Steps[R]) -> R:
        """Do bulk work in slices and return its result. Closes ``steps`` if cancelled."""
        try:
            while True:
                try:
                    spent = next(steps)
                except StopIteration as end:
                    result: R = end.value
                    return result
                if self.spend(spent):
                    await self.next_turn()
        finally:
            steps.close()

    def _begin_turn(self) -> None:
        self._is_armed = False
        self._steps_left = self._slice_steps
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                # It runs in the next turn, before the following call of this method.
                waiter.set_result(None)
                self._is_armed = True
                self._deadline = self._clock.monotonic() + self._slice_seconds
                asyncio.get_running_loop().call_soon(self._begin_turn)
                return


def run_at_once(steps: Steps[R]) -> R:
    """Do bulk work in one go and return its result: for tests, and for small amounts of work."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
