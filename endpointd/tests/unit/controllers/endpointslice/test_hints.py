"""Traffic distribution and topology-aware hints (behaviour S-80 to S-99)."""

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone
from aiokube.testing.builders import make_endpoint, make_node, make_pod, make_service, make_slice
from endpointd.controllers.endpointslice.state import ServicePlan, ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable


class Cluster:
    """A service with its pods, nodes and slices; plans are executed immediately."""

    def __init__(self, service: Service, nodes: Iterable[Node], max_endpoints: int = 100) -> None:
        self.service = service
        self.nodes = {node.metadata.name: node for node in nodes}
        self.max_endpoints = max_endpoints
        self.pods: dict[str, Pod] = {}
        self.slices: dict[str, EndpointSlice] = {}
        self.events: list[tuple[str, str, str]] = []
        self.written: list[str] = []
        self.state = self._build()

    def _build(self) -> ServiceState:
        return ServiceState.build(
            self.service,
            self._zone_of,
            self.pods.values(),
            self.slices.values(),
            lambda: self.ratios().ratios,
        )

    def _zone_of(self, name: str) -> str | None:
        node = self.nodes.get(name)
        return node.zone if node is not None else None

    def ratios(self) -> ZoneTable:
        table = ZoneTable()
        for name, node in self.nodes.items():
            table.set_node(name, node)
        return table

    def restart(self) -> None:
        self.state = self._build()

    def change_service(self, **fields: object) -> None:
        self.service = msgspec.structs.replace(self.service, **fields)
        before, self.state = self.state, self._build()
        self.state.inherit(before)

    def add_pods(self, count: int, node_name: str, *, ready: bool = True) -> None:
        for _ in range(count):
            number = len(self.pods)
            self.set_pod(
                make_pod(
                    f"pod-{number:04d}",
                    f"10.0.{number // 200}.{number % 200 + 1}",
                    node_name=node_name,
                    ready=ready,
                )
            )

    def set_pod(self, pod: Pod) -> None:
        self.pods[pod.metadata.name] = pod
        self.state.set_pod(pod.metadata.name, pod)

    def sync(self) -> ServicePlan:
        plan = self.state.plan(self.max_endpoints, None)
        self.events += [(event.type, event.reason, event.message) for event in self.state.hint_events(plan)]
        self.written = []
        for _, family in plan.address_type_plans:
            for endpoint_slice in (*family.create, *family.update):
                name = endpoint_slice.metadata.name or f"web-{len(self.slices):03d}"
                self._store(
                    msgspec.structs.replace(
                        endpoint_slice, metadata=msgspec.structs.replace(endpoint_slice.metadata, name=name)
                    )
                )
                self.written.append(name)
            for endpoint_slice in family.delete:
                del self.slices[endpoint_slice.metadata.name]
                self.state.observe(endpoint_slice.metadata.name, None)
        return plan

    def _store(self, endpoint_slice: EndpointSlice) -> None:
        self.slices[endpoint_slice.metadata.name] = endpoint_slice
        self.state.observe(endpoint_slice.metadata.name, endpoint_slice)

    def observe(self, endpoint_slice: EndpointSlice) -> None:
        self._store(endpoint_slice)

    def endpoints(self) -> list[Endpoint]:
        return [endpoint for name in sorted(self.slices) for endpoint in self.slices[name].endpoints or ()]

    def hinted_zones(self) -> Counter[str]:
        return Counter(
            zone.name
            for endpoint in self.endpoints()
            if endpoint.hints is not None
            for zone in endpoint.hints.for_zones or ()
        )

    def cross_zone(self) -> int:
        return sum(
            endpoint.hints is not None and endpoint.hints.for_zones != (ForZone(endpoint.zone or ""),)
            for endpoint in self.endpoints()
        )


def three_zones(cpu_milli: tuple[int, int, int] = (1000, 1000, 1000)) -> list[Node]:
    return [
        make_node(f"node-{zone}", zone=f"zone-{zone}", allocatable_cpu_milli=cpu)
        for zone, cpu in zip("abc", cpu_milli, strict=True)
    ]


def auto(*, max_endpoints: int = 100, cpu_milli: tuple[int, int, int] = (1000, 1000, 1000)) -> Cluster:
    return Cluster(make_service(topology_mode="Auto"), three_zones(cpu_milli), max_endpoints)


# ------------------------------------------------------------------------------------- traffic distribution


