"""The first repair is due immediately, each further one an interval later; keys are independent."""

import itertools

from aiokube.api.meta import ObjectKey
from aiokube.testing.virtual_time import ManualClock
from endpointd.controllers.repair_throttle import RepairThrottle

WEB = ObjectKey("default", "web")


def paced() -> tuple[ManualClock, RepairThrottle]:
    clock = ManualClock()
    clock.now = 50.0
    return clock, RepairThrottle(clock, 1.0)


def test_the_first_repair_is_due_immediately() -> None:
    _, pace = paced()
    assert pace.delay_seconds(WEB) == 0.0


def test_a_second_repair_waits_for_the_end_of_the_interval() -> None:
    clock, pace = paced()
    pace.delay_seconds(WEB)
    clock.now += 0.25
    assert pace.delay_seconds(WEB) == 0.75


def test_edits_before_a_pending_repair_are_part_of_it() -> None:
    clock, pace = paced()
    pace.delay_seconds(WEB)
    for _ in range(3):
        clock.now += 0.25
        assert pace.delay_seconds(WEB) == 51.0 - clock.now
    clock.now += 0.25
    assert pace.delay_seconds(WEB) == 1.0


def test_repeated_conflicts_cost_one_repair_per_interval() -> None:
    clock, pace = paced()
    repairs: set[float] = set()
    for _ in range(1000):
        clock.now += 0.01
        repairs.add(round(clock.now + pace.delay_seconds(WEB), 6))
    assert 10 <= len(repairs) <= 12
    moments = sorted(repairs)
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(moments))


def test_after_a_quiet_interval_a_repair_is_due_immediately() -> None:
    clock, pace = paced()
    pace.delay_seconds(WEB)
    clock.now += 1.0
    assert pace.delay_seconds(WEB) == 0.0


def test_a_repair_that_was_due_long_ago_delays_nothing() -> None:
    clock, pace = paced()
    pace.delay_seconds(WEB)
    clock.now += 0.5
    assert pace.delay_seconds(WEB) == 0.5
    clock.now += 100.0
    assert pace.delay_seconds(WEB) == 0.0


def test_a_repair_is_never_due_in_the_past() -> None:
    clock, pace = paced()
    other = ObjectKey("default", "api")
    pace.delay_seconds(WEB)
    clock.now += 0.5
    pace.delay_seconds(WEB)  # is remembered longer than later keys
    clock.now += 0.1
    pace.delay_seconds(other)
    clock.now += 1.1
    assert pace.delay_seconds(other) == 0.0


def test_keys_do_not_wait_for_each_other() -> None:
    _, pace = paced()
    pace.delay_seconds(WEB)
    assert pace.delay_seconds(ObjectKey("default", "api")) == 0.0


def test_memory_does_not_grow_with_the_number_of_past_keys() -> None:
    clock, pace = paced()
    for number in range(1000):
        pace.delay_seconds(ObjectKey("default", f"svc-{number}"))
        clock.now += 0.1
    assert len(pace) <= 12
