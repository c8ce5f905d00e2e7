"""The benchmarks run: a very small one with both programs, from the command line to the JSON."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.measurements import Report
from benchmarks.sides import OURS, SIDES, THEIRS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("endpointd_command")
def test_a_small_benchmark_measures_published_changes_of_both_systems(assets: Path, tmp_path: Path) -> None:
    sides = [side for side in SIDES if side == OURS or (assets / THEIRS).exists()]
    output = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--quick", "--flips=2", f"--output={output}"]
    command += ["--scenarios=cold", "--scenarios=flip", "--scenarios=growth", "--sizes=1x3", "--sizes=1x120"]
    command += [f"--sides={side}" for side in sides]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "flip 1x120" in done.stdout
    report = msgspec.json.decode(output.read_bytes(), type=Report)
    for side in sides:
        mine = [one for one in report.measurements if one.side == side]
        assert [(one.scenario, one.size, one.variant) for one in mine] == [
            ("cold", "1x3", "both"),
            ("flip", "1x3", "both"),
            ("flip", "1x3", "slices"),
            ("cold", "1x120", "both"),
            ("flip", "1x120", "both"),
            ("flip", "1x120", "slices"),
            ("growth", "1x3 to 1x120", "both"),
            ("growth", "1x3 to 1x120", "slices"),
        ]
        both, alone = (one for one in mine if (one.scenario, one.size) == ("flip", "1x120"))
        assert both.values["slice_writes_per_change"] == both.values["endpoints_writes_per_change"] == 1.0
        assert alone.values["endpoints_writes_per_change"] == 0.0
        assert both.values["cpu_ms_per_change"] > 0.0
        assert both.values["p50_ms"] <= both.values["p99_ms"]


def test_a_controller_that_exits_fails_the_benchmark_with_its_last_log_lines(tmp_path: Path) -> None:
    words = "import sys; sys.exit('no endpoints today')"
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--scenarios=cold", "--sizes=1x1"]
    command += [f"--sides={OURS}", f"--output={tmp_path / 'report.json'}"]
    command += ["--ours-command", f'{sys.executable} -c "{words}"']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has ended with 1" in done.stderr
    assert "no endpoints today" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "report.json").exists()