@pytest.mark.parametrize("distribution", ["PreferClose", "PreferSameZone"])
def test_ready_endpoints_hint_at_their_own_zone(distribution: str) -> None:
    """S-84."""
    cluster = Cluster(make_service(traffic_distribution=distribution), three_zones())
    cluster.add_pods(1, "node-a")
    cluster.add_pods(3, "node-b")
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 1, "zone-b": 3}
    assert cluster.cross_zone() == 0
    assert all(endpoint.hints is None or endpoint.hints.for_nodes is None for endpoint in cluster.endpoints())


def test_prefer_same_node_hints_at_zone_and_node() -> None:
    """S-84."""
    cluster = Cluster(make_service(traffic_distribution="PreferSameNode"), three_zones())
    cluster.add_pods(1, "node-a")
    cluster.sync()
    (endpoint,) = cluster.endpoints()
    assert endpoint.hints == EndpointHints(for_zones=(ForZone("zone-a"),), for_nodes=(ForNode("node-a"),))


def test_prefer_same_node_hints_at_the_node_only_without_a_zone() -> None:
    """S-84."""
    cluster = Cluster(make_service(traffic_distribution="PreferSameNode"), [make_node("node-x", zone="")])
    cluster.add_pods(1, "node-x")
    cluster.sync()
    assert cluster.endpoints()[0].hints == EndpointHints(for_nodes=(ForNode("node-x"),))


def test_without_a_zone_there_are_no_hints() -> None:
    """S-84."""
    cluster = Cluster(make_service(traffic_distribution="PreferClose"), [make_node("node-x", zone="")])
    cluster.add_pods(1, "node-x")
    cluster.sync()
    assert cluster.endpoints()[0].hints is None


def test_wrong_hints_are_corrected_in_otherwise_correct_slices() -> None:
    """S-84."""
    cluster = Cluster(make_service(traffic_distribution="PreferClose"), three_zones())
    pod = make_pod("pod-a", "10.0.0.1", node_name="node-a")
    cluster.set_pod(pod)
    wrong = msgspec.structs.replace(make_endpoint(pod), hints=EndpointHints(for_zones=(ForZone("zone-c"),)))
    cluster.observe(make_slice(cluster.service, "web-1", (wrong,)))
    cluster.sync()
    assert cluster.written == ["web-1"]
    assert cluster.hinted_zones() == {"zone-a": 1}


def test_an_unready_endpoint_has_no_hints() -> None:
    """S-85."""
    cluster = Cluster(make_service(traffic_distribution="PreferClose"), three_zones())
    cluster.add_pods(2, "node-a")
    cluster.sync()
    cluster.set_pod(msgspec.structs.replace(cluster.pods["pod-0000"], ready=False))
    cluster.sync()
    assert [endpoint.hints is None for endpoint in cluster.endpoints()] == [True, False]


@pytest.mark.parametrize("distribution", [None, "", "Nearby"])
def test_hints_are_removed_without_a_valid_traffic_distribution(distribution: str | None) -> None:
    """S-83."""
    cluster = Cluster(make_service(traffic_distribution="PreferClose"), three_zones())
    cluster.add_pods(3, "node-a")
    cluster.sync()
    cluster.change_service(traffic_distribution=distribution)
    cluster.sync()
    assert len(cluster.written) == 1
    assert all(endpoint.hints is None for endpoint in cluster.endpoints())
    cluster.sync()
    assert cluster.written == []


@pytest.mark.parametrize("mode", ["Disabled", "aUto", "enabled", "AUTO"])
def test_only_auto_enables_topology_aware_hints(mode: str) -> None:
    """S-80."""
    cluster = Cluster(make_service(topology_mode=mode, traffic_distribution="PreferClose"), three_zones())
    cluster.add_pods(6, "node-a")
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 6}
    assert cluster.events == []


def test_the_annotation_overrides_the_distribution_even_if_hints_are_refused() -> None:
    """S-81."""
    cluster = Cluster(make_service(topology_mode="Auto", traffic_distribution="PreferClose"), three_zones())
    cluster.add_pods(2, "node-a")
    cluster.sync()
    assert cluster.hinted_zones() == {}
    assert [reason for _, reason, _ in cluster.events] == ["TopologyAwareHintsDisabled"]


# ----------------------------------------------------------------------------------- topology-aware hints


