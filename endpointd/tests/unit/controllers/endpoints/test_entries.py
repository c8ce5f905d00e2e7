"""The entry of one pod (E-15, 0.4): phases, IP families, ports, names."""

import pytest
from tests.unit.controllers.endpoints.builders import make_pod, make_service

from aiokube.api.core import NamedPort, Pod, Service, ServicePort
from aiokube.api.endpoints import EndpointAddress, EndpointPort
from aiokube.api.meta import ObjectReference
from endpointd.controllers.endpoints.entries import Entry, PodTranslator


def entry_of(service: Service, pod: Pod) -> Entry | None:
    return PodTranslator(service).entry_of(pod)


def test_a_ready_pod_is_an_address_with_node_and_reference() -> None:
    """E-15."""
    assert entry_of(make_service(), make_pod()) == Entry(
        EndpointAddress(
            ip="1.2.3.4",
            node_name="node-1",
            target_ref=ObjectReference(kind="Pod", namespace="ns", name="pod0", uid="u0"),
        ),
        is_ready=True,
        ports=(EndpointPort(name="http", port=8080, protocol="TCP"),),
    )


READY, NOT_READY, ABSENT = True, False, None


@pytest.mark.parametrize("publish_not_ready", [False, True])
@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "Succeeded", "Failed", None])
def test_phase_readiness_and_termination_decide_the_list_of_a_pod(
    phase: str | None, ready: bool, terminating: bool, publish_not_ready: bool
) -> None:
    """TestSyncServiceAddresses, all combinations."""
    entry = entry_of(
        make_service(publish_not_ready_addresses=publish_not_ready),
        make_pod(phase=phase, ready=ready, terminating=terminating),
    )
    expected: bool | None
    if phase in ("Succeeded", "Failed"):
        expected = ABSENT
    elif publish_not_ready:
        expected = READY
    else:
        expected = ABSENT if terminating else (READY if ready else NOT_READY)
    assert (entry.is_ready if entry is not None else ABSENT) == expected


@pytest.mark.parametrize(
    ("families", "pod_ips", "expected"),
    [
        (("IPv4",), ("01.2.3.4",), "1.2.3.4"),
        (("IPv4",), ("01.2.3.4", "2000::4"), "1.2.3.4"),
        (("IPv4",), ("2000::4", "01.2.3.4"), "1.2.3.4"),
        (("IPv6",), ("2000::4",), "2000::4"),
        (("IPv6",), ("01.2.3.4", "2000:0::4"), "2000::4"),
        (("IPv6",), ("2000::4", "01.2.3.4"), "2000::4"),
        (("IPv6",), ("01.2.3.4",), None),
        (("IPv6", "IPv4"), ("01.2.3.4", "2000::4"), "2000::4"),
        (("IPv4", "IPv6"), ("2000::4", "01.2.3.4", "5.6.7.8"), "1.2.3.4"),
        (("IPv4",), ("nonsense",), None),
        (("IPv4",), ("::ffff:1.2.3.4",), "1.2.3.4"),
    ],
)
def test_the_first_address_of_the_primary_family_is_published_canonically(
    families: tuple[str, ...], pod_ips: tuple[str, ...], expected: str | None
) -> None:
    """E-15."""
    entry = entry_of(make_service(ip_families=families), make_pod(pod_ips=pod_ips, pod_ip=pod_ips[0]))
    assert (entry.address.ip if entry is not None else None) == expected


@pytest.mark.parametrize(
    ("cluster_ip", "pod_ips", "expected"),
    [
        ("10.0.0.1", ("1.2.3.4", "2000::4"), "1.2.3.4"),
        ("2001::1", ("1.2.3.4", "2000::4"), "2000::4"),
        ("10.0.0.1", ("2000::4",), None),
        ("None", ("1.2.3.4",), "1.2.3.4"),
        ("None", ("2000::4", "1.2.3.4"), "2000::4"),
        ("", ("2000::4",), "2000::4"),
    ],
)
def test_without_ip_families_the_cluster_ip_or_else_the_pod_determines_the_family(
    cluster_ip: str, pod_ips: tuple[str, ...], expected: str | None
) -> None:
    """E-15: Releases 1.36.0 and 1.36.1 crashed on an empty list."""
    service = make_service(ip_families=(), cluster_ip=cluster_ip)
    entry = entry_of(service, make_pod(pod_ips=pod_ips, pod_ip=pod_ips[0]))
    assert (entry.address.ip if entry is not None else None) == expected


