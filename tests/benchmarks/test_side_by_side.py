"""The command without its measurements."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from aiokube.clock import Clock
from benchmarks import side_by_side
from benchmarks.measurements import Environment, Measurement, Report
from benchmarks.plan import Plan
from benchmarks.runner import RunSettings, Say
from benchmarks.scenarios import ScenarioError
from benchmarks.sides import OURS, THEIRS

TAKEN = (
    Measurement("flip", "1x10", "both", THEIRS, 1, {"cpu_ms_per_change": 4.0}),
    Measurement("flip", "1x10", "both", OURS, 1, {"cpu_ms_per_change": 2.0}),
    Measurement("flip", "1x20", "both", OURS, 1, {"cpu_ms_per_change": 3.0}),
)


class Played:
    """Replaces the runner: returns some measurements, then ends as configured."""

    def __init__(self, taken: tuple[Measurement, ...] = TAKEN, end: BaseException | None = None) -> None:
        self._taken = taken
        self._end = end

    def __call__(
        self, plan: Plan, settings: RunSettings, clock: Clock, say: Say, found: list[Measurement]
    ) -> None:
        found += self._taken
        if self._end is not None:
            raise self._end


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Environment("0.1", "v1.36.3", "3.11", "a machine", 2, 0.1)
    (tmp_path / THEIRS).touch()
    monkeypatch.setattr(side_by_side, "find_assets", lambda: tmp_path)
    monkeypatch.setattr(side_by_side, "describe_machine", lambda _: machine)
    monkeypatch.setattr(side_by_side, "compile_ours", lambda _: True)


def run(monkeypatch: pytest.MonkeyPatch, played: Played, path: Path) -> Result:
    monkeypatch.setattr(side_by_side, "run_plan", played)
    return CliRunner().invoke(side_by_side.main, ["--sizes", "1x10", "--sizes", "1x20", "-o", str(path)])


def read(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def test_measurements_are_printed_and_written_with_the_resulting_growth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run(monkeypatch, Played(), tmp_path / "report.json")
    assert result.exit_code == 0
    assert "flip 1x20" in result.stdout
    report = read(tmp_path / "report.json")
    assert report.measurements[:3] == TAKEN
    assert [one.values for one in report.measurements[3:]] == [{"cpu_ratio": 1.5}]
    assert "ended" not in report.options


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (ScenarioError("endpointd has ended with 1"), 1, "benchmark failed: endpointd has ended with 1"),
        (ExceptionGroup("x", [ScenarioError("it never rests")]), 1, "benchmark failed: it never rests"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_measurements_before_an_interruption_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: BaseException, code: int, words: str
) -> None:
    result = run(monkeypatch, Played(end=end), tmp_path / "report.json")
    assert result.exit_code == code
    assert words in result.stderr
    assert "3 scenarios had been played before" in result.stderr
    assert "flip 1x20" in result.stdout
    report = read(tmp_path / "report.json")
    assert report.measurements[:3] == TAKEN
    assert report.options["ended"] == "early"


def test_without_a_measurement_there_is_no_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, Played((), ScenarioError("no")), tmp_path / "report.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert not (tmp_path / "report.json").exists()


def test_a_package_that_cannot_be_compiled_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(side_by_side, "compile_ours", lambda _: False)
    assert "could not be compiled" in run(monkeypatch, Played(), tmp_path / "report.json").stderr
