"""A reference model of the rules for slices and endpoints, computed from scratch each time.

A direct and slow implementation of the rules. It shares only types with the code under test.
"""

import ipaddress
from collections.abc import Mapping

from aiokube.api.discovery import SERVICE_NAME_LABEL, Endpoint, EndpointHints, EndpointSlice
from aiokube.discovery import (
    EndpointSliceCache,
    EndpointView,
    Location,
    ServicePortName,
    TrafficPolicy,
)

Fact = tuple[str, int, bool, bool, bool, str, frozenset[str], frozenset[str]]
"""ip, port, ready, serving, terminating, node, zone hints, node hints."""

Map = dict[ServicePortName, dict[str, Fact]]


def model_map(slices: Mapping[str, EndpointSlice], family: str) -> Map:
    """C-11 to C-36, with our choice where C-36 leaves it open: slices in the order of their names."""
    found: Map = {}
    for name in sorted(slices):
        endpoint_slice = slices[name]
        service = (endpoint_slice.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
        if endpoint_slice.address_type != family or not service:
            continue
        for port in endpoint_slice.ports or ():
            if port.name is None or not port.port:
                continue
            spn = ServicePortName(
                endpoint_slice.metadata.namespace, service, port.name, port.protocol or "TCP"
            )
            for endpoint in endpoint_slice.endpoints or ():
                if not endpoint.addresses:
                    continue
                fact = model_fact(endpoint, port.port)
                identity = f"[{fact[0]}]:{fact[1]}" if ":" in fact[0] else f"{fact[0]}:{fact[1]}"
                is_new = identity not in found.get(spn, {})
                if is_new or not fact[4]:
                    found.setdefault(spn, {})[identity] = fact
    return found


def model_fact(endpoint: Endpoint, port: int) -> Fact:
    conditions = endpoint.conditions
    hints = endpoint.hints or EndpointHints()
    return (
        str(ipaddress.ip_address(endpoint.addresses[0])),
        port,
        True if conditions.ready is None else conditions.ready,
        True if conditions.serving is None else conditions.serving,
        False if conditions.terminating is None else conditions.terminating,
        endpoint.node_name or "",
        frozenset(zone.name for zone in hints.for_zones or ()),
        frozenset(node.name for node in hints.for_nodes or ()),
    )


def fact_of(view: EndpointView) -> Fact:
    return (
        view.ip,
        view.port,
        view.ready,
        view.serving,
        view.terminating,
        view.node_name,
        view.zone_hints,
        view.node_hints,
    )


def map_of(cache: EndpointSliceCache) -> Map:
    return {name: {each.address: fact_of(each) for each in found} for name, found in cache.snapshot().items()}


def model_selection(
    endpoints: list[EndpointView], policy: TrafficPolicy, location: Location
) -> tuple[list[str] | None, list[str] | None, set[str], bool]:
    """C-57 to C-63b."""
    ready = [each for each in endpoints if each.ready]
    draining = [each for each in endpoints if each.serving and each.terminating and not each.ready]
    cluster: list[EndpointView] | None = None
    local: list[EndpointView] | None = None
    if not policy.internal_local or policy.externally_accessible:
        cluster = ready
        named = [each for each in ready if location.node_name and location.node_name in each.node_hints]
        zoned = [each for each in ready if location.zone and location.zone in each.zone_hints]
        if named and all(each.node_hints for each in ready):
            cluster = named
        elif zoned and all(each.zone_hints for each in ready):
            cluster = zoned
        cluster = cluster or draining
    if policy.internal_local or (policy.external_local and policy.externally_accessible):
        here = [each for each in endpoints if each.node_name and each.node_name == location.node_name]
        local = [each for each in here if each in ready] or [each for each in here if each in draining]
    has_any = bool(cluster) or (local is not None and bool(ready or draining))
    return (
        None if cluster is None else [each.address for each in cluster],
        None if local is None else [each.address for each in local],
        {each.address for each in (cluster or []) + (local or [])},
        has_any,
    )
