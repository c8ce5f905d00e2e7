"""The memory benchmark's report."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.churn_life import Chapter
from benchmarks.footprint import Footprint
from benchmarks.memory import growth, main, render_hour, render_resident
from benchmarks.resident import Resident, bytes_per_pod
from benchmarks.sizes import Size
from benchmarks.usage import Memory, UsageError


def resident(pods: int, mib: float) -> Resident:
    return Resident(Size(1, pods), "real", Memory(mib, mib + 5), 1.25)


def chapter(minutes: float, changes: int, blocks: int, **lengths: int) -> Chapter:
    return Chapter(minutes, changes, changes * 2, 5, Footprint(blocks, lengths))


def test_bytes_per_pod_are_the_slope_from_the_smallest_to_the_largest_size() -> None:
    found = [resident(5_000, 60.0), resident(1_000, 50.0), resident(20_000, 88.0)]
    assert bytes_per_pod(found) == pytest.approx(38 * 2**20 / 19_000)


@pytest.mark.parametrize(
    "found", [[], [resident(1_000, 50.0)], [resident(1_000, 50.0), resident(1_000, 51.0)]]
)
def test_a_slope_needs_two_sizes(found: list[Resident]) -> None:
    with pytest.raises(ValueError, match="two sizes"):
        bytes_per_pod(found)
    assert "bytes a cached pod" not in render_resident(found)


def test_the_table_of_resident_memory_ends_with_the_slope() -> None:
    text = render_resident([resident(1_000, 50.0), resident(5_000, 60.0)])
    assert text.splitlines()[1].split() == ["1,000", "real", "50", "55", "1.25"]
    assert text.endswith("2,621 bytes a cached pod, with its endpoint in a slice")


def test_an_hour_with_few_remaining_blocks_is_no_growth_and_names_changed_containers() -> None:
    chapters = [chapter(5, 1_000, 200_000, same=3, other=1), chapter(60, 61_000, 201_000, same=3, other=9)]
    text = render_hour(chapters, 0.1)
    assert growth(chapters) == pytest.approx(1 / 60)
    assert "no growth" in text
    assert "other" in text
    assert "1 other containers are as long as they were" in text


def test_one_remaining_block_per_change_is_growth() -> None:
    assert "GROWTH" in render_hour([chapter(5, 1_000, 200_000), chapter(60, 61_000, 260_000)], 0.1)


def test_an_invalid_size_is_rejected_with_one_line() -> None:
    found = CliRunner().invoke(main, ["--pods", "0"])
    assert found.exit_code == 2
    assert "Traceback" not in found.output


def test_a_missing_control_plane_is_reported_with_one_line(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["--no-hour", "--pods", "10"], env={"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert found.exit_code == 2
    assert str(tmp_path) in found.output
    assert "Traceback" not in found.output


@pytest.mark.parametrize("grouped", [False, True])
def test_a_repeated_error_is_printed_once(grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> Resident:
        error = UsageError("process 12 cannot be inspected")
        if grouped:
            raise ExceptionGroup("load", [error, ExceptionGroup("more", [error])])
        raise error

    monkeypatch.setattr("benchmarks.memory.measure_resident", fails)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    found = CliRunner().invoke(main, ["--no-hour", "--pods", "10"])
    assert found.exit_code == 1
    assert found.output.count("process 12 cannot be inspected") == 1
