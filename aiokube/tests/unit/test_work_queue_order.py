"""The order and times of keys from the queue: without a loop, with a manual clock."""

import random

import pytest

from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.testing.virtual_time import ManualClock
from aiokube.token_bucket import TokenBucket
from aiokube.work_queue import QueueClosed, QueueObserver, WorkQueue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> WorkQueue[str]:
    return WorkQueue(
        "test", clock=clock, limiter=RetryLimiter(ExponentialBackoff(base_seconds=1.0, cap_seconds=60.0))
    )


def take_all(queue: WorkQueue[str]) -> list[str]:
    """Take all due keys, completing each one immediately."""
    taken = []
    while (key := queue.get_nowait()) is not None:
        queue.done(key)
        taken.append(key)
    return taken


def test_keys_are_returned_in_fifo_order(queue: WorkQueue[str]) -> None:
    for key in "bca":
        queue.add(key)
    assert take_all(queue) == ["b", "c", "a"]


def test_a_key_is_queued_once_regardless_of_the_number_of_adds(queue: WorkQueue[str]) -> None:
    for key in "abaab":
        queue.add(key)
    assert len(queue) == 2
    assert take_all(queue) == ["a", "b"]
    assert queue.statistics().adds == 2


def test_a_key_is_never_returned_while_it_is_held(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    assert queue.get_nowait() is None
    assert queue.held() == ("a",)


def test_a_key_added_while_held_is_returned_again_after_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.add("a")
    queue.done("a")
    assert take_all(queue) == ["a"]


def test_a_key_that_was_not_added_while_held_is_not_returned_again(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert take_all(queue) == ["a"]
    assert take_all(queue) == []


def test_a_constantly_added_key_does_not_starve_other_keys(queue: WorkQueue[str]) -> None:
    queue.add("noisy")
    for key in "abc":
        queue.add(key)
    taken = []
    for _ in range(6):
        got = queue.get_nowait()
        assert got is not None
        taken.append(got)
        queue.add("noisy")
        queue.done(got)
    assert taken == ["noisy", "a", "b", "c", "noisy", "noisy"]


def test_completing_a_key_that_no_worker_holds_is_an_error(queue: WorkQueue[str]) -> None:
    with pytest.raises(ValueError, match=r"queue 'test': done\('a'\) for a key that no worker holds"):
        queue.done("a")


def test_a_delayed_key_is_returned_at_its_deadline(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("a", 10.0)
    clock.advance(9.99)
    assert take_all(queue) == []
    assert queue.statistics().delayed == 1
    clock.advance(0.01)
    assert take_all(queue) == ["a"]
    assert queue.statistics().delayed == 0


def test_delayed_keys_are_returned_in_deadline_order(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("late", 3.0)
    queue.add_after("early", 1.0)
    queue.add_after("middle", 2.0)
    clock.advance(5.0)
    assert take_all(queue) == ["early", "middle", "late"]


def test_a_key_that_was_due_before_a_plain_add_is_returned_first(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add_after("delayed", 1.0)
    clock.advance(2.0)
    queue.add("plain")
    assert take_all(queue) == ["delayed", "plain"]


@pytest.mark.parametrize("delays", [(10.0, 2.0), (2.0, 10.0), (2.0, 2.0, 10.0, 2.5)])
def test_the_earliest_deadline_of_a_key_wins(
    queue: WorkQueue[str], clock: ManualClock, delays: tuple[float, ...]
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    clock.advance(1.9)
    assert take_all(queue) == []
    clock.advance(0.2)
    assert take_all(queue) == ["a"]
    clock.advance(100.0)
    assert take_all(queue) == []


def test_batching_is_a_window_opened_by_the_first_event_and_not_a_debounce(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    for _ in range(9):
        queue.add_after("a", 1.0)
        clock.advance(0.12)
    assert take_all(queue) == ["a"]


def test_a_plain_add_replaces_a_delayed_add(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add_after("a", 10.0)
    queue.add("a")
    assert take_all(queue) == ["a"]
    clock.advance(20.0)
    assert take_all(queue) == []


def test_a_delayed_add_of_a_due_key_has_no_effect(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a")
    queue.add_after("a", 5.0)
    assert take_all(queue) == ["a"]
    clock.advance(10.0)
    assert take_all(queue) == []


def test_a_key_added_with_a_delay_while_held_is_returned_at_its_deadline(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add_after("a", 5.0)
    queue.done("a")
    assert queue.get_nowait() is None
    clock.advance(5.0)
    assert take_all(queue) == ["a"]


def test_a_delay_that_ends_while_the_key_is_held_requeues_it_after_done(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add_after("a", 5.0)
    clock.advance(6.0)
    assert queue.get_nowait() is None
    queue.done("a")
    assert take_all(queue) == ["a"]


@pytest.mark.parametrize("delay", [0.0, -1.0])
def test_a_zero_delay_is_a_plain_add(queue: WorkQueue[str], delay: float) -> None:
    queue.add_after("a", delay)
    assert take_all(queue) == ["a"]


def test_a_failing_key_backs_off_further_each_time_and_is_never_dropped(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    delays = []
    for _ in range(40):
        delays.append(queue.add_rate_limited("a"))
        clock.advance(delays[-1])
        assert take_all(queue) == ["a"]
    assert delays[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(delays[6:]) == {60.0}
    assert queue.failures("a") == 40
    queue.forget("a")
    assert queue.add_rate_limited("a") == 1.0


def test_a_plain_add_does_not_wait_for_the_backoff(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add_rate_limited("a")
    queue.add("a")
    assert take_all(queue) == ["a"]
    assert queue.failures("a") == 5  # it has not succeeded yet


def test_retry_after_is_honoured_if_it_is_longer_than_the_backoff(queue: WorkQueue[str]) -> None:
    assert queue.add_rate_limited("a", at_least_seconds=7.5) == 7.5
    assert queue.add_rate_limited("a", at_least_seconds=0.5) == 2.0


def test_plain_and_delayed_adds_consume_no_tokens(clock: ManualClock) -> None:
    bucket = TokenBucket(per_second=1.0, burst=1, clock=clock)
    queue: WorkQueue[int] = WorkQueue(
        clock=clock, limiter=RetryLimiter(ExponentialBackoff(base_seconds=0.001), bucket=bucket)
    )
    for key in range(100):
        queue.add(key)
        queue.add_after(-key, 0.5)
    assert queue.add_rate_limited(1000) == 0.001
    assert queue.add_rate_limited(1001) == pytest.approx(1.0)


def test_superseded_deadlines_do_not_accumulate(queue: WorkQueue[str], clock: ManualClock) -> None:
    for _ in range(10_000):
        queue.add_after("a", 3600.0)
        queue.add("a")
        take_all(queue)
    assert len(queue._timers) <= 66
    queue.add_after("b", 1.0)
    clock.advance(1.0)
    assert take_all(queue) == ["b"]


def test_a_closed_queue_accepts_and_returns_nothing(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("due")
    queue.add_after("delayed", 1.0)
    queue.close()
    queue.add("late")
    queue.add_after("later", 1.0)
    queue.add_rate_limited("latest")
    clock.advance(100.0)
    assert queue.closed
    with pytest.raises(QueueClosed):
        queue.get_nowait()
    assert len(queue) == 0


def test_a_draining_queue_returns_due_and_readded_keys_but_no_new_ones(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.add("b")
    queue.add_after("delayed", 1.0)
    queue.close(drain=True)
    queue.add("new")
    clock.advance(2.0)
    assert queue.get_nowait() == "b"
    assert queue.get_nowait() is None  # "a" will be returned again, so the queue is not idle
    queue.done("a")
    assert queue.get_nowait() == "a"
    with pytest.raises(QueueClosed):
        queue.get_nowait()
    queue.done("a")
    queue.done("b")


def test_closing_a_draining_queue_again_closes_it_immediately(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.close(drain=True)
    queue.close()
    with pytest.raises(QueueClosed):
        queue.get_nowait()


def test_the_statistics_report_ages_and_counts(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a")
    clock.advance(1.0)
    queue.add("b")
    clock.advance(1.0)
    queue.add("c")
    assert queue.get_nowait() == "a"
    clock.advance(3.0)
    assert queue.get_nowait() == "b"
    clock.advance(1.0)
    queue.add_rate_limited("d")
    statistics = queue.statistics()
    assert statistics.name == "test"
    assert (statistics.depth, statistics.delayed, statistics.in_flight, statistics.failing) == (1, 1, 2, 1)
    assert statistics.oldest_age_seconds == 4.0
    assert statistics.longest_running_seconds == 4.0
    assert statistics.unfinished_seconds == 5.0
    assert (statistics.adds, statistics.retries, statistics.closed) == (3, 1, False)


def test_the_statistics_of_an_idle_queue_are_zero(queue: WorkQueue[str]) -> None:
    statistics = queue.statistics()
    assert (
        statistics.oldest_age_seconds,
        statistics.longest_running_seconds,
        statistics.unfinished_seconds,
    ) == (0.0, 0.0, 0.0)


class Observed(QueueObserver):
    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def on_add(self) -> None:
        self.calls.append(("add", 0.0))

    def on_get(self, waited_seconds: float) -> None:
        self.calls.append(("get", waited_seconds))

    def on_done(self, worked_seconds: float) -> None:
        self.calls.append(("done", worked_seconds))

    def on_retry(self) -> None:
        self.calls.append(("retry", 0.0))


def test_an_observer_sees_every_step_of_a_key(clock: ManualClock) -> None:
    observer = Observed()
    queue: WorkQueue[str] = WorkQueue(
        clock=clock, limiter=RetryLimiter(ExponentialBackoff(base_seconds=1.0)), observer=observer
    )
    queue.add("a")
    queue.add("a")
    clock.advance(2.0)
    assert queue.get_nowait() == "a"
    clock.advance(0.5)
    queue.add_rate_limited("a")
    queue.done("a")
    clock.advance(1.25)  # a quarter second after it was due
    assert queue.get_nowait() == "a"
    assert observer.calls == [
        ("add", 0.0),
        ("get", 2.0),
        ("retry", 0.0),
        ("done", 0.5),
        ("add", 0.0),
        ("get", 0.25),
    ]


def test_the_wait_time_of_a_requeued_key_starts_at_its_add(clock: ManualClock) -> None:
    observer = Observed()
    queue: WorkQueue[str] = WorkQueue(clock=clock, observer=observer)
    queue.add("a")
    queue.get_nowait()
    clock.advance(1.0)
    queue.add("a")
    clock.advance(4.0)
    queue.done("a")
    queue.get_nowait()
    assert observer.calls[-1] == ("get", 4.0)


def test_ten_thousand_random_deadlines_are_returned_in_order(clock: ManualClock) -> None:
    rng = random.Random(5)
    queue: WorkQueue[int] = WorkQueue(clock=clock)
    deadlines: dict[int, float] = {}
    for _ in range(10_000):
        key, delay = rng.randrange(2_000), rng.uniform(0.001, 100.0)
        queue.add_after(key, delay)
        deadlines[key] = min(delay, deadlines.get(key, delay))
    clock.advance(100.0)
    taken = []
    while (key_or_none := queue.get_nowait()) is not None:
        taken.append(key_or_none)
    assert taken == sorted(deadlines, key=deadlines.__getitem__)
