"""Parsing of one slice: its service, and its endpoints by port. Without I/O."""

from functools import lru_cache

import msgspec

from aiokube.api.addresses import Family, canonical_ip
from aiokube.api.discovery import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    ForNode,
    ForZone,
)
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import (
    NO_HINTS,
    EndpointView,
    PortKey,
    address_of,
    preferred,
)

DEFAULT_PROTOCOL = "TCP"


class SliceView(msgspec.Struct, frozen=True):
    """The endpoints of one slice by port and address, without duplicates, and its unusable entries."""

    ports: dict[PortKey, dict[str, EndpointView]]
    problems: tuple[str, ...] = ()
    """One sentence per unusable entry; the other entries are used."""


EMPTY = SliceView({})


def service_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """Return the service in a slice's label, None without one (C-11); owners and managers do not count."""
    name = (endpoint_slice.metadata.labels or {}).get(SERVICE_NAME_LABEL)
    if not name or not endpoint_slice.metadata.name or not endpoint_slice.metadata.namespace:
        return None
    return ObjectKey(endpoint_slice.metadata.namespace, name)


def why_ignored(endpoint_slice: EndpointSlice, family: Family) -> str | None:
    """Return why a cache of this family ignores a slice (C-12, C-13), None if it does not."""
    if not endpoint_slice.metadata.name or not endpoint_slice.metadata.namespace:
        return f"slice {endpoint_slice.metadata.key} has no name or no namespace"
    if service_of(endpoint_slice) is None:
        return f"slice {endpoint_slice.metadata.key} has no label {SERVICE_NAME_LABEL}, so it belongs to no service"
    if endpoint_slice.address_type != family:
        return f"slice {endpoint_slice.metadata.key} is of type {endpoint_slice.address_type or '(none)'}, not {family}"
    return None


def read_slice(endpoint_slice: EndpointSlice) -> SliceView:
    """Return the endpoints of a slice on each of its ports, without changing or keeping the slice."""
    if not endpoint_slice.ports or not endpoint_slice.endpoints:
        return EMPTY
    problems: list[str] = []
    endpoints = _with_addresses(endpoint_slice.endpoints, problems)
    ports: dict[PortKey, dict[str, EndpointView]] = {}
    for index, port in enumerate(endpoint_slice.ports):
        if port.name is None:
            problems.append(f"ports[{index}] has no name")  # "" is a name, null is not (C-28)
            continue
        if not port.port:
            problems.append(f"ports[{index}] ({port.name!r}) has no number")
            continue
        found = ports.setdefault(PortKey(port.name, port.protocol or DEFAULT_PROTOCOL), {})
        for ip, endpoint in endpoints:
            address = address_of(ip, port.port)
            view = _view(ip, port.port, endpoint, port.app_protocol or "")
            found[address] = preferred(found.get(address), view)
    return SliceView({key: found for key, found in ports.items() if found}, tuple(problems))


def _with_addresses(endpoints: tuple[Endpoint, ...], problems: list[str]) -> list[tuple[str, Endpoint]]:
    found: list[tuple[str, Endpoint]] = []
    for index, endpoint in enumerate(endpoints):
        if not endpoint.addresses:
            problems.append(f"endpoints[{index}] has no address")
            continue
        ip = canonical_ip(endpoint.addresses[0])  # other addresses are ignored (C-32)
        if ip is None:
            problems.append(f"endpoints[{index}] has {endpoint.addresses[0]!r} as its address")
            continue
        found.append((ip, endpoint))
    return found


def _view(ip: str, port: int, endpoint: Endpoint, app_protocol: str) -> EndpointView:
    conditions: EndpointConditions = endpoint.conditions
    hints = endpoint.hints
    return EndpointView(
        ip=ip,
        port=port,
        ready=conditions.ready is not False,
        serving=conditions.serving is not False,
        terminating=conditions.terminating is True,
        node_name=endpoint.node_name or "",
        zone_hints=_names(hints.for_zones) if hints is not None and hints.for_zones else NO_HINTS,
        node_hints=_names(hints.for_nodes) if hints is not None and hints.for_nodes else NO_HINTS,
        zone=endpoint.zone or "",
        hostname=endpoint.hostname or "",
        target_ref=endpoint.target_ref,
        app_protocol=app_protocol,
    )


@lru_cache(maxsize=4096)
def _names(hints: tuple[ForZone, ...] | tuple[ForNode, ...]) -> frozenset[str]:
    """Return the names of hints as a set."""
    return frozenset(hint.name for hint in hints)
