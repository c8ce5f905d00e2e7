"""Zones get endpoints by their share of the CPU (behaviour S-90 to S-99)."""

import pytest

from aiokube.api.core import Node
from aiokube.api.meta import NarrowMeta
from endpointd.controllers.endpointslice.topology import (
    NO_NODE_INFORMATION,
    Refusal,
    ZoneAllocation,
    ZoneTable,
    allocate,
    is_balanced,
    moves_between_zones,
)

THIRD = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}


def node(
    name: str, zone: str, cpu_milli: int = 1000, *, ready: bool = True, control_plane: bool = False
) -> Node:
    return Node(NarrowMeta(name=name), zone, ready, control_plane, cpu_milli)


def table(*nodes: Node) -> ZoneTable:
    zones = ZoneTable()
    for one in nodes:
        zones.set_node(one.metadata.name, one)
    return zones


def wanting(**desired: float) -> dict[str, ZoneAllocation]:
    return {zone: ZoneAllocation(value, 0, 0) for zone, value in desired.items()}


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([], "no node at all"),
        ([node("n1", "a")], "one zone"),
        ([node("n1", "a"), node("n2", "a")], "one zone, two nodes"),
        ([node("n1", "a"), node("n2", "b", ready=False)], "the second zone is not ready"),
        ([node("n1", "a"), node("n2", "b", control_plane=True)], "the second zone is the control plane's"),
        ([node("n1", "a"), node("n2", "b"), node("n3", "")], "one node has no zone"),
        ([node("n1", "a"), node("n2", "b"), node("n3", "b", 0)], "one node has no CPU"),
    ],
)
def test_there_are_no_ratios_with_insufficient_node_data(nodes: list[Node], why: str) -> None:
    """S-90."""
    assert table(*nodes).ratios is None, why


def test_unready_and_control_plane_nodes_do_not_count() -> None:
    """S-90."""
    zones = table(
        node("n1", "a"), node("n2", "b"), node("n3", "", ready=False), node("n4", "", 0, control_plane=True)
    )
    assert zones.ratios == {"a": 0.5, "b": 0.5}


def test_the_ratio_of_a_zone_is_its_share_of_cpu() -> None:
    """S-91."""
    zones = table(
        *(node(f"a{number}", "zone-a", cpu) for number, cpu in enumerate((1000, 1000, 1000, 2000))),
        node("b0", "zone-b", 3000),
        node("b1", "zone-b", 1500),
        node("c0", "zone-c", 500),
    )
    assert zones.ratios == pytest.approx({"zone-a": 0.5, "zone-b": 0.45, "zone-c": 0.05})


def test_ratios_follow_added_changed_and_removed_nodes() -> None:
    zones = table(node("n1", "a"), node("n2", "b"), node("n3", "b"))
    assert zones.set_node("n3", node("n3", "c"))
    assert zones.ratios == pytest.approx(THIRD)
    assert not zones.set_node("n3", node("n3", "c"))
    assert zones.set_node("n2", None)
    assert zones.ratios == {"a": 0.5, "c": 0.5}
    assert zones.set_node("n1", node("n1", ""))
    assert dict(zones.ratios or {}) == {}
    assert zones.set_node("n1", node("n1", "a"))
    assert zones.ratios == {"a": 0.5, "c": 0.5}


@pytest.mark.parametrize(
    ("ratios", "ready", "refusal"),
    [
        (None, 5, NO_NODE_INFORMATION),
        (THIRD, 2, Refusal("Insufficient number of endpoints (2 endpoints, 3 zones)")),
        (
            {"a": 0.3, "b": 0.4, "c": 0.3},
            2,
            Refusal("Insufficient number of endpoints (2 endpoints, 3 zones)"),
        ),
        (
            THIRD,
            4,
            Refusal(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
                "(4 endpoints, 3 zones)"
            ),
        ),
    ],
)
def test_an_allocation_is_refused_with_upstreams_message(
    ratios: dict[str, float] | None, ready: int, refusal: Refusal
) -> None:
    """S-93."""
    assert allocate(ratios, ready) == refusal


def test_the_maximum_of_a_zone_is_what_the_minimums_of_the_others_leave() -> None:
    """S-93."""
    assert allocate(THIRD, 9) == {zone: ZoneAllocation(3.0, 3, 3) for zone in THIRD}
    assert allocate({"a": 0.35, "b": 0.35, "c": 0.3}, 10) == {
        "a": ZoneAllocation(3.5, 3, 4),
        "b": ZoneAllocation(3.5, 3, 4),
        "c": ZoneAllocation(3.0, 3, 4),
    }


@pytest.mark.parametrize(
    ("counts", "desired", "giving", "receiving"),
    [
        ({"a": 5, "b": 2, "c": 3}, {"a": 3.5, "b": 3.5, "c": 3.0}, {"a": 1}, {"b": 1}),
        ({"c": 3}, {"a": 1.0, "b": 1.0, "c": 1.0}, {"c": 2}, {"a": 1, "b": 1}),
        ({"a": 16}, {"a": 5.1, "b": 5.1, "c": 5.8}, {"a": 10}, {"b": 5, "c": 5}),
        ({"a": 16}, {"a": 5.0, "b": 5.6, "c": 5.4}, {"a": 11}, {"b": 6, "c": 5}),
        ({"b": 8, "c": 8}, {"a": 5.0, "b": 5.6, "c": 5.4}, {"b": 2, "c": 3}, {"a": 5}),
        ({"a": 1, "b": 1, "c": 1}, {"a": 1.2, "b": 1.1, "c": 1.0}, {}, {}),
        ({}, {}, {}, {}),
    ],
)
def test_hints_move_from_the_fullest_zone_to_the_emptiest(
    counts: dict[str, int], desired: dict[str, float], giving: dict[str, int], receiving: dict[str, int]
) -> None:
    """S-96."""
    assert moves_between_zones(counts, wanting(**desired)) == (giving, receiving)


@pytest.mark.parametrize(
    ("cpu_milli", "hinted", "overloaded"),
    [
        ((100, 1000, 2000), {"a": 1, "b": 2, "c": 3}, True),
        ((1000, 1000, 0), {"a": 5, "b": 4}, False),
        ((1000, 1000, 0), {"a": 6, "b": 4}, True),
        ((2000, 1000, 100), {"a": 20, "b": 10, "c": 1}, False),
        # Upstream checks these again, and S-94 keeps them: no zone has too many.
        ((2000, 1000, 100), {"a": 20, "b": 10, "c": 0}, False),
        ((1000, 1000, 1000), {"a": 5, "b": 5}, True),
    ],
)
def test_hints_cannot_stay_when_a_zone_has_too_few(
    cpu_milli: tuple[int, int, int], hinted: dict[str, int], overloaded: bool
) -> None:
    """S-98."""
    nodes = [node(zone, zone, cpu) for zone, cpu in zip("abc", cpu_milli, strict=True) if cpu]
    allocations = allocate(table(*nodes).ratios, sum(hinted.values()))
    assert (isinstance(allocations, Refusal) or not is_balanced(hinted, allocations)) is overloaded
