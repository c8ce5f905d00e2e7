"""Topology-aware hints are eventually written, repaired, and never written unchanged (behaviour 2.11)."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Node
from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointHints, ForNode, ForZone
from aiokube.api.meta import ObjectKey
from aiokube.api.status import Status
from aiokube.client.errors import RequestTimedOutError, api_error
from aiokube.testing.builders import address_number, edited, make_node, make_pod, make_service
from endpointd.controllers.endpointslice.controller import EndpointSliceSettings

WEB = ObjectKey("default", "web")
UNAVAILABLE = api_error(Status(code=503, reason="ServiceUnavailable", message="no"))


async def world_with(
    nodes: Sequence[Node], placed: Sequence[str], *, mode: str | None = "Auto", limit: int = 100
) -> SliceWorld:
    """Return a settled world: a service, and a pod on each node of ``placed``."""
    world = SliceWorld(settings=EndpointSliceSettings(max_endpoints_per_slice=limit))
    world.put(*nodes, make_service(topology_mode=mode))
    world.put(
        *(
            make_pod(f"pod-{place:03}", address_number(place + 1), node_name=node)
            for place, node in enumerate(placed)
        )
    )
    world.start()
    await come_to_rest(world)
    world.take_writes()
    return world


def zones(*names: str) -> list[Node]:
    return [make_node(name, zone=name) for name in names]


async def come_to_rest(world: SliceWorld) -> None:
    for _ in range(4):
        await world.settle()
        world.advance(61)


def hinted(world: SliceWorld) -> Counter[str]:
    """Count the zone hints of all slices; ``""`` counts endpoints without hints."""
    return Counter(
        zone.name
        for endpoint_slice in world.slices_of()
        for endpoint in endpoint_slice.endpoints or ()
        for zone in (endpoint.hints.for_zones if endpoint.hints is not None else None) or (ForZone(""),)
    )


def rewrite_hints(world: SliceWorld, hints: EndpointHints | None, *, of_ready: bool = True) -> None:
    """Edit the hints of the first slice externally."""
    endpoint_slice = world.slices_of()[0]

    def changed(endpoint: Endpoint) -> Endpoint:
        if bool(endpoint.conditions.ready) is not of_ready:
            return endpoint
        return msgspec.structs.replace(endpoint, hints=hints)

    world.server.update_foreign(
        ENDPOINT_SLICES, edited(endpoint_slice, endpoints=tuple(map(changed, endpoint_slice.endpoints or ())))
    )


# --------------------------------------------------------------------------------------- failing writes


@pytest.mark.parametrize("error", [UNAVAILABLE, RequestTimedOutError("no answer")])
@pytest.mark.parametrize("times", [1, 3])
async def test_hints_whose_write_failed_are_written_by_the_retry(error: Exception, times: int) -> None:
    world = await world_with(zones("a", "b", "c"), "abc" * 10, mode=None, limit=10)
    world.server.fail_next(error, verb="update", times=times)
    world.put(make_service(topology_mode="Auto"))
    await come_to_rest(world)
    assert hinted(world) == {"a": 10, "b": 10, "c": 10}
    assert world.failures
    assert world.controller.audit(WEB) is None


async def test_the_retry_removes_obsolete_hints() -> None:
    world = await world_with(zones("a", "b", "c"), "abc" * 10, limit=10)
    world.server.fail_next(UNAVAILABLE, verb="update")
    world.put(make_node("no-zone", zone=""))  # S-90: no usable ratios
    await come_to_rest(world)
    assert hinted(world) == {"": 30}
    assert world.failures
    assert world.controller.audit(WEB) is None


async def test_hints_with_a_lost_response_are_not_written_twice() -> None:
    world = await world_with(zones("a", "b", "c"), "abc" * 10, mode=None)
    world.server.fail_next(RequestTimedOutError("no answer"), verb="update", acts=True)
    world.put(make_service(topology_mode="Auto"))
    await world.sync()
    world.watch()
    world.take_writes()
    await come_to_rest(world)
    assert hinted(world) == {"a": 10, "b": 10, "c": 10}
    assert world.take_writes() == []


# --------------------------------------------------------------------------------------- external edits


@pytest.mark.parametrize(
    "hints",
    [
        EndpointHints(for_zones=(ForZone("nowhere"),)),
        EndpointHints(for_zones=(ForZone("a"),)),
        EndpointHints(for_zones=(ForZone("a"), ForZone("b"))),
        EndpointHints(for_nodes=(ForNode("a"),)),
        EndpointHints(),
        None,
    ],
)
async def test_externally_edited_hints_are_repaired_immediately(hints: EndpointHints | None) -> None:
    world = await world_with(zones("a", "b", "c"), "abc" * 4)
    rewrite_hints(world, hints)
    await world.settle()
    assert hinted(world) == {"a": 4, "b": 4, "c": 4}
    assert len(world.take_writes()) == 1
    assert world.controller.audit(WEB) is None


async def test_external_hints_on_an_unready_endpoint_are_removed() -> None:
    world = await world_with(zones("a", "b", "c"), "abc" * 4)
    world.put(make_pod("pod-000", address_number(1), node_name="a", ready=False))
    await come_to_rest(world)
    right = world.slices_of()[0].endpoints
    rewrite_hints(world, EndpointHints(for_zones=(ForZone("b"),)), of_ready=False)
    await world.settle()
    assert world.slices_of()[0].endpoints == right


async def test_hints_to_another_zone_with_capacity_stay_as_upstream() -> None:
    world = await world_with(zones("a", "b"), "aaabbb")
    endpoint_slice = world.slices_of()[0]
    swapped = tuple(
        msgspec.structs.replace(
            endpoint, hints=EndpointHints(for_zones=(ForZone("b" if endpoint.zone == "a" else "a"),))
        )
        for endpoint in endpoint_slice.endpoints or ()
    )
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, endpoints=swapped))
    await come_to_rest(world)
    assert world.take_writes() == []
    assert world.controller.audit(WEB) is None


# ------------------------------------------------------------------------------- unnecessary writes


async def test_a_flip_writes_one_slice_if_an_endpoint_without_a_zone_refuses_hints() -> None:
    nodes = [*zones("a", "b"), make_node("cp", zone="", control_plane=True)]
    world = await world_with(nodes, ["cp", *"ab" * 50], limit=10)
    assert hinted(world) == {"": 101}
    world.put(make_pod("pod-050", address_number(51), node_name="b", ready=False))
    await come_to_rest(world)
    assert len(world.take_writes()) == 1


@pytest.mark.parametrize(
    ("nodes", "placed"),
    [
        pytest.param(
            [*zones("a", "b"), make_node("cp", zone="", control_plane=True)], ["cp", *"abab"], id="no zone"
        ),
        pytest.param(
            [
                *(make_node(f"a{n}", zone="a") for n in range(3)),
                *(make_node(f"b{n}", zone="b") for n in range(2)),
            ],
            ["a0", "a0", "a1", "a2", "b0", "b1"],
            id="above a maximum, and moving would not help",
        ),
        pytest.param(
            [*zones("a", "b"), make_node("c", zone="c", ready=False)],
            ["a"] * 13 + ["b"] * 13 + ["c"] * 4,
            id="endpoints in a zone that does not count",
        ),
    ],
)
async def test_the_audit_and_a_double_flip_keep_correct_hints(
    nodes: Sequence[Node], placed: Sequence[str]
) -> None:
    world = await world_with(nodes, placed, limit=10)
    before = hinted(world)
    for _ in range(3):
        assert world.controller.audit(WEB) is None
        await come_to_rest(world)
    assert world.take_writes() == []
    for ready in (False, True):
        world.put(make_pod("pod-001", address_number(2), node_name=placed[1], ready=ready))
        await come_to_rest(world)
    assert len(world.take_writes()) == 2
    assert hinted(world) == before
    assert world.controller.audit(WEB) is None


async def test_a_removed_zone_removes_the_hints_of_other_zones() -> None:
    world = await world_with(zones("a", "b", "c"), "a" * 5 + "b" * 3 + "c")
    assert hinted(world) == {"a": 3, "b": 3, "c": 3}
    world.put(make_node("c", zone="c", ready=False))
    await come_to_rest(world)
    assert hinted(world)["c"] == 1  # its own endpoint
    assert world.controller.audit(WEB) is None
