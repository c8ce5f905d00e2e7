"""Retry delays (behaviour 0.2)."""

import random

import pytest

from aiokube.backoff import (
    ExponentialBackoff,
    RetryLimiter,
    default_retry_limiter,
)
from aiokube.testing.virtual_time import ManualClock


def test_the_delay_doubles_from_the_base_up_to_the_cap() -> None:
    backoff = ExponentialBackoff(base_seconds=1.0, cap_seconds=1000.0)
    assert [backoff.delay_seconds(n) for n in range(12)] == [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000,
    ]  # fmt: skip


def test_the_delays_of_endpoints_add_up_to_the_upstream_total() -> None:
    backoff = ExponentialBackoff(base_seconds=0.005)
    delays = [backoff.delay_seconds(n) for n in range(15)]
    assert delays[0] == 0.005
    assert delays[-1] == pytest.approx(81.92)
    assert sum(delays) == pytest.approx(163.835)


def test_the_delay_after_a_million_failures_is_the_cap() -> None:
    assert ExponentialBackoff(base_seconds=0.005, cap_seconds=60.0).delay_seconds(1_000_000) == 60.0


def test_jitter_shortens_delays_by_at_most_its_fraction() -> None:
    backoff = ExponentialBackoff(base_seconds=1.0, cap_seconds=10.0, jitter=0.3)
    rng = random.Random(7)
    delays = [backoff.delay_seconds(20, rng) for _ in range(500)]
    assert max(delays) <= 10.0
    assert min(delays) >= 7.0
    assert max(delays) - min(delays) > 2.0


def test_the_same_seed_gives_the_same_jitter() -> None:
    backoff = ExponentialBackoff(jitter=0.5)
    first = [backoff.delay_seconds(n, random.Random(3)) for n in range(5)]
    assert first == [backoff.delay_seconds(n, random.Random(3)) for n in range(5)]


@pytest.mark.parametrize(
    "values",
    [
        {"base_seconds": 0.0},
        {"base_seconds": 2.0, "cap_seconds": 1.0},
        {"factor": 0.5},
        {"jitter": 1.5},
    ],
)
def test_invalid_backoff_parameters_are_rejected(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a backoff needs"):
        ExponentialBackoff(**values)


def test_each_key_has_its_own_backoff_until_forget() -> None:
    limiter: RetryLimiter[str] = RetryLimiter(ExponentialBackoff(base_seconds=1.0))
    assert [limiter.next_delay_seconds("a") for _ in range(3)] == [1, 2, 4]
    assert limiter.next_delay_seconds("b") == 1
    assert (limiter.failures("a"), limiter.failures("b"), limiter.failures("c")) == (3, 1, 0)
    limiter.forget("a")
    limiter.forget("never seen")
    assert limiter.failures("a") == 0
    assert limiter.next_delay_seconds("a") == 1


def test_the_longer_of_backoff_and_rate_limit_delay_applies() -> None:
    limiter: RetryLimiter[int] = default_retry_limiter(ManualClock())
    delays = [limiter.next_delay_seconds(key) for key in range(103)]
    assert delays[:100] == [0.005] * 100
    assert delays[100:] == pytest.approx([0.1, 0.2, 0.3])
    for _ in range(9):
        limiter.next_delay_seconds(0)
    assert limiter.next_delay_seconds(0) == pytest.approx(5.12)  # its own delay, longer than its turn


def test_memory_is_bounded_and_the_least_recently_failed_key_is_evicted_first() -> None:
    limiter: RetryLimiter[int] = RetryLimiter(ExponentialBackoff(base_seconds=1.0), remembered_keys=3)
    for key in (1, 2, 1, 3, 4):
        limiter.next_delay_seconds(key)
    assert len(limiter) == 3
    assert [limiter.failures(key) for key in (1, 2, 3, 4)] == [2, 0, 1, 1]
