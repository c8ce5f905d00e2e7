"""Nodes, networks, addresses, scheduling, annotations, settings and randomness."""

from typing import Any

import msgspec
import pytest

from tinykube.simulate.addresses import Addresses, AddressesExhaustedError
from tinykube.simulate.annotations import (
    CRASH,
    AnnotationOverrides,
    annotation,
    annotation_overrides,
    seconds,
    truth,
)
from tinykube.simulate.nodes import SimulatedNode, free_index, node_document, pod_networks
from tinykube.simulate.pods import SimulatedPod
from tinykube.simulate.scheduler_plan import Load, choose_node, explain
from tinykube.simulate.seeded_random import SeededRandom, fnv1a_32, template_hash
from tinykube.simulate.settings import SimulateSettings

MOMENT = "2026-01-01T00:00:00Z"
SETTINGS = SimulateSettings(nodes=4, zones=("a", "b"), pods_per_node=10)
EMPTY = Load({}, {})


def node(index: int, **change: Any) -> SimulatedNode:
    document = node_document(index, index, SETTINGS, MOMENT)
    document["spec"] |= change
    return msgspec.convert(document, SimulatedNode)


def pod(**spec: Any) -> SimulatedPod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, SimulatedPod)


NODES = [node(index) for index in range(4)]


def test_nodes_are_spread_over_zones_with_dual_stack_addresses_and_networks() -> None:
    assert [each.zone for each in NODES] == ["a", "b", "a", "b"]
    assert NODES[1].host_ips == ("172.18.0.3", "fd00:172:18::3")
    assert NODES[1].pod_networks == ("10.128.16.0/20", "fd00:10:128:1::/64")
    assert NODES[1].is_ready
    assert not NODES[1].is_real
    assert len({network for index in range(2000) for network in pod_networks(index)}) == 4000


def test_networks_of_existing_nodes_are_not_reused() -> None:
    assert free_index(NODES) == 4
    assert free_index(NODES[1:]) == 0
    assert free_index(NODES, 2047) == 2047


def test_pods_are_spread_over_zones_first_then_nodes() -> None:
    group: dict[str, int] = {}
    chosen = []
    for _ in range(6):
        name = choose_node(pod(), NODES, Load(group, group))
        assert name is not None
        group[name] = group.get(name, 0) + 1
        chosen.append(name)
    assert chosen == ["node-1", "node-2", "node-3", "node-4", "node-1", "node-2"]


def test_of_equally_suitable_nodes_the_emptiest_is_chosen() -> None:
    assert choose_node(pod(), NODES, Load({"node-1": 2, "node-2": 1, "node-3": 1}, {})) == "node-4"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"kubernetes.io/hostname": "node-3"}}, "node-3"),
        ({"nodeSelector": {"disk": "fast"}}, None),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}]}}}}, "node-2"),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-4"]}]}]}}}}, "node-4"),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Odd"}]}]}}}}, None),
    ],
)  # fmt: skip
def test_node_selectors_and_node_affinity_are_respected(spec: dict[str, Any], expected: str | None) -> None:
    assert choose_node(pod(**spec), NODES, EMPTY) == expected


def test_cordons_and_taints_keep_pods_away_unless_tolerated() -> None:
    cordoned = node(0, unschedulable=True)
    tainted = node(1, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    softly = node(2, taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])
    assert choose_node(pod(), [cordoned, tainted], EMPTY) is None
    assert explain(pod(), [cordoned, tainted], EMPTY) == (
        "0/2 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable."
    )
    assert choose_node(pod(), [softly], EMPTY) == "node-3"
    for toleration in (
        {"key": "gpu", "value": "yes"},
        {"key": "gpu", "operator": "Exists"},
        {"operator": "Exists"},
    ):
        assert choose_node(pod(tolerations=[toleration]), [tainted], EMPTY) == "node-2"
    assert choose_node(pod(tolerations=[{"key": "gpu", "value": "no"}]), [tainted], EMPTY) is None


def test_full_real_and_unready_nodes_get_no_pods() -> None:
    assert choose_node(pod(), NODES[:1], Load({"node-1": 10}, {})) is None
    document = node_document(0, 0, SETTINGS, MOMENT)
    document["status"]["nodeInfo"]["kubeletVersion"] = "v1.36.3"
    assert choose_node(pod(), [msgspec.convert(document, SimulatedNode)], EMPTY) is None
    document = node_document(0, 0, SETTINGS, MOMENT)
    document["status"]["conditions"] = []
    assert choose_node(pod(), [msgspec.convert(document, SimulatedNode)], EMPTY) is None
    assert explain(pod(), [], EMPTY) == "0/0 nodes are available: no nodes exist."


