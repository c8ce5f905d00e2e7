"""Virtual time."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from aiokube.clock import Clock
from aiokube.testing.virtual_time import (
    EPOCH,
    DeadlockError,
    FakeClock,
    LeftoverTasksError,
    VirtualTimeLoop,
    run_virtual,
    settle,
)


def test_a_day_passes_immediately() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 86_400


def test_timers_run_in_order_and_exactly_on_time() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, seconds in (("c", 0.3), ("a", 0.1), ("b", 0.2)):
                group.create_task(sleeper(name, seconds), name=name)

    run_virtual(main())
    assert seen == [("a", 0.1), ("b", 0.2), ("c", 0.3)]


def test_timeouts_are_virtual() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3600


def test_a_deadlock_fails_immediately_and_shows_its_location() -> None:
    async def waiting_for_godot() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="waiting_for_godot"):
        run_virtual(waiting_for_godot())


def test_a_leftover_task_is_an_error() -> None:
    async def main() -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(10), name="forgotten")

    with pytest.raises(LeftoverTasksError, match="forgotten"):
        run_virtual(main())


def test_a_failure_reports_the_seed() -> None:
    async def main() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        run_virtual(main(), seed=42)
    assert caught.value.__notes__ == ["seed: 42"]


def test_executor_threads_are_awaited() -> None:
    async def main() -> int:
        return await asyncio.to_thread(sum, [1, 2, 3])

    assert run_virtual(main()) == 6


def test_the_clock_follows_the_loop_and_its_wall_time_can_be_stepped() -> None:
    clock = FakeClock()
    as_protocol: Clock = clock

    async def main() -> None:
        await as_protocol.sleep(90)
        assert as_protocol.monotonic() == 90
        assert as_protocol.wall() == EPOCH + timedelta(seconds=90)
        clock.step_wall(-3600)
        assert as_protocol.monotonic() == 90
        assert as_protocol.wall() == EPOCH + timedelta(seconds=90 - 3600)

    run_virtual(main())


def test_a_zero_sleep_yields_once() -> None:
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(other(), name="other")
            await FakeClock().sleep(-1)
            order.append("main")

    run_virtual(main())
    assert order == ["other", "main"]


def test_settle_runs_everything_that_needs_no_time() -> None:
    async def main() -> list[str]:
        queue: asyncio.Queue[int] = asyncio.Queue()
        seen: list[str] = []

        async def consumer() -> None:
            for _ in range(3):
                seen.append(str(await queue.get()))
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(consumer(), name="consumer")
            for number in range(3):
                queue.put_nowait(number)
            await settle()
            return list(seen)

    assert run_virtual(main()) == ["0", "1", "2"]


def test_jumping_skips_time_as_for_a_stopped_process() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.jump(30)
        await asyncio.sleep(1)
        with contextlib.suppress(ValueError):
            loop.jump(-1)
        return loop.time()

    assert run_virtual(main()) == 31
