"""Workers of the lifecycle controllers. The queue itself is tested with aiokube."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from aiokube.testing.virtual_time import FakeClock, run_virtual
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import internal
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers


@asynccontextmanager
async def working(queue: WorkQueue[str], reconcile: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        workers = group.create_task(run_workers(queue, reconcile), name="workers")
        yield
        workers.cancel()


def test_a_failing_key_is_retried_with_backoff_that_resets_on_success() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        queue: WorkQueue[str] = lifecycle_queue("test", clock)
        times: list[float] = []
        fails = True

        async def reconcile(_: str) -> None:
            times.append(clock.monotonic())
            if fails:
                raise internal("the disk is full")

        async with working(queue, reconcile):
            queue.add("a")
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
            queue.add("a")
            await clock.sleep(0.15)
            assert len(times) == count + 2

    run_virtual(scenario())


def test_keys_are_reconciled_in_parallel_but_never_the_same_key_twice_at_once() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        queue: WorkQueue[str] = lifecycle_queue("test", clock)
        running: set[str] = set()
        reconciled: list[str] = []

        async def reconcile(key: str) -> None:
            assert key not in running
            running.add(key)
            reconciled.append(key)
            await clock.sleep(1)
            running.remove(key)

        async with working(queue, reconcile):
            for key in "abc":
                queue.add(key)
            await clock.sleep(0.5)
            assert running == {"a", "b", "c"}
            queue.add("b")
            await clock.sleep(10)
        assert reconciled == ["a", "b", "c", "b"]

    run_virtual(scenario())


def test_at_most_64_keys_are_reconciled_in_parallel_and_a_slow_key_delays_no_other() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        queue: WorkQueue[str] = lifecycle_queue("test", clock)
        running: set[str] = set()
        most = 0

        async def reconcile(key: str) -> None:
            nonlocal most
            running.add(key)
            most = max(most, len(running))
            await clock.sleep(1000 if key == "0" else 1)
            running.remove(key)

        async with working(queue, reconcile):
            for number in range(200):
                queue.add(str(number))
            await clock.sleep(5)
            assert running == {"0"}
        assert most == 64

    run_virtual(scenario())


def test_an_exception_other_than_a_status_error_is_raised() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = lifecycle_queue("test", FakeClock())

        async def reconcile(_: str) -> None:
            raise KeyError("a mistake")

        queue.add("a")
        with pytest.raises(ExceptionGroup) as raised:
            await run_workers(queue, reconcile)
        assert raised.value.subgroup(KeyError) is not None

    run_virtual(scenario())