# -------------------------------------------------------------------------------------------- addresses


def test_addresses_are_assigned_in_order_per_family_and_kept_by_their_holder() -> None:
    addresses = Addresses()
    networks = ("10.0.0.0/29", "fd00::/64")
    assert addresses.assign("a", networks) == ("10.0.0.2", "fd00::2")
    assert addresses.assign("b", networks) == ("10.0.0.3", "fd00::3")
    assert addresses.assign("a", networks) == ("10.0.0.2", "fd00::2")
    addresses.release("a")
    assert addresses.of("a") is None
    assert addresses.assign("c", networks) == ("10.0.0.4", "fd00::4"), (
        "an address rests before it is given again"
    )


def test_an_exhausted_network_can_reuse_released_addresses() -> None:
    addresses = Addresses()
    for number in range(5):
        addresses.assign(str(number), ("10.0.0.0/29",))
    with pytest.raises(AddressesExhaustedError, match=r"10\.0\.0\.0/29"):
        addresses.assign("x", ("10.0.0.0/29",))
    addresses.release("3")
    assert addresses.assign("x", ("10.0.0.0/29",)) == ("10.0.0.5",)


def test_addresses_in_use_are_skipped() -> None:
    addresses = Addresses()
    addresses.keep("old", ("10.0.0.2",))
    assert addresses.assign("new", ("10.0.0.0/29",)) == ("10.0.0.3",)


# ------------------------------------------------------------------------- annotations, settings, randomness


@pytest.mark.parametrize("prefix", ["simulate.tinykube.dev/", "simulate.endpointd.dev/"])
def test_annotations_are_read_under_both_prefixes_and_invalid_values_are_ignored(prefix: str) -> None:
    given = {
        "ready": "False",
        "ready-after": "3s",
        "crash": "1",
        "complete-after": "2m",
        "exit-code": "3",
        "stop-after": "500ms",
    }
    assert annotation_overrides({prefix + key: value for key, value in given.items()}) == AnnotationOverrides(
        ready=False,
        ready_after_seconds=3.0,
        crash="1",
        complete_after_seconds=120.0,
        exit_code=3,
        stop_after_seconds=0.5,
    )
    nonsense = {"ready": "maybe", "ready-after": "soon", "complete-after": "-1s", "exit-code": "x"}
    assert (
        annotation_overrides({prefix + key: value for key, value in nonsense.items()})
        == AnnotationOverrides()
    )
    assert (seconds("1.5h"), seconds("4"), seconds(None)) == (5400.0, 4.0, None)
    assert (truth(" TRUE "), truth("no")) == (True, None)


def test_the_current_annotation_prefix_takes_precedence_over_the_former_one() -> None:
    both = {"simulate.endpointd.dev/crash": "1", "simulate.tinykube.dev/crash": "2"}
    assert annotation_overrides(both).crash == "2"
    assert annotation(both, CRASH) == "2"
    assert annotation(None, CRASH) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": -1},
        {"nodes": 3000},
        {"zones": ()},
        {"zones": ("",)},
        {"speed": 0},
        {"pods_per_node": 0},
        {"crash_rate": -1},
    ],
)
def test_invalid_settings_are_rejected_in_one_line(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))) as caught:
        SimulateSettings(**wrong)
    assert "\n" not in str(caught.value)


def test_random_values_depend_on_seed_and_purpose_but_not_on_call_order() -> None:
    one, other = SeededRandom(1), SeededRandom(1)
    first = one.around(10.0, "pull", "a"), one.around(10.0, "pull", "b")
    second = other.around(10.0, "pull", "b"), other.around(10.0, "pull", "a")
    assert first == (second[1], second[0])
    assert first[0] != first[1] != SeededRandom(2).around(10.0, "pull", "b")
    assert all(5.0 <= value <= 15.0 for value in first)
    assert one.around(0.0, "x") == 0.0
    assert one.until_crash(0.0, "x") is None


def test_template_hashes_do_not_depend_on_key_order() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})
    assert template_hash({"a": 1}) != template_hash({"a": 1}, 1)
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"foobar") == 0xBF9CF968
