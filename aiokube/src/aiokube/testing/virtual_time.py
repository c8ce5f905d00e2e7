"""Virtual time: a loop whose clock jumps to the next timer as soon as nothing else is left to do.

An hour of backoff takes a millisecond, and a test that waits for what can never happen fails at once instead of
hanging. In a test::

    def test_it_comes_back_within_a_minute() -> None:
        run_virtual(scenario())

or, for all async tests of a folder, in its ``conftest.py`` (pytest-asyncio 1.4 or later)::

    def pytest_asyncio_loop_factories(config, item):
        return {"virtual": VirtualTimeLoop}

For code that keeps to itself: a socket that waits for another process or thread loses against the next timer.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

R = TypeVar("R")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class DeadlockError(RuntimeError):
    """Every task waits for something that nothing is left to bring about; the text says where each one waits."""


class LeftoverTasksError(AssertionError):
    """Tasks were still there when the main one had ended; the text names them."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose :meth:`time` begins at 0 and moves only when nothing is ready to run.

    It promises that timers run in the order of their deadlines, each at exactly its time, and that no real time
    passes between them. Where nothing is ready, no timer is set and no executor is in use, ``run_forever`` (and so
    ``run_until_complete``) raises :class:`DeadlockError`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass with nothing running meanwhile, as if the process had been stopped."""
        if seconds < 0:
            raise ValueError(f"time does not go back: asked for {seconds} s")
        self._now += seconds

    def nothing_ready(self, timeout: float | None) -> bool:
        """Move to the next timer; tell whether to wait for real, for a thread of an executor."""
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
    """The clock of the running virtual loop; its time of day goes along, and can be set wrong.

    Fulfils :class:`aiokube.clock.Clock`.
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
        """Return the epoch plus the time of the loop, plus every :meth:`step_wall`."""
        return self._epoch + timedelta(seconds=self.monotonic())

    def step_wall(self, seconds: float) -> None:
        """Set the time of day forward or back, as an administrator or NTP does; timers do not notice."""
        self._epoch += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the loop; zero or less yields once."""
        await asyncio.sleep(max(seconds, 0.0))


class ManualClock:
    """A clock that stands still until it is advanced; sleeping advances it at once, and is recorded in ``slept``.

    For code without an event loop of its own. Fulfils :class:`aiokube.clock.Clock`.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.slept: list[float] = []
        self._start = start

    def monotonic(self) -> float:
        """Return the start plus the seconds advanced so far."""
        return self.now

    def wall(self) -> datetime:
        """Return :data:`EPOCH` plus the seconds advanced so far."""
        return EPOCH + timedelta(seconds=self.now - self._start)

    async def sleep(self, seconds: float) -> None:
        """Advance by so much, and yield once."""
        self.slept.append(seconds)
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def run_virtual(main: Coroutine[Any, Any, R], *, seed: int | None = None) -> R:
    """Run ``main`` to its end in virtual time and return what it returns.

    Raises what it raises; :class:`DeadlockError` where it waits for ever; :class:`LeftoverTasksError` where it
    leaves tasks behind (which are cancelled). A ``seed`` is put into the notes of whatever is raised, for whoever
    wants to see the same again.
    """
    loop = VirtualTimeLoop()
    try:
        result = loop.run_until_complete(main)
        leftover = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        if leftover:
            raise LeftoverTasksError(f"still there after the end: {', '.join(leftover)}")
        return result
    except BaseException as error:
        if seed is not None:
            error.add_note(f"seed: {seed}")
        raise
    finally:
        _close(loop)


async def settle() -> None:
    """Return once everything that can happen without time passing has happened.

    Only on a :class:`VirtualTimeLoop`: it waits for the shortest time there is.
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
