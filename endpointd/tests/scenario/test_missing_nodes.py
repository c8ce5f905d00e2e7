"""A missing Node counts as present for a minute; a pod whose Node never existed is not published (S-31.4)."""

import msgspec
import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.meta import ObjectKey
from aiokube.testing.builders import address_number, make_node, make_pod, make_pods, make_service
from endpointd.controllers.endpointslice.controller import EndpointSliceSettings

WEB = ObjectKey("default", "web")
BOTH = {"pod-00001": True, "pod-00002": True}
GRACE_SECONDS = EndpointSliceSettings().missing_node_grace_seconds


async def world_with(*, publish_not_ready_addresses: bool = False, grace_seconds: float = 60.0) -> SliceWorld:
    """Return a settled world: two published pods on ``node-1``."""
    world = SliceWorld(settings=EndpointSliceSettings(missing_node_grace_seconds=grace_seconds))
    world.put(make_node(), make_service(publish_not_ready_addresses=publish_not_ready_addresses))
    world.put(*make_pods(2))
    world.start()
    await world.settle()
    world.take_writes()
    return world


async def restarted(world: SliceWorld, *, with_node: bool = False) -> SliceWorld:
    """Return the world with a new process, which lists everything; nodes only with ``with_node``."""
    after = SliceWorld(server=world.server)
    after.put(*world.services.values(), *world.pods.values())
    if with_node:
        after.put(make_node())
    after.start()
    await after.settle()
    return after


def zones(world: SliceWorld) -> set[str | None]:
    return {
        endpoint.zone for endpoint_slice in world.slices_of() for endpoint in endpoint_slice.endpoints or ()
    }


async def pass_seconds(world: SliceWorld, seconds: float) -> None:
    world.advance(seconds)
    await world.settle()


def test_the_grace_period_matches_the_pod_garbage_collector() -> None:
    assert GRACE_SECONDS == 20 + 40


async def test_ready_pods_stay_published_while_their_node_is_missing_for_a_short_time() -> None:
    world = await world_with()
    world.remove(make_node())
    await world.settle()
    await pass_seconds(world, GRACE_SECONDS - 0.1)
    assert world.take_writes() == []
    assert world.published() == BOTH
    assert world.failures == []
    assert world.controller.audit(WEB) is None


async def test_pods_of_a_node_that_stays_missing_are_withdrawn_and_return_with_it() -> None:
    """k/k#82494, #85725: pods of a node that returned were not added for days."""
    world = await world_with()
    world.remove(make_node())
    await world.settle()
    await pass_seconds(world, GRACE_SECONDS)
    assert world.published() == {}
    assert "Node node-1 Not Found" in str(world.failures[-1])
    world.put(make_node())
    await world.settle()
    assert world.published() == BOTH


async def test_a_node_that_is_registered_again_in_time_causes_no_write() -> None:
    world = await world_with()
    for _ in range(3):
        world.remove(make_node())
        await pass_seconds(world, GRACE_SECONDS - 1)
        world.put(make_node())
        await pass_seconds(world, 2)
    await pass_seconds(world, 10 * GRACE_SECONDS)
    assert world.take_writes() == []
    assert world.published() == BOTH


async def test_a_node_that_returns_in_another_zone_moves_its_endpoints() -> None:
    world = await world_with()
    world.remove(make_node())
    await pass_seconds(world, 10)
    world.put(make_node(zone="zone-b"))
    await world.settle()
    assert zones(world) == {"zone-b"}


async def test_a_list_that_lost_all_nodes_withdraws_nothing() -> None:
    world = await world_with()
    world.nodes.replace([], "20000000")
    await pass_seconds(world, GRACE_SECONDS / 2)
    world.nodes.replace([make_node(resource_version="20000001")], "20000002")
    await pass_seconds(world, 2 * GRACE_SECONDS)
    assert world.take_writes() == []
    assert world.published() == BOTH


async def test_a_pod_whose_node_never_existed_is_not_published() -> None:
    world = await world_with()
    world.put(make_pod("lost", address_number(9), node_name="nowhere"))
    await pass_seconds(world, 2 * GRACE_SECONDS)
    assert world.published() == BOTH
    assert (await restarted(world, with_node=True)).published() == BOTH


async def test_unreadiness_is_published_while_the_node_is_missing() -> None:
    world = await world_with()
    world.remove(make_node())
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    world.remove(make_pod("pod-00002"))
    await world.settle()
    assert world.published() == {"pod-00001": False}


async def test_changes_during_the_grace_period_do_not_extend_it() -> None:
    world = await world_with()
    world.remove(make_node())
    for second in range(int(GRACE_SECONDS)):
        world.put(make_pod("pod-00001", address_number(1), ready=second % 2 == 0))
        world.put(make_service(labels={"second": str(second)}))
        await pass_seconds(world, 1)
    assert world.published() == {}


async def test_each_node_has_its_own_grace_period() -> None:
    world = await world_with()
    world.put(make_node("node-2"), make_pod("other", address_number(9), node_name="node-2"))
    await world.settle()
    world.remove(make_node())
    await pass_seconds(world, 20)
    world.remove(make_node("node-2"))
    await pass_seconds(world, GRACE_SECONDS - 20)
    assert world.published() == {"other": True}
    await pass_seconds(world, 20)
    assert world.published() == {}


async def test_a_restart_keeps_published_endpoints_for_another_grace_period() -> None:
    world = await restarted(await world_with())
    await pass_seconds(world, GRACE_SECONDS - 1)
    assert world.take_writes() == []
    assert world.published() == BOTH
    await pass_seconds(world, 1)
    assert world.published() == {}


async def test_a_restart_ignores_endpoints_of_services_that_need_no_node() -> None:
    world = await world_with(publish_not_ready_addresses=True)
    world.put(make_service("strict"))
    world.put(make_pod("lost", address_number(9), node_name="nowhere"))
    await world.settle()
    assert set(world.published()) == {*BOTH, "lost"}
    after = await restarted(world, with_node=True)
    assert after.published("strict") == BOTH


async def test_the_zone_of_a_missing_node_stays_for_the_grace_period() -> None:
    world = await world_with(publish_not_ready_addresses=True)
    world.remove(make_node())
    await pass_seconds(world, GRACE_SECONDS - 1)
    assert zones(world) == {"zone-a"}
    await pass_seconds(world, 1)
    assert zones(world) == {None}
    assert world.published() == BOTH


async def test_without_a_grace_period_pods_are_withdrawn_immediately() -> None:
    world = await world_with(grace_seconds=0.0)
    world.remove(make_node())
    await world.settle()
    assert world.published() == {}


@pytest.mark.parametrize("edit", ["zone", "node"])
async def test_an_edited_slice_is_repaired_while_the_node_is_missing(edit: str) -> None:
    world = await world_with()
    world.remove(make_node())
    await world.settle()
    (endpoint_slice,) = world.slices_of()
    fields = {"zone": "zone-x"} if edit == "zone" else {"node_name": "node-x"}
    endpoints = tuple(msgspec.structs.replace(one, **fields) for one in endpoint_slice.endpoints or ())
    world.server.update_foreign(ENDPOINT_SLICES, msgspec.structs.replace(endpoint_slice, endpoints=endpoints))
    await world.settle()
    assert world.slices_of()[0].endpoints == endpoint_slice.endpoints
