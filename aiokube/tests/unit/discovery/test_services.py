"""Services from the viewpoint of a proxy (section 6, scenarios 8.4)."""

from typing import Any

import msgspec
import pytest

from aiokube.api.meta import ObjectKey
from aiokube.discovery import (
    PROXIED_SERVICES,
    ProxiedService,
    ServiceCursor,
    ServicePortCache,
    ServicePortName,
    TrafficPolicy,
    service_ports,
)

SVC = ObjectKey("ns", "svc")


def service(
    name: str = "svc", *, labels: dict[str, str] | None = None, status: Any = None, **spec: Any
) -> ProxiedService:
    """Return a service as the server sends it, by default a ClusterIP with port p 80/TCP."""
    spec = {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
        **spec,
    }
    metadata = {"namespace": "ns", "name": name, "resourceVersion": "1", "labels": labels or {}}
    document = {"metadata": metadata, "spec": spec, "status": status or {}}
    return PROXIED_SERVICES.decode(msgspec.json.encode(document))


def ports(number: int = 80, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "p", "port": number, "protocol": "TCP", **more}]


def name_of(port: str = "p", protocol: str = "TCP") -> ServicePortName:
    return ServicePortName("ns", "svc", port, protocol)


def only(given: ProxiedService) -> Any:
    (found,) = service_ports(given, "IPv4").values()
    return found


def loadbalancer(name: str = "svc", **spec: Any) -> ProxiedService:
    spec = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 345,
        "ports": ports(nodePort=30080),
        **spec,
    }
    return service(name, status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, **spec)


# --------------------------------------------------------------------------- ServiceToServiceMap


@pytest.mark.parametrize(
    "given",
    [
        service(clusterIP="None", ports=[{"name": "p", "port": 80, "protocol": "UDP"}]),
        service(clusterIP="None", ports=[{"name": "p", "port": 80, "protocol": "SCTP"}]),
        service(clusterIP="None", ports=[]),
        service(clusterIP=""),
        service(type="ExternalName", externalName="example.com"),
        service(clusterIP="2001:db8::1"),
        service(clusterIP="10.96.0.1", ports=[]),
        PROXIED_SERVICES.decode(b'{"metadata":{"name":"svc","namespace":"ns"}}'),
    ],
    ids=["headless UDP", "headless SCTP", "headless without ports", "no cluster IP yet", "ExternalName",
         "the other family", "no ports", "an empty spec"],
)  # fmt: skip
def test_services_that_are_not_proxied(given: ProxiedService) -> None:
    """C-64."""
    assert service_ports(given, "IPv4") == {}


def test_each_service_port_has_its_own_entry() -> None:
    """C-65: one number with two protocols is two ports."""
    given = service(
        ports=[
            {"name": "a", "port": 53, "protocol": "UDP"},
            {"name": "b", "port": 53, "protocol": "TCP", "nodePort": 30053},
        ]
    )
    found = service_ports(given, "IPv4")
    assert list(found) == [name_of("a", "UDP"), name_of("b")]
    assert [(port.port, port.node_port, port.cluster_ip) for port in found.values()] == [
        (53, 0, "10.96.0.1"),
        (53, 30053, "10.96.0.1"),
    ]
    assert [port.policy.externally_accessible for port in found.values()] == [
        False,
        True,
    ]  # C-57a, for each port


def test_an_unnamed_port_without_a_protocol_is_tcp() -> None:
    assert list(service_ports(service(ports=[{"port": 80}]), "IPv4")) == [name_of("")]


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        ([{"ip": "1.2.3.4"}], ("1.2.3.4",)),
        ([{"ip": "1.2.3.4", "ipMode": "VIP"}], ("1.2.3.4",)),
        ([{"ip": "1.2.3.4", "ipMode": "Proxy"}], ()),
        ([{"hostname": "lb.example.com"}], ()),
        ([{"ip": "2001:db8::1"}, {"ip": "1.2.3.5"}], ("1.2.3.5",)),
    ],
)
def test_load_balancer_ips_are_used_only_in_vip_mode(
    ingress: list[dict[str, str]], expected: tuple[str, ...]
) -> None:
    """C-67, C-57a."""
    found = only(service(type="LoadBalancer", status={"loadBalancer": {"ingress": ingress}}))
    assert found.load_balancer_ips == expected
    assert found.policy.externally_accessible is bool(expected)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "LoadBalancer"}, True),
        ({"type": "NodePort"}, True),
        ({"type": "ClusterIP", "externalIPs": ["9.9.9.9"]}, True),
        ({"type": "ClusterIP"}, False),
    ],
)
def test_the_external_policy_applies_to_externally_accessible_types_only(
    spec: dict[str, Any], expected: bool
) -> None:
    """C-66."""
    assert only(service(externalTrafficPolicy="Local", **spec)).policy.external_local is expected
    assert not only(service(externalTrafficPolicy="Cluster", **spec)).policy.external_local
    assert not only(service(**spec)).policy.external_local


