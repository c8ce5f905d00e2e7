"""Virtual time: a loop whose clock jumps to the next timer as soon as no task is ready.

An hour of backoff takes a millisecond, and a test that would hang fails immediately. In a test::

    def test_it_retries_within_a_minute() -> None:
        run_virtual(scenario())

or, for all async tests of a folder, in its ``conftest.py`` (pytest-asyncio 1.4 or later)::

    def pytest_asyncio_loop_factories(config, item):
        return {"virtual": VirtualTimeLoop}

Only for code without external I/O: the loop jumps to the next timer instead of waiting for a socket.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

R = TypeVar("R")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class DeadlockError(RuntimeError):
    """Every task is blocked and no timer or I/O can wake any; the message shows where each task waits."""


class LeftoverTasksError(AssertionError):
    """Tasks were left when the main one had ended; the message names them."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose :meth:`time` starts at 0 and advances only when no task is ready.

    Timers run in the order of their deadlines, each at exactly its time, and no real time passes between
    them. If no task is ready, no timer is set and no executor is in use, ``run_forever`` (and
    ``run_until_complete``) raises :class:`DeadlockError`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Advance the time without running anything, as if the process had been stopped."""
        if seconds < 0:
            raise ValueError(f"time does not go back: asked for {seconds} s")
        self._now += seconds

    def nothing_ready(self, timeout: float | None) -> bool:
        """Advance to the next timer; return whether to really wait, for an executor's thread."""
        if timeout is not None:
            self._now += max(timeout, 0.0)
            return False
        if getattr(self, "_default_executor", None) is not None:
            return True
        raise DeadlockError(where_tasks_wait(self))


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.nothing_ready(timeout):
            return super().select(None)
        return ready


class FakeClock:
    """The clock of the running virtual loop, with an adjustable wall clock.

    Implements :class:`aiokube.clock.Clock`.
    """

    def __init__(self, epoch: datetime = EPOCH) -> None:
        self._epoch = epoch

    def monotonic(self) -> float:
        """Return the time of the running loop, 0 outside of one."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def wall(self) -> datetime:
        """Return the epoch plus the loop's time and all :meth:`step_wall` offsets."""
        return self._epoch + timedelta(seconds=self.monotonic())

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; timers are unaffected."""
        self._epoch += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the loop; zero or less yields once."""
        await asyncio.sleep(max(seconds, 0.0))


class ManualClock:
    """A clock that only moves when it is advanced; sleeping advances it immediately, and is recorded in ``slept``.

    For code without an event loop. Implements :class:`aiokube.clock.Clock`.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.slept: list[float] = []
        self._start = start

    def monotonic(self) -> float:
        """Return the start plus the advanced seconds."""
        return self.now

    def wall(self) -> datetime:
        """Return :data:`EPOCH` plus the advanced seconds."""
        return EPOCH + timedelta(seconds=self.now - self._start)

    async def sleep(self, seconds: float) -> None:
        """Advance the clock by ``seconds``, and yield once."""
        self.slept.append(seconds)
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


def run_virtual(main: Coroutine[Any, Any, R], *, seed: int | None = None) -> R:
    """Run ``main`` to its end in virtual time and return its result.

    Raises its exceptions, :class:`DeadlockError` if it would wait forever, and :class:`LeftoverTasksError`
    if it leaves tasks behind (which are cancelled). The ``seed`` is added to the notes of any exception, for
    reproduction.
    """
    loop = VirtualTimeLoop()
    try:
        result = loop.run_until_complete(main)
        leftover = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        if leftover:
            raise LeftoverTasksError(f"tasks left after the end: {', '.join(leftover)}")
        return result
    except BaseException as error:
        if seed is not None:
            error.add_note(f"seed: {seed}")
        raise
    finally:
        _close(loop)


async def settle() -> None:
    """Return after everything that can happen without time passing has happened.

    Only on a :class:`VirtualTimeLoop`: it sleeps for the shortest time.
    """
    await asyncio.sleep(1e-6)


def _close(loop: VirtualTimeLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def where_tasks_wait(loop: asyncio.AbstractEventLoop) -> str:
    """Return the text of a :class:`DeadlockError`: where each task of a loop waits."""
    return "nothing is left that could happen, and these tasks wait for it:\n" + "\n".join(
        _where(task) for task in asyncio.all_tasks(loop)
    )


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=8)
    if not frames:
        return f"  {task.get_name()}: done, or not started"
    deepest = frames[-1]
    return (
        f"  {task.get_name()}: {deepest.f_code.co_qualname}, {deepest.f_code.co_filename}:{deepest.f_lineno}"
    )
