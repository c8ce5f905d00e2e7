"""Measurements as a table and as JSON."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.control_watch import ObserverError
from benchmarks.goals import EVERY_SIZE, GOALS, Goal, goal_of, is_met
from benchmarks.measurements import METRICS, Environment, Measurement, Report, Scenario, growth, rows
from benchmarks.plan import make_plan
from benchmarks.side_by_side import story_of, with_growth, write_report
from benchmarks.sides import OURS, THEIRS, SideName, Variant
from benchmarks.sizes import Size
from benchmarks.summary import Spread
from benchmarks.table import aligned, render


def measurement(
    side: SideName,
    cpu: float,
    *,
    run: int = 1,
    size: str = "1x5000",
    variant: Variant = "both",
    scenario: Scenario = "flip",
) -> Measurement:
    return Measurement(scenario, size, variant, side, run, {"cpu_ms_per_change": cpu, "p50_ms": cpu / 2})


def test_a_row_has_both_systems_and_the_ratio_of_each_run() -> None:
    found = rows(
        (
            measurement(THEIRS, 100.0),
            measurement(OURS, 1.0),
            measurement(OURS, 4.0, run=2),
            measurement(THEIRS, 200.0, run=2),
        )
    )
    cpu = next(row for row in found if row.metric.key == "cpu_ms_per_change")
    assert cpu.theirs is not None
    assert cpu.ours is not None
    assert cpu.ratio is not None
    assert (cpu.theirs.median, cpu.ours.median) == (150.0, 2.5)
    assert (cpu.ratio.low, cpu.ratio.high) == (0.01, 0.02)


def test_one_system_alone_has_rows_without_a_ratio() -> None:
    (cpu, p50) = rows((measurement(THEIRS, 100.0),))
    assert (cpu.ours, cpu.ratio, p50.ours) == (None, None, None)
    assert "-" in render((measurement(THEIRS, 100.0),))


def test_rows_are_grouped_by_scenario_in_measuring_order() -> None:
    found = rows(
        (
            measurement(OURS, 1.0, size="1x100"),
            measurement(OURS, 1.0, scenario="churn"),
            measurement(OURS, 1.0, size="1000x5"),
        )
    )
    assert [(row.scenario, row.size) for row in found][::2] == [
        ("flip", "1x100"),
        ("flip", "1000x5"),
        ("churn", "1x5000"),
    ]


def test_growth_is_large_divided_by_small_within_system_variant_and_run() -> None:
    found = growth(
        (
            measurement(OURS, 2.0, size="1x100"),
            measurement(OURS, 3.0),
            measurement(OURS, 1.0, size="1x100", variant="slices"),
            measurement(OURS, 1.0, variant="slices"),
            measurement(THEIRS, 7.0, size="1x100"),
            measurement(THEIRS, 70.0, run=2),
        ),
        "1x100",
        "1x5000",
    )
    assert [(one.side, one.variant, one.values["cpu_ratio"]) for one in found] == [
        (OURS, "both", 1.5),
        (OURS, "slices", 1.0),
    ]


def test_growth_is_reported_only_on_request() -> None:
    found = [measurement(OURS, 2.0, size="1x10"), measurement(OURS, 3.0, size="1x20")]
    plan = make_plan(sizes=[Size(1, 10), Size(1, 20)])
    assert with_growth(found, plan)[-1].size == "1x10 to 1x20"
    assert with_growth(found, make_plan(scenarios=["flip"])) == tuple(found)


def test_a_goal_is_compared_with_the_ratio_of_the_runs() -> None:
    met = rows((measurement(THEIRS, 100.0), measurement(OURS, 2.0)))[0]
    missed = rows((measurement(THEIRS, 100.0), measurement(OURS, 2.1)))[0]
    goal = goal_of(met)
    assert goal is not None
    assert is_met(met, goal) is True
    assert is_met(missed, goal) is False
    assert is_met(rows((measurement(OURS, 2.0),))[0], goal) is None


def test_growth_has_a_goal_of_its_own_in_every_variant() -> None:
    small = [measurement(OURS, 2.0, size="1x100", variant=variant) for variant in ("both", "slices")]
    large = [measurement(OURS, 2.9, variant=variant) for variant in ("both", "slices")]
    for row in rows(tuple(growth((*small, *large), "1x100", "1x5000"))):
        goal = goal_of(row)
        assert goal == Goal(1.5, of="itself")
        assert is_met(row, goal) is True


def test_goals_other_than_growth_apply_to_both_controllers_together() -> None:
    row = rows((measurement(THEIRS, 100.0, variant="slices"), measurement(OURS, 2.0, variant="slices")))[0]
    assert goal_of(row) is None


def test_every_goal_is_about_a_measured_metric_at_a_measured_size() -> None:
    plan = make_plan(with_huge=True)
    measured = {str(each.size) for each in plan.sizes}
    pairs = {f"{small} to {large}" for small, large in plan.growth}
    for scenario, size, metric in GOALS:
        assert metric in {each.key for each in METRICS[scenario]}
        assert size in {EVERY_SIZE, *(pairs if scenario == "growth" else measured)}


@pytest.mark.parametrize("size", ["1x100", "1000x5", "7x7"])
def test_the_goal_for_slice_writes_per_flip_is_upstreams_number_at_every_size(size: str) -> None:
    def flip(side: SideName, writes: float) -> Measurement:
        return Measurement("flip", size, "both", side, 1, {"slice_writes_per_change": writes})

    met, missed = (
        rows((flip(THEIRS, 1.0), flip(OURS, 1.0)))[0],
        rows((flip(THEIRS, 1.0), flip(OURS, 1.02)))[0],
    )
    goal = goal_of(met)
    assert goal == Goal(1.0)
    assert is_met(met, goal) is True
    assert is_met(missed, goal) is False


def test_steady_and_churn_have_the_same_goals() -> None:
    steady, churn = (
        {key[1:]: goal for key, goal in GOALS.items() if key[0] == scenario}
        for scenario in ("steady", "churn")
    )
    assert steady == churn


def test_interruptions_of_the_control_watch_are_shown_only_if_there_were_any() -> None:
    def steady(run: int, restarts: float) -> Measurement:
        return Measurement(
            "steady", "1x5000", "both", OURS, run, {"p50_ms": 9.0, "own_watch_restarts": restarts}
        )

    assert "cut off" not in render((steady(1, 0.0), steady(2, 0.0)))
    assert "own watch cut off, times" in render((steady(1, 0.0), steady(2, 3.0)))


def test_a_run_of_one_system_alone_is_excluded_from_the_ratio() -> None:
    found = rows(
        (
            measurement(OURS, 1.0, run=1),
            measurement(OURS, 50.0, run=2),
            measurement(THEIRS, 100.0, run=2),
            measurement(THEIRS, 900.0, run=3),
        )
    )
    assert found[0].ratio == Spread(0.5, 0.5, 0.5)
    assert rows((measurement(OURS, 1.0), measurement(THEIRS, 1.0, run=2)))[0].ratio is None


def test_the_table_marks_missed_goals() -> None:
    text = render((measurement(THEIRS, 100.0), measurement(OURS, 2.1)))
    (line,) = (line for line in text.splitlines() if "CPU per change" in line)
    assert line.split() == [
        "CPU",
        "per",
        "change",
        "(ms)",
        "100.00",
        "2.10",
        "0.021x",
        "<=",
        "0.02x",
        "MISSED",
    ]
    assert "flip 1x5000" in text


def test_the_table_shows_the_spread_of_several_runs() -> None:
    text = render((measurement(OURS, 1.0), measurement(OURS, 3.0, run=2), measurement(OURS, 2.0, run=3)))
    assert "2.00 [1.00..3.00]" in text


def test_columns_are_aligned() -> None:
    assert aligned([("a", "1", "x"), ("bbb", "22", "")]) == ["a     1  x", "bbb  22"]


def test_a_report_survives_a_json_round_trip_and_is_written_completely(tmp_path: Path) -> None:
    report = Report(
        started="2026-01-01T00:00:00+00:00",
        seconds=1.5,
        environment=Environment("0.1", "v1.36.3", "3.11", "a machine", 2, 0.1),
        options={"runs": "1"},
        measurements=(measurement(OURS, 1.0),),
    )
    path = tmp_path / "results" / "one.json"
    write_report(report, path)
    assert msgspec.json.decode(path.read_bytes(), type=Report) == report
    assert [each.name for each in path.parent.iterdir()] == ["one.json"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_first_error_of_a_group_is_reported_with_its_own_message(wrapped: bool) -> None:
    error: BaseException = ObserverError("the watch has ended")
    if wrapped:
        error = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [error]), ValueError("later")])
    assert story_of(error) == "the watch has ended"
    assert story_of(ValueError("odd")) == "ValueError: odd"
