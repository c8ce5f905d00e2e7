"""Two clusters are distinguished by every relevant difference and by no other."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from aiokube.api.core import PODS, SERVICES
from aiokube.api.discovery import MANAGED_BY_ENDPOINTSLICE_CONTROLLER
from aiokube.api.meta import ObjectKey
from tests.differential.invariants import broken_rules
from tests.differential.mirroring_sides import mirrored_state
from tests.differential.normalise import (
    NOISE_IN_METADATA,
    NormalState,
    Snapshot,
    different_keys,
    normalise,
    readable_difference,
    slice_names_in_order,
    text_of,
)

Json = dict[str, Any]


def pod(name: str, uid: str) -> Json:
    return {"metadata": {"name": name, "namespace": "a", "uid": uid}}


def reference(name: str, uid: str) -> Json:
    return {"kind": "Pod", "namespace": "a", "name": name, "uid": uid}


def endpoint(name: str, uid: str, ip: str, **more: Any) -> Json:
    conditions = {"ready": True, "serving": True, "terminating": False}
    return {"addresses": [ip], "conditions": conditions, "targetRef": reference(name, uid), **more}


def slice_(name: str, *endpoints: Json, uid: str = "svc-uid", **more: Any) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "a",
            "generateName": "web-",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": name},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}],
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        **more,
    }


def endpoints(*subsets: Json, **metadata: Any) -> Json:
    return {"metadata": {"name": "web", "namespace": "a", "uid": "e", **metadata}, "subsets": list(subsets)}


def snapshot(
    slices: tuple[Json, ...] = (), endpoints: tuple[Json, ...] = (), pods: tuple[Json, ...] = ()
) -> Snapshot:
    service = {"metadata": {"name": "web", "namespace": "a", "uid": "svc-uid"}}
    return Snapshot(
        raw_endpoints=endpoints,
        raw_slices=slices,
        services=(SERVICES.decode(msgspec.json.encode(service)),),
        pods=tuple(PODS.decode(msgspec.json.encode(item)) for item in pods),
    )


def state(*slices: Json, sizes_are_determined: bool = True) -> NormalState:
    pods = (pod("p", "1"), pod("q", "2"))
    return normalise(snapshot(slices, pods=pods), sizes_are_determined=sizes_are_determined)


P, Q = endpoint("p", "1", "10.0.0.1"), endpoint("q", "2", "10.0.0.2")


def test_names_versions_uids_and_order_are_not_compared() -> None:
    here = state(slice_("web-xx", P, Q))
    other_uids = (pod("p", "one"), pod("q", "two"))
    there = normalise(
        snapshot(
            (slice_("web-yy", endpoint("q", "two", "10.0.0.2"), endpoint("p", "one", "10.0.0.1")),),
            pods=other_uids,
        )
    )
    assert here == there
    assert not different_keys(here, there)


@pytest.mark.parametrize(
    "changed",
    [
        slice_("web-xx", P),
        slice_("web-xx", P, Q, Q),
        slice_("web-xx", P, endpoint("q", "2", "10.0.0.3")),
        slice_("web-xx", P, endpoint("q", "of an older pod", "10.0.0.2")),
        slice_("web-xx", P, Q | {"zone": "z"}),
        slice_("web-xx", P, Q | {"nodeName": "n"}),
        slice_("web-xx", P, Q | {"hostname": "h"}),
        slice_("web-xx", P, Q | {"hints": {"forZones": [{"name": "z"}]}}),
        slice_("web-xx", P, Q | {"conditions": {"ready": True, "serving": True}}),
        slice_("web-xx", P, Q, uid="of an older service"),
        slice_("web-xx", P, Q, addressType="IPv6"),
        slice_("web-xx", P, Q, ports=None),
    ],
    ids=lambda changed: None,
)
def test_all_other_changes_are_differences(changed: Json) -> None:
    here, there = state(slice_("web-xx", P, Q)), state(changed)
    assert different_keys(here, there)
    assert readable_difference(here, there, ("here", "there")).startswith("--- here\n+++ there\n")


def invented(container: Callable[[Json], Json]) -> tuple[Json, Json]:
    """Return a slice, and the same slice with a field unknown to every version of Kubernetes."""
    plain = slice_("web-xx", P | {"hints": {"forZones": [{"name": "z"}]}})
    changed = copy.deepcopy(plain)
    container(changed)["invented"] = {"by": ["nobody"]}
    return plain, changed


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(lambda item: item, id="slice"),
        pytest.param(lambda item: item["metadata"], id="metadata"),
        pytest.param(lambda item: item["metadata"]["ownerReferences"][0], id="owner"),
        pytest.param(lambda item: item["ports"][0], id="port"),
        pytest.param(lambda item: item["endpoints"][0], id="endpoint"),
        pytest.param(lambda item: item["endpoints"][0]["conditions"], id="conditions"),
        pytest.param(lambda item: item["endpoints"][0]["hints"], id="hints"),
        pytest.param(lambda item: item["endpoints"][0]["hints"]["forZones"][0], id="zone of hints"),
        pytest.param(lambda item: item["endpoints"][0]["targetRef"], id="target"),
    ],
)
def test_an_unknown_field_of_a_slice_is_compared(
    container: Callable[[Json], Json],
) -> None:
    plain, changed = invented(container)
    assert different_keys(state(plain), state(changed))
    assert different_keys(mirrored_state(snapshot((plain,))), mirrored_state(snapshot((changed,))))
    assert "invented" in readable_difference(state(plain), state(changed), ("here", "there"))


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(lambda item: item, id="endpoints"),
        pytest.param(lambda item: item["metadata"], id="metadata"),
        pytest.param(lambda item: item["subsets"][0], id="subset"),
        pytest.param(lambda item: item["subsets"][0]["ports"][0], id="port"),
        pytest.param(lambda item: item["subsets"][0]["addresses"][0], id="address"),
        pytest.param(lambda item: item["subsets"][0]["addresses"][0]["targetRef"], id="target"),
    ],
)
def test_an_unknown_field_of_an_endpoints_is_compared(
    container: Callable[[Json], Json],
) -> None:
    address = {"ip": "10.0.0.1", "targetRef": reference("p", "1")}
    plain = endpoints({"addresses": [address], "ports": [{"port": 1, "protocol": "TCP"}]})
    changed = copy.deepcopy(plain)
    container(changed)["invented"] = 1
    one, other = (normalise(snapshot(endpoints=(item,), pods=(pod("p", "1"),))) for item in (plain, changed))
    assert different_keys(one, other)


@pytest.mark.parametrize("name", sorted(NOISE_IN_METADATA))
def test_only_listed_noise_is_not_compared(name: str) -> None:
    plain, changed = slice_("web-xx", P), slice_("web-xx", P)
    changed["metadata"][name] = "another"
    assert state(plain) == state(changed)


def test_values_of_different_types_have_different_texts() -> None:
    values = ["", None, "null", True, "true", 1, "1", 1.5, [], {}, "a", ["a"], "a, b", ["a", "b"], {"a": "b"}]
    assert len({text_of(value) for value in values}) == len(values)


def test_labels_and_annotations_are_compared_except_the_trigger_time() -> None:
    plain = slice_("web-xx", P)
    labelled = slice_("web-xx", P)
    labelled["metadata"]["labels"]["team"] = "red"
    annotated = slice_("web-xx", P)
    annotated["metadata"]["annotations"]["note"] = "x"
    later = slice_("web-xx", P)
    later["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] = "later"
    assert different_keys(state(plain), state(labelled))
    assert different_keys(state(plain), state(annotated))
    assert not different_keys(state(plain), state(later))


def test_the_distribution_over_slices_is_compared_only_if_it_is_determined() -> None:
    together, apart = (slice_("web-xx", P, Q),), (slice_("web-xx", P), slice_("web-yy", Q))
    assert different_keys(state(*together), state(*apart))
    assert not different_keys(
        state(*together, sizes_are_determined=False), state(*apart, sizes_are_determined=False)
    )


def test_a_manually_created_slice_keeps_its_name_until_the_controller_manages_it() -> None:
    one, other = slice_("foreign-1", P), slice_("foreign-2", P)
    assert not different_keys(state(one), state(other))
    for slice_of_somebody in (one, other):
        del slice_of_somebody["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
    assert different_keys(state(one), state(other))


def test_endpoints_differ_by_subset_by_list_and_by_port_order() -> None:
    ports = [{"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "protocol": "TCP"}]
    address = {"ip": "10.0.0.1", "nodeName": "n", "targetRef": reference("p", "1")}
    base = {"addresses": [address], "ports": ports}

    def of(*subsets: Json, **metadata: Any) -> NormalState:
        return normalise(snapshot(endpoints=(endpoints(*subsets, **metadata),), pods=(pod("p", "1"),)))

    assert not different_keys(of(base), of(base, uid="another", resourceVersion="9"))
    assert not different_keys(of(base, {"addresses": [address]}), of({"addresses": [address]}, base))
    for other in (
        of(),
        of({"notReadyAddresses": [address], "ports": ports}),
        of({"addresses": [address], "ports": ports[::-1]}),
        of({"addresses": [address | {"nodeName": ""}], "ports": ports}),
        of({"addresses": [address | {"hostname": "h"}], "ports": ports}),
        of(base, labels={"team": "red"}),
        normalise(snapshot()),
    ):
        assert different_keys(of(base), other) == ["endpoints a/web"]


def test_slices_are_sorted_by_content() -> None:
    one, other = slice_("web-zz", P), slice_("web-aa", Q)
    pods = (pod("p", "1"), pod("q", "2"))
    going = slice_("web-gg", P)
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    foreign = slice_("web-ff", P)
    foreign["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "somebody"
    found = slice_names_in_order(
        snapshot((other, going, one, foreign), pods=pods),
        ObjectKey("a", "web"),
        MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    )
    assert found == ["web-zz", "web-aa"]


def broken(*slices: Json, items: tuple[Json, ...] = ()) -> list[str]:
    return broken_rules(snapshot(slices, items), max_endpoints_per_slice=2)


def test_rule_violations_of_a_single_cluster_are_reported() -> None:
    assert not broken(slice_("web-xx", P, Q))
    third = endpoint("r", "3", "10.0.0.3")
    assert "3 endpoints, more than 2 (S-42)" in broken(slice_("web-xx", P, Q, third))[0]
    assert "twice (S-40)" in broken(slice_("web-xx", P, P))[0]
    assert "does not begin with that of its service, web (S-61)" in broken(slice_("odd-xx", P))[0]
    udp, tcp = ({"name": "", "port": 8080, "protocol": protocol} for protocol in ("UDP", "TCP"))
    in_order, swapped = (
        broken(slice_("web-xx", P, ports=[udp, tcp])),
        broken(slice_("web-xx", P, ports=[tcp, udp])),
    )
    assert len(in_order) + len(swapped) == 1  # one of the two orders is the canonical one
    theirs = slice_("odd-xx", P, P, Q)
    theirs["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "somebody"
    assert not broken(theirs)


def test_non_canonical_endpoints_are_reported() -> None:
    labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    ten, nine = {"ip": "10.0.0.10"}, {"ip": "10.0.0.9"}
    port = {"port": 80, "protocol": "TCP"}
    assert not broken(items=(endpoints({"addresses": [ten, nine], "ports": [port]}, labels=labels),))
    assert broken(items=(endpoints({"addresses": [nine, ten], "ports": [port]}, labels=labels),)) == [
        "endpoints a/web: the addresses of a subset are not in canonical order (E-31)"
    ]
    assert not broken(items=(endpoints({"addresses": [nine, ten], "ports": [port]}),))
    two = ({"addresses": [ten], "ports": [port]}, {"addresses": [nine], "ports": [port | {"port": 81}]})
    orders = [broken(items=(endpoints(*order, labels=labels),)) for order in (two, two[::-1])]
    assert sorted(map(len, orders)) == [0, 1]
    # 0.5: port1/8088 precedes port0/8080
    one, zero = (
        {"name": f"port{i}", "port": number, "protocol": "TCP"} for i, number in ((1, 8088), (0, 8080))
    )
    assert not broken(items=(endpoints({"addresses": [ten], "ports": [one, zero]}, labels=labels),))
    assert broken(items=(endpoints({"addresses": [ten], "ports": [zero, one]}, labels=labels),))


def test_before_kubernetes_1_33_the_manager_of_endpoints_and_the_port_order_are_ignored() -> None:
    ports = [{"name": "b", "port": 1, "protocol": "TCP"}, {"name": "a", "port": 2, "protocol": "TCP"}]
    old, new = (
        {
            "metadata": {"name": "web", "namespace": "a", "labels": labels},
            "subsets": [{"ports": order, "addresses": [{"ip": "10.0.0.1"}]}],
        }
        for labels, order in (
            ({}, ports),
            ({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}, ports[::-1]),
        )
    )
    one, other = snapshot(endpoints=(old,)), snapshot(endpoints=(new,))
    assert normalise(one) != normalise(other)
    one, other = (dataclasses.replace(item, is_old=True) for item in (one, other))
    assert normalise(one) == normalise(other)


def placeholder(name: str, **more: Any) -> Json:
    return slice_(name, ports=None, **more)


def before_1_36(*slices: Json) -> Snapshot:
    return dataclasses.replace(snapshot(slices), replaces_portless_slices=True)


def test_before_kubernetes_1_36_a_placeholder_beside_slices_with_endpoints_is_ignored() -> None:
    full, spare = slice_("web-a", P), placeholder("web-b")
    assert normalise(snapshot((full, spare))) != normalise(snapshot((full,)))
    assert normalise(before_1_36(full, spare)) == normalise(before_1_36(full))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(placeholder("web-a"), id="another placeholder"),
        pytest.param(slice_("web-a"), id="an empty slice with ports"),
        pytest.param(slice_("web-a", P, addressType="IPv6"), id="a slice of the other family"),
    ],
)
def test_before_kubernetes_1_36_any_other_placeholder_is_compared(other: Json) -> None:
    assert normalise(before_1_36(other, placeholder("web-b"))) != normalise(before_1_36(other))


def test_before_kubernetes_1_36_other_empty_slices_are_compared() -> None:
    full, empty = slice_("web-a", P), slice_("web-b")
    assert normalise(before_1_36(full, empty)) != normalise(before_1_36(full))


def test_before_kubernetes_1_36_a_target_is_never_a_placeholder_that_upstream_may_lack() -> None:
    def names(*slices: Json) -> list[str]:
        return slice_names_in_order(
            before_1_36(*slices), ObjectKey("a", "web"), MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        )

    assert names(slice_("web-a", P), placeholder("web-b")) == ["web-a"]
    assert names(placeholder("web-b")) == ["web-b"]


def test_before_kubernetes_1_36_annotations_are_ignored_only_on_slices_without_ports() -> None:
    def annotated(there: Json) -> Json:
        return there | {"metadata": there["metadata"] | {"annotations": {"example.com/note": "mine"}}}

    portless, ported = slice_("web-a", P, ports=None), slice_("web-a", P)
    assert normalise(snapshot((portless,))) != normalise(snapshot((annotated(portless),)))
    assert normalise(before_1_36(portless)) == normalise(before_1_36(annotated(portless)))
    assert normalise(before_1_36(ported)) != normalise(before_1_36(annotated(ported)))
