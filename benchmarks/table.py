"""Tables as text: what people read of a report."""

from collections.abc import Sequence

from benchmarks.goals import goal_of, is_met
from benchmarks.measurements import Measurement, Row, rows
from benchmarks.summary import Spread

_NOTHING = "-"
_HEADER = ("", "kube-controller-manager", "endpointd", "ours/theirs", "goal", "")


def aligned(lines: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the lines with their cells in columns: the first ``left`` columns to the left, the rest to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def render(measurements: tuple[Measurement, ...]) -> str:
    """Return the table: a block for each scenario, size and variant, a line for each metric."""
    lines: list[tuple[str, ...]] = [_HEADER]
    heading = None
    for row in rows(measurements):
        title = _title(row)
        if title != heading:
            lines += [("",) * len(_HEADER), (title, *[""] * (len(_HEADER) - 1))]
            heading = title
        lines.append(_line(row))
    return "\n".join(aligned(lines))


def _title(row: Row) -> str:
    alone = "" if row.variant == "both" else ", EndpointSlice controller alone"
    return f"{row.scenario} {row.size}{alone}"


def _line(row: Row) -> tuple[str, ...]:
    metric = row.metric
    goal = goal_of(row)
    verdict = {True: "met", False: "MISSED", None: ""}[is_met(row, goal) if goal is not None else None]
    return (
        f"  {metric.label}{f' ({metric.unit})' if metric.unit else ''}",
        _number(row.theirs, metric.digits),
        _number(row.ours, metric.digits),
        _ratio(row.ratio),
        str(goal) if goal is not None else "",
        verdict,
    )


def _number(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return _NOTHING
    text = f"{spread.median:,.{digits}f}"
    if spread.low == spread.high:
        return text
    return f"{text} [{spread.low:,.{digits}f}..{spread.high:,.{digits}f}]"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return _NOTHING
    return f"{ratio.median:.3f}x" if ratio.median < 0.1 else f"{ratio.median:.2f}x"
