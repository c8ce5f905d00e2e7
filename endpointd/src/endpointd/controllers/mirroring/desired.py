"""Select the mirrored part of an Endpoints and the content of its slices: pure functions (behaviour 3.1, 3.4, 3.5)."""

from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

from aiokube.api import discovery, endpoints
from aiokube.api.addresses import canonical_ip, ip_family, rejected_range
from aiokube.api.core import Labels, Service
from aiokube.api.discovery import (
    MANAGED_BY_MIRRORING_CONTROLLER,
    SERVICE_NAME_LABEL,
    SKIP_MIRROR_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
)
from aiokube.api.endpoints import (
    LAST_CHANGE_TRIGGER_TIME_ANNOTATION,
    LEADER_ANNOTATION,
    EndpointAddress,
    Endpoints,
    EndpointSubset,
)
from aiokube.api.meta import ObjectKey, ObjectMeta, OwnerReference
from endpointd.controllers.canonical import port_list_key, sort_ports_discovery
from endpointd.controllers.repack import repack

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
UNMIRRORED_ANNOTATIONS = frozenset({LAST_CHANGE_TRIGGER_TIME_ANNOTATION, LAST_APPLIED_ANNOTATION})
"""Annotations about the Endpoints itself (M-32, M-33)."""

Identity = tuple[tuple[str, ...], str, str, str]
"""The identity of an endpoint in a group: addresses, hostname, namespace and name of the target (M-24)."""

_CONDITIONS = {ready: EndpointConditions(ready=ready) for ready in (False, True)}


class GroupKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """The common properties of all endpoints of a slice: address type and ports in any order."""

    address_type: str
    ports: str


class Group(msgspec.Struct, frozen=True, gc=False):
    """The endpoints of one slice: at least one, with distinct identities, in a fixed order."""

    key: GroupKey
    ports: tuple[discovery.EndpointPort, ...]
    endpoints: tuple[Endpoint, ...]


class Mirrored(msgspec.Struct, frozen=True, gc=False):
    """The desired content of the slices of one Endpoints, and the addresses that cannot be mirrored."""

    groups: tuple[Group, ...] = ()
    """By key."""
    invalid: int = 0
    """Addresses that are invalid or rejected by the API server."""
    skipped: int = 0
    """Addresses that are not mirrored: invalid ones, and those beyond their subset's limit."""


def is_mirrorable(item: Endpoints) -> bool:
    """Return whether an Endpoints may be mirrored: not opted out, and no leader election record (M-1)."""
    metadata = item.metadata
    return (metadata.labels or {}).get(SKIP_MIRROR_LABEL) != "true" and LEADER_ANNOTATION not in (
        metadata.annotations or {}
    )


def wants_mirroring(service: Service) -> bool:
    """Return whether a service's Endpoints are written by other clients: it has no selector (M-1)."""
    return service.selector is None


def mirror(item: Endpoints, max_addresses: int) -> Mirrored:
    """Return the desired slices of an Endpoints (M-20 to M-24).

    Takes the first ``max_addresses`` valid addresses of each repacked subset, both IP families together,
    ready ones first. Of two that differ only in readiness or uid, the later one wins.
    """
    groups: dict[GroupKey, tuple[tuple[discovery.EndpointPort, ...], dict[Identity, Endpoint]]] = {}
    invalid = skipped = 0
    for subset in repack(item.subsets):
        ports = sort_ports_discovery(tuple(map(_port, subset.ports or ())))
        key_of_ports = port_list_key(ports)
        taken = 0
        for address, is_ready in _addresses(subset):
            if taken == max_addresses:
                break
            canonical = canonical_ip(address.ip)
            family = ip_family(canonical) if canonical is not None else None
            if canonical is None or family is None or rejected_range(canonical) is not None:
                invalid += 1
                continue
            taken += 1
            _, endpoints_by_identity = groups.setdefault(GroupKey(family, key_of_ports), (ports, {}))
            endpoint = _endpoint(address, canonical, is_ready)
            endpoints_by_identity[identity_of(endpoint)] = endpoint
        skipped += len(subset.addresses or ()) + len(subset.not_ready_addresses or ()) - taken
    return Mirrored(
        groups=tuple(
            Group(key, ports, tuple(members.values())) for key, (ports, members) in sorted(groups.items())
        ),
        invalid=invalid,
        skipped=skipped,
    )


