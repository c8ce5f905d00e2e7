"""What two clusters must have in common: Endpoints and EndpointSlices with all that is chance taken out.

Left out are names of generated slices, uids, times, resource versions and who manages which field. A uid becomes
whether it is that of the object that bears the name now. The endpoints of several slices with one list of ports
count together, with the sizes of the slices where those are determined. Order is left out where it may depend on a
uid (behaviour 6); :mod:`tests.differential.invariants` holds each cluster to the order it should have.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
)
from aiokube.api.discovery import EndpointPort as SlicePort
from aiokube.api.endpoints import (
    LAST_CHANGE_TRIGGER_TIME_ANNOTATION,
    EndpointAddress,
    Endpoints,
    EndpointSubset,
)
from aiokube.api.endpoints import MANAGED_BY_LABEL as ENDPOINTS_MANAGED_BY_LABEL
from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference, key_of

P = TypeVar("P")

NormalState = Mapping[str, tuple[str, ...]]
"""What is compared: lines of text, under the name of the Endpoints or the group of slices that they describe."""


HAND_MADE = "foreign-"
"""How the names of slices begin that a workload makes by hand; they are kept in comparisons."""


class Snapshot(msgspec.Struct, frozen=True):
    """All that is read from one cluster, in the namespaces of a workload."""

    endpoints: tuple[Endpoints, ...]
    slices: tuple[EndpointSlice, ...]
    services: tuple[Service, ...]
    pods: tuple[Pod, ...]
    is_old: bool = False
    """Whether upstream is older than 1.33: it sets no managed-by label on Endpoints and orders ports by another hash (so do 1.33
    and 1.34, which nothing compares). Both are left out of the comparison."""
    replaces_portless_slices: bool = False
    """Whether upstream is older than 1.36: at each sync it replaces the slices without ports. So it keeps no placeholder beside
    slices with endpoints, and loses annotations that others have added. Both are left out of the comparison."""


def normalise(
    snapshot: Snapshot, *, sizes_are_determined: bool = True, hand_made: str = "foreign-"
) -> NormalState:
    """Return what two clusters must have in common.

    ``sizes_are_determined`` says that no service ever had more endpoints than fit into one slice: only then is it
    not chance how they are spread over slices. Slices that a workload has made by hand keep their names, unless
    they are the controller's now, which may use any of its names for anything (S-70).
    """
    uids = _Uids(snapshot)
    state: dict[str, tuple[str, ...]] = {}
    for item in snapshot.endpoints:
        if snapshot.is_old:
            item = _old_endpoints(item)
        state[f"endpoints {key_of(item)}"] = tuple(_endpoints_lines(item, uids))
    groups: dict[str, list[EndpointSlice]] = defaultdict(list)
    for slice_ in _compared_slices(snapshot):
        if snapshot.is_old:
            slice_ = msgspec.structs.replace(slice_, ports=_sorted(slice_.ports))
        groups[_group_of(slice_)].append(slice_)
    for name, slices in groups.items():
        state[name] = tuple(_group_lines(slices, uids, sizes_are_determined=sizes_are_determined))
    return dict(sorted(state.items()))


def _compared_slices(snapshot: Snapshot) -> Iterable[EndpointSlice]:
    """Return the slices, where upstream replaces those without ports without what it loses by that.

    While a service selects a pod without any of its ports and without an address of a family, upstream 1.36 keeps the
    placeholder of that family (S-50) when other pods get endpoints; it goes with the pod. Before, an empty list of ports had
    two hashes, one read from the server and one computed, so the placeholder became the first of the new slices.
    """
    if not snapshot.replaces_portless_slices:
        yield from snapshot.slices
        return
    full = {_family_of(slice_) for slice_ in snapshot.slices if slice_.endpoints}
    for slice_ in snapshot.slices:
        if slice_.ports or not _is_of_controller(slice_):
            yield slice_
        elif slice_.endpoints or _family_of(slice_) not in full:
            metadata = msgspec.structs.replace(slice_.metadata, annotations=None)
            yield msgspec.structs.replace(slice_, metadata=metadata)


def _is_of_controller(slice_: EndpointSlice) -> bool:
    return (slice_.metadata.labels or {}).get(MANAGED_BY_LABEL) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER


def _family_of(slice_: EndpointSlice) -> tuple[str, str | None, str | None, str]:
    labels = slice_.metadata.labels or {}
    manager, service = labels.get(MANAGED_BY_LABEL), labels.get(SERVICE_NAME_LABEL)
    return slice_.metadata.namespace, service, manager, slice_.address_type


def _old_endpoints(item: Endpoints) -> Endpoints:
    labels = {
        key: value for key, value in (item.metadata.labels or {}).items() if key != ENDPOINTS_MANAGED_BY_LABEL
    }
    return msgspec.structs.replace(
        item,
        metadata=msgspec.structs.replace(item.metadata, labels=labels),
        subsets=tuple(
            msgspec.structs.replace(subset, ports=_sorted(subset.ports)) for subset in item.subsets or ()
        ),
    )


def _sorted(ports: tuple[P, ...] | None) -> tuple[P, ...]:
    return tuple(sorted(ports or (), key=repr))


def one_by_one(snapshot: Snapshot) -> dict[tuple[str, ObjectKey], tuple[str, ...]]:
    """Return what each Endpoints and EndpointSlice says, by plural and key: for one cluster at two times."""
    uids = _Uids(snapshot)
    state = {("endpoints", key_of(item)): tuple(_endpoints_lines(item, uids)) for item in snapshot.endpoints}
    for item in snapshot.slices:
        state["endpointslices", key_of(item)] = (_group_of(item), *_group_lines([item], uids))
    return state


def slices_in_order(snapshot: Snapshot, service: ObjectKey, managed_by: str) -> list[EndpointSlice]:
    """Return the slices of a service by one manager in an order that follows from what is in them."""
    uids = _Uids(snapshot)
    chosen = [
        slice_
        for slice_ in _compared_slices(snapshot)
        if slice_.metadata.namespace == service.namespace
        and (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL) == service.name
        and (slice_.metadata.labels or {}).get(MANAGED_BY_LABEL) == managed_by
        and slice_.metadata.deletion_timestamp is None
    ]
    return sorted(chosen, key=lambda item: (_group_of(item), *_group_lines([item], uids)))


def different_keys(one: NormalState, other: NormalState) -> list[str]:
    """Return under which names two states differ."""
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def readable_difference(
    one: NormalState, other: NormalState, names: tuple[str, str], keys: Sequence[str] | None = None
) -> str:
    """Return a unified diff of what differs, from the first state to the second."""
    lines: list[str] = []
    for key in different_keys(one, other) if keys is None else keys:
        left = [key, *(f"  {line}" for line in one[key])] if key in one else []
        right = [key, *(f"  {line}" for line in other[key])] if key in other else []
        lines += difflib.unified_diff(left, right, *names, n=20, lineterm="")
    return "\n".join(lines)


class _Uids:
    """Which object bears a name now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = {key_of(pod): pod.metadata.uid for pod in snapshot.pods}
        self._services = {key_of(service): service.metadata.uid for service in snapshot.services}

    def of_pod(self, reference: ObjectReference | None) -> str:
        if reference is None:
            return "nothing"
        key = ObjectKey(reference.namespace or "", reference.name or "")
        return f"{reference.kind} {key}{self._now(self._pods, key, reference.uid)}"

    def of_owners(self, metadata: ObjectMeta) -> Iterable[str]:
        for owner in metadata.owner_references or ():
            key = ObjectKey(metadata.namespace, owner.name)
            flags = f"controller={owner.controller} block={owner.block_owner_deletion}"
            now = self._now(self._services, key, owner.uid)
            yield f"{owner.api_version} {owner.kind} {owner.name}{now} {flags}"

    @staticmethod
    def _now(uids: Mapping[ObjectKey, str], key: ObjectKey, uid: str | None) -> str:
        if key not in uids:
            return " (gone)"
        return "" if uids[key] == uid else " (another uid)"


