"""Topology-aware hints assign consumers of zones to endpoints (behaviour 2.11): pure functions.

They are allocated over all ready endpoints of a service, but only slices that are written anyway, or whose
hints no longer fit, are read: a change that keeps the allocation costs O(zones).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from aiokube.api.discovery import Endpoint, EndpointHints, ForZone
from endpointd.controllers.endpointslice.desired import ObservedSlice
from endpointd.controllers.endpointslice.hint_counts import HintSums, SliceHints
from endpointd.controllers.endpointslice.topology import (
    Refusal,
    ZoneAllocation,
    allocate,
    moves_between_zones,
)


@lru_cache(maxsize=4_096)
def _hint_at(zone: str) -> EndpointHints:
    return EndpointHints(for_zones=(ForZone(zone),))


class Draft(Protocol):
    """A slice to be written; ``base`` is its previous version, or None if it is created."""

    base: ObservedSlice | None
    endpoints: list[Endpoint]


class TopologyView(msgspec.Struct, frozen=True, gc=False):
    """The input of a hint allocation."""

    ratios: Mapping[str, float] | None
    ready: int
    """Ready endpoints of the service in all slices."""
    without_zone: int
    """The number of them without a zone."""
    hinted: HintSums
    """The hints of the clean sound slices."""
    unsound: AbstractSet[str]
    """The names of the other clean slices."""
    any_hinted: bool
    """Whether any endpoint of a clean slice has hints."""
    dirty: AbstractSet[str]
    """The names of the slices that are not in these sums. Other slices may still be written because they have
    capacity."""
    clean: Callable[[], Iterable[ObservedSlice]]
    """Returns the clean slices by name; called only if their hints have to change."""


class HintAllocation(msgspec.Struct, frozen=True, gc=False):
    """The result of an allocation: hints by zone, or the reason for their absence."""

    hinted: Mapping[str, int]
    refusal: Refusal | None = None


def allocate_hints(
    view: TopologyView,
    drafts: Sequence[Draft],
    unchanged: Iterable[ObservedSlice],
    reopen: Callable[[ObservedSlice], Draft],
) -> HintAllocation:
    """Set the hints of the endpoints of all drafts (S-93 to S-97).

    ``unchanged`` are dirty slices that are otherwise correct. ``reopen`` turns a slice whose hints no longer
    fit into a draft; a draft may end up equal to its slice. Pass created drafts before updated ones. After
    all writes, the result is stable: the next call reopens nothing.
    """
    allocations = allocate(view.ratios, view.ready, view.without_zone)
    if isinstance(allocations, Refusal):
        return _without_hints(allocations, view, drafts, unchanged, reopen)
    bases = {draft.base.name for draft in drafts if draft.base is not None}
    opened = list(drafts)
    sums = view.hinted.copy()
    for draft in drafts:  # a clean slice that is written because it has capacity
        if draft.base is not None and draft.base.name not in view.dirty | view.unsound:
            sums.subtract(SliceHints.of(draft.base.slice.endpoints or ()))
    if view.unsound:
        opened += [
            reopen(endpoint_slice)
            for endpoint_slice in view.clean()
            if endpoint_slice.name in view.unsound and endpoint_slice.name not in bases
        ]
    kept: list[ObservedSlice] = []
    for endpoint_slice in unchanged:
        hints = SliceHints.of(endpoint_slice.slice.endpoints or ())
        if hints.is_sound:
            sums.add(hints)
            kept.append(endpoint_slice)
        else:
            opened.append(reopen(endpoint_slice))
    hinted = _hint(opened, sums, allocations)
    if hinted.can_stay(allocations):
        return HintAllocation(hinted.zones)
    # The existing hints do not leave enough capacity: keep those that fit, slice by slice (S-94), or else
    # none.
    clean = (
        endpoint_slice for endpoint_slice in view.clean() if endpoint_slice.name not in bases | view.unsound
    )
    kept_slices = [*clean, *kept]
    for fits in (_fits, _fits_never):
        sums = HintSums()
        kept = []
        for endpoint_slice in kept_slices:
            hints = SliceHints.of(endpoint_slice.slice.endpoints or ())
            if fits(hints, sums, allocations):
                sums.add(hints)
                kept.append(endpoint_slice)
            else:
                opened.append(reopen(endpoint_slice))
        kept_slices = kept
        hinted = _hint(opened, sums, allocations)
        if hinted.can_stay(allocations):
            break
    return HintAllocation(hinted.zones)


def _fits(hints: SliceHints, sums: HintSums, allocations: Mapping[str, ZoneAllocation]) -> bool:
    return hints.crossing <= allocations.keys() and all(
        zone not in allocations or sums.zones.get(zone, 0) + count <= allocations[zone].maximum
        for zone, count in hints.zones.items()
    )


def _fits_never(_: SliceHints, __: HintSums, ___: Mapping[str, ZoneAllocation]) -> bool:
    return False


def _hint(
    drafts: Sequence[Draft], kept_slices: HintSums, allocations: Mapping[str, ZoneAllocation]
) -> HintSums:
    """Hint all ready endpoints of the drafts at their own zones, then balance (S-95, S-96); return all sums."""
    sums = kept_slices.copy()
    counts = sums.zones
    for draft in drafts:
        for place, endpoint in enumerate(draft.endpoints):
            zone = endpoint.zone
            if not endpoint.conditions.ready or not zone:
                draft.endpoints[place] = without_hints(endpoint)
                continue
            counts[zone] = counts.get(zone, 0) + 1
            draft.endpoints[place] = _with_hints(endpoint, _hint_at(zone))
    giving, receiving = moves_between_zones(counts, allocations)
    _redistribute(drafts, giving, receiving, sums)
    return sums


def without_hints(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint without hints; the same object if it has no hints."""
    return endpoint if endpoint.hints is None else msgspec.structs.replace(endpoint, hints=None)


