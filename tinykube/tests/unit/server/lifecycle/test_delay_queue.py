"""Keys and their times."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from aiokube.testing.virtual_time import FakeClock, run_virtual
from tinykube.server.errors import internal
from tinykube.server.lifecycle.delay_queue import DelayQueue


def new() -> tuple[DelayQueue[str], FakeClock]:
    clock = FakeClock()
    return DelayQueue("test", clock), clock


async def working(queue: DelayQueue[str], look: Any, scene: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.work(look), name="queue")
        await scene
        task.cancel()


def test_a_key_comes_once_at_the_earliest_time_it_was_put_for() -> None:
    async def scene() -> None:
        queue, clock = new()
        queue.put("late", 100)
        queue.put("a", 50)
        queue.put("a", 10)
        queue.put("a", 30)
        assert len(queue) == 2
        assert await queue.take() == ["a"]
        assert clock.monotonic() == 10
        assert await queue.take() == ["late"]
        assert clock.monotonic() == 100

    run_virtual(scene())


def test_an_earlier_key_wakes_who_waits_for_a_later_one() -> None:
    async def scene() -> None:
        queue, clock = new()
        queue.put("late", 100)
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(queue.take())
            await clock.sleep(5)
            queue.put("now")
        assert taking.result() == ["now"]
        assert clock.monotonic() == 5

    run_virtual(scene())


def test_a_discarded_key_does_not_come() -> None:
    async def scene() -> None:
        queue, _ = new()
        queue.put("a", 1)
        queue.put("b", 2)
        queue.discard("a")
        queue.discard("never put")
        assert await queue.take() == ["b"]

    run_virtual(scene())


def test_a_refused_step_comes_again_ever_later_and_afresh_after_it_went_well() -> None:
    async def scene() -> None:
        queue, clock = new()
        times: list[float] = []
        fails = True

        async def look(_: str) -> None:
            times.append(clock.monotonic())
            if fails:
                raise internal("the disk is full")

        async def story() -> None:
            nonlocal fails
            queue.put("a")
            await clock.sleep(200)
            gaps = [round(later - earlier, 6) for earlier, later in pairwise(times)]
            assert gaps[:4] == [0.1, 0.2, 0.4, 0.8]
            assert max(gaps) == 60
            fails = False
            await clock.sleep(60)
            count = len(times)
            await clock.sleep(600)
            assert len(times) == count
            fails = True
            queue.put("a")
            await clock.sleep(0.15)
            assert len(times) == count + 2

        await working(queue, look, story())

    run_virtual(scene())


def test_no_key_is_looked_at_twice_at_a_time_and_one_put_meanwhile_comes_again() -> None:
    async def scene() -> None:
        queue, clock = new()
        at_work: set[str] = set()
        looks: list[str] = []

        async def look(key: str) -> None:
            assert key not in at_work
            at_work.add(key)
            looks.append(key)
            await clock.sleep(1)
            at_work.remove(key)

        async def story() -> None:
            for key in "abc":
                queue.put(key)
            await clock.sleep(0.5)
            assert at_work == {"a", "b", "c"}
            queue.put("b")
            await clock.sleep(10)

        await working(queue, look, story())
        assert looks == ["a", "b", "c", "b"]

    run_virtual(scene())


def test_an_error_of_ours_is_not_hidden() -> None:
    async def scene() -> None:
        queue, _ = new()

        async def look(_: str) -> None:
            raise KeyError("a mistake")

        queue.put("a")
        with pytest.raises(ExceptionGroup) as raised:
            await queue.work(look)
        assert raised.value.subgroup(KeyError) is not None

    run_virtual(scene())
