"""Metric values and the Prometheus text format (version 0.0.4).

Counters are plain numbers; families are built only for a scrape, so counting costs a tenth of a microsecond.
prometheus_client cannot be used, because kube-controller-manager has counters whose names do not end in
``_total``; the tests check the output with its parser.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
"""Label names and values, in output order."""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One value; ``suffix`` is appended to the family's name (``_sum``, for example)."""

    value: float
    labels: Labels = ()
    suffix: str = ""


class Family(msgspec.Struct, frozen=True):
    """A metric family: all samples with one name."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


class Histogram:
    """A histogram with cumulative buckets, as in Prometheus.

    Bounds must be ascending; infinity is implied.
    """

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"a histogram needs ascending bounds, at least one: {list(bounds)}")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self._counts)

    def observe(self, value: float, times: int = 1) -> None:
        """Observe a value, once or several times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def samples(self, labels: Labels = ()) -> tuple[Sample, ...]:
        """Return the samples of the histogram."""
        samples: list[Sample] = []
        count = 0
        for bound, there in zip((*self._bounds, math.inf), self._counts, strict=True):
            count += there
            samples.append(Sample(count, (*labels, ("le", number_text(bound))), "_bucket"))
        return (*samples, Sample(self.sum, labels, "_sum"), Sample(count, labels, "_count"))


def exponential_bounds(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return exponential bounds, each computed from the previous one, to match upstream's last digit."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def exposition(families: Iterable[Family]) -> bytes:
    """Return families in text format, sorted by name; names must be unique."""
    lines: list[str] = []
    for family in sorted(families, key=lambda family: family.name):
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        for sample in family.samples:
            labels = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in sample.labels)
            where = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{sample.suffix}{where} {number_text(sample.value)}")
    return "".join(f"{line}\n" for line in lines).encode()


def number_text(value: float) -> str:
    """Format a number as Prometheus does: the shortest exact text, integers without a point."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
