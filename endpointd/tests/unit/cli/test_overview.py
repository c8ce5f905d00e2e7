"""The overview has a row per service with its endpoints by state, and its slices."""

import msgspec

from aiokube.api.discovery import Endpoint, EndpointConditions, EndpointSlice
from aiokube.api.meta import ObjectMeta, ObjectReference
from aiokube.testing.builders import make_service
from endpointd.cli.overview import as_json, as_text, as_yaml, overview


def endpoint(name: str, address: str, **conditions: bool) -> Endpoint:
    target = ObjectReference(kind="Pod", namespace="default", name=name) if name else None
    return Endpoint(addresses=(address,), conditions=EndpointConditions(**conditions), target_ref=target)


def a_slice(name: str, *endpoints: Endpoint, service: str = "web", family: str = "IPv4") -> EndpointSlice:
    labels = {"kubernetes.io/service-name": service}
    metadata = ObjectMeta(name=name, namespace="default", labels=labels)
    return EndpointSlice(metadata=metadata, address_type=family, endpoints=endpoints)


def test_an_endpoint_of_two_families_counts_once() -> None:
    slices = [
        a_slice("web-4", endpoint("a", "10.0.0.1", ready=True), endpoint("b", "10.0.0.2", ready=False)),
        a_slice("web-6", endpoint("a", "fd00::1", ready=True), family="IPv6"),
    ]
    (row,) = overview([make_service()], slices).services
    assert (row.ready, row.not_ready, row.terminating, row.families) == (1, 1, 0, "IPv4 IPv6")
    assert [(item.name, item.endpoints) for item in row.slices] == [("web-4", 2), ("web-6", 1)]


def test_an_endpoint_counts_in_its_best_state_and_unknown_readiness_is_ready() -> None:
    slices = [
        a_slice("one", endpoint("a", "10.0.0.1", ready=False, terminating=True), endpoint("", "10.0.0.9")),
        a_slice(
            "two",
            endpoint("a", "10.0.0.1", ready=True),
            endpoint("c", "10.0.0.3", ready=False, terminating=True),
        ),
    ]
    (row,) = overview([make_service()], slices).services
    assert (row.ready, row.not_ready, row.terminating) == (2, 0, 1)


def test_a_service_without_slices_has_a_row_and_an_orphaned_slice_has_none() -> None:
    (row,) = overview([make_service("lonely")], [a_slice("web-1", endpoint("a", "10.0.0.1"))]).services
    assert (row.name, row.ready, row.slices, row.families) == ("lonely", 0, (), "")


def test_the_type_says_how_a_service_differs_from_a_plain_one() -> None:
    services = [
        make_service("a"),
        make_service("b", cluster_ip="None"),
        make_service("c", selector=None),
        make_service("d", service_type="ExternalName", selector=None),
        make_service("e", service_type="NodePort"),
    ]
    types = [row.type for row in overview(services, []).services]
    assert types == ["ClusterIP", "headless", "selectorless", "ExternalName", "NodePort"]


def test_the_table_is_aligned_and_says_how_many_slices_it_leaves_out() -> None:
    slices = [a_slice(f"web-{number}", endpoint(f"p{number}", "10.0.0.1")) for number in range(5)]
    header, line = as_text(overview([make_service()], slices)).splitlines()
    assert header.split("   ")[0] == "NAMESPACE"
    assert line.endswith("web-0 (1), web-1 (1), web-2 (1), +2 more")
    assert header.index("READY") == line.index("5")


def test_json_and_yaml_output_have_the_same_content() -> None:
    found = overview([make_service()], [a_slice("web-1", endpoint("a", "10.0.0.1"))])
    (row,) = msgspec.json.decode(as_json(found))["services"]
    assert row["slices"] == [{"name": "web-1", "addressType": "IPv4", "endpoints": 1}]
    assert row["notReady"] == 0
    assert msgspec.yaml.decode(as_yaml(found).encode())["services"] == [row]
