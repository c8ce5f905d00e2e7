"""Behaviour 0.6: the time a write carries is that of the oldest change it publishes."""

import pytest

from endpointd.controllers.trigger_time import TriggerTimes

T0, T1, T2, T3, T4, T5 = (f"2026-01-01T00:00:0{second}Z" for second in range(6))


@pytest.mark.parametrize("pods", [(), (T0,), (T3,), (T0, T3)])
def test_the_first_time_is_the_services_creation_regardless_of_pods(pods: tuple[str, ...]) -> None:
    times = TriggerTimes(T1)
    for pod in pods:
        times.pod_changed(None, pod)
    assert times.take() == T1
    assert times.take() is None


@pytest.fixture
def times() -> TriggerTimes:
    """The times of a service that was published once."""
    times = TriggerTimes(T0)
    times.take()
    return times


def test_the_oldest_of_several_new_pods_counts(times: TriggerTimes) -> None:
    times.pod_changed(None, T2)
    times.pod_changed(None, T1)
    assert times.take() == T1


def test_the_oldest_new_time_of_several_changed_pods_counts(times: TriggerTimes) -> None:
    times.pod_changed(T1, T5)
    times.pod_changed(T2, T4)
    assert times.take() == T4


def test_a_pod_with_an_unchanged_time_is_ignored(times: TriggerTimes) -> None:
    times.pod_changed(T3, T3)
    times.pod_changed(T3, T2)
    times.pod_changed(T3, None)
    times.pod_changed(None, None)
    assert times.take() is None


def test_a_recreated_pod_counts_as_new(times: TriggerTimes) -> None:
    times.pod_changed(None, T4)
    assert times.take() == T4
    times.pod_changed(T4, None)
    assert times.take() is None
    times.pod_changed(None, T4)
    assert times.take() == T4


def test_a_spec_change_of_the_service_does_not_change_the_trigger_time(times: TriggerTimes) -> None:
    times.service_changed(T0)
    assert times.take() is None


def test_a_recreated_service_counts_from_its_creation(times: TriggerTimes) -> None:
    times.service_changed(T3)
    times.pod_changed(None, T4)
    assert times.take() == T3
    times.service_changed(T3)
    times.service_changed(None)
    assert times.take() is None


def test_a_pod_that_flips_twice_between_two_writes_keeps_its_first_time(times: TriggerTimes) -> None:
    times.pod_changed(T0, T1)
    times.pod_changed(T1, T2)
    assert times.take() == T1


def test_the_next_write_publishes_the_time_of_a_failed_one(times: TriggerTimes) -> None:
    times.pod_changed(T0, T3)
    taken = times.take()
    times.pod_changed(T3, T4)
    times.put_back(taken)
    assert times.take() == T3
    times.put_back(None)
    assert times.take() is None


def test_a_service_without_a_time_publishes_none_at_first() -> None:
    times = TriggerTimes(None)
    times.pod_changed(None, T1)
    assert times.take() is None
    times.pod_changed(T1, T2)
    assert times.take() == T2
