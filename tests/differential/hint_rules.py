"""The determined properties of hints, computed from one cluster: an independent implementation of the rules for tests.

Upstream picks the endpoints that move to another zone at random, and keeps earlier allocations depending on history.
Whether hints exist, how many, and the number per zone after all slices are rewritten, is determined (behaviour 2.10, 2.11).
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from aiokube.api.core import Node, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
)
from aiokube.api.meta import ObjectKey, key_of
from tests.differential.normalise import Json, Snapshot, manager_of, service_key_of

_NEARLY = 1e-9  # smaller differences may be equal in other arithmetic


class Share(NamedTuple):
    """The number of endpoints that a zone should get."""

    desired: float
    minimum: int
    maximum: int


def shares(nodes: Iterable[Node], ready: int) -> dict[str, Share] | None:
    """Return each zone's share of ``ready`` endpoints; None if hints are refused (S-90 to S-93)."""
    workers = [node for node in nodes if node.ready and not node.control_plane]
    cpu: Counter[str] = Counter()
    for node in workers:
        if not node.zone or not node.allocatable_cpu_milli:
            return None
        cpu[node.zone] += node.allocatable_cpu_milli
    if len(cpu) < 2 or len(cpu) > ready:
        return None
    desired = {zone: milli / cpu.total() * ready for zone, milli in cpu.items()}
    minimum = {zone: ceil(share * (1 / 1.2)) for zone, share in desired.items()}
    spare = ready - sum(minimum.values())
    if spare < 0:
        return None
    return {
        zone: Share(max(desired[zone], minimum[zone]), minimum[zone], minimum[zone] + spare) for zone in cpu
    }


def possible_counts(own_zones: Mapping[str, int], allocation: Mapping[str, Share]) -> set[tuple[int, ...]]:
    """Return the possible results of S-96 if all slices are rewritten: hints per zone, sorted by zone name.

    There is more than one result only if zones have equal claims, or claims at the threshold.
    """
    zones = sorted({*own_zones, *allocation})
    found: set[tuple[int, ...]] = set()
    start = tuple(own_zones.get(zone, 0) for zone in zones)
    seen = {start}
    waiting = [start]
    while waiting:
        counts = waiting.pop()
        off = {
            zone: count - allocation[zone].desired
            for zone, count in zip(zones, counts, strict=True)
            if zone in allocation
        }
        # A zone never changes from short to overloaded or back (S-96).
        givers = {zone: o for zone, o in off.items() if own_zones.get(zone, 0) > allocation[zone].desired}
        takers = {zone: -o for zone, o in off.items() if own_zones.get(zone, 0) < allocation[zone].desired}
        most, least = max(givers.values(), default=0.0), max(takers.values(), default=0.0)
        if not givers or not takers or _unheard(most, least, below=_may_be_below):
            found.add(counts)
        if not givers or not takers or _unheard(most, least, below=_is_below):
            continue
        for giver in (zone for zone, surplus in givers.items() if surplus > most - _NEARLY):
            for taker in (zone for zone, lack in takers.items() if lack > least - _NEARLY):
                moved = [
                    count - (zone == giver) + (zone == taker)
                    for zone, count in zip(zones, counts, strict=True)
                ]
                if tuple(moved) not in seen:
                    seen.add(tuple(moved))
                    waiting.append(tuple(moved))
    return found


def _unheard(most: float, least: float, *, below: Callable[[float, float], bool]) -> bool:
    """Return whether the largest claims of both sides are too small for another move."""
    return below(max(most, least), 1) or below(min(most, least), 0.5)


def _is_below(claim: float, limit: float) -> bool:
    return claim < limit - _NEARLY


def _may_be_below(claim: float, limit: float) -> bool:
    return claim < limit + _NEARLY and claim != limit


class Hinted(msgspec.Struct, frozen=True):
    """Zones and hints in the slices of one service and address type."""

    ready: int
    own_zones: Mapping[str, int]
    """Ready endpoints by their own zone; endpoints without zone are excluded."""
    hints: Mapping[str, int]
    """Hints of ready endpoints, by zone."""
    unhinted: int
    """Ready endpoints without exactly one hint."""
    stray: int
    """Hints of endpoints that are not ready, and hints for nodes."""
    crossing: int
    """Ready endpoints hinted to another zone than their own."""

    @classmethod
    def of(cls, slices: Iterable[EndpointSlice]) -> "Hinted":
        """Count the hints of slices."""
        endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.endpoints or ()]
        ready = [endpoint for endpoint in endpoints if endpoint.conditions.ready]
        zones = [(endpoint.zone, _zones_hinted(endpoint)) for endpoint in ready]
        return cls(
            ready=len(ready),
            own_zones=Counter(zone for zone, _ in zones if zone),
            hints=Counter(hint for _, hints in zones for hint in hints),
            unhinted=sum(len(hints) != 1 for _, hints in zones),
            stray=sum(
                endpoint.hints is not None
                and (not endpoint.conditions.ready or bool(endpoint.hints.for_nodes))
                for endpoint in endpoints
            ),
            crossing=sum(hints not in ([], [zone]) for zone, hints in zones),
        )

    @property
    def has_any(self) -> bool:
        """Return whether any endpoint has a hint."""
        return bool(self.hints) or bool(self.stray)