def without(mirrored: Mirrored, rejected: Container[Identity]) -> Mirrored:
    """Return the same without endpoints that the API server has rejected; they count as invalid."""
    groups = [
        msgspec.structs.replace(
            group, endpoints=tuple(one for one in group.endpoints if identity_of(one) not in rejected)
        )
        for group in mirrored.groups
    ]
    before = sum(len(group.endpoints) for group in mirrored.groups)
    count = before - sum(len(group.endpoints) for group in groups)
    return Mirrored(
        groups=tuple(group for group in groups if group.endpoints),
        invalid=mirrored.invalid + count,
        skipped=mirrored.skipped + count,
    )


def _addresses(subset: EndpointSubset) -> Iterator[tuple[EndpointAddress, bool]]:
    for address in subset.addresses or ():
        yield address, True
    for address in subset.not_ready_addresses or ():
        yield address, False


def _port(port: endpoints.EndpointPort) -> discovery.EndpointPort:
    return discovery.EndpointPort(
        name=port.name or "", protocol=port.protocol, port=port.port, app_protocol=port.app_protocol
    )


def _endpoint(address: EndpointAddress, ip: str, is_ready: bool) -> Endpoint:
    """Return an address as an endpoint (M-23): whether it is serving or terminating is unknown."""
    return Endpoint(
        addresses=(ip,),
        conditions=_CONDITIONS[is_ready],
        hostname=address.hostname or None,
        target_ref=address.target_ref,
        node_name=address.node_name,
    )


def identity_of(endpoint: Endpoint) -> Identity:
    """Return the identity of an endpoint within its group."""
    target = endpoint.target_ref
    return (
        endpoint.addresses if len(endpoint.addresses) < 2 else tuple(sorted(endpoint.addresses)),
        endpoint.hostname or "",
        (target.namespace or "") if target is not None else "",
        (target.name or "") if target is not None else "",
    )


def is_same_endpoint(observed: Endpoint, desired: Endpoint) -> bool:
    """Return whether an endpoint with the same identity needs no rewrite (M-24).

    The resource version of its target is ignored. Hints are not ignored: mirrored endpoints have no hints.
    """
    if observed == desired:
        return True
    target, wanted = observed.target_ref, desired.target_ref
    if target is None or wanted is None:
        return False
    target = msgspec.structs.replace(target, resource_version=wanted.resource_version)
    return msgspec.structs.replace(observed, target_ref=target) == desired


def group_key_of(endpoint_slice: EndpointSlice) -> GroupKey:
    """Return the group of a slice by its address type and ports."""
    return GroupKey(endpoint_slice.address_type, port_list_key(sort_ports_discovery(endpoint_slice.ports)))


