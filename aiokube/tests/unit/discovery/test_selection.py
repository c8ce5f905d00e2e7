"""Selection of endpoints (section 5, scenarios 8.3, vectors 8.5)."""

from collections.abc import Sequence

import pytest
from tests.unit.discovery.slices import addresses

from aiokube.discovery import EndpointView, Location, Selection, TrafficPolicy, select

HERE = Location("node-1", "zone-a")
CLUSTER = TrafficPolicy()
INTERNAL_LOCAL = TrafficPolicy(internal_local=True)
NODE_PORT = TrafficPolicy(externally_accessible=True)
EXTERNAL_LOCAL = TrafficPolicy(external_local=True, externally_accessible=True)
INTERNAL_LOCAL_EXTERNAL_CLUSTER = TrafficPolicy(internal_local=True, externally_accessible=True)
BOTH_LOCAL = TrafficPolicy(internal_local=True, external_local=True, externally_accessible=True)


def at(
    index: int,
    *,
    ready: bool = True,
    serving: bool = True,
    terminating: bool = False,
    local: bool = False,
    zones: str = "",
    nodes: Sequence[str] = (),
) -> EndpointView:
    """Return endpoint 10.0.0.<index>; ``zones`` are letters."""
    return EndpointView(
        ip=f"10.0.0.{index}",
        port=80,
        ready=ready,
        serving=serving,
        terminating=terminating,
        node_name="node-1" if local else "node-9",
        zone_hints=frozenset(f"zone-{letter}" for letter in zones),
        node_hints=frozenset(nodes),
    )


def unready(index: int, **more: bool | str) -> EndpointView:
    return at(index, ready=False, serving=False, **more)  # type: ignore[arg-type]


def draining(index: int, **more: bool | str) -> EndpointView:
    return at(index, ready=False, terminating=True, **more)  # type: ignore[arg-type]


def lists(found: Selection) -> tuple[list[int] | None, list[int] | None, list[int]]:
    def numbers(views: Sequence[EndpointView] | None) -> list[int] | None:
        return None if views is None else [int(view.ip.rpartition(".")[2]) for view in views]

    return numbers(found.cluster), numbers(found.local), sorted(numbers(found.all_reachable) or [])


HINTED = [at(3, zones="a"), at(4, zones="b"), at(5, zones="c"), at(6, zones="a")]
LOCAL_HINTED = [
    at(3, zones="a", local=True),
    at(4, zones="b", local=True),
    at(5, zones="c"),
    at(6, zones="a"),
]
NODE_HINTED = [
    at(1, zones="a", nodes=["node-1"]),
    at(2, zones="a", nodes=["node-2"]),
    at(3, zones="b", nodes=["node-3"]),
]