def _with_hints(endpoint: Endpoint, hints: EndpointHints) -> Endpoint:
    return endpoint if endpoint.hints == hints else msgspec.structs.replace(endpoint, hints=hints)


def _redistribute(
    drafts: Sequence[Draft], giving: dict[str, int], receiving: dict[str, int], sums: HintSums
) -> None:
    """Assign some endpoints of zones with a surplus to zones with a deficit (S-96)."""
    for draft in drafts:
        for place, endpoint in enumerate(draft.endpoints):
            if not giving:
                return
            zone = endpoint.zone
            if not endpoint.conditions.ready or not zone or zone not in giving:
                continue
            receiver = min(receiving, key=lambda other: (-receiving[other], other))
            draft.endpoints[place] = _with_hints(endpoint, _hint_at(receiver))
            _take_one(giving, zone)
            _take_one(receiving, receiver)
            _take_one(sums.zones, zone)
            sums.add(SliceHints({receiver: 1}, {receiver}, is_sound=True, has_any=True))


def _take_one(claims: dict[str, int], zone: str) -> None:
    claims[zone] -= 1
    if not claims[zone]:
        del claims[zone]


def _without_hints(
    refusal: Refusal,
    view: TopologyView,
    drafts: Sequence[Draft],
    unchanged: Iterable[ObservedSlice],
    reopen: Callable[[ObservedSlice], Draft],
) -> HintAllocation:
    """Remove all hints: from drafts, and from every slice that still has some."""
    opened = list(drafts)
    bases = {draft.base.name for draft in drafts if draft.base is not None}
    candidates = (*view.clean(), *unchanged) if view.any_hinted else tuple(unchanged)
    opened += [
        reopen(endpoint_slice)
        for endpoint_slice in candidates
        if endpoint_slice.name not in bases
        and any(endpoint.hints is not None for endpoint in endpoint_slice.slice.endpoints or ())
    ]
    for draft in opened:
        draft.endpoints[:] = map(without_hints, draft.endpoints)
    return HintAllocation({}, refusal)


class HintEvent(msgspec.Struct, frozen=True, gc=False):
    """An Event about enabled or disabled hints."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class HintStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether an Event has reported that a service has hints."""

    is_enabled: bool = False

    def after(
        self, address_type: str, outcome: HintAllocation | None
    ) -> "tuple[HintStatus, HintEvent | None]":
        """Return the status and the Event after a plan; ``outcome`` is None if hints are not requested.

        S-82, S-93, S-97. As upstream, one flag covers all address types of a service.
        """
        if outcome is None:
            if not self.is_enabled:
                return self, None
            text = f"Topology Aware Hints has been disabled, addressType: {address_type}"
            return HintStatus(), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        if outcome.refusal is not None:
            text = f"{outcome.refusal.message}, addressType: {address_type}"
            return HintStatus(), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        if self.is_enabled:
            return self, None
        text = f"Topology Aware Hints has been enabled, addressType: {address_type}"
        return HintStatus(is_enabled=True), HintEvent("Normal", "TopologyAwareHintsEnabled", text)