def mirrored_key(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """Return the Endpoints that a slice mirrors, or None if we do not manage it (M-4)."""
    labels = endpoint_slice.metadata.labels
    if not labels or labels.get(discovery.MANAGED_BY_LABEL) != MANAGED_BY_MIRRORING_CONTROLLER:
        return None
    name = labels.get(SERVICE_NAME_LABEL)
    return ObjectKey(endpoint_slice.metadata.namespace, name) if name else None


COPIED_METADATA_BYTES = 1024 * 1024
"""The limit of labels and annotations written for one Endpoints, summed over all of its slices."""


class CopiedMetadata(msgspec.Struct, frozen=True, gc=False):
    """The labels and annotations of every slice of one Endpoints, and the number omitted."""

    labels: Labels
    annotations: dict[str, str] | None
    omitted: int = 0


def copied_metadata(item: Endpoints, slices: int, limit_bytes: int = COPIED_METADATA_BYTES) -> CopiedMetadata:
    """Return the labels and annotations to copy to each of ``slices`` slices (M-33).

    All are copied while the copies together have at most ``limit_bytes``. Beyond that the largest are
    omitted, annotations before labels: an Endpoints can have any number of slices, and each would carry up to
    256 KiB of annotations.
    """
    labels, annotations = slice_labels(item), slice_annotations(item) or {}
    limit = limit_bytes // max(slices, 1)
    if _byte_count(labels) + _byte_count(annotations) <= limit:
        return CopiedMetadata(labels, annotations or None)
    own = {name: labels[name] for name in (SERVICE_NAME_LABEL, discovery.MANAGED_BY_LABEL)}
    others = {name: value for name, value in labels.items() if name not in own}
    kept_labels = {**_smallest(others, limit - _byte_count(own)), **own}
    kept_annotations = _smallest(annotations, limit - _byte_count(kept_labels))
    omitted = len(labels) + len(annotations) - len(kept_labels) - len(kept_annotations)
    return CopiedMetadata(kept_labels, kept_annotations or None, omitted)


def _byte_count(texts: Mapping[str, str]) -> int:
    return sum(len(name.encode()) + len(value.encode()) for name, value in texts.items())


def _smallest(texts: Mapping[str, str], limit: int) -> dict[str, str]:
    """Return as many entries as fit, the smallest first, then by name."""
    kept: dict[str, str] = {}
    for name, value in sorted(texts.items(), key=lambda entry: (_byte_count(dict((entry,))), entry[0])):
        limit -= _byte_count({name: value})
        if limit < 0:
            break
        kept[name] = value
    return kept


def slice_labels(item: Endpoints) -> Labels:
    """Return the labels of every slice of an Endpoints: its own and the managing ones (M-33)."""
    return {
        **(item.metadata.labels or {}),
        SERVICE_NAME_LABEL: item.metadata.name,
        discovery.MANAGED_BY_LABEL: MANAGED_BY_MIRRORING_CONTROLLER,
    }


def slice_annotations(item: Endpoints) -> dict[str, str] | None:
    """Return the annotations of every slice of an Endpoints: its own, except those about itself (M-33)."""
    annotations = {
        name: value
        for name, value in (item.metadata.annotations or {}).items()
        if name not in UNMIRRORED_ANNOTATIONS
    }
    return annotations or None


def owner_reference(item: Endpoints) -> OwnerReference:
    """Return the owner reference that garbage-collects a slice with its Endpoints (M-33)."""
    return OwnerReference(
        api_version="v1",
        kind="Endpoints",
        name=item.metadata.name,
        uid=item.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def new_slice(item: Endpoints, group: Group, copied: CopiedMetadata | None = None) -> EndpointSlice:
    """Return the desired slice of a group; the server generates its name from the Endpoints' name (M-33)."""
    copied = copied or copied_metadata(item, 1)
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=f"{item.metadata.name}-",
            namespace=item.metadata.namespace,
            labels=copied.labels,
            annotations=copied.annotations,
            owner_references=(owner_reference(item),),
        ),
        address_type=group.key.address_type,
        endpoints=group.endpoints,
        ports=group.ports,
    )


def oldest_first(endpoint_slices: Iterable[EndpointSlice]) -> list[EndpointSlice]:
    """Return slices by creation time, then by name: the kept slice is deterministic (M-31)."""
    return sorted(
        endpoint_slices,
        key=lambda endpoint_slice: (
            endpoint_slice.metadata.creation_timestamp or "",
            endpoint_slice.metadata.name,
        ),
    )


def name_of(key: ObjectKey) -> str:
    """Return the name of an Endpoints for messages."""
    return f"Endpoints {key}"