@pytest.mark.parametrize(
    ("pods", "hinted", "crossing"),
    [
        ({"c": 3}, {"zone-a": 1, "zone-b": 1, "zone-c": 1}, 2),
        ({"a": 3, "b": 1, "c": 2}, {"zone-a": 2, "zone-b": 2, "zone-c": 2}, 1),
        ({"a": 4, "b": 3, "c": 2}, {"zone-a": 3, "zone-b": 3, "zone-c": 3}, 1),
    ],
)
def test_equal_zones_get_equal_numbers(pods: dict[str, int], hinted: dict[str, int], crossing: int) -> None:
    """S-99."""
    cluster = auto()
    for zone, count in pods.items():
        cluster.add_pods(count, f"node-{zone}")
    cluster.sync()
    assert cluster.hinted_zones() == hinted
    assert cluster.cross_zone() == crossing
    assert cluster.events == [
        ("Normal", "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4")
    ]


def test_zones_get_endpoints_in_proportion_to_their_cpu() -> None:
    """S-99."""
    cluster = auto(cpu_milli=(3500, 3500, 3000))
    for zone, count in {"a": 5, "b": 2, "c": 3}.items():
        cluster.add_pods(count, f"node-{zone}")
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 4, "zone-b": 3, "zone-c": 3}
    crossing = [
        endpoint
        for endpoint in cluster.endpoints()
        if endpoint.hints != EndpointHints(for_zones=(ForZone(endpoint.zone or ""),))
    ]
    assert [(endpoint.zone, endpoint.hints) for endpoint in crossing] == [
        ("zone-a", EndpointHints(for_zones=(ForZone("zone-b"),)))
    ]


def test_unready_endpoints_neither_count_nor_get_hints() -> None:
    """S-95."""
    cluster = auto()
    for zone in "abc":
        cluster.add_pods(1, f"node-{zone}")
    cluster.add_pods(2, "node-a", ready=False)
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 1, "zone-b": 1, "zone-c": 1}


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        (
            [make_node("node-a", zone="zone-a"), make_node("node-b", zone="")],
            {"node-a": 3},
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
        ),
        (three_zones(), {"node-a": 2}, "Insufficient number of endpoints (2 endpoints, 3 zones)"),
        (
            three_zones(),
            {"node-a": 2, "node-b": 2},
            (
                "Unable to allocate minimum required endpoints to each zone without exceeding overload "
                "threshold (4 endpoints, 3 zones)"
            ),
        ),
        (
            [*three_zones(), make_node("node-x", zone="", ready=False)],
            {"node-a": 1, "node-b": 1, "node-x": 1},
            "One or more endpoints do not have a zone specified",
        ),
    ],
)
def test_a_refusal_is_reported_and_removes_all_hints(
    nodes: list[Node], pods: dict[str, int], message: str
) -> None:
    """S-93, S-95."""
    cluster = Cluster(make_service(topology_mode="Auto"), nodes)
    for node_name, count in pods.items():
        cluster.add_pods(count, node_name)
    cluster.sync()
    assert cluster.hinted_zones() == {}
    assert cluster.events == [("Warning", "TopologyAwareHintsDisabled", f"{message}, addressType: IPv4")]


def test_hints_without_ready_endpoints_are_refused_for_too_few_endpoints() -> None:
    """S-97."""
    cluster = auto()
    cluster.add_pods(3, "node-a", ready=False)
    cluster.sync()
    assert [message for _, _, message in cluster.events] == [
        "Insufficient number of endpoints (0 endpoints, 3 zones), addressType: IPv4"
    ]


def test_too_few_endpoints_remove_hints_from_clean_slices_too() -> None:
    """S-93."""
    cluster = auto(max_endpoints=2)
    for zone in "abc":
        cluster.add_pods(1, f"node-{zone}")
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 1, "zone-b": 1, "zone-c": 1}
    assert len(cluster.slices) == 2
    cluster.set_pod(msgspec.structs.replace(cluster.pods["pod-0002"], ready=False))
    cluster.sync()
    assert cluster.hinted_zones() == {}
    assert len(cluster.written) == 2
    cluster.set_pod(msgspec.structs.replace(cluster.pods["pod-0002"], ready=True))
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 1, "zone-b": 1, "zone-c": 1}


def test_a_slice_whose_hints_still_fit_is_not_written() -> None:
    """S-94."""
    cluster = auto(max_endpoints=3)
    for _ in range(3):
        for zone in "abc":
            cluster.add_pods(1, f"node-{zone}")
    cluster.sync()
    assert len(cluster.slices) == 3
    cluster.set_pod(
        msgspec.structs.replace(cluster.pods["pod-0000"], pod_ips=("10.9.9.9",), pod_ip="10.9.9.9")
    )
    cluster.sync()
    assert len(cluster.written) == 1
    assert cluster.hinted_zones() == {"zone-a": 3, "zone-b": 3, "zone-c": 3}


