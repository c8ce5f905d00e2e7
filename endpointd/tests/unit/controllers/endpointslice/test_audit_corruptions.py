"""The audit repairs every planted corruption: in the queue, in a state, in an index, in the zone table."""

import asyncio
from collections.abc import Callable

import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Pod, Service
from aiokube.api.meta import ObjectKey
from aiokube.runtime.pacing import run_at_once
from aiokube.testing.builders import address_number, make_node, make_pod, make_pods, make_service
from endpointd.controllers.endpointslice.address_type_state import AddressTypeState
from endpointd.controllers.endpointslice.audit import ZONES

WEB = ObjectKey("default", "web")
RIGHT = {"pod-00001": False, "pod-00002": True, "pod-00003": True}


async def world_at_rest() -> SliceWorld:
    world = SliceWorld()
    world.put(make_node(), make_node("node-2", zone="zone-b"), make_service(), *make_pods(3))
    world.start()
    await settle(world)
    return world


async def settle(world: SliceWorld) -> None:
    for _ in range(3):
        await world.settle()
        world.advance(100)


def flip(world: SliceWorld) -> None:
    world.put(make_pod("pod-00001", address_number(1), ready=False))


def lose_wake_ups(world: SliceWorld) -> None:
    while (key := world.queue.get_nowait()) is not None:
        world.queue.done(key)


def one_round(world: SliceWorld) -> list[str]:
    """Audit everything once in the program's order, and return the findings."""
    found = [world.membership.audit(key) for key in world.membership.audited_keys()]
    found += [world.controller.audit(key) for key in world.controller.audited_keys()]
    return [each for each in found if each is not None]


def family_of(world: SliceWorld) -> AddressTypeState:
    return next(world.controller.states.by_key[WEB].address_type_states())


def a_lost_key(world: SliceWorld) -> None:
    flip(world)
    lose_wake_ups(world)


def a_lost_key_of_a_service_that_was_not_built_yet(world: SliceWorld) -> None:
    flip(world)
    world.put(make_service(labels={"new": "label"}))
    lose_wake_ups(world)


def a_lost_state_and_key(world: SliceWorld) -> None:
    flip(world)
    lose_wake_ups(world)
    del world.controller.states.by_key[WEB]


def a_lost_endpoint(world: SliceWorld) -> None:
    flip(world)
    world.controller.states.by_key[WEB].set_pod("pod-00001", None)


def a_slice_that_is_not_looked_at(world: SliceWorld) -> None:
    flip(world)
    family_of(world)._dirty.clear()


def a_lost_holder(world: SliceWorld) -> None:
    flip(world)
    family_of(world)._holders.clear()
    lose_wake_ups(world)


def a_lost_member(world: SliceWorld) -> None:
    world.membership._members[WEB].discard("pod-00001")
    flip(world)
    world.controller.states.by_key[WEB].set_pod("pod-00001", None)
    lose_wake_ups(world)


def a_member_too_many(world: SliceWorld) -> None:
    flip(world)
    world.put(make_pod("other", "10.9.9.9", labels={"app": "other"}))
    world.membership._members[WEB].add("other")
    world.controller.states.by_key[WEB].set_pod("other", world.pods.get(ObjectKey("default", "other")))


CORRUPTIONS: list[Callable[[SliceWorld], None]] = [
    a_lost_key,
    a_lost_key_of_a_service_that_was_not_built_yet,
    a_lost_state_and_key,
    a_lost_endpoint,
    a_slice_that_is_not_looked_at,
    a_lost_holder,
    a_lost_member,
    a_member_too_many,
]


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
async def test_one_audit_round_finds_the_corruption_and_corrects_the_slices(
    corrupt: Callable[[SliceWorld], None],
) -> None:
    world = await world_at_rest()
    corrupt(world)
    assert one_round(world) != []
    await settle(world)
    assert world.published() == RIGHT
    assert one_round(world) == []
    world.take_writes()
    await settle(world)
    assert world.take_writes() == []


async def test_an_emptied_zone_table_is_found_and_rebuilt() -> None:
    world = await world_at_rest()
    ratios = world.controller.states.zones.ratios
    assert ratios is not None
    table = world.controller.states.zones
    table._counted.clear()
    table._cpu_milli.clear()
    table._nodes_in.clear()
    table._is_current = False
    assert table.ratios is None
    assert world.controller.audit(ZONES) == "the table of zones"
    assert world.controller.states.zones.ratios == ratios
    assert world.controller.audit(ZONES) is None


async def test_a_topology_aware_service_missing_from_the_index_is_found() -> None:
    world = await world_at_rest()
    world.put(make_service(topology_mode="Auto"))
    await settle(world)
    world.controller.states.topology_aware.clear()
    assert one_round(world) == ["the topology-aware services"]
    await settle(world)
    assert world.controller.states.topology_aware == {WEB}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_handler_that_raises_leaves_no_partial_change(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The state is rebuilt immediately, without waiting for the audit."""
    world = await world_at_rest()
    apply_to_family = AddressTypeState.set_desired

    def raises(family: AddressTypeState, *change: object) -> None:
        if when == "after":
            apply_to_family(family, *change)  # type: ignore[arg-type]
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(AddressTypeState, "set_desired", raises)
        flip(world)
    await settle(world)
    assert world.published() == RIGHT
    assert world.membership.listener_failures == 1


async def test_a_listener_that_raises_does_not_hide_a_change_from_others() -> None:
    class Raising:
        def service_changed(self, old: Service | None, new: Service | None) -> None:
            raise RuntimeError("a mistake")

        def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
            raise RuntimeError("a mistake")

    world = SliceWorld()
    world.membership.subscribe(Raising())
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    flip(world)
    world.put(make_service(labels={"a": "b"}))
    await settle(world)
    assert world.published() == RIGHT
    (endpoint_slice,) = world.slices_of()
    assert (endpoint_slice.metadata.labels or {}).get("a") == "b"
    assert world.membership.listener_failures == 2


async def test_changes_between_the_steps_of_an_audit_are_no_corruption() -> None:
    world = SliceWorld()
    pods = make_pods(400)
    world.put(make_node(), make_service(), *pods)
    world.start()
    await settle(world)
    steps = world.controller.audit_steps(WEB)
    taken = 0
    finding: str | None = None
    try:
        while True:
            next(steps)
            taken += 1
            world.put(make_pod(f"pod-{taken:05d}", address_number(taken), ready=taken % 2 == 0))
            world.remove(pods[399 - taken])
            world.put(make_pod(f"new-{taken:05d}", address_number(1000 + taken)))
            if taken % 3 == 0:
                await world.settle()
    except StopIteration as end:
        finding = end.value
    assert taken > 8
    assert finding is None
    await settle(world)
    assert world.published() == {pod.metadata.name: pod.ready for pod in world.pods.values()}
    assert run_at_once(world.controller.audit_steps(WEB)) is None


async def test_a_service_changed_during_its_audit_or_sync_is_rebuilt_from_its_current_version() -> None:
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(400))
    world.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(world.sync(), name="worker")
        await asyncio.sleep(0)  # the worker is building the state
        assert not world.controller.states.by_key[WEB].is_complete
        world.put(
            make_service(selector={"app": "other"}), make_pod("other", "10.9.9.9", labels={"app": "other"})
        )
    await settle(world)
    assert world.published() == {"other": True}
    assert one_round(world) == []
