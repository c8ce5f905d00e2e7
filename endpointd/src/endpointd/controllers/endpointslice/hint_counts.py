"""The zone hints that slices hold, counted as the slices change, and whether they can stay as they are."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from aiokube.api.discovery import Endpoint
from endpointd.controllers.endpointslice.desired import ObservedSlice
from endpointd.controllers.endpointslice.topology import Refusal, ZoneAllocation, allocate, is_balanced


class SliceHints(msgspec.Struct, frozen=True, gc=False):
    """The hints in one slice."""

    zones: Mapping[str, int]
    """How many ready endpoints are hinted at each zone."""
    crossing: AbstractSet[str]
    """The zones at which endpoints of other zones are hinted."""
    is_sound: bool
    """Whether each ready endpoint has one zone hint and nothing else, and no other endpoint has any."""
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
    """Hints by zone, over any number of sound slices."""

    __slots__ = ("crossing", "zones")

    def __init__(
        self, zones: Mapping[str, int] | None = None, crossing: Mapping[str, int] | None = None
    ) -> None:
        self.zones = dict(zones or {})
        """Zone to the endpoints hinted at it."""
        self.crossing = dict(crossing or {})
        """Zone to the slices that hint endpoints of other zones at it."""

    def copy(self) -> "HintSums":
        """Return sums of their own with the same values."""
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
        """Tell whether no hint has to change (S-94).

        Endpoints of a zone that is not in the table keep the hint at their own zone, as upstream gives it to them
        (S-97); hints of other endpoints at such a zone cannot stay.
        """
        return self.crossing.keys() <= allocations.keys() and is_balanced(self.zones, allocations)


def _subtract(counts: dict[str, int], zone: str, count: int) -> None:
    counts[zone] -= count
    if not counts[zone]:
        del counts[zone]


class HintCounts:
    """The ready endpoints of a service and the hints in its slices. An update costs O(the slice), an answer O(zones)."""

    __slots__ = ("_by_slice", "_hinted", "_sums", "_unsound", "ready", "without_zone")

    def __init__(self) -> None:
        self.ready = 0
        self.without_zone = 0
        """How many of the ready endpoints are in no zone."""
        self._by_slice: dict[str, SliceHints] = {}
        self._sums = HintSums()  # over the sound slices
        self._unsound: set[str] = set()
        self._hinted: set[str] = set()

    def count_endpoint(self, endpoint: Endpoint | None, times: int) -> None:
        """Count an endpoint that should be published: 1 for one that comes, -1 for one that goes."""
        if endpoint is not None and endpoint.conditions.ready:
            self.ready += times
            if not endpoint.zone:
                self.without_zone += times

    def add(self, observed: ObservedSlice) -> None:
        """Take in a slice that is not yet in."""
        hints = self._by_slice[observed.name] = SliceHints.of(observed.slice.endpoints or ())
        if hints.has_any:
            self._hinted.add(observed.name)
        if hints.is_sound:
            self._sums.add(hints)
        else:
            self._unsound.add(observed.name)

    def remove(self, name: str) -> None:
        """Take out a slice that is in."""
        hints = self._by_slice.pop(name)
        self._hinted.discard(name)
        if hints.is_sound:
            self._sums.subtract(hints)
        else:
            self._unsound.discard(name)

    def can_stay(self, ratios: Mapping[str, float] | None, refusal_told: Refusal | None) -> bool:
        """Tell whether a plan would leave all hints as they are, if the slices hold what they should otherwise.

        A refusal for another reason than ``refusal_told`` needs a plan as well: an Event reports it (S-93).
        """
        allocations = allocate(ratios, self.ready, self.without_zone)
        if isinstance(allocations, Refusal):
            return not self._hinted and allocations == refusal_told
        return not self._unsound and self._sums.can_stay(allocations)

    def sums_without(self, left_out: Iterable[str]) -> HintSums:
        """Return the sums over the sound slices but some."""
        sums = self._sums.copy()
        for name in left_out:
            hints = self._by_slice.get(name)
            if hints is not None and hints.is_sound:
                sums.subtract(hints)
        return sums

    def unsound_without(self, left_out: AbstractSet[str]) -> frozenset[str]:
        """Return the names of the slices of which some endpoint lacks its hint or has a wrong one, but some."""
        return frozenset(self._unsound - left_out)

    def any_hinted_without(self, left_out: AbstractSet[str]) -> bool:
        """Tell whether any slice but some has hints at all."""
        return any(name not in left_out for name in self._hinted)

    def snapshot(self) -> tuple[object, ...]:
        """Return everything that counts of the same slices and endpoints must have too."""
        return (
            self.ready,
            self.without_zone,
            dict(self._sums.zones),
            dict(self._sums.crossing),
            set(self._unsound),
        )