def test_the_internal_policy_defaults_to_cluster() -> None:
    """C-66."""
    assert only(service()).policy == TrafficPolicy()
    assert only(service(internalTrafficPolicy="Local")).policy == TrafficPolicy(internal_local=True)
    assert not only(service(internalTrafficPolicy="Cluster")).policy.internal_local


@pytest.mark.parametrize(
    ("policy", "kind", "number", "expected"),
    [("Local", "LoadBalancer", 345, 345), ("Local", "LoadBalancer", 0, 0), ("Cluster", "LoadBalancer", 345, 0),
     ("Local", "NodePort", 345, 0)],
)  # fmt: skip
def test_only_load_balancers_with_a_local_policy_have_a_health_check_port(
    policy: str, kind: str, number: int, expected: int
) -> None:
    """C-71."""
    given = service(
        type=kind,
        externalTrafficPolicy=policy,
        healthCheckNodePort=number,
        ports=[*ports(), {"name": "q", "port": 81}],
    )
    assert {port.health_check_node_port for port in service_ports(given, "IPv4").values()} == {expected}


def test_a_dual_stack_service_is_two_independent_services() -> None:
    """C-68: field by field."""
    given = service(
        clusterIP="10.96.0.1",
        clusterIPs=["10.96.0.1", "fd00::1"],
        ipFamilies=["IPv4", "IPv6"],
        externalIPs=["9.9.9.9", "2001:DB8::9"],
        loadBalancerSourceRanges=[" 10.0.0.0/8", "fd00::/8 "],
    )
    four, six = only(given), service_ports(given, "IPv6")[name_of()]
    assert (four.cluster_ip, four.external_ips, four.source_ranges) == (
        "10.96.0.1",
        ("9.9.9.9",),
        ("10.0.0.0/8",),
    )
    assert (six.cluster_ip, six.external_ips, six.source_ranges) == (
        "fd00::1",
        ("2001:db8::9",),
        ("fd00::/8",),
    )


def test_the_cluster_ip_is_chosen_by_address_family() -> None:
    """C-64: IPv6 first."""
    given = service(clusterIP="fd00::1", clusterIPs=["fd00::1", "10.96.0.1"], ipFamilies=["IPv6", "IPv4"])
    assert only(given).cluster_ip == "10.96.0.1"
    only_six = service(clusterIP="fd00::1", clusterIPs=["fd00::1"], ipFamilies=["IPv6"])
    assert service_ports(only_six, "IPv4") == {}


def test_a_source_range_of_all_addresses_is_no_restriction() -> None:
    """C-67."""
    assert only(service(loadBalancerSourceRanges=["10.0.0.0/8", "0.0.0.0/0"])).source_ranges == ()
    assert only(service(loadBalancerSourceRanges=["10.0.0.0/8", "::/0"])).source_ranges == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"sessionAffinity": "None"}, None),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}, 60),
        ({"sessionAffinity": "ClientIP"}, 10_800),
    ],
)
def test_the_client_ip_affinity_timeout(spec: dict[str, Any], expected: int | None) -> None:
    """C-72."""
    assert only(service(**spec)).affinity_seconds == expected


# --------------------------------------------------------------------------- the tracker


class World:
    def __init__(self) -> None:
        self.cache = ServicePortCache()
        self.reader: ServiceCursor = self.cache.cursor()

    @property
    def updated(self) -> set[str]:
        return {key.name for key in self.cache.updated_since(self.reader)}


@pytest.mark.parametrize(
    "given", [service(clusterIP="None"), service(type="ExternalName", externalName="a.b")]
)
def test_services_that_are_not_proxied_are_not_reported_as_changes(given: ProxiedService) -> None:
    """ServiceMapUpdateHeadless, UpdateServiceTypeExternalName."""
    world = World()
    assert not world.cache.update(given)
    assert (world.updated, world.cache.snapshot(), world.cache.health_check_ports()) == (set(), {}, {})