def _endpoints_lines(item: Endpoints, uids: _Uids) -> Iterable[str]:
    yield from _metadata_lines(item.metadata, uids)
    yield from sorted(_subset_text(subset, uids) for subset in item.subsets or ())


def _subset_text(subset: EndpointSubset, uids: _Uids) -> str:
    ports = ", ".join(
        f"{p.name or '-'}:{p.port}/{p.protocol} {p.app_protocol or ''}" for p in subset.ports or ()
    )
    lines = [f"subset [{ports}]"]
    for words, addresses in (("ready", subset.addresses), ("not ready", subset.not_ready_addresses)):
        texts = [_address_text(address, uids) for address in addresses or ()]
        lines += [f"    {words:9} {text}" for text in sorted(texts)]  # equal IPs stand in the order of uids
    return "\n    ".join(lines)


def _address_text(address: EndpointAddress, uids: _Uids) -> str:
    hostname = f" hostname={address.hostname}" if address.hostname is not None else ""
    return f"{address.ip} node={address.node_name}{hostname} {uids.of_pod(address.target_ref)}"


def _group_of(slice_: EndpointSlice) -> str:
    labels = slice_.metadata.labels or {}
    service = ObjectKey(slice_.metadata.namespace, labels.get(SERVICE_NAME_LABEL, "(none)"))
    name = slice_.metadata.name
    manager = labels.get(MANAGED_BY_LABEL, "(none)")
    theirs = name.startswith(HAND_MADE) and manager != MANAGED_BY_ENDPOINTSLICE_CONTROLLER
    by_hand = f" named {name}" if theirs else ""
    ports = ", ".join(map(_port_text, slice_.ports or ()))
    return f"slices {service} {slice_.address_type} [{ports}] by {manager}{by_hand}"


