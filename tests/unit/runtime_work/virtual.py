"""Async tests in virtual time: the loop's clock jumps to the next timer when nothing else is left to do."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is left to do, and no timer will change it: a deadlock"
            self.now += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an async test into one that pytest runs to its end in virtual time, leaving no task behind."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def whole() -> None:
            await test(**fixtures)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"left behind: {left}"

        with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
            runner.run(whole())

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(20):
        await asyncio.sleep(0)
