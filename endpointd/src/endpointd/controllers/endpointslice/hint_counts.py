"""Counts the zone hints in slices as they change, and decides whether they can stay."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from aiokube.api.discovery import Endpoint
from endpointd.controllers.endpointslice.desired import ObservedSlice
from endpointd.controllers.endpointslice.topology import Refusal, ZoneAllocation, allocate, is_balanced


class SliceHints(msgspec.Struct, frozen=True, gc=False):
    """The hints in one slice."""

    zones: Mapping[str, int]
    """The number of ready endpoints hinted at each zone."""
    crossing: AbstractSet[str]
    """The zones that are hinted for endpoints of other zones."""
    is_sound: bool
    """Whether each ready endpoint has exactly one zone hint, and no other endpoint has hints."""
    has_any: bool

    @classmethod
    def of(cls, endpoints: Iterable[Endpoint]) -> "SliceHints":
        """Count the hints of a slice's endpoints."""
        zones: dict[str, int] = {}
        crossing: set[str] = set()
        is_sound, has_any = True, False
        for endpoint in endpoints:
            hints = endpoint.hints
            if hints is None:
                is_sound = is_sound and not endpoint.conditions.ready
                continue
            has_any = True
            if not endpoint.conditions.ready or hints.for_nodes or len(hints.for_zones or ()) != 1:
                is_sound = False
                continue
            for zone in hints.for_zones or ():
                zones[zone.name] = zones.get(zone.name, 0) + 1
                if zone.name != endpoint.zone:
                    crossing.add(zone.name)
        return cls(zones, crossing, is_sound, has_any)


class HintSums:
    """Hints by zone, summed over any number of sound slices."""

    __slots__ = ("crossing", "zones")

    def __init__(
        self, zones: Mapping[str, int] | None = None, crossing: Mapping[str, int] | None = None
    ) -> None:
        self.zones = dict(zones or {})
        """Zone to the number of endpoints hinted at it."""
        self.crossing = dict(crossing or {})
        """Zone to the number of slices that hint it for endpoints of other zones."""

    def copy(self) -> "HintSums":
        """Return an independent copy."""
        return HintSums(self.zones, self.crossing)

    def add(self, hints: SliceHints) -> None:
        """Add a slice."""
        for zone, count in hints.zones.items():
            self.zones[zone] = self.zones.get(zone, 0) + count
        for zone in hints.crossing:
            self.crossing[zone] = self.crossing.get(zone, 0) + 1

    def subtract(self, hints: SliceHints) -> None:
        """Subtract a slice that was added."""
        for zone, count in hints.zones.items():
            _subtract(self.zones, zone, count)
        for zone in hints.crossing:
            _subtract(self.crossing, zone, 1)

    def can_stay(self, allocations: Mapping[str, ZoneAllocation]) -> bool:
        """Return whether no hint has to change (S-94).

        Endpoints in a zone without an allocation keep a hint at their own zone, as upstream sets it (S-97);
        hints of other endpoints at such a zone cannot stay.
        """
        return self.crossing.keys() <= allocations.keys() and is_balanced(self.zones, allocations)


def _subtract(counts: dict[str, int], zone: str, count: int) -> None:
    counts[zone] -= count
    if not counts[zone]:
        del counts[zone]


class HintCounts:
    """The ready endpoints of a service and the hints in its slices.

    An update costs O(slice), a query O(zones).
    """

    __slots__ = ("_by_slice", "_hinted", "_sums", "_unsound", "ready", "without_zone")

    def __init__(self) -> None:
        self.ready = 0
        self.without_zone = 0
        """The number of ready endpoints without a zone."""
        self._by_slice: dict[str, SliceHints] = {}
        self._sums = HintSums()  # over the sound slices
        self._unsound: set[str] = set()
        self._hinted: set[str] = set()

    def count_endpoint(self, endpoint: Endpoint | None, times: int) -> None:
        """Count a desired endpoint: 1 to add it, -1 to remove it."""
        if endpoint is not None and endpoint.conditions.ready:
            self.ready += times
            if not endpoint.zone:
                self.without_zone += times

    def add(self, observed: ObservedSlice) -> None:
        """Add a slice that is not yet counted."""
        hints = self._by_slice[observed.name] = SliceHints.of(observed.slice.endpoints or ())
        if hints.has_any:
            self._hinted.add(observed.name)
        if hints.is_sound:
            self._sums.add(hints)
        else:
            self._unsound.add(observed.name)

    def remove(self, name: str) -> None:
        """Remove a counted slice."""
        hints = self._by_slice.pop(name)
        self._hinted.discard(name)
        if hints.is_sound:
            self._sums.subtract(hints)
        else:
            self._unsound.discard(name)

    def can_stay(self, ratios: Mapping[str, float] | None, reported_refusal: Refusal | None) -> bool:
        """Return whether a plan would keep all hints, if the slices are otherwise correct.

        A refusal other than ``reported_refusal`` also needs a plan: an Event reports it (S-93).
        """
        allocations = allocate(ratios, self.ready, self.without_zone)
        if isinstance(allocations, Refusal):
            return not self._hinted and allocations == reported_refusal
        return not self._unsound and self._sums.can_stay(allocations)

    def sums_without(self, excluded: Iterable[str]) -> HintSums:
        """Return the sums over the sound slices, except some."""
        sums = self._sums.copy()
        for name in excluded:
            hints = self._by_slice.get(name)
            if hints is not None and hints.is_sound:
                sums.subtract(hints)
        return sums

    def unsound_without(self, excluded: AbstractSet[str]) -> frozenset[str]:
        """Return the names of slices with missing or wrong hints, except some."""
        return frozenset(self._unsound - excluded)

    def any_hinted_without(self, excluded: AbstractSet[str]) -> bool:
        """Return whether any slice, except some, has hints."""
        return any(name not in excluded for name in self._hinted)

    def snapshot(self) -> tuple[object, ...]:
        """Return all counts for comparison; equal slices and endpoints give equal snapshots."""
        return (
            self.ready,
            self.without_zone,
            dict(self._sums.zones),
            dict(self._sums.crossing),
            set(self._unsound),
        )
