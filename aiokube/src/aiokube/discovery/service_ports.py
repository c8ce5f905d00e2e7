"""The ports of a service, for one address family. Without I/O."""

import msgspec

from aiokube.api.addresses import Family, canonical_ip
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import ServicePortName
from aiokube.discovery.selection import TrafficPolicy
from aiokube.discovery.service import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, ProxiedService


class ServicePortView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One port of one service in one family, with its addresses and policy. Addresses are canonical."""

    name: ServicePortName
    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()
    """The source ranges for the load balancer's addresses; empty means unrestricted (C-67)."""
    policy: TrafficPolicy = TrafficPolicy()
    affinity_seconds: int | None = None
    health_check_node_port: int = 0
    """The same for every port of a service (C-71); 0 without one."""


def service_ports(service: ProxiedService, family: Family) -> dict[ServicePortName, ServicePortView]:
    """Return the ports that a service has in a family, without data of the other family (C-68).

    Headless services, ExternalNames, and services without a cluster IP of the family have no ports (C-64).
    """
    cluster_ip = cluster_ip_of(service, family)
    if service.is_headless or service.is_external_name or cluster_ip is None:
        return {}
    external_ips = _of_family(service.external_ips, family)
    load_balancer_ips = _of_family(service.load_balancer_ips, family)
    source_ranges = tuple(text for text in service.source_ranges if (":" in text) == (family == "IPv6"))
    if any(text.endswith("/0") for text in source_ranges):
        source_ranges = ()
    external_local = is_external_policy_local(service)
    has_health_check = external_local and service.type == LOAD_BALANCER
    found: dict[ServicePortName, ServicePortView] = {}
    for port in service.ports:
        name = ServicePortName(service.metadata.namespace, service.metadata.name, port.name, port.protocol)
        found[name] = ServicePortView(
            name=name,
            cluster_ip=cluster_ip,
            port=port.port,
            node_port=port.node_port,
            external_ips=external_ips,
            load_balancer_ips=load_balancer_ips,
            source_ranges=source_ranges,
            policy=TrafficPolicy(
                internal_local=service.internal_traffic_policy == "Local",
                external_local=external_local,
                externally_accessible=bool(port.node_port or external_ips or load_balancer_ips),
            ),
            affinity_seconds=service.affinity_seconds,
            health_check_node_port=service.health_check_node_port if has_health_check else 0,
        )
    return found


def cluster_ip_of(service: ProxiedService, family: Family) -> str | None:
    """Return the canonical cluster IP of a family, at the family's position (C-64), or None."""
    for index, of in enumerate(service.ip_families):
        if of == family and index < len(service.cluster_ips):
            return canonical_ip(service.cluster_ips[index])
    if not service.ip_families and service.cluster_ip:
        (found,) = _of_family((service.cluster_ip,), family) or ("",)
        return found or None
    return None


def is_external_policy_local(service: ProxiedService) -> bool:
    """Return whether ``externalTrafficPolicy: Local`` is set on a service type to which it applies (C-66)."""
    reachable = service.type in (LOAD_BALANCER, NODE_PORT) or (
        service.type == CLUSTER_IP and bool(service.external_ips)
    )
    return reachable and service.external_traffic_policy == "Local"


def health_check_ports(ports: dict[ServicePortName, ServicePortView]) -> dict[ObjectKey, int]:
    """Return the health check node port of each service that has one (C-71)."""
    return {
        name.service_key: port.health_check_node_port
        for name, port in ports.items()
        if port.health_check_node_port
    }


def _of_family(addresses: tuple[str, ...], family: Family) -> tuple[str, ...]:
    found = (canonical_ip(text) for text in addresses)
    return tuple(ip for ip in found if ip is not None and (":" in ip) == (family == "IPv6"))
