"""The queue and its waiting workers, in virtual time."""

import asyncio

import pytest
from tests.unit.runtime.work.virtual import now, settle, virtually

from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.clock import SystemClock
from aiokube.work_queue import QueueClosed, WorkQueue


def new_queue() -> WorkQueue[str]:
    return WorkQueue(
        "test",
        clock=SystemClock(),
        limiter=RetryLimiter(ExponentialBackoff(base_seconds=1.0, cap_seconds=60.0)),
    )


@virtually
async def test_get_waits_for_the_next_add() -> None:
    queue = new_queue()
    asyncio.get_running_loop().call_later(3.0, queue.add, "a")
    assert await queue.get() == "a"
    assert now() == 3.0


@virtually
async def test_a_waiting_worker_gets_a_delayed_key_exactly_at_its_deadline() -> None:
    queue = new_queue()
    queue.add_after("a", 0.1)
    queue.add_after("b", 0.3)
    assert (await queue.get(), now()) == ("a", 0.1)
    assert (await queue.get(), now()) == ("b", 0.3)


@virtually
async def test_an_earlier_deadline_wakes_a_worker_waiting_for_a_later_one() -> None:
    queue = new_queue()
    queue.add_after("a", 100.0)
    loop = asyncio.get_running_loop()
    loop.call_later(1.0, queue.add_after, "a", 1.0)
    assert (await queue.get(), now()) == ("a", 2.0)


@virtually
async def test_an_add_overrides_the_backoff_of_a_key() -> None:
    queue = new_queue()
    for _ in range(10):
        queue.add_rate_limited("a")
    asyncio.get_running_loop().call_later(0.5, queue.add, "a")
    assert (await queue.get(), now()) == ("a", 0.5)


@virtually
async def test_one_timer_serves_all_delays_and_none_without_a_waiting_worker() -> None:
    queue = new_queue()
    for number in range(1000):
        queue.add_after(f"key-{number}", 10.0 + number)
    assert queue._alarm is None
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(queue.get()) for _ in range(5)]
        await settle()
        loop = asyncio.get_running_loop()
        assert len([timer for timer in loop._scheduled if not timer.cancelled()]) == 1  # type: ignore[attr-defined]
    assert sorted(worker.result() for worker in workers) == [f"key-{number}" for number in range(5)]
    assert now() == 14.0


@virtually
async def test_waiting_workers_are_served_in_fifo_order() -> None:
    queue = new_queue()
    served: list[tuple[int, str]] = []

    async def work(number: int) -> None:
        served.append((number, await queue.get()))

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(number))
        await settle()
        for key in "abc":
            queue.add(key)
    assert served == [(0, "a"), (1, "b"), (2, "c")]


@virtually
async def test_a_worker_cancelled_after_its_key_became_ready_leaves_it_to_another() -> None:
    queue = new_queue()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await settle()
        queue.add("a")
        first.cancel()
        await settle()
        assert first.cancelled()
        assert second.result() == "a"


@virtually
async def test_a_worker_cancelled_while_waiting_leaves_no_state_behind() -> None:
    queue = new_queue()
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(queue.get())
        await settle()
        worker.cancel()
    assert not queue._getters
    queue.add("a")
    assert await queue.get() == "a"


@virtually
async def test_a_worker_cancelled_before_an_add_does_not_block_the_next_worker() -> None:
    queue = new_queue()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await settle()
        first.cancel()  # its future is cancelled, but it has not run yet
        queue.add("a")
        await settle()
        assert second.result() == "a"


@virtually
async def test_a_requeued_key_goes_to_a_waiting_worker() -> None:
    queue = new_queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    async with asyncio.TaskGroup() as group:
        other = group.create_task(queue.get())
        await settle()
        queue.done("a")
        await settle()
        assert other.result() == "a"


@virtually
async def test_closing_the_queue_releases_all_waiting_workers() -> None:
    queue = new_queue()
    queue.add_after("late", 5.0)
    ended = 0

    async def work() -> None:
        nonlocal ended
        with pytest.raises(QueueClosed):
            await queue.get()
        ended += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        await settle()
        queue.close()
    assert ended == 3
    assert now() == 0.0


@virtually
async def test_draining_keeps_workers_until_the_last_requeued_key_is_taken() -> None:
    queue = new_queue()
    seen: list[str] = []

    async def work() -> None:
        try:
            while True:
                key = await queue.get()
                seen.append(key)
                await asyncio.sleep(1.0)
                queue.done(key)
        except QueueClosed:
            pass

    queue.add("a")
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        await asyncio.sleep(0.5)
        queue.add("a")
        queue.close(drain=True)
        await queue.join()
        assert now() == 2.0
    assert seen == ["a", "a"]


@virtually
async def test_join_waits_for_due_and_held_keys_but_not_for_delayed_ones() -> None:
    queue = new_queue()
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 1000.0)

    async def work() -> None:
        for _ in range(2):
            key = await queue.get()
            await asyncio.sleep(2.0)
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        await queue.join()
        assert now() == 4.0
    await queue.join()  # idle already


@virtually
async def test_a_cancelled_join_does_not_affect_others() -> None:
    queue = new_queue()
    queue.add("a")
    key = await queue.get()
    async with asyncio.TaskGroup() as group:
        impatient = group.create_task(queue.join())
        patient = group.create_task(queue.join())
        await settle()
        impatient.cancel()
        await settle()
        queue.done(key)
    assert not patient.cancelled()
    assert not queue._idle_waiters


@virtually
async def test_no_key_is_processed_by_two_workers_at_once() -> None:
    queue = new_queue()
    at_work: set[str] = set()
    runs: dict[str, int] = {}

    async def work() -> None:
        try:
            while True:
                key = await queue.get()
                assert key not in at_work
                at_work.add(key)
                await asyncio.sleep(0.7)
                at_work.remove(key)
                runs[key] = runs.get(key, 0) + 1
                queue.done(key)
        except QueueClosed:
            pass

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
        for _ in range(20):
            for key in ("a", "b"):
                queue.add(key)
            await asyncio.sleep(0.2)
        queue.close(drain=True)
    assert runs == {"a": 7, "b": 7}
