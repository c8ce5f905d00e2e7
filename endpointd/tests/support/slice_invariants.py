"""The invariants of a settled service's EndpointSlices, derived only from the rules.

This module knows nothing about plans: it states the combined content of the slices (behaviour 2.4, 2.5, 2.8),
not which slice holds an endpoint. It applies to any controller with the same specification.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    EndpointSlice,
)
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.selectors import matches
from endpointd.controllers.pods import addresses_of_family, hostname_of, is_eligible, resolve_target_port

Ports = frozenset[tuple[str | None, str | None, int | None, str | None]]
"""Name, protocol, number and application protocol of each port of a slice."""


class Published(NamedTuple):
    """One endpoint with the properties of its slice, as plain values that can be counted."""

    address_type: str
    ports: Ports
    pod: str
    uid: str
    addresses: tuple[str, ...]
    conditions: tuple[bool | None, bool | None, bool | None]
    """Ready, serving, terminating."""
    node: str | None
    zone: str | None
    hostname: str | None


def families_of(service: Service) -> frozenset[str]:
    """Return the address types of a service's slices (S-20)."""
    if service.ip_families:
        return frozenset(service.ip_families)
    if service.is_headless:
        return frozenset({"IPv4", "IPv6"})
    return frozenset({"IPv6" if ":" in service.cluster_ip else "IPv4"})


def expected_endpoints(
    service: Service, pods: Iterable[Pod], zone_of: Callable[[str], str | None]
) -> Iterator[Published]:
    """Return exactly the endpoints that a service's slices must contain (S-31, S-32).

    ``zone_of`` returns the zone of a node: ``""`` without a zone, None if the node does not exist.
    """
    for pod in pods:
        if not _counts(service, pod):
            continue
        zone = zone_of(pod.node_name)
        publish = service.publish_not_ready_addresses
        if zone is None and not publish:
            continue
        ports = _ports(service, pod)
        for family in families_of(service):
            addresses = addresses_of_family(pod, family)
            if addresses:
                yield Published(
                    address_type=family,
                    ports=ports,
                    pod=pod.metadata.name,
                    uid=pod.metadata.uid,
                    addresses=tuple(sorted(addresses)),
                    conditions=(publish or (pod.ready and not pod.terminating), pod.ready, pod.terminating),
                    node=pod.node_name or None,
                    zone=zone or None,
                    hostname=hostname_of(pod, service),
                )


def wanted_ports(service: Service, pods: Iterable[Pod]) -> frozenset[Ports]:
    """Return the ports for which a service may have slices, even empty ones (S-31.3)."""
    return frozenset(_ports(service, pod) for pod in pods if _counts(service, pod))


def _counts(service: Service, pod: Pod) -> bool:
    return (
        pod.metadata.namespace == service.metadata.namespace
        and bool(service.selector)
        and matches(service.selector or {}, pod.labels)
        and is_eligible(pod, include_terminating=True)
    )


def _ports(service: Service, pod: Pod) -> Ports:
    return frozenset(
        (port.name, port.protocol, number, port.app_protocol)
        for port in service.ports
        if (number := resolve_target_port(pod, port)) is not None
    )


def ports_of_slice(endpoint_slice: EndpointSlice) -> Ports:
    """Return the ports of a slice, unordered."""
    return frozenset(
        (port.name, port.protocol, port.port, port.app_protocol) for port in endpoint_slice.ports or ()
    )


def published_in(slices: Iterable[EndpointSlice]) -> Iterator[Published]:
    """Yield every endpoint in the slices, duplicates included."""
    for endpoint_slice in slices:
        ports = frozenset(
            (port.name, port.protocol, port.port, port.app_protocol) for port in endpoint_slice.ports or ()
        )
        for endpoint in endpoint_slice.endpoints or ():
            target, conditions = endpoint.target_ref, endpoint.conditions
            yield Published(
                address_type=endpoint_slice.address_type,
                ports=ports,
                pod=(target.name if target is not None else None) or "",
                uid=(target.uid if target is not None else None) or "",
                addresses=tuple(sorted(endpoint.addresses)),
                conditions=(conditions.ready, conditions.serving, conditions.terminating),
                node=endpoint.node_name,
                zone=endpoint.zone,
                hostname=endpoint.hostname,
            )


def is_managed(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Return whether a slice represents the service with the controller's label and is not terminating."""
    labels = endpoint_slice.metadata.labels or {}
    return (
        labels.get(MANAGED_BY_LABEL) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        and labels.get(SERVICE_NAME_LABEL) == service.metadata.name
        and endpoint_slice.metadata.namespace == service.metadata.namespace
        and endpoint_slice.metadata.deletion_timestamp is None
    )


def slice_violations(
    service: Service,
    pods: Iterable[Pod],
    zone_of: Callable[[str], str | None],
    slices: Iterable[EndpointSlice],
    *,
    max_endpoints: int,
) -> list[str]:
    """Return a line for each violation in the slices of a settled service.

    Slices that are not managed for this service are ignored. A service without selector or with a deletion
    timestamp has no violations.
    """
    if not service.selector or service.is_external_name or service.terminating:
        return []
    pods = list(pods)
    mine = [endpoint_slice for endpoint_slice in slices if is_managed(endpoint_slice, service)]
    wanted = wanted_ports(service, pods)
    by_type = Counter(endpoint_slice.address_type for endpoint_slice in mine)
    expected = Counter(expected_endpoints(service, pods, zone_of))
    found = Counter(published_in(mine))
    wrong = [f"lost: {endpoint}" for endpoint in expected - found]
    wrong += [f"unexpected or duplicate: {endpoint}" for endpoint in found - expected]
    wrong += [f"no slice of {family}" for family in families_of(service) - {p.address_type for p in mine}]
    wrong += [
        f"{endpoint_slice.metadata.name}: empty, with ports of no pod, and not the only slice"
        for endpoint_slice in mine
        if not endpoint_slice.endpoints
        and ports_of_slice(endpoint_slice) not in wanted
        and by_type[endpoint_slice.address_type] > 1
    ]
    for endpoint_slice in mine:
        wrong += [
            f"{endpoint_slice.metadata.name}: {what}"
            for what in _of_slice(endpoint_slice, service, max_endpoints)
        ]
    return wrong


def _of_slice(endpoint_slice: EndpointSlice, service: Service, max_endpoints: int) -> Iterator[str]:
    if len(endpoint_slice.endpoints or ()) > max_endpoints:
        yield f"{len(endpoint_slice.endpoints or ())} endpoints, more than {max_endpoints}"
    if endpoint_slice.address_type not in families_of(service):
        yield f"unwanted address type: {endpoint_slice.address_type}"
    reserved = {SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL}
    labels = {name: value for name, value in service.labels.items() if name not in reserved}
    labels |= {
        SERVICE_NAME_LABEL: service.metadata.name,
        MANAGED_BY_LABEL: MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    }
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    if endpoint_slice.metadata.labels != labels:
        yield f"labels {endpoint_slice.metadata.labels}, not {labels}"
    owners = endpoint_slice.metadata.owner_references or ()
    if service.metadata.uid not in {owner.uid for owner in owners}:
        yield f"not owned by the service, but by {owners}"
