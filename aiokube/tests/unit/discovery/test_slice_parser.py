"""Parsing of one slice (C-11 to C-13, C-26 to C-34, and section 3)."""

import msgspec
import pytest
from tests.unit.discovery.slices import endpoint, endpoint_slice, port

from aiokube.api.discovery import EndpointPort, EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.discovery import EndpointView, Location, PortKey, read_slice, why_ignored
from aiokube.discovery.slice_parser import service_of


def views(given: EndpointSlice, name: str = "http", protocol: str = "TCP") -> list[EndpointView]:
    return list(read_slice(given).ports.get(PortKey(name, protocol), {}).values())


def test_a_slice_belongs_to_the_service_named_by_its_label() -> None:
    """C-11: the name, owner and manager of a slice do not matter."""
    assert service_of(endpoint_slice("anything-else")) == ObjectKey("ns1", "svc1")
    assert why_ignored(endpoint_slice(), "IPv4") is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (endpoint_slice(service=None), "no label kubernetes.io/service-name"),
        (endpoint_slice(service=""), "no label kubernetes.io/service-name"),
        (endpoint_slice(""), "no name"),
        (endpoint_slice(namespace=""), "no namespace"),
        (endpoint_slice(family="IPv6"), "of type IPv6, not IPv4"),
        (endpoint_slice(family="FQDN"), "of type FQDN, not IPv4"),
    ],
)
def test_a_slice_without_service_or_of_another_family_is_ignored_with_a_reason(
    given: EndpointSlice, why: str
) -> None:
    """C-12, C-13."""
    assert why in (why_ignored(given, "IPv4") or "")


@pytest.mark.parametrize("ready", [None, True, False])
@pytest.mark.parametrize("serving", [None, True, False])
@pytest.mark.parametrize("terminating", [None, True, False])
def test_unset_conditions_mean_ready_serving_and_not_terminating(
    ready: bool | None, serving: bool | None, terminating: bool | None
) -> None:
    """Section 3: an unset serving is not the same as ready (C-45)."""
    (view,) = views(
        endpoint_slice(
            endpoints=[endpoint("10.0.0.1", ready=ready, serving=serving, terminating=terminating)]
        )
    )
    assert view.ready is (ready is None or ready)
    assert view.serving is (serving is None or serving)
    assert view.terminating is bool(terminating)


def test_every_port_has_all_endpoints() -> None:
    """C-26."""
    ports = read_slice(
        endpoint_slice(
            endpoints=[endpoint("10.0.0.1"), endpoint("10.0.0.2")], ports=[port("a", 1), port("b", 2)]
        )
    ).ports
    assert {key: list(found) for key, found in ports.items()} == {
        PortKey("a"): ["10.0.0.1:1", "10.0.0.2:1"],
        PortKey("b"): ["10.0.0.1:2", "10.0.0.2:2"],
    }


def test_an_empty_port_name_is_valid_and_a_missing_one_is_not() -> None:
    """C-27, C-28: "" matches "", null is skipped and reported."""
    found = read_slice(endpoint_slice(endpoints=[endpoint("10.0.0.1")], ports=[port(""), port(None)]))
    assert list(found.ports) == [PortKey("")]
    assert found.problems == ("ports[1] has no name",)


@pytest.mark.parametrize("number", [None, 0])
def test_a_port_without_a_number_is_skipped_and_reported(number: int | None) -> None:
    """C-28: it does not mean all ports. Scenario "null port number": it has no effect."""
    found = read_slice(endpoint_slice(endpoints=[endpoint("10.0.0.1")], ports=[port("http", number)]))
    assert found.ports == {}
    assert found.problems == ("ports[0] ('http') has no number",)


def test_a_port_without_a_protocol_is_tcp() -> None:
    """C-28."""
    assert len(views(endpoint_slice(endpoints=[endpoint("10.0.0.1")], ports=[port("http", 80, None)]))) == 1


def test_a_port_name_with_two_protocols_is_two_ports() -> None:
    """V10."""
    given = endpoint_slice(
        endpoints=[endpoint("10.0.0.1")], ports=[port("dns", 53, "UDP"), port("dns", 53, "TCP")]
    )
    assert set(read_slice(given).ports) == {PortKey("dns", "UDP"), PortKey("dns", "TCP")}


def test_a_slice_without_ports_or_endpoints_yields_no_ports() -> None:
    """C-30."""
    assert read_slice(endpoint_slice(endpoints=[endpoint("10.0.0.1")], ports=[])).ports == {}
    assert read_slice(endpoint_slice(endpoints=[])).ports == {}