SCENARIOS: dict[str, tuple[list[EndpointView], TrafficPolicy, Location, object]] = {
    "topology is used": (HINTED, CLUSTER, HERE, ([3, 6], None, [3, 6])),
    "eTP Local: hints do not apply to local": (LOCAL_HINTED, EXTERNAL_LOCAL, HERE, ([3, 6], [3, 4], [3, 4, 6])),
    "iTP Local: the same": (LOCAL_HINTED, INTERNAL_LOCAL_EXTERNAL_CLUSTER, HERE, ([3, 6], [3, 4], [3, 4, 6])),
    "nothing is known of the node": ([at(1, zones="a"), at(2, zones="a")], CLUSTER, Location(), ([1, 2], None, [1, 2])),
    "the zone is empty": ([at(1, zones="a")], CLUSTER, Location("node-1"), ([1], None, [1])),
    "no endpoint is hinted for the zone": (HINTED, CLUSTER, Location("node-1", "zone-d"), ([3, 4, 5, 6], None, [3, 4, 5, 6])),
    "one of two in the zone is unready": (
        [unready(1, zones="a"), at(2, zones="a"), at(3, zones="b")], CLUSTER, HERE, ([2], None, [2])),
    "only unready ones in the zone": (
        [unready(1, zones="a"), at(2, zones="b"), at(3, zones="c"), unready(4, zones="a")], CLUSTER, HERE,
        ([2, 3], None, [2, 3])),
    "one has no hint": ([*HINTED[:3], at(6)], CLUSTER, HERE, ([3, 4, 5, 6], None, [3, 4, 5, 6])),
    "C-46: several hints for an endpoint": (
        [at(1, zones="abc"), at(2, zones="bc"), at(3, zones="bd"), at(4, zones="c")], CLUSTER,
        Location("node-1", "zone-c"), ([1, 2, 4], None, [1, 2, 4])),
    "same node": (NODE_HINTED, CLUSTER, HERE, ([1], None, [1])),
    "same node, one has no hints": ([*NODE_HINTED, at(4)], CLUSTER, HERE, ([1, 2, 3, 4], None, [1, 2, 3, 4])),
    "no endpoint is hinted for the node": (NODE_HINTED, CLUSTER, Location("node-0", "zone-a"), ([1, 2], None, [1, 2])),
    "C-63a: topology and locality need merging": (
        [at(0, zones="a", local=True), at(1, zones="b", local=True), at(2, zones="a"), at(3, zones="b")],
        EXTERNAL_LOCAL, HERE, ([0, 2], [0, 1], [0, 1, 2])),
    "iTP Local: no endpoints": ([], INTERNAL_LOCAL, HERE, (None, [], [])),
    "iTP Local: all are remote, and none is used (C-87)": ([at(1), at(2)], INTERNAL_LOCAL, HERE, (None, [], [])),
    "iTP Local: all are local": ([at(1, local=True), at(2, local=True)], INTERNAL_LOCAL, HERE, (None, [1, 2], [1, 2])),
    "iTP Local: some are local": ([at(1, local=True), at(2)], INTERNAL_LOCAL, HERE, (None, [1], [1])),
    "Cluster: none is ready": ([unready(1), unready(2)], CLUSTER, HERE, ([], None, [])),
    "Cluster: some are ready": ([unready(1), at(2)], CLUSTER, HERE, ([2], None, [2])),
    "Cluster: all are draining": ([draining(1, local=True), draining(2)], CLUSTER, HERE, ([1, 2], None, [1, 2])),
    "iTP Local, eTP Cluster": (
        [at(1, local=True), at(2)], INTERNAL_LOCAL_EXTERNAL_CLUSTER, HERE, ([1, 2], [1], [1, 2])),
    "iTP Cluster, eTP Local": ([at(1, local=True), at(2)], EXTERNAL_LOCAL, HERE, ([1, 2], [1], [1, 2])),
    "both Local, some are local": ([at(1, local=True), at(2)], BOTH_LOCAL, HERE, ([1, 2], [1], [1, 2])),
    "both Local, all are remote": ([at(1), at(2)], BOTH_LOCAL, HERE, ([1, 2], [], [1, 2])),
    "both Local, all are remote and draining": ([draining(1), draining(2)], BOTH_LOCAL, HERE, ([1, 2], [], [1, 2])),
    "iTP Cluster, eTP Local: local falls back alone": (
        [at(1), unready(2, local=True), draining(3, local=True), draining(4)], EXTERNAL_LOCAL, HERE, ([1], [3], [1, 3])),
    "eTP Local, but there is no way in": (
        [at(1, local=True), at(2)], TrafficPolicy(external_local=True), HERE, ([1, 2], None, [1, 2])),
    "iTP Local, internal only": ([at(1), at(2, local=True)], INTERNAL_LOCAL, HERE, (None, [2], [2])),
    # 8.5
    "V1, C-43: ready while terminating counts as ready": ([at(1, terminating=True), at(2)], CLUSTER, HERE, ([1, 2], None, [1, 2])),
    "V2: draining, alone": ([draining(1)], CLUSTER, HERE, ([1], None, [1])),
    "V3, C-44: unready but serving, and not terminating": ([at(1, ready=False)], CLUSTER, HERE, ([], None, [])),
    "V4: hints do not count in the fall-back": (
        [draining(1, zones="b"), draining(2, zones="c"), draining(3, zones="a")], CLUSTER, HERE, ([1, 2, 3], None, [1, 2, 3])),
    "V5: hinted for other nodes, and one has no zone hint": (
        [at(1, nodes=["x"], zones="a"), at(2, nodes=["y"])], CLUSTER, HERE, ([1, 2], None, [1, 2])),
    "V6: some have no node hint, all have zone hints": (
        [at(1, nodes=["node-1"], zones="b"), at(2, zones="a")], CLUSTER, HERE, ([2], None, [2])),
    "V7: the node is enough": (NODE_HINTED, CLUSTER, Location("node-1"), ([1], None, [1])),
    "V9: an unready endpoint needs no hint": ([*HINTED, unready(7)], CLUSTER, HERE, ([3, 6], None, [3, 6])),
    "C-63: terminating and not serving is never used": (
        [at(1, ready=False, serving=False, terminating=True)], CLUSTER, HERE, ([], None, [])),
    "C-63: no fall-back from the zone to what drains in the zone": (
        [draining(1, zones="a"), at(2, zones="b")], CLUSTER, HERE, ([2], None, [2])),
    "C-58 f: nothing is ready": ([unready(1, zones="a")], CLUSTER, HERE, ([], None, [])),
    "C-62: local prefers ready endpoints": (
        [draining(1, local=True), at(2, local=True)], INTERNAL_LOCAL, HERE, (None, [2], [2])),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_selected_endpoint_lists_match_kube_proxy(name: str) -> None:
    endpoints, policy, location, expected = SCENARIOS[name]
    assert lists(select(endpoints, policy, location)) == expected


@pytest.mark.parametrize(
    ("policy", "cluster", "local"),
    [
        (CLUSTER, True, False),
        (NODE_PORT, True, False),
        (EXTERNAL_LOCAL, True, True),
        (INTERNAL_LOCAL, False, True),
        (INTERNAL_LOCAL_EXTERNAL_CLUSTER, True, True),
        (BOTH_LOCAL, True, True),
        (TrafficPolicy(external_local=True), True, False),
    ],
)
def test_lists_without_traffic_are_none(policy: TrafficPolicy, cluster: bool, local: bool) -> None:
    """C-57b to C-57d: None is not empty."""
    found = select([], policy, HERE)
    assert (found.cluster is not None, found.local is not None) == (cluster, local)


REMOTE_AND_LOCAL = [at(1), at(2, local=True)]


@pytest.mark.parametrize(
    ("policy", "internal", "external"),
    [
        (CLUSTER, [1, 2], []),
        (NODE_PORT, [1, 2], [1, 2]),
        (EXTERNAL_LOCAL, [1, 2], [2]),
        (INTERNAL_LOCAL, [2], []),
        (INTERNAL_LOCAL_EXTERNAL_CLUSTER, [2], [1, 2]),
        (BOTH_LOCAL, [2], [2]),
    ],
)
def test_each_traffic_type_has_its_own_list(
    policy: TrafficPolicy, internal: list[int], external: list[int]
) -> None:
    """The table of 5.1, row by row."""
    found = select(REMOTE_AND_LOCAL, policy, HERE)
    assert addresses(found.internal) == [f"10.0.0.{index}:80" for index in internal]
    assert addresses(found.external) == [f"10.0.0.{index}:80" for index in external]


def test_remote_endpoints_turn_rejected_traffic_into_dropped_traffic() -> None:
    """C-63b, C-63d."""
    none = select([], INTERNAL_LOCAL, HERE)
    remote = select([at(1)], INTERNAL_LOCAL, HERE)
    local = select([at(1, local=True)], INTERNAL_LOCAL, HERE)
    assert (none.has_any, none.verdict()) == (False, "reject")
    assert (remote.has_any, remote.all_reachable, remote.verdict()) == (True, (), "drop")
    assert (local.has_any, local.verdict()) == (True, "forward")
    assert select([draining(1)], INTERNAL_LOCAL, HERE).has_any
    assert not select([unready(1)], INTERNAL_LOCAL, HERE).has_any
    both = select([at(1)], EXTERNAL_LOCAL, HERE)
    assert (both.verdict(), both.verdict(external=True)) == ("forward", "drop")


@pytest.mark.parametrize(
    ("endpoints", "location", "topology", "reasons"),
    [
        (HINTED, HERE, "same-zone", ()),
        (NODE_HINTED, HERE, "same-node", ()),
        ([at(1), at(2)], HERE, "none", ()),
        ([*NODE_HINTED, at(4, zones="a")], HERE, "same-zone", ("a ready endpoint has no node hint",)),
        (NODE_HINTED, Location("node-0", "zone-a"), "same-zone", ("no endpoint is hinted for node node-0",)),
        ([*HINTED, at(7)], HERE, "none", ("a ready endpoint has no zone hint",)),
        (HINTED, Location("node-1"), "none", ("the zone of this node is unknown",)),
        (HINTED, Location("node-1", "zone-x"), "none", ("no endpoint is hinted for zone zone-x",)),
        ([unready(1, zones="a")], HERE, "none", ()),
    ],
)
def test_the_reason_for_ignoring_hints_is_reported(
    endpoints: list[EndpointView], location: Location, topology: str, reasons: tuple[str, ...]
) -> None:
    """C-57, C-58 a to f."""
    found = select(endpoints, CLUSTER, location)
    assert (found.topology, found.hints_ignored) == (topology, reasons)


def test_hints_are_ignored_for_local_only_traffic() -> None:
    """C-58 g."""
    found = select(LOCAL_HINTED, INTERNAL_LOCAL, HERE)
    assert (found.topology, found.hints_ignored) == ("none", ())


def test_fallback_to_draining_endpoints_is_reported_per_list() -> None:
    """C-61, C-62: each list independently."""
    found = select([at(1), draining(2, local=True)], EXTERNAL_LOCAL, HERE)
    assert (found.cluster_is_draining, found.local_is_draining) == (False, True)
    found = select([draining(1)], CLUSTER, HERE)
    assert (found.cluster_is_draining, found.local_is_draining) == (True, False)
    assert not select([at(1, terminating=True)], CLUSTER, HERE).cluster_is_draining


def test_lists_preserve_the_input_order() -> None:
    """C-63c."""
    endpoints = [at(10), at(1), at(2)]
    assert select(endpoints).cluster == tuple(endpoints)
