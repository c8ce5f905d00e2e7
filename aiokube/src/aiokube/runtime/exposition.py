"""Figures, and the text in which Prometheus reads them (version 0.0.4).

The figures are plain numbers that whoever counts adds to; a family is made of them only when somebody asks. So a count costs
a tenth of a microsecond and not one more. Written here because kube-controller-manager has counters whose names
do not end in ``_total``, which prometheus_client cannot write; its parser judges the text in the tests.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
"""Names and values, in the order in which they are written."""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One number; ``suffix`` follows the family's name (``_sum``, say)."""

    value: float
    labels: Labels = ()
    suffix: str = ""


class Family(msgspec.Struct, frozen=True):
    """What is known under one name."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


class Histogram:
    """How often values fell under each bound, how many there were, and their sum.

    A value counts under every bound that is not smaller. Bounds rise; the last one, infinity, is implied.
    """

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"the bounds of a histogram must rise, and there must be some: {list(bounds)}")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def samples(self, labels: Labels = ()) -> tuple[Sample, ...]:
        """Return it as samples of a family."""
        samples: list[Sample] = []
        count = 0
        for bound, there in zip((*self._bounds, math.inf), self._counts, strict=True):
            count += there
            samples.append(Sample(count, (*labels, ("le", number_text(bound))), "_bucket"))
        return (*samples, Sample(self.sum, labels, "_sum"), Sample(count, labels, "_count"))


def exponential_bounds(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds that grow by a factor, multiplied one from the other, as upstream's are to the last digit."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def exposition(families: Iterable[Family]) -> bytes:
    """Return families as text, by name; one name must not come twice."""
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
    """Return a number as Prometheus writes it: the shortest text that means it, whole numbers without a point."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
