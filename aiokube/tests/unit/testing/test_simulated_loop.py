"""The simulated loop: one seed decides the order of callbacks; hosts have clocks and can be paused and killed."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from aiokube.testing.simulated_loop import (
    EscapeError,
    Schedule,
    SimulatedHost,
    SimulatedLoop,
    forbid_real_time,
    minimize,
    minimize_schedule,
)
from aiokube.testing.virtual_time import DeadlockError


def run(main: Callable[[SimulatedLoop], Coroutine[Any, Any, Any]], schedule: Schedule | None = None) -> Any:
    loop = SimulatedLoop(schedule or Schedule(disorder=0.0))
    try:
        with forbid_real_time():
            return loop.run_until_complete(main(loop))
    finally:
        loop.close()


async def turns(loop: SimulatedLoop) -> list[tuple[str, int]]:
    """Return the order in which four tasks take three turns each."""
    order: list[tuple[str, int]] = []

    async def take(name: str) -> None:
        for number in range(3):
            await asyncio.sleep(0)
            order.append((name, number))

    async with asyncio.TaskGroup() as group:
        for name in "abcd":
            group.create_task(take(name), name=name)
    return order


def test_callbacks_run_in_asyncio_order_without_reordering() -> None:
    assert run(turns) == asyncio.run(turns(None))  # type: ignore[arg-type]


def test_a_seed_determines_the_order_and_different_seeds_give_different_orders() -> None:
    orders = [tuple(run(turns, Schedule(seed))) for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len(set(orders)) == 3


def test_replaying_a_recorded_schedule_gives_the_same_order() -> None:
    schedule = Schedule(7)
    order = run(turns, schedule)
    assert run(turns, Schedule.replay(schedule.choices)) == order
    assert run(turns, Schedule.replay({})) == run(turns)


def test_timers_fire_by_the_clock_of_their_host() -> None:
    async def main(loop: SimulatedLoop) -> float:
        async def sleeper() -> tuple[float, float]:
            began = loop.time()
            await asyncio.sleep(10)
            return began, loop.time() - began

        began, slept = await loop.start(
            SimulatedHost("fast", clock_rate=2.0, clock_offset_seconds=1_000), sleeper()
        )
        assert began == pytest.approx(1_000, abs=0.01)
        assert slept == pytest.approx(10, abs=0.01)
        return loop.time()

    assert run(main) == pytest.approx(5, abs=0.01)


def test_a_killed_host_runs_no_further_code_including_finally_blocks() -> None:
    seen: list[str] = []

    async def victim() -> None:
        try:
            while True:
                seen.append("alive")
                await asyncio.sleep(1)
        finally:
            seen.append("cleaned up")

    async def main(loop: SimulatedLoop) -> list[str]:
        host = SimulatedHost("victim")
        loop.start(host, victim())
        await asyncio.sleep(2.5)
        loop.kill(host)
        await asyncio.sleep(60)
        return list(seen)

    assert run(main) == ["alive"] * 3


def test_a_paused_host_resumes_and_observes_the_elapsed_time() -> None:
    async def main(loop: SimulatedLoop) -> float:
        host = SimulatedHost("paused")

        async def sleeper() -> float:
            await asyncio.sleep(1)
            return loop.time()

        task = loop.start(host, sleeper())
        await asyncio.sleep(0.5)
        loop.pause(host)
        await asyncio.sleep(20)
        assert not task.done()
        loop.resume(host)
        return await task

    assert run(main) == pytest.approx(20.5, abs=0.01)


@pytest.mark.parametrize(
    "escape",
    [
        lambda: time.monotonic(),  # noqa: TID251
        lambda: time.time(),  # noqa: TID251
        lambda: time.sleep(0),  # noqa: TID251
        lambda: threading.Thread(target=print).start(),
        lambda: asyncio.get_running_loop().run_in_executor(None, print),
    ],
)
def test_threads_and_real_clocks_raise(escape: Callable[[], object]) -> None:
    async def main(loop: SimulatedLoop) -> None:
        escape()

    with pytest.raises(EscapeError):
        run(main)


def test_sockets_and_child_processes_raise() -> None:
    async def connect(loop: SimulatedLoop) -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    async def start(loop: SimulatedLoop) -> None:
        await asyncio.create_subprocess_exec("true")

    for escape in (connect, start):
        with pytest.raises(EscapeError):
            run(escape)


def test_a_deadlocked_simulation_is_an_error() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await loop.create_future()

    with pytest.raises(DeadlockError, match="nothing is left"):
        run(main)


def test_minimize_keeps_only_the_necessary_items_in_order() -> None:
    def fails(items: Sequence[int]) -> bool:
        return 3 in items and 17 in items and items.index(3) < items.index(17)

    assert minimize(range(40), fails) == [3, 17]


def test_a_schedule_is_minimized_to_the_relevant_choices() -> None:
    choices = dict.fromkeys(range(0, 90, 3), 1)
    assert minimize_schedule(choices, lambda some: 30 in some) == {30: 1}
    assert minimize_schedule(choices, lambda some: True) == {}
