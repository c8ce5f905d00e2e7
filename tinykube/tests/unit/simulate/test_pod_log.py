"""Logs and Events of simulated pods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tinykube.simulate.pod_events import killing_events, pod_events
from tinykube.simulate.pod_log import simulated_log
from tinykube.simulate.pods import PodStatus, SimulatedPod

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
PROBE = {"httpGet": {"path": "/ready", "port": 80}, "periodSeconds": 5}
CONTAINER = {"name": "web", "image": "web:1", "ports": [{"containerPort": 80}], "readinessProbe": PROBE}


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "shop", "uid": "u"},
        "spec": {"containers": [CONTAINER]},
        "status": {"containerStatuses": [{"name": "web", **status}]},
    }


def running(**more: Any) -> dict[str, Any]:
    return pod(state={"running": {"startedAt": "2026-01-01T00:00:00Z"}}, **more)


CRASHED = {
    "exitCode": 3,
    "reason": "Error",
    "startedAt": "2026-01-01T00:00:00Z",
    "finishedAt": "2026-01-01T00:00:07Z",
}


def texts(document: dict[str, Any], seconds: float, *, previous: bool = False) -> list[str]:
    now = STARTED + timedelta(seconds=seconds)
    return [text for _, text in simulated_log(document, "web", previous, now)]


def test_a_log_grows_with_each_probe_and_never_changes() -> None:
    short, longer = texts(running(), 6), texts(running(), 11)
    assert short == [
        "simulated container web of web:1: nothing is executed",
        "listening on 80/TCP",
        "readiness probe: GET /ready on port 80",
    ]
    assert longer[: len(short)] == short
    assert len(longer) == len(short) + 1


def test_the_log_of_a_long_running_container_stays_small() -> None:
    assert len(texts(running(), 1e7)) < 300


def test_a_crash_is_the_last_line_of_the_previous_log() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    document = pod(state=waiting, lastState={"terminated": CRASHED}, restartCount=1)
    assert texts(document, 60)[-1] == "exiting with code 3 (Error)"
    assert texts(document, 60, previous=True) == texts(document, 60)


def test_a_container_that_never_ran_has_no_log() -> None:
    assert texts(pod(state={"waiting": {"reason": "ContainerCreating"}}), 60) == []


def reasons(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    status = msgspec.convert(after["status"], PodStatus)
    return [event.reason for event in pod_events(msgspec.convert(before, SimulatedPod), status)]


def test_each_container_start_is_recorded_once() -> None:
    created = pod(state={"waiting": {"reason": "ContainerCreating"}})
    assert reasons(created, running()) == ["Pulled", "Started"]
    assert reasons(running(), running()) == []


def test_a_crash_loop_and_a_failed_probe_are_warnings() -> None:
    loop = pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": CRASHED})
    assert reasons(running(), loop) == ["BackOff"]
    assert reasons(loop, loop) == []
    assert reasons(running(ready=True), running(ready=False)) == ["Unhealthy"]


def test_a_deletion_records_events_for_running_containers() -> None:
    (event,) = killing_events(msgspec.convert(running(), SimulatedPod))
    assert (event.reason, event.field_path) == ("Killing", "spec.containers{web}")
