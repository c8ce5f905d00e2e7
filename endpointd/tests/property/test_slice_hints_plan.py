"""For any hints in slices, one plan corrects them, writes no unchanged slice, and leaves nothing to do."""

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings

from aiokube.api.core import Node, Pod
from aiokube.api.discovery import Endpoint, EndpointHints, EndpointSlice, ForZone
from aiokube.testing.builders import edited, make_endpoint, make_node, make_pod, make_service, make_slice
from endpointd.controllers.endpointslice.state import ServicePlan, ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable
from tests.differential.hint_rules import broken_hint_rules
from tests.differential.normalise import Snapshot

SERVICE = make_service(topology_mode="Auto")
NODES = {
    **{f"node-{zone}": f"zone-{zone}" for zone in "abcd"},
    "away": "zone-x",  # a control plane zone, which is not in the table
    "bare": "",
}
CPU_MILLI = st.sampled_from([500, 1000, 1000, 2000, 8000])


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    zones = draw(st.integers(2, 4))
    counted = [
        make_node(f"node-{zone}", zone=f"zone-{zone}", allocatable_cpu_milli=draw(CPU_MILLI))
        for zone in "abcd"[:zones]
    ]
    return [*counted, make_node("away", zone="zone-x", control_plane=True)]


@st.composite
def slices(draw: st.DrawFn) -> tuple[list[Pod], list[EndpointSlice]]:
    """Return pods and slices that contain them correctly except for their hints."""
    most_zones = draw(st.integers(2, 4))
    has_bare = draw(st.sampled_from([*[False] * 7, True]))
    placed = st.sampled_from(
        [*[f"node-{zone}" for zone in "abcd"[:most_zones]] * 4, "away", *(["bare"] if has_bare else [])]
    )
    hinted = st.sampled_from([*(f"zone-{zone}" for zone in "abcd"[:most_zones]), "own", "own", "own", "own"])
    pods: list[Pod] = []
    found: list[EndpointSlice] = []
    for number in range(draw(st.sampled_from([1, 2, 3, 4, 6]))):
        endpoints: list[Endpoint] = []
        for _ in range(draw(st.sampled_from([5, 4, 3, 1]))):
            place = len(pods)
            node = draw(placed)
            pod = make_pod(
                f"pod-{place:03}",
                f"10.0.0.{place + 1}",
                node_name=node,
                ready=draw(st.sampled_from([*[True] * 7, False])),
            )
            pods.append(pod)
            zone = draw(hinted)
            hints = EndpointHints(for_zones=(ForZone(NODES[node] if zone == "own" else zone),))
            endpoint = make_endpoint(pod, zone=NODES[node] or None)
            endpoints.append(
                msgspec.structs.replace(endpoint, hints=hints if pod.ready and NODES[node] else None)
            )
        found.append(make_slice(SERVICE, f"web-{number}", endpoints))
    return pods, found


def state_of(pods: list[Pod], found: list[EndpointSlice], cluster: list[Node]) -> ServiceState:
    table = ZoneTable()
    for node in cluster:
        table.set_node(node.metadata.name, node)
    return ServiceState.build(SERVICE, NODES.get, pods, found, lambda: table.ratios)


def executed(found: list[EndpointSlice], plan: ServicePlan) -> list[EndpointSlice]:
    after = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in found}
    for _, family in plan.address_type_plans:
        assert not family.delete
        for number, endpoint_slice in enumerate(family.create):
            after[f"web-new-{number}"] = edited(endpoint_slice, name=f"web-new-{number}", uid=f"new-{number}")
        for endpoint_slice in family.update:
            before = after[endpoint_slice.metadata.name]
            assert endpoint_slice.endpoints != before.endpoints, "written without a change"
            after[endpoint_slice.metadata.name] = endpoint_slice
    return list(after.values())


@given(world=slices(), cluster=nodes(), flips=st.sets(st.integers(0, 29), max_size=3))
@settings(max_examples=300, deadline=None)
def test_one_plan_corrects_any_hints_and_is_the_last(
    world: tuple[list[Pod], list[EndpointSlice]], cluster: list[Node], flips: set[int]
) -> None:
    pods, found = world
    pods = [
        msgspec.structs.replace(pod, ready=not pod.ready) if place in flips else pod
        for place, pod in enumerate(pods)
    ]
    after = executed(found, state_of(pods, found, cluster).plan(5, None))
    rebuilt = state_of(pods, after, cluster)
    assert rebuilt.plan(5, None).is_empty
    assert not rebuilt.needs_plan
    snapshot = Snapshot.of(slices=after, services=(SERVICE,))
    assert broken_hint_rules(snapshot, cluster) == []
