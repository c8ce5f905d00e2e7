"""Logarithmic axes of a plot: positions and tick labels. Pure."""

import math
from collections.abc import Sequence

import msgspec

_STEPS = (1, 2, 5)


class LogScale(msgspec.Struct, frozen=True):
    """Maps values from ``low`` to ``high`` onto ``start`` to ``end`` logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value above 0; the middle if ``low`` equals ``high``."""
        if self.low == self.high:
            return (self.start + self.end) / 2.0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def ticks_around(values: Sequence[float]) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, from just below the lowest to just above the highest value.

    Needs at least one value; all must be above 0.
    """
    lowest, highest = min(values), max(values)
    # One more power at each end: log10 may round a value just below a power of ten up to it.
    first, last = math.floor(math.log10(lowest)) - 1, math.ceil(math.log10(highest)) + 1
    steps = [step * 10.0**power for power in range(first, last + 1) for step in _STEPS]
    below = max(step for step in steps if step <= lowest)
    above = min(step for step in steps if step >= highest and step > below)
    return [step for step in steps if below <= step <= above]


def apart(positions: Sequence[float], gap: float) -> list[float]:
    """Return the positions in order, moved as little as possible so that neighbours are at least ``gap`` apart."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    groups: list[list[int]] = []
    centres: list[float] = []
    for index in order:
        groups.append([index])
        centres.append(positions[index])
        while len(groups) > 1 and centres[-1] - centres[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2.0:
            group = groups[-2] + groups.pop()
            centres.pop()
            groups[-1] = group
            centres[-1] = sum(positions[member] for member in group) / len(group)
    moved = list(positions)
    for group, centre in zip(groups, centres, strict=True):
        for place, index in enumerate(group):
            moved[index] = centre + gap * (place - (len(group) - 1) / 2.0)
    return moved
