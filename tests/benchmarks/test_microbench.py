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


def test_a_step_takes_what_it_takes_at_its_best() -> None:
    ticks = Ticks()
    # The first is warm-up, some are disturbed; from then on 30 ms each, so that a repeat is one step.
    step = ticks.step_of(900_000_000, 90_000_000, 80_000_000, 50_000_000, 30_000_000)
    assert microseconds(step, now_ns=ticks.now) == 30_000.0


def test_short_steps_are_repeated_until_they_can_be_told() -> None:
    ticks = Ticks()
    assert microseconds(ticks.step_of(1_500), now_ns=ticks.now) == 1.5
    assert ticks.ns > 7 * 20_000_000


def test_the_garbage_collector_stands_still_meanwhile_and_goes_on_after() -> None:
    ticks = Ticks()
    seen = []

    def step() -> None:
        seen.append(gc.isenabled())
        ticks.ns += 30_000_000

    microseconds(step, now_ns=ticks.now)
    assert seen[-1] is False
    assert gc.isenabled()


@pytest.mark.parametrize("prepare", [prepare for _, prepare in ONE_SIZE])
def test_every_piece_of_one_size_does_its_work_again_and_again(prepare: Callable[[], Step]) -> None:
    step = prepare()
    for _ in range(3):
        step()


@pytest.mark.parametrize("prepare", [prepare for _, prepare in GROWING])
def test_every_piece_that_may_grow_does_its_work_at_any_size(prepare: Callable[[int], Step]) -> None:
    for size in (1, 101):
        step = prepare(size)
        for _ in range(2 * size + 2):
            step()


def test_the_endpoints_of_more_pods_than_fit_are_written_by_every_step() -> None:
    ((_, prepare),) = [(name, prepare) for name, prepare in GROWING if name.startswith("flip to Endpoints")]
    step = prepare(1200)
    for _ in range(20):
        step()  # raises if nothing was written


def test_a_pods_event_is_as_large_as_a_real_one_and_says_what_it_should() -> None:
    pod = Workload(Size(1, 1)).pods[0]
    line = pod_event(pod, ready=False, resource_version=77)
    assert 8_500 < len(line) < 10_500
    item = decoded(line)
    assert (item.metadata.resource_version, item.ready, item.pod_ips) == ("77", False, (pod.address,))
    assert decoded(pod_event(pod, ready=True, resource_version=78)).ready


def test_growth_is_the_largest_size_by_the_smallest() -> None:
    assert Cost("case", {100: 2.0, 5000: 3.0, 1000: 9.0}).growth == 1.5
    assert Cost("case", {0: 2.0}).growth is None


def test_the_table_has_a_column_for_each_size() -> None:
    text = render([Cost("decode", {0: 5.0}), Cost("plan", {100: 2.0, 5000: 3.0})])
    assert [line.split() for line in text.splitlines()] == [
        ["us", "N=100", "N=5,000", "growth"],
        ["decode", "5.0"],
        ["plan", "2.0", "3.0", "1.50x"],
    ]


def test_the_table_of_pieces_without_a_size_has_one_column() -> None:
    assert [line.split() for line in render([Cost("decode", {0: 5.0})]).splitlines()] == [
        ["us", "growth"],
        ["decode", "5.0"],
    ]


def test_what_no_piece_is_described_by_is_refused() -> None:
    result = CliRunner().invoke(microbench.main, ["--only", "teleport"])
    assert result.exit_code == 2
    assert "teleport" in result.output


def test_figures_come_back_from_their_json() -> None:
    cost = Cost("plan", {100: 2.0})
    assert msgspec.json.decode(msgspec.json.encode([cost]), type=list[Cost]) == [cost]
