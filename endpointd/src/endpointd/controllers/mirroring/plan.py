"""Which slices of one Endpoints to create, update and delete: a pure function (behaviour 3.5, 3.6).

It looks at the whole Endpoints, which whoever wrote it has written whole; what it writes are the slices that are not as
they should be, and no others.
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
    """The figures of one plan (3.7): endpoints against those of the slice that stays, and slices once it is done."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    skipped: int = 0
    """Addresses that are not mirrored, the invalid ones among them."""
    endpoints: int = 0
    """Endpoints that should be published."""
    slices_desired: int = 0
    slices_actual: int = 0


class MirrorPlan(msgspec.Struct, frozen=True, gc=False):
    """What to write, in this order."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    counts: MirrorCounts = MirrorCounts()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not (self.create or self.update or self.delete)


class Problem(msgspec.Struct, frozen=True, gc=False):
    """Why something of an Endpoints is not mirrored, as an Event says it."""

    reason: str
    message: str


def plan_mirror(
    item: Endpoints,
    mirrored: Mirrored,
    slices: Iterable[EndpointSlice],
    sent: Mapping[str, EndpointSlice] | None = None,
) -> MirrorPlan:
    """Say what makes the slices of an Endpoints right.

    ``slices`` are all that carry its name and our label. Those being deleted are no longer ours (as in S-14): they are
    neither written nor counted on. ``sent``, by name of the slice, is what we sent where the server has stored something
    else (because of an admission webhook, say): it has had the last word, and is not asked again.

    Deterministic, and there is at most one slice a group afterwards (M-30, M-31). Applied in full, it leaves slices for
    which the next plan is empty. A slice that is right is never written.
    """
    observed: dict[GroupKey, list[EndpointSlice]] = defaultdict(list)
    alive = oldest_first(_alive(slices))
    for endpoint_slice in alive:
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
            # Upstream rebuilds it without the name it was generated from (M-33).
            without = msgspec.structs.replace(wanted.metadata, generate_name=None)
            wanted = msgspec.structs.replace(wanted, metadata=without, unknown=first.unknown)
            update.append(_in_place_of(first, wanted))
    for key in sorted(observed):  # M-30: no group, no slice
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
            slices_actual=len(alive) + len(create) - len(delete),
        ),
    )


def plan_clean_up(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
    """Return what to delete of the slices of an Endpoints that is not mirrored: all, whosever they are (M-10)."""
    return tuple(oldest_first(_alive(slices)))


def problems_of(item: Endpoints, mirrored: Mirrored, max_addresses: int) -> tuple[Problem, ...]:
    """Return the problems of one Endpoints that are reported as Events (M-25, and metadata that is not copied)."""
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
    left_out = copied_metadata(item, slices).left_out
    if left_out:
        problems.append(
            Problem(
                "TooMuchMetadataToMirror",
                f"Skipped the {left_out} largest labels and annotations: copied to {slices} EndpointSlices they would"
                f" exceed {COPIED_METADATA_BYTES} bytes",
            )
        )
    return tuple(problems)


def _alive(slices: Iterable[EndpointSlice]) -> Iterable[EndpointSlice]:
    return (endpoint_slice for endpoint_slice in slices if endpoint_slice.metadata.deletion_timestamp is None)


def _as_sent(endpoint_slice: EndpointSlice, sent: Mapping[str, EndpointSlice] | None) -> EndpointSlice:
    """Return what a slice counts as: what we sent, where it is what the server made of that."""
    return sent.get(endpoint_slice.metadata.name, endpoint_slice) if sent else endpoint_slice


def _compare(seen: EndpointSlice, group: Group) -> tuple[int, int, int]:
    """Return how many endpoints a slice lacks, has otherwise, and has too many (M-32)."""
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
    """Return what of a slice's metadata is mirrored (M-32)."""
    metadata = endpoint_slice.metadata
    return metadata.labels or None, metadata.annotations or None, metadata.owner_references


def _in_place_of(old: EndpointSlice, wanted: EndpointSlice) -> EndpointSlice:
    """Return the wanted slice under the name of another; nothing else of that stays but what holds its deletion up.

    Unlike upstream (M-33) it is written only over what was seen, and keeps the finalizers of others.
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
    """Pair creates with deletes of the same address type; return what is left, with the pairs between (M-40).

    Of the oldest hundred the one is taken that has most addresses in common, so that few are missing while they move;
    of equals the oldest. Comparing each create with each delete would stall the loop for an Endpoints of many subsets. (Upstream pairs by chance, and takes the wrong one off its list where both families have creates.)
    """
    to_delete: dict[str, list[tuple[EndpointSlice, set[tuple[str, ...]]]]] = defaultdict(list)
    for endpoint_slice in oldest_first(delete):
        to_delete[endpoint_slice.address_type].append((endpoint_slice, _addresses(endpoint_slice)))
    left: list[EndpointSlice] = []
    recycled: list[EndpointSlice] = []
    for wanted in create:
        candidates = to_delete[wanted.address_type]
        if not candidates:
            left.append(wanted)
            continue
        moving = _addresses(wanted)
        window = range(min(len(candidates), _COMPARED_SLICES))
        old, _ = candidates.pop(max(window, key=lambda index: len(moving & candidates[index][1])))
        recycled.append(_in_place_of(old, wanted))
    rest = [endpoint_slice for candidates in to_delete.values() for endpoint_slice, _ in candidates]
    return left, recycled, oldest_first(rest)


def _addresses(endpoint_slice: EndpointSlice) -> set[tuple[str, ...]]:
    return {endpoint.addresses for endpoint in endpoint_slice.endpoints or ()}
