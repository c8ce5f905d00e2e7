"""Plan the creates, updates and deletes of slices: a pure function (behaviour 2.6 to 2.9).

It reads only dirty slices, so its cost is that of the change. With everything dirty it is a full
reconciliation: there is no second algorithm.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aiokube.api.core import Labels, Service
from aiokube.api.discovery import Endpoint, EndpointSlice
from aiokube.api.endpoints import LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.api.meta import ObjectMeta
from endpointd.controllers.endpointslice.desired import (
    NO_PORTS,
    DesiredEndpoint,
    ObservedSlice,
    PortSet,
    is_owned_by,
    new_slice,
    owner_reference,
    same_content,
    same_identity,
    slice_labels,
)
from endpointd.controllers.endpointslice.hints import HintAllocation, TopologyView, allocate_hints


class AddressTypeView(msgspec.Struct, frozen=True, gc=False):
    """The immutable input of a plan for one service and address type."""

    service: Service
    address_type: str
    max_endpoints: int
    total_slices: int
    """The number of slices of this type, dirty or not, owned or not."""
    dirty: tuple[ObservedSlice, ...]
    """Owned slices that may be wrong, by name."""
    not_owned: tuple[ObservedSlice, ...]
    """Slices with our label but another owner, or an earlier service with this name, by name."""
    unplaced: tuple[DesiredEndpoint, ...]
    """Endpoints that are in no slice, by pod."""
    with_capacity: Mapping[str, tuple[ObservedSlice, ...]]
    """For each key of ``unplaced``: clean slices, the best of each size (one is enough)."""
    wanted_ports: Mapping[str, int]
    """Keys of port sets that some pod of the service has."""
    desired: Mapping[str, DesiredEndpoint]
    """Every endpoint by pod; a plan reads only the pods in dirty slices."""
    holders: Mapping[str, str]
    """Pod to the slice that holds its endpoint; a plan reads only the pods in dirty slices."""
    topology: TopologyView | None = None
    """The input of the hint allocation; None unless the service requests topology-aware hints."""


class AddressTypePlan(msgspec.Struct, frozen=True, gc=False):
    """The writes to make, in this order, and the dirty slices that turned out to be correct."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    unchanged: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    hint_allocation: HintAllocation | None = None
    """The result of the hint allocation; None if hints are not requested."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.create or self.update or self.delete)


class _Draft:
    """A slice being filled: an existing one to be rewritten, or a new one."""

    __slots__ = ("base", "endpoints", "ports", "removes_traffic")

    def __init__(
        self,
        base: ObservedSlice | None,
        ports: PortSet,
        endpoints: list[Endpoint],
        removes_traffic: bool = False,
    ) -> None:
        self.base = base
        self.ports = ports
        self.endpoints = endpoints
        self.removes_traffic = removes_traffic


class _Packing:
    """The decisions of one plan in progress."""

    def __init__(self) -> None:
        self.create: list[_Draft] = []
        self.update: list[_Draft] = []
        self.delete: list[ObservedSlice] = []
        self.unchanged: list[ObservedSlice] = []
        self.added = 0
        self.removed = 0


def plan_address_type(view: AddressTypeView, trigger_time: str | None) -> AddressTypePlan:
    """Plan the writes that bring the slices of one address type up to date.

    Deterministic: equal views give equal plans. After all writes, the next plan is empty, every desired
    endpoint is in exactly one slice, and no slice filled by this plan exceeds ``max_endpoints``.
    """
    packing = _Packing()
    labels = slice_labels(view.service)
    dirty: dict[str, list[ObservedSlice]] = {}
    for observed in view.dirty:
        dirty.setdefault(observed.ports.key, []).append(observed)
    unplaced: dict[str, dict[str, DesiredEndpoint]] = {}
    for wanted in view.unplaced:
        unplaced.setdefault(wanted.ports.key, {})[wanted.pod] = wanted
    packing.delete.extend(view.not_owned)
    for key in sorted(dirty.keys() | unplaced.keys()):
        if key in view.wanted_ports:
            _pack(
                packing,
                view,
                labels,
                dirty.get(key, ()),
                unplaced.get(key, {}),
                view.with_capacity.get(key, ()),
            )
        else:  # S-46
            packing.delete.extend(dirty[key])
            packing.removed += sum(observed.size for observed in dirty[key])
    _keep_placeholder(packing, view, labels)
    hint_allocation = _allocate_hints(packing, view.topology) if view.topology is not None else None
    return _finish(packing, view, labels, trigger_time, hint_allocation)


def _pack(
    packing: _Packing,
    view: AddressTypeView,
    labels: Labels,
    dirty: Sequence[ObservedSlice],
    remaining: dict[str, DesiredEndpoint],
    with_capacity: Iterable[ObservedSlice],
) -> None:
    """Place the endpoints of one port set (S-40 to S-45)."""
    rewritten: list[_Draft] = []
    intact = list(with_capacity)
    claimed: set[str] = set()
    for observed in dirty:  # S-40: keep desired endpoints, drop the rest
        kept, changed, dropped, removes_traffic = _keep(view, observed, claimed)
        packing.removed += dropped
        if changed and not kept:
            packing.delete.append(observed)
        elif changed:
            rewritten.append(_Draft(observed, observed.ports, kept, removes_traffic))
        elif (observed.slice.metadata.labels or {}) != labels:
            rewritten.append(_Draft(observed, observed.ports, list(observed.slice.endpoints or ())))
        else:
            packing.unchanged.append(observed)
            intact.append(observed)
    if remaining:
        for pod in claimed:
            remaining.pop(pod, None)
    packing.added += len(remaining)
    packing.update.extend(rewritten)
    unplaced = list(remaining.values())
    for draft in sorted(rewritten, key=lambda draft: -len(draft.endpoints)):  # S-42: fullest first
        capacity = view.max_endpoints - len(draft.endpoints)
        if capacity > 0 and unplaced:
            draft.endpoints.extend(wanted.endpoint for wanted in unplaced[:capacity])
            del unplaced[:capacity]
    while unplaced:  # S-43
        count = len(unplaced)
        candidates = (
            [observed for observed in intact if observed.size + count <= view.max_endpoints]
            if count < view.max_endpoints
            else []
        )
        if candidates:
            best = min(candidates, key=lambda observed: (-observed.size, observed.name))
            packing.unchanged = [observed for observed in packing.unchanged if observed is not best]
            endpoints = [*(best.slice.endpoints or ()), *(wanted.endpoint for wanted in unplaced)]
            packing.update.append(_Draft(best, best.ports, endpoints))
            return
        chunk, unplaced = unplaced[: view.max_endpoints], unplaced[view.max_endpoints :]
        packing.create.append(_Draft(None, chunk[0].ports, [wanted.endpoint for wanted in chunk]))


def _keep(
    view: AddressTypeView, observed: ObservedSlice, claimed: set[str]
) -> tuple[list[Endpoint], bool, int, bool]:
    """Return the kept endpoints of a slice, whether it changes, the dropped count, and whether it removes traffic.

    It removes traffic if an endpoint is dropped or is no longer ready.
    """
    namespace = view.service.metadata.namespace
    kept: list[Endpoint] = []
    changed = removes_traffic = False
    endpoints = observed.slice.endpoints or ()
    # Local variables, because this loop is the hot path.
    name, port_key = observed.name, observed.ports.key
    desired, holders, with_hints = view.desired, view.holders, view.topology is not None
    for endpoint in endpoints:
        target = endpoint.target_ref
        pod = target.name if target is not None and target.namespace == namespace else None
        wanted = desired.get(pod) if pod is not None else None
        if (
            pod is None
            or wanted is None
            or wanted.ports.key != port_key
            or pod in claimed
            or (pod in holders and holders[pod] != name)
            # Slices that we wrote contain the desired objects themselves: the common case.
            or not (endpoint is wanted.endpoint or same_identity(endpoint, wanted.endpoint))
        ):
            changed = removes_traffic = True
            continue
        claimed.add(pod)
        if endpoint is wanted.endpoint or same_content(endpoint, wanted.endpoint, ignore_hints=with_hints):
            # Keep allocated hints, so that unchanged ones are not computed again.
            kept.append(endpoint if with_hints else wanted.endpoint)
        else:
            changed = True
            kept.append(wanted.endpoint)
            if endpoint.conditions.ready is not False and wanted.endpoint.conditions.ready is False:
                removes_traffic = True
    return kept, changed, len(endpoints) - len(kept), removes_traffic


def _keep_placeholder(packing: _Packing, view: AddressTypeView, labels: Labels) -> None:
    """Keep an empty slice if all slices would be deleted and none created (S-50)."""
    if packing.create or len(packing.delete) < view.total_slices:
        return
    # Unlike upstream, only one that this service owns, because others are soon garbage-collected (S-51); and
    # one of several, where upstream rewrites the first.
    for position, observed in enumerate(packing.delete):
        if _is_placeholder(observed, view, labels):
            packing.unchanged.append(packing.delete.pop(position))
            return
    packing.create.append(_Draft(None, NO_PORTS, []))


def _is_placeholder(observed: ObservedSlice, view: AddressTypeView, labels: Labels) -> bool:
    endpoint_slice = observed.slice
    return (
        not endpoint_slice.endpoints
        and not endpoint_slice.ports
        and (endpoint_slice.metadata.labels or {}) == labels
        and is_owned_by(endpoint_slice, view.service)
    )


def _allocate_hints(packing: _Packing, topology: TopologyView) -> HintAllocation:
    """Set hints on drafts; slices whose hints no longer fit become drafts."""
    unchanged = tuple(packing.unchanged)

    def reopen(observed: ObservedSlice) -> _Draft:
        packing.unchanged = [other for other in packing.unchanged if other is not observed]
        draft = _Draft(observed, observed.ports, list(observed.slice.endpoints or ()))
        packing.update.append(draft)
        return draft

    return allocate_hints(topology, [*packing.create, *packing.update], unchanged, reopen)


def _finish(
    packing: _Packing,
    view: AddressTypeView,
    labels: Labels,
    trigger_time: str | None,
    hint_allocation: HintAllocation | None,
) -> AddressTypePlan:
    """Turn drafts into slices, traffic removals first: recycle names (S-70), set the trigger time (S-62), no creates for terminating services (S-73)."""
    service = view.service
    creates = list(packing.create)
    _drop_unchanged(packing, labels)
    # Updates that stop traffic to removed endpoints come before those that only add endpoints.
    ordered = sorted(packing.update, key=lambda draft: not draft.removes_traffic)
    updates = [_written(draft, labels, trigger_time) for draft in ordered]
    deletes: list[EndpointSlice] = []
    for observed in packing.delete:
        if creates and is_owned_by(observed.slice, service):
            updates.append(_recycled(creates.pop(), observed.slice, view, labels, trigger_time))
        else:
            deletes.append(observed.slice)
    if service.terminating:
        creates = []
    return AddressTypePlan(
        create=tuple(
            _with_trigger_time(
                new_slice(service, view.address_type, draft.ports, tuple(draft.endpoints)), trigger_time
            )
            for draft in creates
        ),
        update=tuple(updates),
        delete=tuple(deletes),
        unchanged=tuple(observed.name for observed in packing.unchanged),
        added=packing.added,
        removed=packing.removed,
        hint_allocation=hint_allocation,
    )


def _drop_unchanged(packing: _Packing, labels: Labels) -> None:
    """Treat updates that equal the existing slice as unchanged: new hints may equal the old ones."""
    changed: list[_Draft] = []
    for draft in packing.update:
        base = draft.base
        if (
            base is not None
            and tuple(draft.endpoints) == (base.slice.endpoints or ())
            and (base.slice.metadata.labels or {}) == labels
        ):
            packing.unchanged.append(base)
        else:
            changed.append(draft)
    packing.update = changed


def _written(draft: _Draft, labels: Labels, trigger_time: str | None) -> EndpointSlice:
    """Return an existing slice with new endpoints and labels; its other metadata stays (S-40, S-63)."""
    if draft.base is None:
        raise AssertionError("a draft without a base slice cannot be updated")
    endpoint_slice = draft.base.slice
    return _with_trigger_time(
        msgspec.structs.replace(
            endpoint_slice,
            metadata=msgspec.structs.replace(endpoint_slice.metadata, labels=labels),
            endpoints=tuple(draft.endpoints),
        ),
        trigger_time,
    )


def _recycled(
    draft: _Draft, old: EndpointSlice, view: AddressTypeView, labels: Labels, trigger_time: str | None
) -> EndpointSlice:
    """Return a new slice under the name of one that would be deleted; nothing else of that one stays (S-63).

    Unlike upstream it carries the old resource version, so it never overwrites an unobserved change.
    """
    return _with_trigger_time(
        EndpointSlice(
            metadata=ObjectMeta(
                name=old.metadata.name,
                generate_name=f"{view.service.metadata.name}-",
                namespace=old.metadata.namespace,
                uid=old.metadata.uid,
                resource_version=old.metadata.resource_version,
                labels=labels,
                owner_references=(owner_reference(view.service),),
            ),
            address_type=view.address_type,
            endpoints=tuple(draft.endpoints),
            ports=draft.ports.ports,
        ),
        trigger_time,
    )


def _with_trigger_time(endpoint_slice: EndpointSlice, trigger_time: str | None) -> EndpointSlice:
    annotations = endpoint_slice.metadata.annotations or {}
    if annotations.get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION) == trigger_time:
        return endpoint_slice
    annotations = {
        name: value for name, value in annotations.items() if name != LAST_CHANGE_TRIGGER_TIME_ANNOTATION
    }
    if trigger_time is not None:
        annotations[LAST_CHANGE_TRIGGER_TIME_ANNOTATION] = trigger_time
    return msgspec.structs.replace(
        endpoint_slice,
        metadata=msgspec.structs.replace(endpoint_slice.metadata, annotations=annotations or None),
    )
