"""Topology-aware hints: which zone's consumers are sent to which endpoint (behaviour 2.11), pure functions.

They are shared out over all ready endpoints of a service, but only slices that are written anyway, or whose hints no
longer fit, are looked at: a change that leaves the allocation as it is costs O(zones).
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
    """A slice that is going to be written: ``base`` is what it was, None where it is created."""

    base: ObservedSlice | None
    endpoints: list[Endpoint]


class TopologyView(msgspec.Struct, frozen=True, gc=False):
    """What sharing out is made from."""

    ratios: Mapping[str, float] | None
    ready: int
    """Ready endpoints of the service, all slices together."""
    without_zone: int
    """How many of these are in no zone."""
    hinted: HintSums
    """The hints of the clean sound slices."""
    unsound: AbstractSet[str]
    """The names of the other clean slices."""
    any_hinted: bool
    """Whether any endpoint of a clean slice has hints."""
    dirty: AbstractSet[str]
    """The names of the slices that are not in these sums. Others may be written nevertheless, for their room."""
    clean: Callable[[], Iterable[ObservedSlice]]
    """The clean slices by name; asked for only where their hints have to change."""


class HintAllocation(msgspec.Struct, frozen=True, gc=False):
    """What came of it: hints by zone, or why there are none."""

    hinted: Mapping[str, int]
    refusal: Refusal | None = None


def allocate_hints(
    view: TopologyView,
    drafts: Sequence[Draft],
    unchanged: Iterable[ObservedSlice],
    reopen: Callable[[ObservedSlice], Draft],
) -> HintAllocation:
    """Give the endpoints of all drafts their hints (S-93 to S-97).

    ``unchanged`` are slices that were looked at and found right otherwise. A slice whose hints do not fit any more is
    turned into a draft by ``reopen``; a draft may end up as the slice was. Drafts should come in the order created,
    then updated. Written in full, the result can stay: the next call with it gives no draft.
    """
    allocations = allocate(view.ratios, view.ready, view.without_zone)
    if isinstance(allocations, Refusal):
        return _without_hints(allocations, view, drafts, unchanged, reopen)
    bases = {draft.base.name for draft in drafts if draft.base is not None}
    opened = list(drafts)
    sums = view.hinted.copy()
    for draft in drafts:  # a clean slice that is written for the room that it has
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
    # What stands does not leave enough room: keep what fits, slice by slice (S-94), or nothing where that does not do.
    clean = (
        endpoint_slice for endpoint_slice in view.clean() if endpoint_slice.name not in bases | view.unsound
    )
    standing = [*clean, *kept]
    for fits in (_fits, _fits_never):
        sums = HintSums()
        kept = []
        for endpoint_slice in standing:
            hints = SliceHints.of(endpoint_slice.slice.endpoints or ())
            if fits(hints, sums, allocations):
                sums.add(hints)
                kept.append(endpoint_slice)
            else:
                opened.append(reopen(endpoint_slice))
        standing = kept
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


def _hint(drafts: Sequence[Draft], standing: HintSums, allocations: Mapping[str, ZoneAllocation]) -> HintSums:
    """Hint all ready endpoints of the drafts at their own zones, then balance (S-95, S-96); return all hints."""
    sums = standing.copy()
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
    """Return the endpoint as it is without hints; itself where it has none."""
    return endpoint if endpoint.hints is None else msgspec.structs.replace(endpoint, hints=None)


def _with_hints(endpoint: Endpoint, hints: EndpointHints) -> Endpoint:
    return endpoint if endpoint.hints == hints else msgspec.structs.replace(endpoint, hints=hints)


def _redistribute(
    drafts: Sequence[Draft], giving: dict[str, int], receiving: dict[str, int], sums: HintSums
) -> None:
    """Send some endpoints of zones that have too many to consumers of zones that have too few (S-96)."""
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
    """Strip all hints: from what is written anyway, and from every slice that still has some."""
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
    """An event that tells of hints given or taken."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class HintStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether an Event has told that a service has hints."""

    told: bool = False

    def after(
        self, address_type: str, outcome: HintAllocation | None
    ) -> "tuple[HintStatus, HintEvent | None]":
        """Return the status and what to tell after a plan; no outcome means that hints are not asked for.

        S-82, S-93, S-97. As upstream, one flag serves all address types of a service.
        """
        if outcome is None:
            if not self.told:
                return self, None
            text = f"Topology Aware Hints has been disabled, addressType: {address_type}"
            return HintStatus(), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        if outcome.refusal is not None:
            text = f"{outcome.refusal.message}, addressType: {address_type}"
            return HintStatus(), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        if self.told:
            return self, None
        text = f"Topology Aware Hints has been enabled, addressType: {address_type}"
        return HintStatus(told=True), HintEvent("Normal", "TopologyAwareHintsEnabled", text)
