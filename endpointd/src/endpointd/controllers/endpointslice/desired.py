"""What of a pod stands in a slice, and what a slice carries: pure functions (behaviour 2.4, 2.5, 2.8)."""

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
"""The zone of a node by name: ``""`` where it has none, None where there is no such node."""

# There are eight of them; all endpoints share these.
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
    """One endpoint that should stand in exactly one slice of its ports and address type."""

    pod: str
    ports: PortSet
    endpoint: Endpoint


class PodOutcome(msgspec.Struct, frozen=True, gc=False):
    """What one pod means for a service.

    ``ports`` is None where the pod is not eligible; else its ports count as wanted even where nothing is published
    under them (S-31.3). ``endpoints`` stand in the order of the address types asked for; None where the pod has no
    address of that type or is kept out by ``missing_node`` (S-31.4).
    """

    ports: PortSet | None
    endpoints: tuple[DesiredEndpoint | None, ...]
    missing_node: str | None = None


class ObservedSlice(msgspec.Struct, frozen=True, gc=False):
    """A slice as it stands on the server, with its ports in canonical order."""

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
    """Return the address types a service wants slices of, in a fixed order (S-20)."""
    if service.ip_families:
        return tuple(sorted({family for family in service.ip_families if family in ("IPv4", "IPv6")}))
    if service.cluster_ip not in (HEADLESS, ""):
        family = ip_family(service.cluster_ip)
        return (family,) if family is not None else ()
    return ("IPv4", "IPv6")


class PodTranslator:
    """Says what pods mean for one version of a service, remembering only what its pods have in common."""

    def __init__(self, service: Service, zone_of: ZoneOf) -> None:
        self._service = service
        self._zone_of = zone_of
        self.address_types = address_types(service)
        self._distribution = traffic_distribution(service)
        self._by_name = any(isinstance(port.target_port, str) for port in service.ports)
        # Weak: a set that no endpoint and no slice has any more is forgotten.
        self._port_sets: WeakValueDictionary[tuple[NamedPort, ...], PortSet] = WeakValueDictionary()

    def port_set_of(self, pod: Pod) -> PortSet:
        """Return the ports of a pod under the service (S-31.1, S-31.2).

        A pod on which no port resolves has none, and is published all the same, in a slice without ports.
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
        """Say what a member of the service should have in its slices (S-31, S-32)."""
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
    """Tell whether two endpoints are one and the same: addresses in any order, hostname, pod (S-33).

    The pod's uid is no part of it. ``desired`` must have a target.
    """
    target, wanted = observed.target_ref, desired.target_ref
    if target is None or wanted is None or target.name != wanted.name or target.namespace != wanted.namespace:
        return False
    if (observed.hostname or None) != (desired.hostname or None):
        return False
    return observed.addresses == desired.addresses or sorted(observed.addresses) == sorted(desired.addresses)


def same_content(observed: Endpoint, desired: Endpoint, *, whatever_hints: bool = False) -> bool:
    """Tell whether an endpoint of the same identity needs no rewrite (S-33).

    ``whatever_hints`` leaves the hints out: where they are shared out over all endpoints, this one cannot tell.
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
        and (whatever_hints or same_hints(observed.hints, desired.hints))
    )


def same_hints(observed: EndpointHints | None, desired: EndpointHints | None) -> bool:
    """Tell whether hints say the same; empty ones say nothing."""
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
    """Return the reference by which a slice goes when its service goes (S-61)."""
    return OwnerReference(
        api_version="v1",
        kind="Service",
        name=service.metadata.name,
        uid=service.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_owned_by(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Tell whether a slice belongs to this very service, not to an earlier one of its name (S-30)."""
    return any(
        owner.uid == service.metadata.uid and owner.kind == "Service" and owner.api_version == "v1"
        for owner in endpoint_slice.metadata.owner_references or ()
    )


def new_slice(
    service: Service, address_type: str, ports: PortSet, endpoints: tuple[Endpoint, ...]
) -> EndpointSlice:
    """Return a slice that does not exist yet: the server names it after the service (S-61)."""
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
    """Return the service a slice stands for, None where it is not ours to look after (S-3, S-112)."""
    labels = endpoint_slice.metadata.labels
    if not labels or labels.get(MANAGED_BY_LABEL) != MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
        return None
    name = labels.get(SERVICE_NAME_LABEL)
    return ObjectKey(endpoint_slice.metadata.namespace, name) if name else None
