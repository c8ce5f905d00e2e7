"""Results of the benchmarks, as values that are printed and written as JSON."""

from typing import Literal

import msgspec

from benchmarks.sides import OURS, THEIRS, SideName, Variant
from benchmarks.summary import Spread, ratios

Scenario = Literal["cold", "flip", "steady", "churn", "growth"]


class Measurement(msgspec.Struct, frozen=True):
    """One scenario, run once with one program."""

    scenario: Scenario
    size: str
    variant: Variant
    side: SideName
    run: int
    values: dict[str, float]


class Environment(msgspec.Struct, frozen=True):
    """Hardware and versions of a measurement."""

    endpointd: str
    kubernetes: str
    python: str
    machine: str
    cpus: int
    load_before: float
    """Load average of the minute before; above a few tenths, the machine was not idle."""


class Report(msgspec.Struct, frozen=True):
    """All measurements of one command. ``options`` are its command-line options."""

    started: str
    seconds: float
    environment: Environment
    options: dict[str, str]
    measurements: tuple[Measurement, ...]


class Metric(msgspec.Struct, frozen=True):
    """A reported number: its key, label and significant digits."""

    key: str
    label: str
    unit: str
    digits: int
    unless_zero: bool = False
    """Show only if some run has a value other than 0."""


_RESTARTS = Metric("own_watch_restarts", "the benchmark's own watch cut off, times", "", 0, unless_zero=True)
_CHURN = (
    Metric("p50_ms", "seen in a slice, p50", "ms", 1),
    Metric("p99_ms", "seen in a slice, p99", "ms", 1),
    Metric("max_ms", "seen in a slice, latest", "ms", 1),
    Metric("after_answer_p50_ms", "the same, from the server's answer on, p50", "ms", 1),
    Metric("after_answer_p99_ms", "the same, from the server's answer on, p99", "ms", 1),
    Metric("settled_ms", "all right after the last", "ms", 0),
    Metric("cpu_ms_per_change", "CPU per change", "ms", 2),
    Metric("peak_mib", "memory at its peak", "MiB", 0),
    Metric("status_write_p50_ms", "the change itself, p50", "ms", 1),
    Metric("own_slice_write_p50_ms", "a slice written by the benchmark, p50", "ms", 1),
    Metric("own_slice_write_p99_ms", "a slice written by the benchmark, p99", "ms", 1),
    Metric("slice_writes_per_change", "slice writes per change", "", 2),
    Metric("endpoints_writes_per_change", "Endpoints writes per change", "", 2),
    Metric("server_cpu_ms_per_change", "CPU of kube-apiserver per change", "ms", 1),
    Metric("own_cpu_ms_per_change", "CPU of the benchmark per change", "ms", 1),
    Metric("changes_per_second", "changes per second", "", 1),
    _RESTARTS,
)

METRICS: dict[Scenario, tuple[Metric, ...]] = {
    "cold": (
        Metric("seconds", "until all is right", "s", 2),
        Metric("slices_seconds", "until slices are right", "s", 2),
        Metric("cpu_seconds", "CPU", "s", 2),
        Metric("resident_mib", "memory then", "MiB", 0),
        Metric("peak_mib", "memory at its peak", "MiB", 0),
        Metric("server_cpu_seconds", "CPU of kube-apiserver", "s", 2),
        _RESTARTS,
    ),
    "flip": (
        Metric("cpu_ms_per_change", "CPU per change", "ms", 2),
        Metric("p50_ms", "seen in a slice, p50", "ms", 1),
        Metric("p99_ms", "seen in a slice, p99", "ms", 1),
        Metric("after_answer_p50_ms", "the same, from the server's answer on, p50", "ms", 1),
        Metric("after_answer_p99_ms", "the same, from the server's answer on, p99", "ms", 1),
        Metric("endpoints_p50_ms", "Endpoints right, p50", "ms", 1),
        Metric("status_write_p50_ms", "the change itself, p50", "ms", 1),
        Metric("slice_writes_per_change", "slice writes per change", "", 2),
        Metric("endpoints_writes_per_change", "Endpoints writes per change", "", 2),
        Metric("server_cpu_ms_per_change", "CPU of kube-apiserver per change", "ms", 1),
        Metric("own_cpu_ms_per_change", "CPU of the benchmark per change", "ms", 1),
        _RESTARTS,
    ),
    "steady": _CHURN,
    "churn": _CHURN,
    "growth": (Metric("cpu_ratio", "CPU of a change, large by small", "x", 2),),
}


class Row(msgspec.Struct, frozen=True):
    """One metric of one scenario for both programs."""

    scenario: Scenario
    size: str
    variant: Variant
    metric: Metric
    theirs: Spread | None
    ours: Spread | None
    ratio: Spread | None
    """endpointd's figure divided by upstream's, run by run, for the runs that measured both."""


def rows(measurements: tuple[Measurement, ...]) -> list[Row]:
    """Pair the measurements of both programs, in the order of first measurement."""
    groups: dict[tuple[Scenario, str, Variant], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault((one.scenario, one.size, one.variant), []).append(one)
    order: list[Scenario] = list(METRICS)
    found: list[Row] = []
    for scenario, size, variant in sorted(groups, key=lambda key: order.index(key[0])):
        for metric in METRICS[scenario]:
            theirs, ours = (
                {
                    one.run: one.values[metric.key]
                    for one in groups[scenario, size, variant]
                    if one.side == side and metric.key in one.values
                }
                for side in (THEIRS, OURS)
            )
            values = (*theirs.values(), *ours.values())
            if not values or (metric.unless_zero and not any(values)):
                continue
            both = sorted(theirs.keys() & ours.keys())
            found.append(
                Row(
                    scenario=scenario,
                    size=size,
                    variant=variant,
                    metric=metric,
                    theirs=Spread.of(list(theirs.values())) if theirs else None,
                    ours=Spread.of(list(ours.values())) if ours else None,
                    ratio=ratios([ours[run] for run in both], [theirs[run] for run in both]),
                )
            )
    return found


def growth(measurements: tuple[Measurement, ...], small: str, large: str) -> list[Measurement]:
    """Derive how the CPU of one change grows with size, for each program, variant and run that has both sizes."""
    flips = {
        (one.side, one.variant, one.run, one.size): one.values["cpu_ms_per_change"]
        for one in measurements
        if one.scenario == "flip"
    }
    return [
        Measurement(
            "growth",
            f"{small} to {large}",
            variant,
            side,
            run,
            {"cpu_ratio": flips[side, variant, run, large] / cpu},
        )
        for (side, variant, run, size), cpu in flips.items()
        if size == small and cpu > 0 and (side, variant, run, large) in flips
    ]