def _port_text(port: SlicePort) -> str:
    return f"{port.name or '-'}:{port.port}/{port.protocol} {port.app_protocol or ''}".rstrip()


def _group_lines(
    slices: Sequence[EndpointSlice], uids: _Uids, *, sizes_are_determined: bool = True
) -> Iterable[str]:
    if sizes_are_determined:
        yield f"sizes {sorted(len(item.endpoints or ()) for item in slices)}"
    metadata = sorted("\n    ".join(_slice_metadata_lines(item.metadata, uids)) for item in slices)
    yield from metadata if sizes_are_determined else sorted(set(metadata))
    yield from sorted(_endpoint_text(endpoint, uids) for item in slices for endpoint in item.endpoints or ())


def _slice_metadata_lines(metadata: ObjectMeta, uids: _Uids) -> Iterable[str]:
    yield from _metadata_lines(metadata, uids)
    # What mirrors an Endpoints loses it whenever upstream writes it anew, which it does more often (M-32).
    if (metadata.labels or {}).get(MANAGED_BY_LABEL) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
        yield f"generated from {metadata.generate_name}"


def _metadata_lines(metadata: ObjectMeta, uids: _Uids) -> Iterable[str]:
    yield f"labels {_pairs(metadata.labels)}"
    annotations = dict(metadata.annotations or {})
    annotations.pop(LAST_CHANGE_TRIGGER_TIME_ANNOTATION, None)
    if annotations:
        yield f"annotations {_pairs(annotations)}"
    for owner in uids.of_owners(metadata):
        yield f"owner {owner}"
    if metadata.finalizers:
        yield f"finalizers {list(metadata.finalizers)}"
    if metadata.deletion_timestamp is not None:
        yield "being deleted"


def _pairs(pairs: Mapping[str, str] | None) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) + "}"


def _endpoint_text(endpoint: Endpoint, uids: _Uids) -> str:
    conditions = endpoint.conditions
    words = [
        ",".join(endpoint.addresses),
        f"ready={conditions.ready} serving={conditions.serving} terminating={conditions.terminating}",
        f"node={endpoint.node_name} zone={endpoint.zone}",
        uids.of_pod(endpoint.target_ref),
    ]
    if endpoint.hostname is not None:
        words.append(f"hostname={endpoint.hostname}")
    if endpoint.hints is not None:
        zones = [zone.name for zone in endpoint.hints.for_zones or ()]
        nodes = [node.name for node in endpoint.hints.for_nodes or ()]
        words.append(f"hints zones={zones} nodes={nodes}")
    if endpoint.deprecated_topology is not None:
        words.append(f"topology={_pairs(endpoint.deprecated_topology)}")
    return " ".join(words)
