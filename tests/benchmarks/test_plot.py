"""The plot of a report."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.log_axes import LogScale, apart, ticks_around
from benchmarks.measurements import Measurement, Row, Scenario, rows
from benchmarks.plot import PlotError, draw
from benchmarks.sides import OURS, THEIRS, SideName, Variant

SVG = "{http://www.w3.org/2000/svg}"


def flip(
    side: SideName,
    size: str,
    milliseconds: float,
    *,
    run: int = 1,
    scenario: Scenario = "flip",
    variant: Variant = "both",
) -> Measurement:
    values = {"cpu_ms_per_change": milliseconds, "p50_ms": milliseconds * 2, "p99_ms": milliseconds * 4}
    return Measurement(scenario, size, variant, side, run, values)


def grown() -> list[Measurement]:
    sizes = {"1x100": 10.0, "1x1000": 50.0, "1x5000": 250.0, "1x20000": 1000.0}
    theirs = [flip(THEIRS, size, value) for size, value in sizes.items()]
    return theirs + [flip(OURS, size, 4.0) for size in sizes]


def drawn(*measurements: Measurement) -> ET.Element:
    return ET.fromstring(draw(found(*measurements), "made by hand"))


def found(*measurements: Measurement) -> list[Row]:
    return rows(measurements)


def of_kind(picture: ET.Element, tag: str, kind: str) -> list[ET.Element]:
    return [each for each in picture.iter(f"{SVG}{tag}") if kind in each.get("class", "").split()]


def heights(line: ET.Element) -> list[float]:
    return [float(point.split(",")[1]) for point in line.get("points", "").split()]


def texts(picture: ET.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def test_each_system_has_median_and_tail_latency_and_cpu() -> None:
    picture = drawn(*grown())
    for side in ("theirs", "ours"):
        lines = of_kind(picture, "polyline", side)
        assert [len(heights(line)) for line in lines] == [4, 4, 4]
        assert ["tail" in line.get("class", "") for line in lines] == [False, True, False]


def test_a_growing_metric_is_a_rising_line_and_a_constant_one_a_flat_line() -> None:
    picture = drawn(*grown())
    for line in of_kind(picture, "polyline", "theirs"):
        assert heights(line) == sorted(heights(line), reverse=True)
        assert heights(line)[0] > heights(line)[-1]
    for line in of_kind(picture, "polyline", "ours"):
        assert len(set(heights(line))) == 1


def test_line_ends_sizes_and_systems_are_labelled() -> None:
    told = texts(drawn(*grown()))
    assert {"p50 2,000 ms", "p99 4,000 ms", "1,000 ms", "p50 8 ms", "p99 16 ms", "4 ms"} <= set(told)
    assert {"100", "1,000", "5,000", "20,000", "kube-controller-manager", "endpointd", "made by hand"} <= set(
        told
    )


def test_whiskers_are_drawn_if_runs_differ() -> None:
    alike, apart_ = flip(OURS, "1x100", 4.0), flip(OURS, "1x100", 6.0, run=2)
    assert of_kind(drawn(alike), "path", "spread") == []
    assert len(of_kind(drawn(alike, apart_), "path", "spread")) == 3


def test_everything_is_inside_the_plot() -> None:
    picture = drawn(*grown(), flip(OURS, "1x100", 0.01, run=2), flip(THEIRS, "1x20000", 90_000.0, run=2))
    _, _, width, height = map(float, picture.get("viewBox", "").split())
    for each in picture.iter():
        for x in ("x", "x1", "x2", "cx"):
            assert 0 <= float(each.get(x, 0)) <= width
        for y in ("y", "y1", "y2", "cy"):
            assert 0 <= float(each.get(y, 0)) <= height


def test_only_flips_of_one_service_with_both_controllers_are_plotted() -> None:
    others = (
        flip(OURS, "1000x5", 7.0),
        flip(OURS, "1x5000", 7.0, variant="slices"),
        flip(OURS, "1x5000", 7.0, scenario="churn"),
    )
    assert texts(drawn(flip(OURS, "1x100", 4.0), *others)) == texts(drawn(flip(OURS, "1x100", 4.0)))
    with pytest.raises(PlotError, match="measure flips of one service"):
        draw(found(*others), "")


def test_one_system_and_one_size_can_be_plotted_alone() -> None:
    picture = drawn(flip(OURS, "1x100", 4.0))
    assert of_kind(picture, "polyline", "theirs") == []
    assert "kube-controller-manager" not in texts(picture)


def test_the_plot_is_readable_on_light_and_dark_pages() -> None:
    style = drawn(*grown()).findtext(f"{SVG}style", "")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for kind in (".paper", "text", ".theirs", ".ours"):
        (one,) = re.findall(rf"^{re.escape(kind)} {{ (?:fill|stroke): (#\w+) }}", light, re.MULTILINE)
        (other,) = re.findall(rf"^  {re.escape(kind)} {{ (?:fill|stroke): (#\w+) }}", dark, re.MULTILINE)
        assert one != other
    assert len(of_kind(drawn(*grown()), "rect", "paper")) == 1


def test_labels_are_escaped() -> None:
    picture = ET.fromstring(draw(found(*grown()), 'a <machine> & "more"'))
    assert 'a <machine> & "more"' in texts(picture)


def test_the_plot_has_a_text_alternative() -> None:
    label = drawn(*grown()).get("aria-label", "")
    assert "CPU of the controller, endpointd: 4 ms at 100 pods, 4 ms at 20,000" in label
    assert "p50, kube-controller-manager: 20 ms at 100 pods, 2,000 ms at 20,000" in label


# --------------------------------------------------------------------------------------------------- axes


def test_a_factor_of_ten_has_the_same_length_anywhere_on_the_axis() -> None:
    scale = LogScale(1.0, 1000.0, 0.0, 300.0)
    assert [round(scale.at(value), 6) for value in (1.0, 10.0, 100.0, 1000.0)] == [0.0, 100.0, 200.0, 300.0]


def test_a_single_value_is_in_the_middle_of_the_axis() -> None:
    assert LogScale(7.0, 7.0, 0.0, 300.0).at(7.0) == 150.0


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([3.0, 40.0], [2.0, 5.0, 10.0, 20.0, 50.0]),
        ([10.0], [10.0, 20.0]),
        ([0.05, 0.06], [0.05, 0.1]),
        ([100.0, 100.0], [100.0, 200.0]),
        ([70.0], [50.0, 100.0]),
        ([999.9999999999999], [500.0, 1000.0]),
        ([1000.0000000000001], [1000.0, 2000.0]),
    ],
)
def test_ticks_are_1_2_and_5_times_powers_of_ten_around_the_values(
    values: list[float], ticks: list[float]
) -> None:
    assert [round(tick, 9) for tick in ticks_around(values)] == ticks


@given(st.lists(st.floats(min_value=1e-6, max_value=1e9), min_size=1))
def test_ticks_enclose_every_value(values: list[float]) -> None:
    ticks = ticks_around(values)
    assert ticks == sorted(set(ticks))
    assert len(ticks) > 1
    assert ticks[0] <= min(values)
    assert max(values) <= ticks[-1]


def test_overlapping_labels_are_moved_apart_around_their_positions() -> None:
    assert apart([100.0, 10.0, 50.0], 15.0) == [100.0, 10.0, 50.0]
    assert apart([20.0, 10.0], 16.0) == [23.0, 7.0]


@given(st.lists(st.floats(min_value=0, max_value=500), max_size=8))
def test_labels_moved_apart_keep_their_order_and_distance(positions: list[float]) -> None:
    moved = apart(positions, 15.0)
    assert len(moved) == len(positions)
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    placed = [moved[index] for index in order]
    assert all(after - before >= 15.0 - 1e-6 for before, after in pairwise(placed))