def test_a_slice_with_too_many_hints_for_a_zone_is_rewritten() -> None:
    """S-94."""
    cluster = auto(max_endpoints=3)
    for zone in "abc":
        cluster.add_pods(3, f"node-{zone}")
    cluster.sync()
    del cluster.nodes["node-c"]
    cluster.nodes["node-c2"] = make_node("node-c2", zone="zone-d")
    for number in range(6, 9):
        cluster.set_pod(msgspec.structs.replace(cluster.pods[f"pod-{number:04d}"], node_name="node-c2"))
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 3, "zone-b": 3, "zone-d": 3}


def test_externally_removed_hints_are_restored() -> None:
    """S-94."""
    cluster = auto()
    for zone in "abc":
        cluster.add_pods(1, f"node-{zone}")
    cluster.sync()
    (name,) = cluster.slices
    endpoint_slice = cluster.slices[name]
    bare = tuple(msgspec.structs.replace(endpoint, hints=None) for endpoint in endpoint_slice.endpoints or ())
    cluster.observe(msgspec.structs.replace(endpoint_slice, endpoints=bare))
    cluster.sync()
    assert cluster.hinted_zones() == {"zone-a": 1, "zone-b": 1, "zone-c": 1}


def test_external_hints_after_a_refusal_are_removed() -> None:
    """S-93."""
    cluster = auto()
    cluster.add_pods(2, "node-a")
    cluster.sync()
    (name,) = cluster.slices
    endpoint_slice = cluster.slices[name]
    hints = EndpointHints(for_zones=(ForZone("zone-b"),))
    given = tuple(
        msgspec.structs.replace(endpoint, hints=hints) for endpoint in endpoint_slice.endpoints or ()
    )
    cluster.observe(msgspec.structs.replace(endpoint_slice, endpoints=given))
    cluster.sync()
    assert cluster.hinted_zones() == {}


def test_removing_the_annotation_is_reported_once_and_removes_hints() -> None:
    """S-82."""
    cluster = auto()
    for zone in "abc":
        cluster.add_pods(1, f"node-{zone}")
    cluster.sync()
    cluster.events.clear()
    cluster.change_service(topology_mode=None)
    cluster.sync()
    cluster.sync()
    assert cluster.hinted_zones() == {}
    assert cluster.events == [
        ("Warning", "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled, addressType: IPv4")
    ]


def test_enabled_is_reported_again_only_after_a_refusal() -> None:
    """S-97."""
    cluster = auto()
    for zone in "abc":
        cluster.add_pods(1, f"node-{zone}")
    cluster.sync()
    cluster.add_pods(3, "node-a")
    cluster.sync()
    assert len(cluster.events) == 1
    for number in range(1, 6):
        cluster.set_pod(msgspec.structs.replace(cluster.pods[f"pod-{number:04d}"], ready=False))
    cluster.sync()
    for number in range(1, 6):
        cluster.set_pod(msgspec.structs.replace(cluster.pods[f"pod-{number:04d}"], ready=True))
    cluster.sync()
    assert [reason for _, reason, _ in cluster.events] == [
        "TopologyAwareHintsEnabled",
        "TopologyAwareHintsDisabled",
        "TopologyAwareHintsEnabled",
    ]


def test_correct_hints_are_kept_after_a_restart() -> None:
    cluster = auto()
    cluster.add_pods(5, "node-a")
    cluster.add_pods(2, "node-b")
    cluster.add_pods(2, "node-c")
    cluster.sync()
    before = dict(cluster.slices)
    cluster.restart()
    cluster.sync()
    assert cluster.written == []
    assert cluster.slices == before
    assert cluster.hinted_zones() == {"zone-a": 3, "zone-b": 3, "zone-c": 3}
    assert cluster.state.hint_status.is_enabled


def test_a_plan_with_hints_leaves_nothing_to_do() -> None:
    cluster = auto(max_endpoints=4)
    cluster.add_pods(17, "node-a")
    cluster.add_pods(5, "node-b")
    cluster.add_pods(9, "node-c")
    cluster.sync()
    assert not cluster.state.needs_plan
    cluster.restart()
    assert cluster.sync().is_empty
    assert sum(cluster.hinted_zones().values()) == 31
