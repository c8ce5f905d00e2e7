"""How many endpoints of a service are ready, and at which zones its slices hint: kept as they change."""

from collections.abc import Set as AbstractSet

from endpointd.controllers.endpointslice.desired import ObservedSlice
from endpointd.controllers.endpointslice.hints import hints_by_zone


class HintCounts:
    """The sums that sharing out needs, so that it looks at no slice that it does not change. O(a slice) an update."""

    __slots__ = ("_by_slice", "_hinted", "_totals", "_unhinted", "ready")

    def __init__(self) -> None:
        self.ready = 0
        self._by_slice: dict[str, dict[str, int]] = {}
        self._totals: dict[str, int] = {}
        self._unhinted: set[str] = set()
        self._hinted: set[str] = set()

    def count_ready(self, *, was: bool, now: bool) -> None:
        """Take note of an endpoint that was ready or not, and is so or not now."""
        self.ready += now - was

    def add(self, observed: ObservedSlice) -> None:
        """Take in a slice that is not yet in."""
        name = observed.name
        endpoints = observed.slice.endpoints or ()
        if any(endpoint.hints is not None for endpoint in endpoints):
            self._hinted.add(name)
        counts = hints_by_zone(endpoints)
        if counts is None:
            self._unhinted.add(name)
            return
        self._by_slice[name] = counts
        for zone, count in counts.items():
            self._totals[zone] = self._totals.get(zone, 0) + count

    def remove(self, name: str) -> None:
        """Take out a slice."""
        self._hinted.discard(name)
        self._unhinted.discard(name)
        for zone, count in self._by_slice.pop(name, {}).items():
            self._totals[zone] -= count
            if not self._totals[zone]:
                del self._totals[zone]

    def contradicts(self, name: str, *, given: bool) -> bool:
        """Tell whether a slice lacks hints although they are given, or has some although they are refused."""
        return name in (self._unhinted if given else self._hinted)

    def totals_without(self, left_out: AbstractSet[str]) -> dict[str, int]:
        """Return the hints by zone over all slices but some, of which all ready endpoints have hints."""
        totals = dict(self._totals)
        for name in left_out:
            for zone, count in self._by_slice.get(name, {}).items():
                totals[zone] -= count
        return {zone: count for zone, count in totals.items() if count}

    def all_hinted_without(self, left_out: AbstractSet[str]) -> bool:
        """Tell whether every slice but some has hints on all its ready endpoints."""
        return all(name in left_out for name in self._unhinted)

    def any_hinted_without(self, left_out: AbstractSet[str]) -> bool:
        """Tell whether any slice but some has hints at all."""
        return any(name not in left_out for name in self._hinted)
