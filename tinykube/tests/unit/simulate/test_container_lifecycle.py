"""One container: computed probe results, crashes and restart backoff."""

import math

import msgspec
import pytest

from tinykube.simulate.annotations import AnnotationOverrides
from tinykube.simulate.container_lifecycle import (
    ContainerRun,
    StartPlan,
    advance,
    backoff,
    crossing,
    end,
    start,
)
from tinykube.simulate.pods import Container, Probe

MOMENT = "2026-01-01T00:00:00Z"


def started(at: float = 100.0, **start_plan: float) -> ContainerRun:
    return start(ContainerRun(start_plan=StartPlan(**start_plan)), at, MOMENT)


def ready_times(
    container: Container, run: ContainerRun, overrides: AnnotationOverrides, until: float
) -> list[tuple[float, bool]]:
    """Advance a container from one change to the next; return the times of its readiness changes."""
    now, changes, ready = run.since, [], run.ready
    while now <= until:
        next_step = advance(container, run, overrides, now)
        run = next_step.run
        if run.ready != ready:
            ready = run.ready
            changes.append((now, ready))
        if math.isinf(next_step.next_change) or next_step.exit_code is not None:
            break
        assert next_step.next_change > now, "each change must be in the future"
        now = next_step.next_change
    return changes


def test_a_container_without_probes_is_ready_immediately() -> None:
    next_step = advance(Container("main"), started(), AnnotationOverrides(), 100.0)
    assert next_step.run.ready
    assert next_step.run.passed
    assert next_step.next_change == math.inf


@pytest.mark.parametrize(
    ("probe", "startup_seconds", "ready_at"),
    [
        (Probe(0, 10, 1, 3), 0.0, 100.0),
        (Probe(5, 10, 1, 3), 0.0, 105.0),
        (Probe(5, 10, 1, 3), 6.0, 115.0),
        (Probe(0, 2, 3, 3), 0.0, 104.0),
        (Probe(0, 2, 3, 3), 1.0, 106.0),
    ],
)
def test_a_container_is_ready_after_enough_successful_probes(
    probe: Probe, startup_seconds: float, ready_at: float
) -> None:
    container = Container("main", readiness_probe=probe)
    run = started(startup_seconds=startup_seconds)
    assert ready_times(container, run, AnnotationOverrides(), 1000.0) == [(ready_at, True)]


def test_a_container_becomes_unready_after_the_failure_threshold() -> None:
    container = Container("main", readiness_probe=Probe(0, 10, 1, 3))
    run = advance(container, started(), AnnotationOverrides(), 100.0).run
    assert run.ready
    next_step = advance(container, run, AnnotationOverrides(ready=False), 112.0)
    assert next_step.run.ready
    assert next_step.next_change == 140.0, "probed at 120, 130 and 140"
    assert not advance(container, next_step.run, AnnotationOverrides(ready=False), 140.0).run.ready


def test_fewer_failures_than_the_threshold_change_nothing() -> None:
    container = Container("main", readiness_probe=Probe(0, 10, 1, 3))
    run = advance(container, started(), AnnotationOverrides(), 100.0).run
    run = advance(container, run, AnnotationOverrides(ready=False), 112.0).run
    next_step = advance(container, run, AnnotationOverrides(), 135.0)
    assert next_step.run.ready
    assert next_step.next_change == math.inf


def test_a_startup_probe_delays_readiness_and_kills_a_container_that_is_too_slow() -> None:
    container = Container("main", startup_probe=Probe(0, 10, 1, 3), readiness_probe=Probe(0, 1, 1, 1))
    assert ready_times(container, started(startup_seconds=15.0), AnnotationOverrides(), 1000.0) == [
        (120.0, True)
    ]
    slow = started(startup_seconds=25.0)
    first = advance(container, slow, AnnotationOverrides(), 100.0)
    assert first.next_change == 120.0
    assert advance(container, first.run, AnnotationOverrides(), 120.0).exit_code == 137


def test_a_liveness_probe_kills_after_the_failure_threshold() -> None:
    container = Container("main", liveness_probe=Probe(0, 10, 1, 2))
    run = advance(container, started(), AnnotationOverrides(), 100.0).run
    next_step = advance(container, run, AnnotationOverrides(live=False), 105.0)
    assert next_step.next_change == 120.0
    assert advance(container, next_step.run, AnnotationOverrides(live=False), 120.0).exit_code == 137
    without = advance(Container("main"), run, AnnotationOverrides(live=False), 500.0)
    assert without.exit_code is None


def test_a_requested_crash_happens_once() -> None:
    run = advance(Container("main"), started(), AnnotationOverrides(), 100.0).run
    assert advance(Container("main"), run, AnnotationOverrides(crash="a"), 101.0).exit_code == 1
    seen = msgspec.structs.replace(run, crash_seen="a")
    assert advance(Container("main"), seen, AnnotationOverrides(crash="a"), 101.0).exit_code is None
    assert advance(Container("main"), seen, AnnotationOverrides(crash="b"), 101.0).exit_code == 1


def test_a_container_completes_at_the_requested_time_with_the_requested_exit_code() -> None:
    overrides = AnnotationOverrides(complete_after_seconds=5.0, exit_code=3)
    assert advance(Container("main"), started(), overrides, 104.0).next_change == 105.0
    assert advance(Container("main"), started(), overrides, 105.0).exit_code == 3
    drawn = started(crash_after_seconds=2.0)
    assert advance(Container("main"), drawn, overrides, 105.0).exit_code == 1, "the crash came first"


def test_restart_backoff_is_exponential_from_ten_seconds_to_five_minutes() -> None:
    run, waits = started(0.0), []
    for _ in range(8):
        run = end(run, 1.0, MOMENT, 1)
        run = backoff(run, 1.0)
        waits.append(run.until - 1.0)
        run = start(run, 0.0, MOMENT, again=True)
    assert waits == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert run.restarts == 8
    run = backoff(end(run, 600.0, MOMENT, 1), 600.0)
    assert run.until == 600.0, "the backoff is reset after ten minutes of running"


def test_the_crossing_is_the_probe_that_reaches_the_threshold() -> None:
    assert crossing(0.0, 10, 0.0, 1) == 0.0
    assert crossing(0.0, 10, 0.1, 1) == 10.0
    assert crossing(0.0, 10, 10.0, 3) == 30.0
    assert crossing(50.0, 10, 0.0, 2) == 60.0
