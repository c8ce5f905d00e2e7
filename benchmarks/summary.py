"""Reduce samples to the reported numbers. Pure; all functions reject empty sequences."""

import math
from collections.abc import Sequence

import msgspec


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: always a measured sample, never an interpolation.

    With fewer than 100 samples the 99th percentile is the maximum. Raises ``ValueError`` for an empty sequence.
    """
    if not samples:
        raise ValueError("no samples: there is no percentile of nothing")
    rank = math.ceil(len(samples) * percent / 100.0)
    return sorted(samples)[max(rank, 1) - 1]


def median(samples: Sequence[float]) -> float:
    """Return the middle sample, or the mean of the middle two. Raises ``ValueError`` for an empty sequence."""
    if not samples:
        raise ValueError("no samples: there is no median of nothing")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2.0


class Spread(msgspec.Struct, frozen=True):
    """One number measured in several runs."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Spread":
        """Summarise the runs. Raises ``ValueError`` for an empty sequence."""
        return cls(median(samples), min(samples), max(samples))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread | None:
    """Return ``ours / theirs`` run by run, so that a machine that slows down between runs affects both.

    None if they cannot be divided: no runs, different numbers of runs, or a zero divisor.
    """
    if not ours or len(ours) != len(theirs) or not all(theirs):
        return None
    return Spread.of([one / other for one, other in zip(ours, theirs, strict=True)])