def test_services_are_added_shrunk_and_deleted() -> None:
    """BuildServiceMapAddRemove."""
    world = World()
    two = [{"name": "p1", "port": 1}, {"name": "p2", "port": 2}]
    given = [
        service("a", ports=[*two, {"name": "p3", "port": 3}]),
        service("b", type="NodePort", ports=[{"name": "x", "port": 1, "nodePort": 30001}]),
        service("c", type="LoadBalancer", ports=two),
        loadbalancer("d", ports=[*ports(), {"name": "q", "port": 81}]),
    ]
    for each in given:
        assert world.cache.update(each)
    assert len(world.cache.snapshot()) == 8
    assert world.updated == {"a", "b", "c", "d"}
    assert world.cache.health_check_ports() == {("ns", "d"): 345}
    assert world.cache.update(service("a", ports=[{"name": "p1", "port": 1}]))
    for each in given[1:]:
        assert world.cache.remove(each)
    assert len(world.cache.snapshot()) == 1
    assert world.updated == {"a", "b", "c", "d"}
    assert world.cache.health_check_ports() == {}


def test_a_service_changes_its_type_and_back() -> None:
    """BuildServiceMapServiceUpdate: 1, 1, 0, 1 updated; 0, 1, 1, 0 health ports."""
    world = World()
    updated, health_ports = [], []
    for each in (service(), loadbalancer(), loadbalancer(), service()):
        world.cache.update(each)
        updated.append(len(world.updated))
        health_ports.append(len(world.cache.health_check_ports()))
    assert (updated, health_ports) == ([1, 1, 0, 1], [0, 1, 1, 0])


def test_a_service_added_and_deleted_between_two_reads_is_not_reported() -> None:
    """ServiceCacheLeaks, C-69; the result is whether any change is unread."""
    world = World()
    assert world.cache.update(service())
    assert not world.cache.remove(service())
    assert not world.updated
    assert world.cache.update(service("other"))
    assert world.cache.update(service("third", clusterIP="None"))  # it does not, but another change does
    assert world.updated == {"other"}


def test_a_reverted_change_is_not_reported() -> None:
    """C-69, unlike slices (C-24)."""
    world = World()
    world.cache.update(service())
    assert world.updated == {"svc"}
    world.cache.update(service(ports=ports(81)))
    world.cache.update(service())
    assert not world.updated


def test_an_irrelevant_field_is_not_a_change() -> None:
    """C-69: labels, annotations, selector."""
    world = World()
    world.cache.update(service())
    assert world.updated == {"svc"}
    assert not world.cache.update(service(labels={"a": "b"}, selector={"app": "other"}))
    assert not world.updated


@pytest.mark.parametrize("value", ["other-proxy", ""])
def test_a_service_assigned_to_another_proxy_is_removed_until_it_returns(value: str) -> None:
    """C-1 (any value), C-3: gains the label, loses it."""
    world = World()
    world.cache.update(service())
    assert world.updated == {"svc"}
    theirs = service(labels={"service.kubernetes.io/service-proxy-name": value})
    world.cache.update(theirs)
    assert (world.updated, world.cache.snapshot()) == ({"svc"}, {})
    world.cache.update(service())
    assert (world.updated, len(world.cache.snapshot())) == ({"svc"}, 1)


def test_the_headless_label_of_a_service_is_ignored() -> None:
    """C-2: since v1.36 the label matters only on slices."""
    world = World()
    world.cache.update(service(labels={"service.kubernetes.io/headless": ""}))
    assert len(world.cache.snapshot()) == 1


def test_readers_of_services_are_independent() -> None:
    world = World()
    world.cache.update(service())
    late, new = world.cache.cursor(), world.cache.cursor(replay=False)
    assert world.updated == {"svc"}
    assert world.cache.updated_since(late) == {SVC}
    assert world.cache.updated_since(new) == frozenset()
    with pytest.raises(ValueError, match=r"create one with cursor\(\)"):
        ServicePortCache().updated_since(new)


def test_a_service_port_can_be_looked_up_by_name() -> None:
    world = World()
    world.cache.handle(None, service())
    found = world.cache.get(name_of())
    assert found is not None
    assert found.port == 80
    assert world.cache.get(name_of("other")) is None
    world.cache.handle(service(), None)
    assert world.cache.get(name_of()) is None