def test_the_first_address_is_used_and_an_endpoint_without_one_is_skipped_and_reported() -> None:
    """C-32."""
    found = read_slice(endpoint_slice(endpoints=[endpoint("10.0.0.2", "10.0.0.1"), endpoint()]))
    assert list(found.ports[PortKey("http")]) == ["10.0.0.2:80"]
    assert found.problems == ("endpoints[1] has no address",)


def test_an_invalid_address_is_skipped_and_reported() -> None:
    found = read_slice(endpoint_slice(endpoints=[endpoint("web.example.com"), endpoint("10.0.0.1")]))
    assert list(found.ports[PortKey("http")]) == ["10.0.0.1:80"]
    assert found.problems == ("endpoints[0] has 'web.example.com' as its address",)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("010.000.0.01", "10.0.0.1:80"),
        ("2001:DB8:0:0:0:0:0:1", "[2001:db8::1]:80"),
        ("2001:db8::1", "[2001:db8::1]:80"),
    ],
)
def test_addresses_are_parsed_leniently_and_printed_canonically(text: str, address: str) -> None:
    """C-33, V14; regardless of the slice's address type."""
    (view,) = views(endpoint_slice(endpoints=[endpoint(text)]))
    assert view.address == address


def test_hints_are_sets_of_names_and_an_empty_list_means_no_hint() -> None:
    """Section 3, V8."""
    given = endpoint_slice(
        endpoints=[
            endpoint("10.0.0.1", zones=["a", "b", "a"], nodes=["n1"]),
            endpoint("10.0.0.2", zones=[], nodes=[]),
            endpoint("10.0.0.3"),
        ]
    )
    assert [(view.zone_hints, view.node_hints) for view in views(given)] == [
        (frozenset("ab"), frozenset(["n1"])),
        (frozenset(), frozenset()),
        (frozenset(), frozenset()),
    ]


def test_an_endpoint_is_local_if_both_nodes_are_known_and_equal() -> None:
    """Section 3: an exact comparison of two names."""
    here, unknown = views(
        endpoint_slice(endpoints=[endpoint("10.0.0.1", node="n1"), endpoint("10.0.0.2", node="")])
    )
    assert here.is_local_to(Location("n1"))
    assert not here.is_local_to(Location("N1"))
    assert not here.is_local_to(Location(""))
    assert not unknown.is_local_to(Location(""))


def test_endpoint_details_that_kube_proxy_discards_are_kept() -> None:
    """C-42 and C-81 fixed: it affects nothing; the application protocol is not part of the identity (C-29)."""
    full = msgspec.structs.replace(
        endpoint("10.0.0.1", node="n1"),
        hostname="db-0",
        zone="a",
        target_ref=ObjectReference(kind="Pod", name="db-0"),
    )
    http2 = EndpointPort(name="http", protocol="TCP", port=80, app_protocol="kubernetes.io/h2c")
    (view,) = views(endpoint_slice(endpoints=[full], ports=[http2]))
    assert (view.hostname, view.zone, view.app_protocol) == ("db-0", "a", "kubernetes.io/h2c")
    assert view.target_ref == ObjectReference(kind="Pod", name="db-0")


def test_of_three_equal_addresses_in_a_slice_the_non_terminating_one_wins() -> None:
    """C-35 and its scenario: terminating and serving, ready, terminating and not serving."""
    (view,) = views(
        endpoint_slice(
            endpoints=[
                endpoint("10.0.0.1", ready=False, serving=True, terminating=True, node="host2"),
                endpoint("10.0.0.1", ready=True, serving=True, terminating=False, node="host1"),
                endpoint("10.0.0.1", ready=False, serving=False, terminating=True, node="host2"),
            ]
        )
    )
    assert (view.ready, view.serving, view.terminating, view.node_name) == (True, True, False, "host1")


def test_the_last_non_terminating_and_the_first_terminating_duplicate_win() -> None:
    """C-36, within one slice."""
    alive = [endpoint("10.0.0.1", ready=False, node="n1"), endpoint("10.0.0.1", ready=True, node="n2")]
    dying = [
        endpoint("10.0.0.2", terminating=True, node="n1"),
        endpoint("10.0.0.2", terminating=True, node="n2"),
    ]
    assert [(view.ip, view.node_name) for view in views(endpoint_slice(endpoints=alive + dying))] == [
        ("10.0.0.1", "n2"),
        ("10.0.0.2", "n1"),
    ]
