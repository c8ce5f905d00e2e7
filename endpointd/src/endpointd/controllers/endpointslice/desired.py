"""The published endpoint of a pod and the metadata of slices: pure functions (behaviour 2.4, 2.5, 2.8)."""

from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec

from aiokube.api.addresses import ip_family
from aiokube.api.core import HEADLESS, Labels, NamedPort, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
)
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.meta import ObjectKey, ObjectMeta, OwnerReference
from endpointd.controllers.canonical import port_list_key, sort_ports_discovery
from endpointd.controllers.endpointslice.distribution import distribution_hints, traffic_distribution
from endpointd.controllers.pods import (
    addresses_of_family,
    hostname_of,
    is_eligible,
    reference_to,
    resolve_target_port,
)

RESERVED_LABELS = frozenset({SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL})

ZoneOf = Callable[[str], str | None]
"""Returns the zone of a node by name: ``""`` if it has no zone, None if the node does not exist."""

# All eight combinations; endpoints share them.
_CONDITIONS = {
    (ready, serving, terminating): EndpointConditions(ready=ready, serving=serving, terminating=terminating)
    for ready in (False, True)
    for serving in (False, True)
    for terminating in (False, True)
}


class PortSet(msgspec.Struct, frozen=True, weakref=True):
    """The ports of a slice in their stored order, and the key by which slices are grouped (S-30)."""

    key: str
    ports: tuple[EndpointPort, ...]


class DesiredEndpoint(msgspec.Struct, frozen=True, gc=False):
    """One endpoint that belongs in exactly one slice of its ports and address type."""

    pod: str
    ports: PortSet
    endpoint: Endpoint


class PodOutcome(msgspec.Struct, frozen=True, gc=False):
    """The endpoints of one pod under a service.

    ``ports`` is None if the pod is not eligible; otherwise its ports count as wanted even if nothing is
    published with them (S-31.3). ``endpoints`` are in the order of the service's address types; None if the
    pod has no address of that type or is kept out by ``missing_node`` (S-31.4).
    """

    ports: PortSet | None
    endpoints: tuple[DesiredEndpoint | None, ...]
    missing_node: str | None = None


class ObservedSlice(msgspec.Struct, frozen=True, gc=False):
    """A slice as stored on the server, with its ports in canonical order."""

    slice: EndpointSlice
    ports: PortSet

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.slice.metadata.name

    @property
    def size(self) -> int:
        """The number of its endpoints."""
        return len(self.slice.endpoints or ())


def make_port_set(ports: tuple[EndpointPort, ...]) -> PortSet:
    """Return ports in their canonical order, with their key."""
    in_order = sort_ports_discovery(ports)
    return PortSet(port_list_key(in_order), in_order)


NO_PORTS = make_port_set(())


def address_types(service: Service) -> tuple[str, ...]:
    """Return the address types of a service's slices, in a fixed order (S-20)."""
    if service.ip_families:
        return tuple(sorted({family for family in service.ip_families if family in ("IPv4", "IPv6")}))
    if service.cluster_ip not in (HEADLESS, ""):
        family = ip_family(service.cluster_ip)
        return (family,) if family is not None else ()
    return ("IPv4", "IPv6")


class PodTranslator:
    """Computes the endpoints of pods for one version of a service; caches only shared data."""

    def __init__(self, service: Service, zone_of: ZoneOf) -> None:
        self._service = service
        self._zone_of = zone_of
        self.address_types = address_types(service)
        self._distribution = traffic_distribution(service)
        self._by_name = any(isinstance(port.target_port, str) for port in service.ports)
        # Weak: a set without endpoints and slices is dropped.
        self._port_sets: WeakValueDictionary[tuple[NamedPort, ...], PortSet] = WeakValueDictionary()

    def port_set_of(self, pod: Pod) -> PortSet:
        """Return the ports of a pod under the service (S-31.1, S-31.2).

        A pod on which no port resolves is still published, in a slice without ports.
        """
        names = pod.named_ports if self._by_name else ()
        found = self._port_sets.get(names)
        if found is None:
            found = self._port_sets[names] = make_port_set(
                tuple(
                    EndpointPort(
                        name=port.name, protocol=port.protocol, port=number, app_protocol=port.app_protocol
                    )
                    for port in self._service.ports
                    if (number := resolve_target_port(pod, port)) is not None
                )
            )
        return found

    def outcome(self, pod: Pod) -> PodOutcome:
        """Return the desired endpoints of a member of the service (S-31, S-32)."""
        service = self._service
        if not is_eligible(pod, include_terminating=True):
            return PodOutcome(None, (None,) * len(self.address_types))
        ports = self.port_set_of(pod)
        zone = self._zone_of(pod.node_name)
        if zone is None and not service.publish_not_ready_addresses:
            return PodOutcome(ports, (None,) * len(self.address_types), missing_node=pod.node_name)
        conditions = _CONDITIONS[
            service.publish_not_ready_addresses or (pod.ready and not pod.terminating),
            pod.ready,
            pod.terminating,
        ]
        hints = None
        if conditions.ready and self._distribution is not None:  # S-84, S-85
            hints = distribution_hints(self._distribution, zone, pod.node_name or None)
        name = pod.metadata.name
        found: list[DesiredEndpoint | None] = []
        for family in self.address_types:
            addresses = addresses_of_family(pod, family)
            found.append(
                DesiredEndpoint(
                    name,
                    ports,
                    Endpoint(
                        addresses=addresses,
                        conditions=conditions,
                        hostname=hostname_of(pod, service),
                        target_ref=reference_to(pod),
                        node_name=pod.node_name or None,
                        zone=zone or None,
                        hints=hints,
                    ),
                )
                if addresses
                else None
            )
        return PodOutcome(ports, tuple(found))


