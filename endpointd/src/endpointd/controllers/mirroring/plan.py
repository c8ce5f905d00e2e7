"""Plan the creates, updates and deletes of one Endpoints' slices: a pure function (behaviour 3.5, 3.6).

It reads the whole Endpoints, because clients write it as a whole, and writes only slices that differ.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from endpointd.controllers.mirroring.desired import (
    COPIED_METADATA_BYTES,
    Group,
    GroupKey,
    Mirrored,
    copied_metadata,
    group_key_of,
    identity_of,
    is_same_endpoint,
    new_slice,
    oldest_first,
)

_COMPARED_SLICES = 100


class MirrorCounts(msgspec.Struct, frozen=True, gc=False):
    """The metrics of one plan (3.7): endpoint changes against the kept slices, and slice counts after the plan."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    skipped: int = 0
    """Addresses that are not mirrored, including invalid ones."""
    endpoints: int = 0
    """Endpoints that should be published."""
    slices_desired: int = 0
    slices_actual: int = 0


class MirrorPlan(msgspec.Struct, frozen=True, gc=False):
    """The writes to make, in this order."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    counts: MirrorCounts = MirrorCounts()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.create or self.update or self.delete)


class Problem(msgspec.Struct, frozen=True, gc=False):
    """Why part of an Endpoints is not mirrored, as reported in an Event."""

    reason: str
    message: str


def plan_mirror(
    item: Endpoints,
    mirrored: Mirrored,
    slices: Iterable[EndpointSlice],
    sent: Mapping[str, EndpointSlice] | None = None,
) -> MirrorPlan:
    """Plan the writes that bring the slices of an Endpoints up to date.

    ``slices`` are all slices with its name and our label. Slices being deleted are no longer ours (as in
    S-14): they are neither written nor counted. ``sent``, by slice name, holds our writes that the server
    stored differently (for example because of an admission webhook): they are not repeated.

    Deterministic; afterwards each group has at most one slice (M-30, M-31). Applied completely, it leaves
    slices for which the next plan is empty. Correct slices are never written.
    """
    observed: dict[GroupKey, list[EndpointSlice]] = defaultdict(list)
    active = oldest_first(_not_terminating(slices))
    for endpoint_slice in active:
        observed[group_key_of(_as_sent(endpoint_slice, sent))].append(endpoint_slice)
    create: list[EndpointSlice] = []
    update: list[EndpointSlice] = []
    delete: list[EndpointSlice] = []
    added = updated = removed = 0
    copied = copied_metadata(item, len(mirrored.groups))
    for group in mirrored.groups:
        wanted = new_slice(item, group, copied)
        found = observed.pop(group.key, [])
        if not found:
            create.append(wanted)
            added += len(group.endpoints)
            continue
        first = found[0]
        delete += found[1:]  # M-31
        seen = _as_sent(first, sent)
        difference = _compare(seen, group)
        added += difference[0]
        updated += difference[1]
        removed += difference[2]
        if any(difference) or _metadata(seen) != _metadata(wanted):
            # Upstream rebuilds it without generateName (M-33).
            without = msgspec.structs.replace(wanted.metadata, generate_name=None)
            wanted = msgspec.structs.replace(wanted, metadata=without, unknown=first.unknown)
            update.append(_in_place_of(first, wanted))
    for key in sorted(observed):  # M-30: a slice without a group is deleted
        delete += observed[key]
        removed += sum(len(endpoint_slice.endpoints or ()) for endpoint_slice in observed[key])
    create, recycled, delete = _recycle(create, delete)
    if item.metadata.deletion_timestamp is not None:  # M-41
        create = []
    return MirrorPlan(
        create=tuple(create),
        update=(*update, *recycled),
        delete=tuple(delete),
        counts=MirrorCounts(
            added=added,
            updated=updated,
            removed=removed,
            skipped=mirrored.skipped,
            endpoints=sum(len(group.endpoints) for group in mirrored.groups),
            slices_desired=len(mirrored.groups),
            slices_actual=len(active) + len(create) - len(delete),
        ),
    )


def plan_clean_up(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
    """Return the slices to delete for an Endpoints that is not mirrored: all, regardless of owner (M-10)."""
    return tuple(oldest_first(_not_terminating(slices)))


def problems_of(item: Endpoints, mirrored: Mirrored, max_addresses: int) -> tuple[Problem, ...]:
    """Return the problems of one Endpoints that are reported as Events (M-25, and omitted metadata)."""
    problems: list[Problem] = []
    if mirrored.invalid:
        problems.append(
            Problem(
                "InvalidIPAddress",
                f"Skipped {mirrored.invalid} invalid IP addresses when mirroring to EndpointSlices",
            )
        )
    if mirrored.skipped > mirrored.invalid:
        problems.append(
            Problem(
                "TooManyAddressesToMirror",
                f"A max of {max_addresses} addresses can be mirrored to EndpointSlices per Endpoints subset."
                f" {mirrored.skipped} addresses were skipped",
            )
        )
    slices = len(mirrored.groups)
    omitted = copied_metadata(item, slices).omitted
    if omitted:
        problems.append(
            Problem(
                "TooMuchMetadataToMirror",
                f"Skipped the {omitted} largest labels and annotations: copied to {slices} EndpointSlices they would"
                f" exceed {COPIED_METADATA_BYTES} bytes",
            )
        )
    return tuple(problems)


def _not_terminating(slices: Iterable[EndpointSlice]) -> Iterable[EndpointSlice]:
    return (endpoint_slice for endpoint_slice in slices if endpoint_slice.metadata.deletion_timestamp is None)


def _as_sent(endpoint_slice: EndpointSlice, sent: Mapping[str, EndpointSlice] | None) -> EndpointSlice:
    """Return the slice that we sent, if the server stored it with modifications; otherwise the stored slice."""
    return sent.get(endpoint_slice.metadata.name, endpoint_slice) if sent else endpoint_slice


def _compare(seen: EndpointSlice, group: Group) -> tuple[int, int, int]:
    """Return the number of missing, changed and superfluous endpoints of a slice (M-32)."""
    missing = {identity_of(endpoint): endpoint for endpoint in group.endpoints}
    updated = removed = 0
    for endpoint in seen.endpoints or ():
        wanted = missing.pop(identity_of(endpoint), None)
        if wanted is None:
            removed += 1
        elif not is_same_endpoint(endpoint, wanted):
            updated += 1
    return len(missing), updated, removed


def _metadata(endpoint_slice: EndpointSlice) -> tuple[object, object, object]:
    """Return the mirrored metadata of a slice (M-32)."""
    metadata = endpoint_slice.metadata
    return metadata.labels or None, metadata.annotations or None, metadata.owner_references


def _in_place_of(old: EndpointSlice, wanted: EndpointSlice) -> EndpointSlice:
    """Return the desired slice under the name of another; of that one only identity and finalizers stay.

    Unlike upstream (M-33), it overwrites only the observed version and keeps finalizers of other clients.
    """
    metadata = msgspec.structs.replace(
        wanted.metadata,
        name=old.metadata.name,
        uid=old.metadata.uid,
        resource_version=old.metadata.resource_version,
        finalizers=old.metadata.finalizers,
    )
    return msgspec.structs.replace(wanted, metadata=metadata)


def _recycle(
    create: Iterable[EndpointSlice], delete: Iterable[EndpointSlice]
) -> tuple[list[EndpointSlice], list[EndpointSlice], list[EndpointSlice]]:
    """Pair creates with deletes of the same address type; return remaining creates, the pairs and remaining deletes (M-40).

    Among the oldest hundred, picks the slice with the most common addresses, so that few are missing during
    the move; ties go to the oldest. Comparing each create with each delete would stall the loop for an
    Endpoints with many subsets. (Upstream pairs randomly, and removes the wrong one from its list if both IP
    families have creates.)
    """
    to_delete: dict[str, list[tuple[EndpointSlice, set[tuple[str, ...]]]]] = defaultdict(list)
    for endpoint_slice in oldest_first(delete):
        to_delete[endpoint_slice.address_type].append((endpoint_slice, _addresses(endpoint_slice)))
    remaining: list[EndpointSlice] = []
    recycled: list[EndpointSlice] = []
    for wanted in create:
        candidates = to_delete[wanted.address_type]
        if not candidates:
            remaining.append(wanted)
            continue
        moving = _addresses(wanted)
        window = range(min(len(candidates), _COMPARED_SLICES))
        old, _ = candidates.pop(max(window, key=lambda index: len(moving & candidates[index][1])))
        recycled.append(_in_place_of(old, wanted))
    rest = [endpoint_slice for candidates in to_delete.values() for endpoint_slice, _ in candidates]
    return remaining, recycled, oldest_first(rest)


def _addresses(endpoint_slice: EndpointSlice) -> set[tuple[str, ...]]:
    return {endpoint.addresses for endpoint in endpoint_slice.endpoints or ()}
