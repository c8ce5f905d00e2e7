"""Plot latency and CPU of one change against service size as SVG. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec

from benchmarks.log_axes import LogScale, apart, ticks_around
from benchmarks.measurements import Row
from benchmarks.sides import OURS, SIDES, THEIRS, SideName
from benchmarks.sizes import Size
from benchmarks.summary import Spread

_WIDTH, _HEIGHT = 960, 484
_TOP, _BOTTOM = 118, 392
_PANELS = ((70, 376), (560, 866))  # left and right edge of each; line labels are written to the right
_LINE_HEIGHT = 15.0
_CAP = 3.5
_CLASSES: dict[SideName, str] = {THEIRS: "theirs", OURS: "ours"}
# An own background makes the plot readable on any page; the colours follow the reader's system preference.
_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "grid": "#e3e6ea",
    "theirs": "#b4530a",
    "ours": "#0b62c4",
}
_DARK = {
    "paper": "#0d1117",
    "ink": "#f0f6fc",
    "faint": "#9aa4af",
    "grid": "#2a313a",
    "theirs": "#f0a35e",
    "ours": "#62aaf8",
}
_SHAPES = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px }
.title { font-size: 17px; font-weight: 600 }
.panel { font-size: 13px; font-weight: 600 }
.grid { stroke-width: 1 }
.line { fill: none; stroke-width: 2 }
.tail { stroke-dasharray: 5 4 }
.spread { fill: none; stroke-width: 1.2 }
text.theirs, text.ours { font-weight: 600 }"""


class PlotError(ValueError):
    """The report has nothing to draw; the message names the scenarios to measure."""


class Series(msgspec.Struct, frozen=True):
    """One line: a metric of one program by service size, ascending."""

    side: SideName
    name: str
    is_tail: bool
    points: tuple[tuple[int, Spread], ...]


class Panel(msgspec.Struct, frozen=True):
    """One of the two diagrams."""

    title: str
    unit: str
    series: tuple[Series, ...]


