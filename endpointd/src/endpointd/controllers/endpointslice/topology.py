"""Allocates endpoints to zones by their CPU (behaviour 2.11): pure functions and an incremental table."""

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from aiokube.api.core import Node

RatiosOf = Callable[[], Mapping[str, float] | None]
"""Returns each zone's current share of the CPU, or None if hints cannot be allocated."""

OVERLOAD_SHARE = 1 / 1.2
"""The minimum part of its share that a zone may get: 20 % of overload is tolerated (S-93)."""


class ZoneAllocation(msgspec.Struct, frozen=True, gc=False):
    """The number of endpoints that should serve a zone."""

    desired: float
    minimum: int
    maximum: int


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why hints are not allocated, in upstream's words."""

    message: str


NO_NODE_INFORMATION = Refusal(
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
)
NO_ZONE_ON_ENDPOINT = Refusal("One or more endpoints do not have a zone specified")


class ZoneTable:
    """Each zone's share of the cluster's CPU, updated per node change in O(1).

    Control plane nodes and nodes that are not ready do not count. Any other node without zone or CPU makes
    the table unusable, as do fewer than two zones (S-90).
    """

    def __init__(self) -> None:
        self._counted: dict[str, tuple[str, int]] = {}
        self._cpu_milli: dict[str, int] = {}
        self._nodes_in: dict[str, int] = {}
        self._incomplete: set[str] = set()
        self._ratios: dict[str, float] | None = None
        self._is_current = False

    def set_node(self, name: str, node: Node | None) -> bool:
        """Set a node, or remove it with None; return whether any ratio may have changed."""
        counts = node is not None and node.ready and not node.control_plane
        usable = node is not None and counts and bool(node.zone) and node.allocatable_cpu_milli > 0
        entry = (node.zone, node.allocatable_cpu_milli) if node is not None and usable else None
        incomplete = counts and not usable
        if self._counted.get(name) == entry and (name in self._incomplete) == incomplete:
            return False
        old = self._counted.pop(name, None)
        if old is not None:
            zone, cpu_milli = old
            self._cpu_milli[zone] -= cpu_milli
            self._nodes_in[zone] -= 1
            if not self._nodes_in[zone]:
                del self._cpu_milli[zone], self._nodes_in[zone]
        if entry is not None:
            self._counted[name] = entry
            zone, cpu_milli = entry
            self._cpu_milli[zone] = self._cpu_milli.get(zone, 0) + cpu_milli
            self._nodes_in[zone] = self._nodes_in.get(zone, 0) + 1
        if incomplete:
            self._incomplete.add(name)
        else:
            self._incomplete.discard(name)
        self._is_current = False
        return True

    def snapshot(self) -> tuple[object, ...]:
        """Return all state, for comparison with a table rebuilt from the nodes."""
        return (
            dict(self._counted),
            dict(self._cpu_milli),
            dict(self._nodes_in),
            set(self._incomplete),
            dict(self.ratios) if self.ratios is not None else None,
        )

    @property
    def ratios(self) -> Mapping[str, float] | None:
        """Each zone's share of all CPU, by zone name; None if the table is unusable (S-91)."""
        if not self._is_current:
            total = sum(self._cpu_milli.values())
            usable = not self._incomplete and len(self._cpu_milli) > 1 and total > 0
            self._ratios = (
                {zone: self._cpu_milli[zone] / total for zone in sorted(self._cpu_milli)} if usable else None
            )
            self._is_current = True
        return self._ratios


def allocate(
    ratios: Mapping[str, float] | None, ready: int, without_zone: int = 0
) -> dict[str, ZoneAllocation] | Refusal:
    """Allocate ``ready`` endpoints to the zones, or return why that is impossible (S-93, S-95).

    ``without_zone`` is the number of them without a zone. A result has at least one endpoint per zone, so "no
    hints allocated" (S-97) cannot happen.
    """
    if ratios is None:
        return NO_NODE_INFORMATION
    if len(ratios) > ready:
        return Refusal(f"Insufficient number of endpoints ({ready} endpoints, {len(ratios)} zones)")
    wanted = {zone: ratio * ready for zone, ratio in ratios.items()}
    minimum = {zone: math.ceil(desired * OVERLOAD_SHARE) for zone, desired in wanted.items()}
    spare = ready - sum(minimum.values())
    if spare < 0:
        return Refusal(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
            f"({ready} endpoints, {len(ratios)} zones)"
        )
    if without_zone:
        return NO_ZONE_ON_ENDPOINT
    return {
        zone: ZoneAllocation(max(desired, minimum[zone]), minimum[zone], minimum[zone] + spare)
        for zone, desired in wanted.items()
    }


def is_balanced(counts: Mapping[str, int], allocations: Mapping[str, ZoneAllocation]) -> bool:
    """Return whether hints by zone can stay: no zone exceeds its maximum (S-94), or no move would help (S-96).

    Without the second condition, hints that S-96 leaves above a maximum would be allocated again in every
    sync.
    """
    return (
        all(counts.get(zone, 0) <= allocation.maximum for zone, allocation in allocations.items())
        or _next_move(counts, allocations, allocations.keys(), allocations.keys()) is None
    )


def moves_between_zones(
    counts: Mapping[str, int], allocations: Mapping[str, ZoneAllocation]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many hints each zone gives up and receives (S-96).

    Ties go to the first zone by name; upstream picks randomly. The result satisfies :func:`is_balanced`.
    """
    left = dict(counts)
    givers = {zone for zone in allocations if left.get(zone, 0) > allocations[zone].desired}
    receivers = {zone for zone in allocations if left.get(zone, 0) < allocations[zone].desired}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while (move := _next_move(left, allocations, givers, receivers)) is not None:
        giver, receiver = move
        giving[giver] = giving.get(giver, 0) + 1
        receiving[receiver] = receiving.get(receiver, 0) + 1
        left[giver] -= 1
        left[receiver] = left.get(receiver, 0) + 1
    return giving, receiving


def _next_move(
    counts: Mapping[str, int],
    allocations: Mapping[str, ZoneAllocation],
    givers: AbstractSet[str],
    receivers: AbstractSet[str],
) -> tuple[str, str] | None:
    """Return the zones with the largest surplus and deficit, or None if both are small enough (S-96)."""
    if not givers or not receivers:
        return None

    def surplus(zone: str) -> float:
        # Computed from integers each time: a running difference would accumulate rounding errors.
        return counts.get(zone, 0) - allocations[zone].desired

    giver = min(givers, key=lambda zone: (-surplus(zone), zone))
    receiver = min(receivers, key=lambda zone: (surplus(zone), zone))
    most, least = surplus(giver), -surplus(receiver)
    if (most < 1 and least < 1) or most < 0.5 or least < 0.5:
        return None
    return giver, receiver
