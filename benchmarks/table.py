"""Format reports as text tables."""

from collections.abc import Sequence

from benchmarks.goals import goal_of, is_met
from benchmarks.measurements import Measurement, Metric, Row, rows
from benchmarks.summary import Spread

_NOTHING = "-"
_MARKDOWN_HEADER = ("", "kube-controller-manager", "endpointd", "ratio", "goal", "")
_HEADER = ("", "kube-controller-manager", "endpointd", "ours/theirs", "goal", "")


def aligned(lines: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the lines with aligned columns: the first ``left`` columns left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def render(measurements: tuple[Measurement, ...]) -> str:
    """Return the table: a block per scenario, size and variant, a line per metric."""
    lines: list[tuple[str, ...]] = [_HEADER]
    heading = None
    for row in rows(measurements):
        title = _title(row)
        if title != heading:
            lines += [("",) * len(_HEADER), (title, *[""] * (len(_HEADER) - 1))]
            heading = title
        lines.append(_line(row))
    return "\n".join(aligned(lines))


def render_markdown(found: Sequence[Row]) -> str:
    """Return the rows as a Markdown table: medians, and the range of the ratios; rows with a goal first."""
    lines: list[tuple[str, ...]] = [_MARKDOWN_HEADER, ("---", "---:", "---:", "---:", "---:", "---")]
    lines += [_markdown_line(row) for row in found if goal_of(row) is not None]
    lines += [_markdown_line(row) for row in found if goal_of(row) is None]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_line(row: Row) -> tuple[str, ...]:
    metric = row.metric
    return (
        f"{_title(row)}: {metric.label}",
        _with_unit(row.theirs, metric),
        _with_unit(row.ours, metric),
        _ratio_with_spread(row.ratio),
        *_goal_cells(row),
    )


def _with_unit(spread: Spread | None, metric: Metric) -> str:
    return f"{spread.median:,.{metric.digits}f} {metric.unit}".rstrip() if spread is not None else _NOTHING


def _ratio_with_spread(ratio: Spread | None) -> str:
    if ratio is None:
        return _NOTHING
    if ratio.low == ratio.high:
        return _figure(ratio.median)
    return f"{_figure(ratio.median)} [{_figure(ratio.low)}-{_figure(ratio.high)}]"


def _goal_cells(row: Row) -> tuple[str, str]:
    """Return the goal and whether it is met; both empty for a row without a goal."""
    goal = goal_of(row)
    if goal is None:
        return "", ""
    return str(goal), {True: "met", False: "MISSED", None: ""}[is_met(row, goal)]


def _title(row: Row) -> str:
    alone = "" if row.variant == "both" else ", EndpointSlice controller alone"
    return f"{row.scenario} {row.size}{alone}"


def _line(row: Row) -> tuple[str, ...]:
    metric = row.metric
    return (
        f"  {metric.label}{f' ({metric.unit})' if metric.unit else ''}",
        _number(row.theirs, metric.digits),
        _number(row.ours, metric.digits),
        _ratio(row.ratio),
        *_goal_cells(row),
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
    return f"{_figure(ratio.median)}x"


def _figure(ratio: float) -> str:
    """Return a ratio with at least two significant digits, unless it is below a thousandth."""
    digits = 4 if ratio < 0.01 else 3 if ratio < 0.1 else 2
    return f"{ratio:.{digits}f}"