def draw(found: Sequence[Row], caption: str) -> str:
    """Return the plot of all single-service flips with both controllers as an SVG document.

    Both axes are logarithmic. Points are medians; whiskers span the lowest and highest run. Raises PlotError if no
    such flips were measured.
    """
    panels = (
        _panel(found, "until a watcher sees it in a slice", (("p50_ms", "p50"), ("p99_ms", "p99"))),
        _panel(found, "CPU of the controller", (("cpu_ms_per_change", ""),)),
    )
    if not all(panel.series for panel in panels):
        raise PlotError(
            "there is nothing to draw: measure flips of one service, such as --scenarios flip --sizes 1x100"
        )
    sides = [
        side for side in SIDES if any(series.side == side for panel in panels for series in panel.series)
    ]
    body = [
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>',
        _text(24, 34, "Cost of one pod's readiness change by service size", "title"),
        *_legend(sides),
    ]
    for panel, (left, right) in zip(panels, _PANELS, strict=True):
        body += _drawn(panel, left, right)
    body.append(_text(24, _HEIGHT - 16, caption, "faint"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{_spoken(panels)}">\n<style>\n{_style()}\n</style>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _panel(found: Sequence[Row], title: str, metrics: Sequence[tuple[str, str]]) -> Panel:
    series = []
    for side in SIDES:
        for key, name in metrics:
            points = sorted(
                (Size.parse(row.size).pods_per_service, spread)
                for row in found
                if (row.scenario, row.variant, row.metric.key) == ("flip", "both", key)
                and Size.parse(row.size).services == 1
                and (spread := row.theirs if side == THEIRS else row.ours) is not None
                and spread.low > 0
            )
            if points:
                series.append(Series(side, name, name == "p99", tuple(points)))
    return Panel(title, "ms", tuple(series))


def _legend(sides: Sequence[SideName]) -> Iterator[str]:
    x = 24.0
    for side in sides:
        kind = _CLASSES[side]
        yield f'<line class="line {kind}" x1="{x:g}" y1="58" x2="{x + 26:g}" y2="58"/>'
        yield _text(x + 33, 62, side, kind)
        x += 60 + 7.2 * len(side)
    yield _text(x, 62, "solid: median; dashed: 99th percentile; whiskers: lowest and highest run", "faint")


def _drawn(panel: Panel, left: int, right: int) -> Iterator[str]:
    spreads = [spread for series in panel.series for _, spread in series.points]
    ticks = ticks_around([edge for spread in spreads for edge in (spread.low, spread.high)])
    sizes = sorted({pods for series in panel.series for pods, _ in series.points})
    across = LogScale(sizes[0], sizes[-1], left + 14, right - 14)
    up = LogScale(ticks[0], ticks[-1], _BOTTOM, _TOP)
    yield _text(left - 46, _TOP - 22, f"{panel.title} ({panel.unit})", "panel")
    for tick in ticks:
        y = up.at(tick)
        yield f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield _text(left - 8, y + 4, f"{tick:,g}", "faint", "end")
    for pods in sizes:
        x = across.at(pods)
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BOTTOM + 5}"/>'
        yield _text(x, _BOTTOM + 20, f"{pods:,}", "faint", "middle")
    yield _text((left + right) / 2, _BOTTOM + 38, "pods in the service", "faint", "middle")
    for series in panel.series:
        yield from _line(series, across, up)
    ends = [up.at(series.points[-1][1].median) for series in panel.series]
    for series, y in zip(panel.series, apart(ends, _LINE_HEIGHT), strict=True):
        value = f"{_short(series.points[-1][1].median)} {panel.unit}"
        yield _text(right + 2, y + 4, f"{series.name} {value}".lstrip(), _CLASSES[series.side])


def _line(series: Series, across: LogScale, up: LogScale) -> Iterator[str]:
    kind = _CLASSES[series.side]
    places = [(across.at(pods), spread) for pods, spread in series.points]
    path = " ".join(f"{x:.1f},{up.at(spread.median):.1f}" for x, spread in places)
    yield f'<polyline class="line {kind}{" tail" if series.is_tail else ""}" points="{path}"/>'
    for x, spread in places:
        if spread.low != spread.high:
            low, high = up.at(spread.low), up.at(spread.high)
            yield (
                f'<path class="spread {kind}" d="M{x - _CAP:.1f} {low:.1f}h{2 * _CAP:g}m{-_CAP:g} 0V{high:.1f}'
                f'm{-_CAP:g} 0h{2 * _CAP:g}"/>'
            )
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{up.at(spread.median):.1f}" r="3.4"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{placed}>{escape(text)}</text>'


def _short(value: float) -> str:
    """Return a number with two or three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def _spoken(panels: Sequence[Panel]) -> str:
    """Return the text alternative of the picture."""
    told = []
    for panel in panels:
        for series in panel.series:
            (fewest, first), (most, last) = series.points[0], series.points[-1]
            name = f"{series.name}, " if series.name else ""
            told.append(
                f"{panel.title}, {name}{series.side}: {_short(first.median)} {panel.unit} at {fewest:,} pods, "
                f"{_short(last.median)} {panel.unit} at {most:,}"
            )
    return escape("; ".join(told), {'"': "&quot;"})


def _style() -> str:
    """Return the style sheet without variables, which many viewers other than browsers do not support."""
    dark = _colours(_DARK).replace("\n", "\n  ")
    return f"{_SHAPES}\n{_colours(_LIGHT)}\n@media (prefers-color-scheme: dark) {{\n  {dark}\n}}"


def _colours(colours: Mapping[str, str]) -> str:
    rules = [
        f".paper {{ fill: {colours['paper']} }}",
        f"text {{ fill: {colours['ink']} }}",
        f"text.faint {{ fill: {colours['faint']} }}",
        f".grid {{ stroke: {colours['grid']} }}",
    ]
    for kind in _CLASSES.values():
        rules += [
            f".{kind} {{ stroke: {colours[kind]} }}",
            f"text.{kind}, circle.{kind} {{ fill: {colours[kind]}; stroke: none }}",
        ]
    return "\n".join(rules)
