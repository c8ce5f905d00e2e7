"""Render a rolling update as a table and a plot. Pure."""

from collections.abc import Sequence

from endpointd.diagnose.rollout import Rollout, Step
from endpointd.diagnose.style import Style

_PLOT_WIDTH = 64
_PLOT_HEIGHT = 8


def rollout_text(title: str, found: Rollout, consumers: int, style: Style) -> str:
    """Return the cost and the course of an update for people."""
    slices, endpoints = found.slices, found.endpoints
    rows = [
        ("", "EndpointSlices", "Endpoints", "ratio"),
        ("writes", f"{slices.writes:,}", f"{endpoints.writes:,}", _ratio(slices.writes, endpoints.writes)),
        (
            "largest object",
            size(slices.largest_object_bytes),
            size(endpoints.largest_object_bytes),
            _ratio(slices.largest_object_bytes, endpoints.largest_object_bytes),
        ),
        (
            "sent to each consumer",
            size(slices.bytes_to_each_consumer),
            size(endpoints.bytes_to_each_consumer),
            _ratio(slices.bytes_to_each_consumer, endpoints.bytes_to_each_consumer),
        ),
        (
            f"sent to {consumers:,} consumers",
            size(slices.bytes_to_all_consumers),
            size(endpoints.bytes_to_all_consumers),
            "",
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        style.paint(title, "bold"),
        f"{found.pods:,} {'pod' if found.pods == 1 else 'pods'} replaced in {found.seconds:.1f} s; at least {found.lowest_ready:,} ready at all times",
        "",
    ]
    for row in rows:
        first, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first, *(cell.strip().rjust(len(cell)) for cell in rest)]).rstrip())
    lines += ["", "sent to each consumer so far, Endpoints (█) and EndpointSlices (░):"]
    lines += plot(found.steps)
    return style.page(lines)


def plot(steps: Sequence[Step]) -> list[str]:
    """Return bytes over time: two curves, the lower one drawn on top."""
    if not steps or steps[-1].at_seconds <= 0:
        return []
    end = steps[-1].at_seconds
    upper, lower = [], []
    for column in range(_PLOT_WIDTH):
        moment = end * (column + 1) / _PLOT_WIDTH
        last = [step for step in steps if step.at_seconds <= moment][-1]
        upper.append(last.endpoints_bytes)
        lower.append(last.slice_bytes)
    most = max(*upper, *lower, 1)
    lines = []
    for row in range(_PLOT_HEIGHT, 0, -1):
        threshold = most * (row - 0.5) / _PLOT_HEIGHT
        body = "".join(_mark(pair, threshold) for pair in zip(upper, lower, strict=True))
        label = size(round(most * row / _PLOT_HEIGHT)) if row in (_PLOT_HEIGHT, _PLOT_HEIGHT // 2) else ""
        lines.append(f"{label:>10} │{body.rstrip()}")
    lines.append(f"{'0':>10} └{'─' * _PLOT_WIDTH}")
    lines.append(f"{'':>12}0 s{f'{end:.1f} s':>{_PLOT_WIDTH - 3}}")
    return lines


def _mark(heights: tuple[int, int], threshold: float) -> str:
    """Return the lower curve's mark if both reach the threshold, otherwise the mark of the one that does."""
    endpoints, slices = heights
    if max(heights) < threshold:
        return " "
    if min(heights) >= threshold:
        return "░" if slices <= endpoints else "█"
    return "█" if endpoints > slices else "░"


def size(count: int) -> str:
    """Return a number of bytes with a readable unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError("the last unit always returns")


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2g}x" if whole else ""
