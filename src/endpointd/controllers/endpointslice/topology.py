"""How endpoints are shared out among zones by their CPU (behaviour 2.11): pure functions, and one running sum."""

import math
from collections.abc import Mapping

import msgspec

from endpointd.api.core import Node

OVERLOAD_SHARE = 1 / 1.2
"""A zone may get this part of its share at the least: 20 % of overload is tolerated (S-93)."""


class ZoneAllocation(msgspec.Struct, frozen=True, gc=False):
    """How many endpoints a zone should be served by."""

    desired: float
    minimum: int
    maximum: int


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why hints are not given, in upstream's words."""

    message: str


NO_NODE_INFORMATION = Refusal(
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
)
NO_HINTS_ALLOCATED = Refusal("No hints allocated for zones")
NO_ZONE_ON_ENDPOINT = Refusal("One or more endpoints do not have a zone specified")


class ZoneTable:
    """Which part of the cluster's CPU each zone has, kept as nodes come, change and go: O(1) a change.

    Nodes of the control plane and nodes that are not ready do not count. A single other node without zone or CPU
    makes the whole table unusable, as do fewer than two zones (S-90).
    """

    def __init__(self) -> None:
        self._counted: dict[str, tuple[str, int]] = {}
        self._cpu_milli: dict[str, int] = {}
        self._nodes_in: dict[str, int] = {}
        self._incomplete: set[str] = set()
        self._ratios: dict[str, float] | None = None
        self._fresh = False

    def set_node(self, name: str, node: Node | None) -> bool:
        """Take in a node as it is now, None when it is gone; tell whether any ratio may have changed."""
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
        self._fresh = False
        return True

    @property
    def ratios(self) -> Mapping[str, float] | None:
        """Each zone's part of all CPU, in the order of their names; None where the table is unusable (S-91)."""
        if not self._fresh:
            total = sum(self._cpu_milli.values())
            usable = not self._incomplete and len(self._cpu_milli) > 1 and total > 0
            self._ratios = (
                {zone: self._cpu_milli[zone] / total for zone in sorted(self._cpu_milli)} if usable else None
            )
            self._fresh = True
        return self._ratios


def allocate(ratios: Mapping[str, float] | None, ready: int) -> dict[str, ZoneAllocation] | Refusal:
    """Share ``ready`` endpoints out among the zones, or say why that cannot be done (S-93)."""
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
    return {
        zone: ZoneAllocation(max(desired, minimum[zone]), minimum[zone], minimum[zone] + spare)
        for zone, desired in wanted.items()
    }


def moves_between_zones(
    counts: Mapping[str, int], allocations: Mapping[str, ZoneAllocation]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many hints each zone should give away, and how many each should receive (S-96).

    Of zones with equal claims the first by name is taken; upstream leaves that to chance.
    """
    surplus: dict[str, float] = {}
    deficit: dict[str, float] = {}
    for zone in sorted(allocations):
        difference = counts.get(zone, 0) - allocations[zone].desired
        if difference > 0:
            surplus[zone] = difference
        elif difference < 0:
            deficit[zone] = -difference
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while surplus and deficit:
        giver = max(surplus, key=lambda zone: surplus[zone])
        receiver = max(deficit, key=lambda zone: deficit[zone])
        most, least = surplus[giver], deficit[receiver]
        if (most < 1 and least < 1) or most < 0.5 or least < 0.5:
            break
        giving[giver] = giving.get(giver, 0) + 1
        receiving[receiver] = receiving.get(receiver, 0) + 1
        surplus[giver] -= 1
        deficit[receiver] -= 1
    return giving, receiving


def is_overloaded(hinted: Mapping[str, int], ratios: Mapping[str, float] | None) -> bool:
    """Tell whether a distribution of hints given earlier is off by too much for the zones as they are now (S-98)."""
    if not hinted:
        return False
    if ratios is None:
        return True
    total = sum(hinted.values())
    return any(
        zone not in hinted or hinted[zone] < math.ceil(total * ratio * OVERLOAD_SHARE)
        for zone, ratio in ratios.items()
    )
