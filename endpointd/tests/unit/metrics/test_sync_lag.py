"""The lag is that of the earliest unpublished change; it is never lost."""

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.testing.virtual_time import ManualClock
from endpointd.controllers.sync_lag import SyncLag

WEB = ObjectKey("default", "web")
API = ObjectKey("default", "api")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lag(clock: ManualClock) -> SyncLag:
    return SyncLag(clock)


def test_the_lag_runs_from_the_first_change_to_the_response(lag: SyncLag, clock: ManualClock) -> None:
    lag.changed(WEB)
    clock.now = 2.0
    lag.changed(WEB)
    lag.take(WEB)
    clock.now = 3.0
    lag.published(WEB)
    assert (lag.seconds.count, lag.seconds.sum) == (1, 3.0)


def test_a_change_during_the_write_is_the_first_of_the_next(lag: SyncLag, clock: ManualClock) -> None:
    lag.changed(WEB)
    lag.take(WEB)
    clock.now = 1.0
    lag.changed(WEB)
    clock.now = 2.0
    lag.published(WEB)
    lag.take(WEB)
    clock.now = 5.0
    lag.published(WEB)
    assert (lag.seconds.count, lag.seconds.sum) == (2, 2.0 + 4.0)


def test_after_a_failed_write_the_lag_continues_from_the_first_change(
    lag: SyncLag, clock: ManualClock
) -> None:
    lag.changed(WEB)
    for now in (1.0, 3.0, 7.0):
        lag.take(WEB)
        clock.now = now
        lag.changed(WEB)
        lag.put_back(WEB)
    assert lag.oldest_seconds() == 7.0
    lag.take(WEB)
    clock.now = 8.0
    lag.published(WEB)
    assert (lag.seconds.count, lag.seconds.sum) == (1, 8.0)
    assert lag.oldest_seconds() == 0.0


def test_a_change_without_a_write_causes_no_lag(lag: SyncLag, clock: ManualClock) -> None:
    lag.changed(WEB)
    lag.take(WEB)
    lag.skipped(WEB)
    clock.now = 4.0
    lag.take(WEB)
    lag.published(WEB)
    assert lag.seconds.count == 0


def test_services_are_independent_and_a_deleted_one_is_forgotten(lag: SyncLag, clock: ManualClock) -> None:
    lag.changed(WEB)
    clock.now = 1.0
    lag.changed(API)
    assert lag.oldest_seconds() == 1.0
    lag.forget(WEB)
    clock.now = 2.0
    assert lag.oldest_seconds() == 1.0
    lag.take(WEB)
    lag.published(WEB)
    assert lag.seconds.count == 0