def test_a_pod_without_any_address_contributes_nothing() -> None:
    assert entry_of(make_service(), make_pod(pod_ip=None, pod_ips=())) is None


def test_an_address_only_in_pod_ip_is_not_used() -> None:
    assert entry_of(make_service(), make_pod(pod_ip="1.2.3.4", pod_ips=())) is None


def test_an_unscheduled_pod_is_published_without_a_node_name() -> None:
    """E-16."""
    entry = entry_of(make_service(), make_pod(node_name=""))
    assert entry is not None
    assert entry.address.node_name is None


def test_a_hostname_is_set_if_the_pods_subdomain_is_the_service() -> None:
    def hostname(**changes: object) -> str | None:
        entry = entry_of(make_service(), make_pod(**changes))
        assert entry is not None
        return entry.address.hostname

    assert hostname(hostname="db-0", subdomain="svc") == "db-0"
    assert hostname(hostname="db-0", subdomain="other") is None
    assert hostname(hostname="", subdomain="svc") is None


def test_a_headless_service_without_ports_publishes_addresses_without_ports() -> None:
    """E-15."""
    entry = entry_of(make_service(cluster_ip="None", ports=()), make_pod())
    assert entry is not None
    assert entry.ports == ()


@pytest.mark.parametrize("cluster_ip", ["10.96.0.1", ""])
def test_any_other_service_without_ports_publishes_nothing(cluster_ip: str) -> None:
    """E-15."""
    assert entry_of(make_service(cluster_ip=cluster_ip, ports=()), make_pod()) is None


NAMED = make_service(
    ports=(ServicePort("web", "TCP", 80, "http"), ServicePort("dns", "UDP", 53, "dns", "dns/udp"))
)


def test_a_port_that_the_pod_lacks_is_omitted_and_the_others_stay() -> None:
    """E-15."""
    entry = entry_of(NAMED, make_pod(named_ports=(NamedPort("http", "TCP", 8081),)))
    assert entry is not None
    assert entry.ports == (EndpointPort(name="web", port=8081, protocol="TCP"),)


def test_a_named_port_must_match_name_and_protocol_and_the_first_match_counts() -> None:
    named_ports = (
        NamedPort("http", "UDP", 1),
        NamedPort("http", "TCP", 2),
        NamedPort("http", "TCP", 3),
        NamedPort("dns", "UDP", 53),
    )
    entry = entry_of(NAMED, make_pod(named_ports=named_ports))
    assert entry is not None
    assert {(port.name, port.port, port.app_protocol) for port in entry.ports} == {
        ("web", 2, None),
        ("dns", 53, "dns/udp"),
    }


def test_a_pod_with_none_of_the_named_ports_contributes_nothing() -> None:
    """E-15."""
    assert entry_of(NAMED, make_pod()) is None


def test_ports_are_in_canonical_order() -> None:
    """E-31."""
    service = make_service(ports=(ServicePort("", "TCP", 80, 8080), ServicePort("", "UDP", 80, 8080)))
    entry = entry_of(service, make_pod())
    assert entry is not None
    assert [port.protocol for port in entry.ports] == ["UDP", "TCP"]
    assert [port.name for port in entry.ports] == [None, None]


def test_pods_with_the_same_named_ports_share_one_tuple_of_ports() -> None:
    translator = PodTranslator(NAMED)
    first = translator.entry_of(make_pod(named_ports=(NamedPort("http", "TCP", 8081),)))
    second = translator.entry_of(
        make_pod(named_ports=(NamedPort("http", "TCP", 8081),), pod_ips=("1.1.1.1",))
    )
    assert first is not None
    assert second is not None
    assert first.ports is second.ports
