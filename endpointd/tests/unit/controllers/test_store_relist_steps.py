"""A relist is stored in one step and dispatched in several; a plan waits until the dispatch is complete."""

import asyncio

import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Pod
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import WatchEvent
from aiokube.runtime.pacing import STEPS_A_YIELD
from aiokube.runtime.relist_gate import RelistGate
from aiokube.runtime.store import Store
from aiokube.testing.builders import address_number, make_node, make_pod, make_pods, make_service
from aiokube.testing.virtual_time import FakeClock
from endpointd.controllers.audit import Auditor

Told = list[tuple[Pod | None, Pod | None]]


def pods(count: int, version: int) -> list[Pod]:
    return [
        make_pod(f"pod-{number:05d}", address_number(number), resource_version=str(version + number))
        for number in range(1, count + 1)
    ]


def filled(count: int) -> tuple[Store[Pod], Told]:
    store: Store[Pod] = Store("pods")
    store.replace(pods(count, 1_000), "9000")
    told: Told = []
    store.subscribe(lambda old, new: told.append((old, new)))
    return store, told


def replay(told: Told, before: list[Pod]) -> dict[str, Pod]:
    """Replay a handler's view, and check that each object's events were in order."""
    known = {pod.metadata.name: pod for pod in before}
    for old, new in told:
        item = new or old
        assert item is not None
        assert known.get(item.metadata.name) is old
        if new is not None:
            known[item.metadata.name] = new
        else:
            del known[item.metadata.name]
    return known


def test_after_the_first_step_readers_see_the_whole_list_and_handlers_a_bounded_part() -> None:
    store, told = filled(200)
    steps = store.replace_steps(pods(300, 10_000), "20000")
    dispatching = [store.is_dispatching]
    next(steps)
    dispatching.append(store.is_dispatching)
    assert {pod.metadata.resource_version for pod in store.values()} == {
        pod.metadata.resource_version for pod in pods(300, 10_000)
    }
    assert store.resource_version == "20000"
    taken = 1
    while next(steps, None) is not None:
        taken += 1
        assert len(told) <= taken * STEPS_A_YIELD
    assert taken == 300 // STEPS_A_YIELD
    dispatching.append(store.is_dispatching)
    assert dispatching == [False, True, False]
    assert len(told) == 300


@pytest.mark.parametrize("steps_before", [1, 3, 6])
def test_own_writes_between_the_steps_are_dispatched_immediately_and_in_order(steps_before: int) -> None:
    store, told = filled(200)
    before = store.values()
    steps = store.replace_steps(pods(300, 10_000)[10:], "20000")
    for _ in range(steps_before):
        next(steps)
    for number in (1, 20, 150, 299, 400):
        store.record_write(make_pod(f"pod-{number:05d}", "10.9.9.9", resource_version=str(30_000 + number)))
        assert told[-1][1] is store.get(ObjectKey("default", f"pod-{number:05d}"))
    gone = store.get(ObjectKey("default", "pod-00200"))
    assert gone is not None
    store.record_delete(ObjectKey("default", "pod-00200"), gone.metadata.uid)
    assert told[-1] == (gone, None)
    for _ in steps:
        pass
    assert replay(told, before) == {pod.metadata.name: pod for pod in store.values()}


def test_a_relist_abandoned_between_its_steps_is_dispatched_completely() -> None:
    store, told = filled(200)
    before = store.values()
    steps = store.replace_steps(pods(300, 10_000)[10:], "20000")
    next(steps)
    steps.close()
    assert not store.is_dispatching
    assert replay(told, before) == {pod.metadata.name: pod for pod in store.values()}
    store.apply([WatchEvent("MODIFIED", make_pod("pod-00011", "10.9.9.9", resource_version="40000"))])
    assert replay(told, before) == {pod.metadata.name: pod for pod in store.values()}


async def test_no_plan_is_made_from_half_a_relist() -> None:
    """All pods are replaced: half of that would leave the service almost without endpoints."""
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(120))
    world.start()
    await world.settle()
    gate = RelistGate()
    gate.add(world.pods)
    world.controller._relists = gate
    world.take_writes()
    others = [
        make_pod(f"new-{n:05d}", address_number(1_000 + n), resource_version=str(20_000_000 + n))
        for n in range(120)
    ]
    steps = world.pods.replace_steps(others, "30000000")
    next(steps)
    async with asyncio.TaskGroup() as group:
        group.create_task(world.sync(), name="worker")
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.take_writes() == []
        for _ in steps:
            await asyncio.sleep(0)
            assert world.take_writes() == []
    await world.settle()
    assert world.published() == {pod.metadata.name: True for pod in others}


async def test_an_audit_compares_nothing_during_a_relist() -> None:
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(120))
    world.start()
    await world.settle()
    gate = RelistGate()
    gate.add(world.pods)
    auditor = Auditor(clock=FakeClock(), min_pause_seconds=0.0, share=1.0, relists=gate)
    auditor.add("slices", world.controller)
    auditor.add("membership", world.membership)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(auditor.run(), name="audit")
        for _ in range(3):
            await asyncio.sleep(0)
        for _ in world.pods.replace_steps(pods(100, 30_000_000), "40000000"):
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
    counts = auditor.statistics().parts
    assert counts["slices"].audits > 0
    assert sum(each.mismatches + each.errors for each in counts.values()) == 0
