"""Topology-aware hints: which zone's consumers are sent to which endpoint (behaviour 2.11), pure functions.

They are shared out over all ready endpoints of a service, but only slices that are written anyway, or whose hints no
longer fit, are looked at: a change that leaves the allocation as it is costs O(zones).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from endpointd.api.discovery import Endpoint, EndpointHints, ForZone
from endpointd.controllers.endpointslice.desired import ObservedSlice
from endpointd.controllers.endpointslice.topology import (
    NO_HINTS_ALLOCATED,
    NO_ZONE_ON_ENDPOINT,
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
    hinted: Mapping[str, int]
    """Hints by zone, summed over the untouched slices of which every ready endpoint has some."""
    all_hinted: bool
    """Whether those are all untouched slices."""
    any_hinted: bool
    """Whether any endpoint of an untouched slice has hints."""
    touched: AbstractSet[str]
    """The names of the slices that are not in these sums. Others may be written nevertheless, for their room."""
    untouched: Callable[[], Iterable[ObservedSlice]]
    """The untouched slices by name; asked for only where their hints have to change."""


class SharedOut(msgspec.Struct, frozen=True, gc=False):
    """What came of it: hints by zone, or why there are none."""

    hinted: Mapping[str, int]
    refusal: Refusal | None = None


def share_out(
    view: TopologyView,
    drafts: Sequence[Draft],
    unchanged: Iterable[ObservedSlice],
    reopen: Callable[[ObservedSlice], Draft],
) -> SharedOut:
    """Give the endpoints of all drafts their hints (S-93 to S-97).

    ``unchanged`` are slices that were looked at and found right otherwise. A slice whose hints do not fit any more is
    turned into a draft by ``reopen``. Drafts should come in the order created, then updated.
    """
    allocations = allocate(view.ratios, view.ready)
    if isinstance(allocations, Refusal):
        return _without_hints(allocations, view, drafts, unchanged, reopen)
    counts: dict[str, int] = {}
    opened: list[Draft] = list(drafts)
    hinted = _less(view.hinted, _filled_up(view, drafts))
    if view.all_hinted and _fits(hinted, counts, allocations):
        counts.update(hinted)
        candidates: Iterable[ObservedSlice] = unchanged
    else:
        candidates = (*_standing(view, drafts), *unchanged)
    for piece in candidates:
        hints = hints_by_zone(piece.slice.endpoints or ())
        if hints is not None and _fits(hints, counts, allocations):
            for zone, count in hints.items():
                counts[zone] = counts.get(zone, 0) + count
        else:
            opened.append(reopen(piece))
    for draft in opened:
        for place, endpoint in enumerate(draft.endpoints):
            if not endpoint.conditions.ready:
                draft.endpoints[place] = without_hints(endpoint)
                continue
            own_zone = endpoint.zone
            if not own_zone:
                return _without_hints(NO_ZONE_ON_ENDPOINT, view, opened, unchanged, reopen)
            counts[own_zone] = counts.get(own_zone, 0) + 1
            draft.endpoints[place] = _with_hints(endpoint, _hint_at(own_zone))
    giving, receiving = moves_between_zones(counts, allocations)
    _redistribute(opened, giving, receiving, counts)
    if not counts:
        return _without_hints(NO_HINTS_ALLOCATED, view, opened, unchanged, reopen)
    return SharedOut(counts)


def _filled_up(view: TopologyView, drafts: Sequence[Draft]) -> list[ObservedSlice]:
    """Return the untouched slices that are written for the room that they have."""
    bases = [draft.base for draft in drafts if draft.base is not None]
    return [piece for piece in bases if piece.name not in view.touched]


def _standing(view: TopologyView, drafts: Sequence[Draft]) -> list[ObservedSlice]:
    """Return the untouched slices that are not written: O(slices)."""
    bases = {draft.base.name for draft in drafts if draft.base is not None}
    return [piece for piece in view.untouched() if piece.name not in bases]


def _less(hinted: Mapping[str, int], written: Iterable[ObservedSlice]) -> dict[str, int]:
    left = dict(hinted)
    for piece in written:
        for zone, count in (hints_by_zone(piece.slice.endpoints or ()) or {}).items():
            left[zone] -= count
    return {zone: count for zone, count in left.items() if count}


def hints_by_zone(endpoints: Iterable[Endpoint]) -> dict[str, int] | None:
    """Count the hints of the ready endpoints by zone; None where one of them has no zone hint (S-94)."""
    counts: dict[str, int] = {}
    for endpoint in endpoints:
        if not endpoint.conditions.ready:
            continue
        if endpoint.hints is None or not endpoint.hints.for_zones:
            return None
        for hint in endpoint.hints.for_zones:
            counts[hint.name] = counts.get(hint.name, 0) + 1
    return counts


def without_hints(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint as it is without hints; itself where it has none."""
    return endpoint if endpoint.hints is None else msgspec.structs.replace(endpoint, hints=None)


def _with_hints(endpoint: Endpoint, hints: EndpointHints) -> Endpoint:
    return endpoint if endpoint.hints == hints else msgspec.structs.replace(endpoint, hints=hints)


def _fits(
    hints: Mapping[str, int], counts: Mapping[str, int], allocations: Mapping[str, ZoneAllocation]
) -> bool:
    return all(
        zone in allocations and counts.get(zone, 0) + count <= allocations[zone].maximum
        for zone, count in hints.items()
    )


def _redistribute(
    drafts: Sequence[Draft], giving: dict[str, int], receiving: dict[str, int], counts: dict[str, int]
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
            counts[zone] -= 1
            counts[receiver] = counts.get(receiver, 0) + 1


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
) -> SharedOut:
    """Strip all hints: from what is written anyway, and from every slice that still has some."""
    opened = list(drafts)
    bases = {draft.base.name for draft in drafts if draft.base is not None}
    candidates = (*view.untouched(), *unchanged) if view.any_hinted else tuple(unchanged)
    opened += [
        reopen(piece)
        for piece in candidates
        if piece.name not in bases
        and any(endpoint.hints is not None for endpoint in piece.slice.endpoints or ())
    ]
    for draft in opened:
        draft.endpoints[:] = map(without_hints, draft.endpoints)
    return SharedOut({}, refusal)


class HintEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that tells of hints given or taken."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class HintStatus(msgspec.Struct, frozen=True, gc=False):
    """What a service's slices were given last, by address type, and whether that has been told."""

    hinted: Mapping[str, Mapping[str, int]] = {}
    told: bool = False

    def after(self, address_type: str, outcome: SharedOut | None) -> "tuple[HintStatus, HintEvent | None]":
        """Return the status and what to tell after a plan; no outcome means that hints are not asked for.

        S-82, S-93, S-97. As upstream, one flag serves all address types of a service.
        """
        others = {family: hinted for family, hinted in self.hinted.items() if family != address_type}
        if outcome is None:
            if not self.told:
                return self, None
            text = f"Topology Aware Hints has been disabled, addressType: {address_type}"
            return HintStatus(others), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        if outcome.refusal is not None:
            text = f"{outcome.refusal.message}, addressType: {address_type}"
            return HintStatus(others), HintEvent("Warning", "TopologyAwareHintsDisabled", text)
        status = HintStatus({**others, address_type: outcome.hinted}, told=True)
        if self.told:
            return status, None
        text = f"Topology Aware Hints has been enabled, addressType: {address_type}"
        return status, HintEvent("Normal", "TopologyAwareHintsEnabled", text)
