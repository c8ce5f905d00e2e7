"""Plan a benchmark run: scenarios, sizes, repetitions, amounts. Pure."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from benchmarks.scenarios import ChurnSettings, FlipSettings
from benchmarks.sides import Variant
from benchmarks.sizes import Size

ScenarioName = Literal["cold", "flip", "steady", "churn", "growth"]
SCENARIOS: tuple[ScenarioName, ...] = get_args(ScenarioName)

_SMALL, _MIDDLE, _LARGE, _HUGE = map(Size.parse, ("1x100", "1x1000", "1x5000", "1x20000"))
_FEW, _MANY, _CROWD = map(Size.parse, ("10x2", "1000x5", "10000x2"))
_TAKE_LONG = (_HUGE, _CROWD)
_SIZES: dict[ScenarioName, tuple[Size, ...]] = {
    "cold": (_MIDDLE, _LARGE, _HUGE, _MANY),
    "flip": (_SMALL, _MIDDLE, _LARGE, _HUGE, _MANY),
    "steady": (_MIDDLE, _LARGE, _MANY),
    "churn": (_MIDDLE, _LARGE, _MANY),
}
_QUICK_SIZES: dict[ScenarioName, tuple[Size, ...]] = {
    "cold": (_MIDDLE, Size(100, 5)),
    "flip": (_SMALL, _MIDDLE, Size(100, 5)),
    "steady": (_MIDDLE,),
    "churn": (_MIDDLE,),
}
Pair = tuple[Size, Size]
"""A small and a large size whose flips are compared."""

_PAIRS: tuple[Pair, ...] = ((_SMALL, _LARGE), (_SMALL, _HUGE), (_FEW, _CROWD))
_QUICK_PAIRS: tuple[Pair, ...] = ((_SMALL, _MIDDLE),)
_STEADY = ChurnSettings(per_second=50.0, seconds=10.0)
_QUICK_STEADY = ChurnSettings(per_second=50.0, seconds=3.0)
_CHURN = ChurnSettings(per_second=200.0, seconds=10.0)
_QUICK_CHURN = ChurnSettings(per_second=100.0, seconds=3.0)
_MOST_FLIPS = 100
_QUICK_FLIPS = 20
_FEWEST_FLIPS = 30
_FLIPPED_PODS = (
    300_000  # a flip costs kube-controller-manager O(pods of the service): fewer flips for large services
)


class Session(msgspec.Struct, frozen=True):
    """One controller process on one size: a cold start, then further scenarios."""

    variant: Variant
    cold: bool
    flip: FlipSettings | None
    steady: ChurnSettings | None
    churn: ChurnSettings | None


class SizePlan(msgspec.Struct, frozen=True):
    """All measurements on one control plane of one size. Each program runs each session once per run."""

    size: Size
    sessions: tuple[Session, ...]


class Plan(msgspec.Struct, frozen=True):
    """All measurements. ``growth`` lists the pairs of sizes whose flips are compared."""

    sizes: tuple[SizePlan, ...]
    runs: int
    growth: tuple[Pair, ...]


def make_plan(
    *,
    scenarios: Sequence[ScenarioName] = SCENARIOS,
    sizes: Sequence[Size] = (),
    with_huge: bool = False,
    quick: bool = False,
    runs: int = 1,
    flips: int | None = None,
) -> Plan:
    """Return the plan. Raises ``ValueError`` if it would be empty, or if growth has only one size.

    ``sizes`` replaces each scenario's default sizes (which include 1x20000 and 10000x2 only with ``with_huge``); growth
    then compares the smallest with the largest single service, and the fewest with the most services of equal size.
    """
    wanted: dict[ScenarioName, tuple[Size, ...]] = {}
    for scenario in scenarios:
        if scenario != "growth":
            own = (_QUICK_SIZES if quick else _SIZES)[scenario]
            wanted[scenario] = tuple(sizes or (size for size in own if with_huge or size not in _TAKE_LONG))
    pairs: tuple[Pair, ...] = ()
    if "growth" in scenarios:
        own_pairs = _QUICK_PAIRS if quick else _PAIRS
        pairs = (
            ends(sizes)
            if sizes
            else tuple(pair for pair in own_pairs if with_huge or pair[1] not in _TAKE_LONG)
        )
        if not pairs and len(scenarios) == 1:
            raise ValueError("growth compares two sizes of one service: name two, such as 1x100 and 1x5000")
    growing = {size for pair in pairs for size in pair}
    plans = []
    for size in sorted(growing.union(*wanted.values()), key=lambda size: (size.pods, size)):
        flip = FlipSettings(flips or (_QUICK_FLIPS if quick else flips_for(size)))
        grows = size in growing
        main = Session(
            variant="both",
            cold=size in wanted.get("cold", ()),
            flip=flip if grows or size in wanted.get("flip", ()) else None,
            steady=(_QUICK_STEADY if quick else _STEADY) if size in wanted.get("steady", ()) else None,
            churn=(_QUICK_CHURN if quick else _CHURN) if size in wanted.get("churn", ()) else None,
        )
        alone = Session(variant="slices", cold=False, flip=flip, steady=None, churn=None)
        plans.append(SizePlan(size, (main, alone) if grows else (main,)))
    if not plans:
        raise ValueError("there is nothing to measure: name a scenario and a size")
    return Plan(tuple(plans), runs, pairs)


def flips_for(size: Size) -> int:
    """Return the number of flips that keeps a scenario's duration acceptable."""
    return max(min(_FLIPPED_PODS // size.pods_per_service, _MOST_FLIPS), _FEWEST_FLIPS)


def ends(sizes: Sequence[Size]) -> tuple[Pair, ...]:
    """Return the smallest and largest size that differ only in pods per service or only in the number of services."""
    ways: dict[int | None, set[Size]] = {}
    for size in sizes:
        ways.setdefault(None if size.services == 1 else size.pods_per_service, set()).add(size)
    return tuple((min(found), max(found)) for found in ways.values() if len(found) > 1)
