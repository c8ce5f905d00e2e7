"""Traffic distribution hints, which depend only on the endpoint (behaviour 2.10)."""

from functools import lru_cache

from aiokube.api.core import Service
from aiokube.api.discovery import EndpointHints, ForNode, ForZone

DISTRIBUTIONS = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})


def topology_aware(service: Service) -> bool:
    """Return whether the annotation requests topology-aware hints; it overrides trafficDistribution (S-80, S-81)."""
    return service.topology_mode in ("Auto", "auto")


def traffic_distribution(service: Service) -> str | None:
    """Return the effective traffic distribution: None if it is unset, invalid or overridden by the annotation."""
    if topology_aware(service) or service.traffic_distribution not in DISTRIBUTIONS:
        return None
    return service.traffic_distribution


@lru_cache(maxsize=65_536)
def distribution_hints(distribution: str, zone: str | None, node: str | None) -> EndpointHints | None:
    """Return the hints of a ready endpoint (S-84); equal hints are shared."""
    zones = (ForZone(zone),) if zone else None
    nodes = (ForNode(node),) if node and distribution == "PreferSameNode" else None
    return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None
