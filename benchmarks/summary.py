"""From samples to the few numbers that are reported. Pure functions; none of them takes an empty sequence."""

import math
from collections.abc import Sequence

import msgspec


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: a sample that was measured, never something between two.

    With fewer than 100 samples the 99th percentile is the largest. Raises ``ValueError`` where there are none.
    """
    if not samples:
        raise ValueError("no samples: there is no percentile of nothing")
    rank = math.ceil(len(samples) * percent / 100.0)
    return sorted(samples)[max(rank, 1) - 1]


def median(samples: Sequence[float]) -> float:
    """Return the middle sample, or the mean of the two in the middle. Raises ``ValueError`` where there are none."""
    if not samples:
        raise ValueError("no samples: there is no median of nothing")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2.0


class Spread(msgspec.Struct, frozen=True):
    """The same number, measured in several runs."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Spread":
        """Summarise the runs. Raises ``ValueError`` where there are none."""
        return cls(median(samples), min(samples), max(samples))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread | None:
    """Return ours by theirs, run by run, so that a machine that slows down between runs slows both.

    None where they cannot be divided: no runs, another number of them, or nothing measured on their side.
    """
    if not ours or len(ours) != len(theirs) or not all(theirs):
        return None
    return Spread.of([one / other for one, other in zip(ours, theirs, strict=True)])
