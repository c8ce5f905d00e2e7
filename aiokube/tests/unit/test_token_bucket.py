"""A burst at first, then a steady rate, and no token lost when a caller gives up."""

import asyncio

import pytest

from aiokube.testing.virtual_time import ManualClock
from aiokube.token_bucket import TokenBucket


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_burst_passes_immediately_and_the_rest_at_the_rate(clock: ManualClock) -> None:
    limiter = TokenBucket(per_second=10, burst=3, clock=clock)
    for _ in range(5):
        await limiter.acquire()
    assert clock.slept == [pytest.approx(0.1), pytest.approx(0.1)]


def test_concurrent_callers_are_served_in_order_at_the_rate(clock: ManualClock) -> None:
    limiter = TokenBucket(per_second=10, burst=1, clock=clock)
    assert [limiter.reserve() for _ in range(4)] == [
        0.0,
        pytest.approx(0.1),
        pytest.approx(0.2),
        pytest.approx(0.3),
    ]


def test_unused_tokens_accumulate_only_up_to_the_burst(clock: ManualClock) -> None:
    limiter = TokenBucket(per_second=10, burst=2, clock=clock)
    clock.advance(1000)
    assert [limiter.reserve() for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


def test_a_bucket_refills_but_never_beyond_its_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_second=1.0, burst=2, clock=clock)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock.advance(1.0)
    assert [bucket.take() for _ in range(2)] == [True, False]
    clock.advance(3600.0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_a_failed_take_consumes_no_token() -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_second=1.0, burst=1, clock=clock)
    assert bucket.take()
    for _ in range(100):
        assert not bucket.take()
    clock.advance(1.0)
    assert bucket.take()


async def test_a_cancelled_caller_returns_its_token(clock: ManualClock) -> None:
    class NeverWakes(ManualClock):
        async def sleep(self, seconds: float) -> None:
            raise asyncio.CancelledError

    still = NeverWakes()
    limiter = TokenBucket(per_second=1, burst=1, clock=still)
    await limiter.acquire()
    with pytest.raises(asyncio.CancelledError):
        await limiter.acquire()
    assert limiter.reserve() == pytest.approx(1.0)


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_allows_no_requests_is_rejected(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="per_second > 0"):
        TokenBucket(per_second=per_second, burst=burst, clock=ManualClock())
