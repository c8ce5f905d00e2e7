"""A parser of the Prometheus text format, limited to the needs of comparing two programs."""

import re
from collections.abc import Iterable

import msgspec

_SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? ([-+\w.]+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_SUFFIXES = ("_bucket", "_sum", "_count")

LabelSet = tuple[tuple[str, str], ...]
"""Label names and values, sorted by name, without the bounds of histograms."""


class Metric(msgspec.Struct, frozen=True):
    """One metric. The values of a histogram are its sums; its bounds are kept as text."""

    name: str
    type: str
    values: dict[LabelSet, float]
    counts: dict[LabelSet, float]
    """For a histogram: the number of observations."""
    bounds: tuple[str, ...]


def parse_metrics(text: str) -> dict[str, Metric]:
    """Parse the metrics of a text, by name. Raises ``ValueError`` for an invalid line."""
    types: dict[str, str] = {}
    metrics: dict[str, Metric] = {}
    bounds: dict[str, dict[str, None]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            types[name] = kind
            metrics[name] = Metric(name, kind, {}, {}, ())
            continue
        if not line or line.startswith("#"):
            continue
        found = _SAMPLE.fullmatch(line)
        if found is None:
            raise ValueError(f"this is no sample: {line!r}")
        name, labels, value = found[1], dict(_LABEL.findall(found[2] or "")), float(found[3])
        base = _base(name, types)
        bound = labels.pop("le", None) if name.endswith("_bucket") else None
        if bound is not None:
            bounds.setdefault(base, {})[bound] = None
            continue
        key = tuple(sorted(labels.items()))
        is_count = base != name and name.endswith("_count")
        (metrics[base].counts if is_count else metrics[base].values)[key] = value
    return {
        name: msgspec.structs.replace(metric, bounds=tuple(bounds.get(name, ())))
        for name, metric in metrics.items()
    }


def _base(name: str, types: dict[str, str]) -> str:
    if name in types:
        return name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name.removesuffix(suffix) in types:
            return name.removesuffix(suffix)
    raise ValueError(f"{name} has no type")


def chosen(metrics: dict[str, Metric], prefixes: Iterable[str]) -> dict[str, Metric]:
    """Return the metrics whose name starts with one of the prefixes."""
    return {name: metric for name, metric in metrics.items() if name.startswith(tuple(prefixes))}
