"""What one command measures: which scenarios at which sizes, how often, how much. Pure."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from benchmarks.scenarios import ChurnSettings, FlipSettings
from benchmarks.sides import Variant
from benchmarks.sizes import Size

ScenarioName = Literal["cold", "flip", "churn", "growth"]
SCENARIOS: tuple[ScenarioName, ...] = get_args(ScenarioName)

_SMALL, _MIDDLE, _LARGE, _HUGE, _MANY = map(Size.parse, ("1x100", "1x1000", "1x5000", "1x20000", "1000x5"))
_SIZES: dict[ScenarioName, tuple[Size, ...]] = {
    "cold": (_MIDDLE, _LARGE, _HUGE, _MANY),
    "flip": (_SMALL, _MIDDLE, _LARGE, _HUGE, _MANY),
    "churn": (_MIDDLE, _LARGE, _MANY),
    "growth": (_SMALL, _LARGE),
}
_QUICK_SIZES: dict[ScenarioName, tuple[Size, ...]] = {
    "cold": (_MIDDLE, Size(100, 5)),
    "flip": (_SMALL, _MIDDLE, Size(100, 5)),
    "churn": (_MIDDLE,),
    "growth": (_SMALL, _MIDDLE),
}
_CHURN = ChurnSettings(per_second=200.0, seconds=10.0)
_QUICK_CHURN = ChurnSettings(per_second=100.0, seconds=3.0)
_MOST_FLIPS = 100
_QUICK_FLIPS = 20
_FEWEST_FLIPS = 30
_FLIPPED_PODS = (
    300_000  # a flip costs kube-controller-manager O(pods of the service): fewer where that is long
)


class Session(msgspec.Struct, frozen=True):
    """One life of a controller process on one size: a cold start, then what else is to be measured on it."""

    variant: Variant
    cold: bool
    flip: FlipSettings | None
    churn: ChurnSettings | None


class SizePlan(msgspec.Struct, frozen=True):
    """All that is measured on one control plane, filled to one size. Each side lives each session once a run."""

    size: Size
    sessions: tuple[Session, ...]


class Plan(msgspec.Struct, frozen=True):
    """All that is measured. ``growth`` is the two sizes whose flips are set against each other."""

    sizes: tuple[SizePlan, ...]
    runs: int
    growth: tuple[Size, Size] | None


def make_plan(
    *,
    scenarios: Sequence[ScenarioName] = SCENARIOS,
    sizes: Sequence[Size] = (),
    with_huge: bool = False,
    quick: bool = False,
    runs: int = 1,
    flips: int | None = None,
) -> Plan:
    """Return what to measure. Raises ``ValueError`` where nothing is left, or growth has one size alone.

    ``sizes`` stand for each scenario's own (1x20000 is among those only ``with_huge``); growth then compares the
    smallest with the largest of one service.
    """
    wanted: dict[ScenarioName, tuple[Size, ...]] = {}
    for scenario in scenarios:
        own = (_QUICK_SIZES if quick else _SIZES)[scenario]
        if not sizes:
            wanted[scenario] = tuple(size for size in own if with_huge or size != _HUGE)
        elif scenario != "growth":
            wanted[scenario] = tuple(sizes)
        elif (ends := _ends(sizes)) is not None:
            wanted[scenario] = ends
        elif len(scenarios) == 1:
            raise ValueError("growth compares two sizes of one service: name two, such as 1x100 and 1x5000")
    growth = wanted.get("growth")
    plans = []
    for size in sorted(
        {size for found in wanted.values() for size in found}, key=lambda size: (size.pods, size)
    ):
        flip = FlipSettings(flips or (_QUICK_FLIPS if quick else flips_for(size)))
        grows = growth is not None and size in growth
        main = Session(
            variant="both",
            cold=size in wanted.get("cold", ()),
            flip=flip if grows or size in wanted.get("flip", ()) else None,
            churn=(_QUICK_CHURN if quick else _CHURN) if size in wanted.get("churn", ()) else None,
        )
        alone = Session(variant="slices", cold=False, flip=flip, churn=None)
        plans.append(SizePlan(size, (main, alone) if grows else (main,)))
    if not plans:
        raise ValueError("there is nothing to measure: name a scenario and a size")
    return Plan(tuple(plans), runs, (growth[0], growth[1]) if growth is not None else None)


def flips_for(size: Size) -> int:
    """Return how many flips take a time that one is willing to wait."""
    return max(min(_FLIPPED_PODS // size.pods_per_service, _MOST_FLIPS), _FEWEST_FLIPS)


def _ends(sizes: Sequence[Size]) -> tuple[Size, Size] | None:
    single = sorted({size for size in sizes if size.services == 1})
    return (single[0], single[-1]) if len(single) > 1 else None
