"""Each step of the microbenchmark does its work, and the durations are reported correctly."""

import gc
from collections.abc import Callable

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import microbench
from benchmarks.micro_cases import GROWING, ONE_SIZE, decoded
from benchmarks.microbench import Cost, render
from benchmarks.objects import Workload
from benchmarks.sizes import Size
from benchmarks.stopwatch import Step, microseconds
from benchmarks.wire import pod_event


class Ticks:
    """A clock that a step advances."""

    def __init__(self) -> None:
        self.ns = 0

    def now(self) -> int:
        return self.ns

    def step_of(self, *durations_ns: int) -> Step:
        """Return a step with these durations in turn; the last one repeats."""
        left = list(durations_ns)

        def step() -> None:
            self.ns += left.pop(0) if len(left) > 1 else left[0]

        return step


def test_the_time_of_a_step_is_its_best_repeat() -> None:
    ticks = Ticks()
    # The first is warm-up, some are disturbed; from then on 30 ms each, so that a repeat is one step.
    step = ticks.step_of(900_000_000, 90_000_000, 80_000_000, 50_000_000, 30_000_000)
    assert microseconds(step, now_ns=ticks.now) == 30_000.0


def test_short_steps_are_repeated_until_they_are_measurable() -> None:
    ticks = Ticks()
    assert microseconds(ticks.step_of(1_500), now_ns=ticks.now) == 1.5
    assert ticks.ns > 7 * 20_000_000


def test_the_garbage_collector_is_disabled_during_a_measurement_only() -> None:
    ticks = Ticks()
    seen = []

    def step() -> None:
        seen.append(gc.isenabled())
        ticks.ns += 30_000_000

    microseconds(step, now_ns=ticks.now)
    assert seen[-1] is False
    assert gc.isenabled()


@pytest.mark.parametrize("prepare", [prepare for _, prepare in ONE_SIZE])
def test_every_fixed_size_case_can_be_repeated(prepare: Callable[[], Step]) -> None:
    step = prepare()
    for _ in range(3):
        step()


@pytest.mark.parametrize("prepare", [prepare for _, prepare in GROWING])
def test_every_scalable_case_runs_at_any_size(prepare: Callable[[int], Step]) -> None:
    for size in (1, 101):
        step = prepare(size)
        for _ in range(2 * size + 2):
            step()


def test_every_step_over_capacity_writes_the_endpoints() -> None:
    ((_, prepare),) = [(name, prepare) for name, prepare in GROWING if name.startswith("flip to Endpoints")]
    step = prepare(1200)
    for _ in range(20):
        step()  # raises if nothing was written


def test_a_pod_event_has_realistic_size_and_the_expected_content() -> None:
    pod = Workload(Size(1, 1)).pods[0]
    line = pod_event(pod, ready=False, resource_version=77)
    assert 8_500 < len(line) < 10_500
    item = decoded(line)
    assert (item.metadata.resource_version, item.ready, item.pod_ips) == ("77", False, (pod.address,))
    assert decoded(pod_event(pod, ready=True, resource_version=78)).ready


def test_growth_is_the_largest_size_divided_by_the_smallest() -> None:
    assert Cost("case", {100: 2.0, 5000: 3.0, 1000: 9.0}).growth == 1.5
    assert Cost("case", {0: 2.0}).growth is None


def test_the_table_has_a_column_for_each_size() -> None:
    text = render([Cost("decode", {0: 5.0}), Cost("plan", {100: 2.0, 5000: 3.0})])
    assert [line.split() for line in text.splitlines()] == [
        ["us", "N=100", "N=5,000", "growth"],
        ["decode", "5.0"],
        ["plan", "2.0", "3.0", "1.50x"],
    ]


def test_the_table_of_cases_without_a_size_has_one_column() -> None:
    assert [line.split() for line in render([Cost("decode", {0: 5.0})]).splitlines()] == [
        ["us", "growth"],
        ["decode", "5.0"],
    ]


def test_a_filter_that_matches_no_case_is_rejected() -> None:
    result = CliRunner().invoke(microbench.main, ["--only", "teleport"])
    assert result.exit_code == 2
    assert "teleport" in result.output


def test_costs_survive_a_json_round_trip() -> None:
    cost = Cost("plan", {100: 2.0})
    assert msgspec.json.decode(msgspec.json.encode([cost]), type=list[Cost]) == [cost]