def _zones_hinted(endpoint: Endpoint) -> list[str]:
    return [zone.name for zone in (endpoint.hints.for_zones if endpoint.hints else None) or ()]


Family = tuple[ObjectKey, str]


def topology_aware(service: Service) -> bool:
    """Return whether a service requests topology-aware hints (S-80)."""
    return service.topology_mode in ("Auto", "auto")


def hinted_families(snapshot: Snapshot) -> dict[Family, Hinted]:
    """Return the hints of each service with topology-aware hints, by key and address type."""
    asking = {key_of(service) for service in snapshot.services if topology_aware(service)}
    groups: dict[Family, list[EndpointSlice]] = defaultdict(list)
    for endpoint_slice in snapshot.slices:
        key = _service_of(endpoint_slice)
        if key in asking and key is not None:
            groups[key, endpoint_slice.address_type].append(endpoint_slice)
    return {family: Hinted.of(slices) for family, slices in groups.items()}


def without_shared_hints(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without topology-aware hints, which are compared separately."""
    asking = {key_of(service) for service in snapshot.services if topology_aware(service)}
    slices = tuple(
        {**slice_, "endpoints": [_without_hints(endpoint) for endpoint in slice_.get("endpoints") or ()]}
        if manager_of(slice_) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER and service_key_of(slice_) in asking
        else slice_
        for slice_ in snapshot.raw_slices
    )
    return dataclasses.replace(snapshot, raw_slices=slices)


def _without_hints(endpoint: Json) -> Json:
    return {name: value for name, value in endpoint.items() if name != "hints"}


def _service_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    labels = endpoint_slice.metadata.labels or {}
    if labels.get(MANAGED_BY_LABEL) != MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
        return None
    return ObjectKey(endpoint_slice.metadata.namespace, labels.get(SERVICE_NAME_LABEL, ""))


def broken_hint_rules(snapshot: Snapshot, nodes: Sequence[Node], *, rewritten: bool = False) -> list[str]:
    """Return the violations of the rules for topology-aware hints, one line each.

    ``rewritten`` means that hints were just disabled and re-enabled: then the numbers are determined.
    """
    wrong = []
    for (service, address_type), found in sorted(hinted_families(snapshot).items()):
        allocation = shares(nodes, found.ready)
        if allocation is not None and found.own_zones.total() < found.ready:  # type: ignore[attr-defined]
            allocation = None  # S-95
        wrong += [
            f"{service} {address_type}: {words} ({found}, {allocation})"
            for words in _wrong(found, allocation, rewritten=rewritten)
        ]
    return wrong


def _wrong(found: Hinted, allocation: Mapping[str, Share] | None, *, rewritten: bool) -> Iterable[str]:
    if allocation is None:
        if found.has_any:
            yield "hints that must be refused"
        return
    if found.unhinted:
        yield f"{found.unhinted} ready endpoints without a hint"
    if found.stray:
        yield f"{found.stray} endpoints that are not ready, or nodes, with hints"
    if not rewritten:
        if found.own_zones.keys() <= allocation.keys():
            for zone, share in allocation.items():
                # S-96 may stop one endpoint above. The lower bound depends on history: zones below it keep their hints (S-94).
                most = max(share.maximum, ceil(share.desired)) + 1
                if found.hints.get(zone, 0) > most:
                    yield f"{zone} has {found.hints.get(zone, 0)} hints, more than {most}"
        return
    zones = sorted({*found.own_zones, *allocation})
    counts = tuple(found.hints.get(zone, 0) for zone in zones)
    possible = possible_counts(found.own_zones, allocation)
    if counts not in possible:
        yield f"hints {counts} for {zones}, not one of {sorted(possible)}"
    moved = sum(
        max(0, found.own_zones.get(zone, 0) - count) for zone, count in zip(zones, counts, strict=True)
    )
    if found.crossing != moved:
        yield f"{found.crossing} endpoints are hinted to another zone, where {moved} do"
