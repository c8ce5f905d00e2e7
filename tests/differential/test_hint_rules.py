"""The independent implementation of the hint rules: vectors of behaviour S-99, and its checks of slices."""

import msgspec
import pytest

from aiokube.api.core import Node
from aiokube.api.discovery import EndpointHints, ForZone
from aiokube.testing.builders import make_endpoint, make_node, make_pod, make_service, make_slice
from tests.differential.hint_rules import (
    Hinted,
    Share,
    broken_hint_rules,
    hinted_families,
    possible_counts,
    shares,
    without_shared_hints,
)
from tests.differential.normalise import Snapshot


def zones(*cpu_milli: int) -> list[Node]:
    return [
        make_node(f"node-{zone}", zone=f"zone-{zone}", allocatable_cpu_milli=cpu)
        for zone, cpu in zip("abcd", cpu_milli, strict=False)
    ]


def allocation(*desired: float) -> dict[str, Share]:
    return {zone: Share(share, 0, 100) for zone, share in zip("abc", desired, strict=True)}


def test_allocations_are_rejected_for_the_documented_reasons() -> None:
    """S-93."""
    assert shares(zones(1000, 1000, 1000), 3) is not None
    assert shares(zones(1000, 1000, 1000), 2) is None
    assert shares(zones(1000, 1000, 1000), 4) is None  # a third of 4, minus 20 %, is 2 for each
    assert shares(zones(1000, 1000, 0), 9) is None
    assert shares(zones(1000), 9) is None
    assert shares([*zones(1000, 1000), make_node("bare", zone="", allocatable_cpu_milli=1000)], 9) is None


def test_overload_is_distributed_by_cpu() -> None:
    """S-99."""
    assert shares(zones(2000, 1000, 1000), 12) == {
        "zone-a": Share(6, 5, 6),
        "zone-b": Share(3, 3, 4),
        "zone-c": Share(3, 3, 4),
    }


@pytest.mark.parametrize(
    ("own", "desired", "outcomes"),
    [
        ({"a": 16}, (5.1, 5.1, 5.8), {(6, 5, 5)}),
        ({"a": 16}, (5, 5.6, 5.4), {(5, 6, 5)}),
        ({"b": 8, "c": 8}, (5, 5.6, 5.4), {(5, 6, 5)}),
        ({"a": 1, "b": 1, "c": 1}, (1.2, 1.1, 1.0), {(1, 1, 1)}),
        ({"c": 3}, (1, 1, 1), {(1, 1, 1)}),
        ({"a": 2, "b": 2, "c": 1}, (5 / 3, 5 / 3, 5 / 3), {(2, 2, 1)}),
        ({"a": 4}, (2, 1, 1), {(2, 1, 1)}),
        ({"b": 5, "c": 5}, (1.2, 4.4, 4.4), {(1, 5, 4), (1, 4, 5)}),
    ],
)
def test_rebalancing_has_every_possible_outcome(
    own: dict[str, int], desired: tuple[float, ...], outcomes: set[tuple[int, ...]]
) -> None:
    """S-96, S-99."""
    assert possible_counts(own, allocation(*desired)) == outcomes


def test_zones_without_an_allocation_keep_their_endpoints() -> None:
    assert possible_counts({"a": 3, "x": 2}, allocation(1.5, 1.5, 1.5)) == {(1, 1, 1, 2)}


def snapshot(hints: str, *, mode: str | None = "Auto") -> Snapshot:
    """Return three endpoints in zones a, b and c with these hints; a dash means no hint."""
    endpoints = [
        msgspec.structs.replace(
            make_endpoint(make_pod(f"pod-{place}", f"10.0.0.{place}"), zone=f"zone-{own}"),
            hints=None if hint == "-" else EndpointHints(for_zones=(ForZone(f"zone-{hint}"),)),
        )
        for place, (own, hint) in enumerate(zip("abc", hints, strict=True), start=1)
    ]
    service = make_service(topology_mode=mode)
    return Snapshot.of(slices=(make_slice(service, "web-1", endpoints),), services=(service,))


def test_missing_surplus_and_unneeded_cross_zone_hints_are_reported() -> None:
    nodes = zones(1000, 1000, 1000)
    assert not broken_hint_rules(snapshot("abc"), nodes, rewritten=True)
    assert "2 ready endpoints without a hint" in broken_hint_rules(snapshot("--c"), nodes)[0]
    assert "zone-c has 3 hints" in "".join(broken_hint_rules(snapshot("ccc"), nodes))
    assert "not one of [(1, 1, 1)]" in broken_hint_rules(snapshot("aac"), nodes, rewritten=True)[0]
    assert (
        "3 endpoints are hinted to another zone"
        in broken_hint_rules(snapshot("bca"), nodes, rewritten=True)[0]
    )


def test_hints_that_should_have_been_refused_are_reported() -> None:
    assert "must be refused" in broken_hint_rules(snapshot("abc"), zones(1000))[0]
    assert not broken_hint_rules(snapshot("---"), zones(1000))


def test_only_topology_aware_services_are_checked_and_compared_without_hints() -> None:
    asking, other = snapshot("aac"), snapshot("aac", mode="Disabled")
    assert len(hinted_families(asking)) == 1
    assert not hinted_families(other)
    assert without_shared_hints(other) == other
    plain = without_shared_hints(asking)
    assert not Hinted.of(plain.slices).has_any
    assert plain.slices[0].endpoints is not None
    assert len(plain.slices[0].endpoints) == 3
