"""Merging reports, and the command that shows them."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from benchmarks.measurements import Environment, Measurement, Report, rows
from benchmarks.merge import MergeError, merge, runs_of
from benchmarks.report import main
from benchmarks.side_by_side import write_report
from benchmarks.sides import OURS, THEIRS, SideName
from benchmarks.table import render_markdown

MACHINE = Environment("0.1", "v1.36.3", "3.11", "a machine", 2, 0.1)


def flip(side: SideName, cpu: float, *, run: int = 1, size: str = "1x5000") -> Measurement:
    values = {"cpu_ms_per_change": cpu, "p50_ms": cpu * 2, "p99_ms": cpu * 4}
    return Measurement("flip", size, "both", side, run, values)


def report(started: str, *measurements: Measurement, environment: Environment = MACHINE) -> Report:
    return Report(
        started, 10.0, environment, {"runs": "1", "quick": "false", "ours": "endpointd"}, measurements
    )


FIRST = report(
    "2026-01-01", flip(THEIRS, 100.0), flip(OURS, 1.0), flip(THEIRS, 120.0, run=2), flip(OURS, 3.6, run=2)
)
SECOND = report("2026-01-02", flip(OURS, 4.0), flip(THEIRS, 80.0))


def test_runs_of_a_later_report_follow_and_keep_their_pairs() -> None:
    merged = merge([FIRST, SECOND])
    assert [(one.side, one.run) for one in merged.measurements] == [
        (THEIRS, 1),
        (OURS, 1),
        (THEIRS, 2),
        (OURS, 2),
        (OURS, 3),
        (THEIRS, 3),
    ]
    ratio = rows(merged.measurements)[0].ratio
    assert ratio is not None
    assert (ratio.low, round(ratio.median, 9), ratio.high) == (0.01, 0.03, 0.05)


def test_one_report_merged_is_itself() -> None:
    assert merge([SECOND]).measurements == SECOND.measurements


def test_a_merged_report_has_start_duration_and_highest_load_at_start() -> None:
    busy = msgspec.structs.replace(MACHINE, load_before=3.0)
    merged = merge([report("2026-01-02", environment=busy), FIRST])
    assert (merged.started, merged.seconds) == ("2026-01-01", 20.0)
    assert merged.environment == busy


def test_the_number_of_runs_per_figure_is_shown() -> None:
    assert merge([FIRST, SECOND]).options["runs"] == "3"
    assert runs_of([flip(OURS, 1.0), flip(OURS, 1.0, run=2), flip(OURS, 1.0, size="1x100")]) == "1 to 2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endpointd", "0.2"),
        ("kubernetes", "v1.37.0"),
        ("python", "3.13"),
        ("machine", "another"),
        ("cpus", 64),
    ],
)
def test_reports_of_other_machines_or_versions_are_rejected(name: str, value: object) -> None:
    other = msgspec.structs.replace(MACHINE, **{name: value})
    with pytest.raises(
        MergeError, match=f"cannot be compared: {name} is .* in one and {value!r} in the other"
    ):
        merge([FIRST, report("2026-01-02", environment=other)])


@pytest.mark.parametrize("name", ["quick", "ours"])
def test_reports_of_other_rates_or_commands_are_rejected(name: str) -> None:
    other = msgspec.structs.replace(SECOND, options={**SECOND.options, name: "other"})
    with pytest.raises(MergeError, match=f"{name} is .* and 'other' in the other"):
        merge([FIRST, other])


def test_a_duplicate_report_and_an_empty_list_of_reports_are_rejected() -> None:
    with pytest.raises(MergeError, match="2026-01-01 is given twice"):
        merge([FIRST, SECOND, FIRST])
    with pytest.raises(MergeError, match="no report"):
        merge([])


# -------------------------------------------------------------------------------------------- in Markdown


def test_markdown_lists_metrics_with_goals_first_with_the_spread_of_their_ratios() -> None:
    small = (flip(THEIRS, 10.0, size="1x7"), flip(OURS, 5.0, size="1x7"))
    lines = render_markdown(rows((*small, *merge([FIRST, SECOND]).measurements))).splitlines()
    assert lines[0] == "|  | kube-controller-manager | endpointd | ratio | goal |  |"
    assert lines[2] == (
        "| flip 1x5000: CPU per change | 100.00 ms | 3.60 ms | 0.030 [0.010-0.050] | <= 0.02x | MISSED |"
    )
    assert lines[3].endswith("| 0.030 [0.010-0.050] | <= 0.2x | met |")
    assert lines[-1] == "| flip 1x7: seen in a slice, p99 | 40.0 ms | 20.0 ms | 0.50 |  |  |"
    assert {line.count("|") for line in lines} == {7}


def test_small_ratios_keep_enough_digits_to_compare_with_a_goal() -> None:
    table = render_markdown(rows((flip(THEIRS, 1000.0), flip(OURS, 4.9))))
    assert "| 0.0049 |" in table


def test_markdown_for_one_system_alone_has_no_ratio_and_no_verdict() -> None:
    assert "| - | 1.00 ms | - | <= 0.02x |  |" in render_markdown(rows((flip(OURS, 1.0),)))


# ------------------------------------------------------------------------------------------- the command


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "first.json", tmp_path / "second.json")
    write_report(FIRST, paths[0])
    write_report(SECOND, paths[1])
    return paths


def test_the_command_shows_the_table_of_all_runs(files: tuple[Path, Path]) -> None:
    result = run(*files)
    assert result.exit_code == 0
    assert "of 3 runs" in result.stdout
    assert "3.60 [1.00..4.00]" in result.stdout


def test_the_command_writes_plots_and_markdown(files: tuple[Path, Path], tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    result = run(*files, "--markdown", "--plot", plot)
    assert result.exit_code == 0
    assert "| flip 1x5000: CPU per change |" in result.stdout
    assert plot.read_text().startswith("<svg ")
    assert "plot.svg" not in result.stdout  # the output can be redirected into a file unchanged


def test_reports_that_cannot_be_merged_read_or_plotted_exit_with_2_and_one_line(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    nonsense, other, alone = tmp_path / "nonsense.json", tmp_path / "other.json", tmp_path / "alone.json"
    nonsense.write_text('{"started": 1}')
    write_report(report("2026-01-03", environment=msgspec.structs.replace(MACHINE, cpus=64)), other)
    write_report(report("2026-01-04", flip(OURS, 1.0, size="1000x5")), alone)
    for arguments, complaint in (
        ((files[0], nonsense), "nonsense.json is no report of side_by_side"),
        ((files[0], tmp_path / "missing.json"), "missing.json: No such file or directory"),
        ((files[0], other), "cpus is 2 in one and 64 in the other"),
        ((alone, "--plot", tmp_path / "plot.svg"), "there is nothing to draw"),
        ((files[0], "--plot", tmp_path / "no" / "plot.svg"), "plot.svg: No such file or directory"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        assert complaint in line