def same_identity(observed: Endpoint, desired: Endpoint) -> bool:
    """Return whether two endpoints have the same identity: addresses in any order, hostname, pod (S-33).

    The pod's uid is not part of it. ``desired`` must have a target.
    """
    target, wanted = observed.target_ref, desired.target_ref
    if target is None or wanted is None or target.name != wanted.name or target.namespace != wanted.namespace:
        return False
    if (observed.hostname or None) != (desired.hostname or None):
        return False
    return observed.addresses == desired.addresses or sorted(observed.addresses) == sorted(desired.addresses)


def same_content(observed: Endpoint, desired: Endpoint, *, ignore_hints: bool = False) -> bool:
    """Return whether an endpoint with the same identity needs no rewrite (S-33).

    ``ignore_hints`` skips the hints: if they are allocated over all endpoints, one endpoint cannot decide.
    """
    if observed == desired:
        return True
    target, wanted = observed.target_ref, desired.target_ref
    if target is not None and target.resource_version is not None:
        target = msgspec.structs.replace(target, resource_version=None)
    return (
        (observed.node_name or None) == (desired.node_name or None)
        and (observed.zone or None) == (desired.zone or None)
        and observed.conditions == desired.conditions
        and target == wanted
        and (ignore_hints or same_hints(observed.hints, desired.hints))
    )


def same_hints(observed: EndpointHints | None, desired: EndpointHints | None) -> bool:
    """Return whether hints are equivalent; empty hints count as none."""
    return observed == desired or (
        ((observed.for_zones if observed else None) or None)
        == ((desired.for_zones if desired else None) or None)
        and ((observed.for_nodes if observed else None) or None)
        == ((desired.for_nodes if desired else None) or None)
    )


def slice_labels(service: Service) -> Labels:
    """Return the labels of every slice of a service (S-60)."""
    labels = {name: value for name, value in service.labels.items() if name not in RESERVED_LABELS}
    labels[SERVICE_NAME_LABEL] = service.metadata.name
    labels[MANAGED_BY_LABEL] = MANAGED_BY_ENDPOINTSLICE_CONTROLLER
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    return labels


def owner_reference(service: Service) -> OwnerReference:
    """Return the owner reference that garbage-collects a slice with its service (S-61)."""
    return OwnerReference(
        api_version="v1",
        kind="Service",
        name=service.metadata.name,
        uid=service.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_owned_by(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Return whether a slice belongs to this service, not to an earlier one with the same name (S-30)."""
    return any(
        owner.uid == service.metadata.uid and owner.kind == "Service" and owner.api_version == "v1"
        for owner in endpoint_slice.metadata.owner_references or ()
    )


def new_slice(
    service: Service, address_type: str, ports: PortSet, endpoints: tuple[Endpoint, ...]
) -> EndpointSlice:
    """Return a new slice; the server generates its name from the service's name (S-61)."""
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=f"{service.metadata.name}-",
            namespace=service.metadata.namespace,
            labels=slice_labels(service),
            owner_references=(owner_reference(service),),
        ),
        address_type=address_type,
        endpoints=endpoints,
        ports=ports.ports,
    )


def service_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """Return the service of a slice, or None if we do not manage the slice (S-3, S-112)."""
    labels = endpoint_slice.metadata.labels
    if not labels or labels.get(MANAGED_BY_LABEL) != MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
        return None
    name = labels.get(SERVICE_NAME_LABEL)
    return ObjectKey(endpoint_slice.metadata.namespace, name) if name else None
