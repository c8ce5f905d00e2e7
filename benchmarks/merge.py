"""Merge several reports: more runs of the same scenarios, or other scenarios and sizes. Pure."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from benchmarks.measurements import Measurement, Report

_SAME_SURROUNDINGS = ("endpointd", "kubernetes", "python", "machine", "cpus")
_SAME_OPTIONS = ("quick", "ours")


class MergeError(ValueError):
    """The reports are not comparable; the message names the difference."""


def merge(reports: Sequence[Report]) -> Report:
    """Return one report with all measurements; runs are numbered in the order of the reports.

    Runs stay paired: a ratio is taken within one run of one report. Raises MergeError for reports of different machines,
    versions or commands, for duplicates, and for an empty sequence.
    """
    if not reports:
        raise MergeError("there is no report to merge")
    first = reports[0]
    measurements: list[Measurement] = []
    seen: set[str] = set()
    for report in reports:
        _check_alike(first, report)
        if report.started in seen:
            raise MergeError(f"the report of {report.started} is given twice")
        seen.add(report.started)
        done = max((one.run for one in measurements), default=0)
        measurements += [msgspec.structs.replace(one, run=one.run + done) for one in report.measurements]
    return Report(
        started=min(seen),
        seconds=round(sum(report.seconds for report in reports), 1),
        environment=msgspec.structs.replace(
            first.environment, load_before=max(report.environment.load_before for report in reports)
        ),
        options={name: first.options[name] for name in _SAME_OPTIONS if name in first.options}
        | {"runs": runs_of(measurements)},
        measurements=tuple(measurements),
    )


def runs_of(measurements: Sequence[Measurement]) -> str:
    """Return the number of runs behind a figure: one number, or a range."""
    counts = Counter((one.scenario, one.size, one.variant, one.side) for one in measurements).values()
    fewest, most = min(counts, default=0), max(counts, default=0)
    return str(most) if fewest == most else f"{fewest} to {most}"


def _check_alike(first: Report, other: Report) -> None:
    facts = [
        *(
            (name, getattr(first.environment, name), getattr(other.environment, name))
            for name in _SAME_SURROUNDINGS
        ),
        *((name, first.options.get(name), other.options.get(name)) for name in _SAME_OPTIONS),
    ]
    for name, one, another in facts:
        if one != another:
            raise MergeError(
                f"the reports of {first.started} and {other.started} cannot be compared: "
                f"{name} is {one!r} in one and {another!r} in the other"
            )
