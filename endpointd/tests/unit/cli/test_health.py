"""Liveness and readiness: the evidence for each check, and the reported reasons."""

import asyncio
from typing import Any

import msgspec
import pytest

from aiokube.api.coordination import LEASES
from aiokube.api.meta import ObjectKey
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.health import (
    Checks,
    ElectorPulse,
    Heartbeat,
    WorkersPulse,
    longest_quiet_seconds,
    watch_alive,
    watch_ready,
)
from aiokube.runtime.permissions import MissingRight, advice, missing_right, with_hint
from aiokube.runtime.reflector_settings import Phase, ReflectorSettings, ReflectorStatistics
from aiokube.testing.virtual_time import ManualClock, VirtualTimeLoop, run_virtual
from aiokube.work_queue import WorkQueue

FORBIDDEN = (
    'pods is forbidden: User "system:serviceaccount:kube-system:endpointd" cannot list resource "pods" '
    'in API group "" at the cluster scope'
)
NO_WRITE = (
    'endpoints "web" is forbidden: User "endpointd" cannot update resource "endpoints" in API group "" '
    'in the namespace "shop"'
)


def reflector(
    phase: Phase = "watching",
    *,
    since: float = 0.0,
    last_contact: float | None = None,
    synced: bool = True,
    failures: int = 0,
    last_error: str = "",
    last_error_at: float | None = None,
) -> ReflectorStatistics:
    return ReflectorStatistics(
        name="pods",
        phase=phase,
        since=since,
        last_contact=last_contact,
        resource_version="7",
        synced=synced,
        failures=failures,
        last_error=last_error,
        last_error_at=last_error_at,
        errors=0,
        lists=1,
        watches=1,
        undecodable_events=0,
    )


def test_responses_failures_and_new_phases_keep_a_reflector_alive() -> None:
    assert watch_alive(reflector(since=0.0), 100.0, 100.0) == ""
    assert "watching for 101 s without a response" in watch_alive(reflector(since=0.0), 101.0, 100.0)
    assert watch_alive(reflector(since=0.0, last_contact=50.0), 140.0, 100.0) == ""
    assert watch_alive(reflector(since=0.0, last_error_at=50.0), 140.0, 100.0) == ""
    assert watch_alive(reflector(since=60.0), 140.0, 100.0) == ""


def test_a_reflector_stays_alive_while_the_server_is_down_for_days() -> None:
    assert watch_alive(reflector("waiting", failures=9000, last_error="refused"), 1e6, 100.0) == ""
    assert watch_alive(reflector("stopped"), 1e6, 100.0) == ""


def test_a_reflector_may_be_quiet_for_as_long_as_its_own_watchdogs_allow() -> None:
    settings = ReflectorSettings()
    quiet = longest_quiet_seconds(settings)
    assert quiet > settings.longest_watch_seconds
    assert quiet > settings.silence_seconds
    assert quiet < 900


def test_an_incomplete_cache_reports_the_reason_and_the_missing_right() -> None:
    told = watch_ready(
        reflector("waiting", synced=False, failures=3, last_error=FORBIDDEN, last_error_at=1.0), 2.0
    )
    assert told.startswith("not synced, waiting: pods is forbidden")
    assert told.endswith(
        "(grant list and watch on pods to system:serviceaccount:kube-system:endpointd: a role, and a "
        "binding to that user)"
    )
    assert watch_ready(reflector("listing", synced=False), 2.0).endswith("no errors so far")


def test_a_cache_that_is_only_listed_is_not_ready() -> None:
    listed = msgspec.structs.replace(reflector("waiting", failures=1, last_error="refused"), followed=False)
    assert watch_ready(listed, 2.0) == "listed but not yet watched, waiting: refused"


def test_a_complete_cache_stays_ready_through_short_but_not_long_interruptions() -> None:
    cut = reflector("waiting", failures=2, last_contact=10.0, last_error="connection refused")
    assert watch_ready(cut, 60.0) == ""
    assert watch_ready(cut, 80.0) == "no response for 70 s, waiting: connection refused"
    well = reflector(last_contact=10.0, last_error="connection refused")
    assert watch_ready(well, 200.0) == ""


def test_the_heartbeat_reports_a_blocked_event_loop() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        heart = Heartbeat(SystemClock())
        assert heart.check() == ""
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(heart.run(), name="heart")
            await asyncio.sleep(100)
            assert heart.check() == ""
            loop.jump(40)
            assert heart.check().startswith("the event loop has been blocked for 4")
            await asyncio.sleep(1)
            assert heart.check() == ""
            beating.cancel()

    run_virtual(scenario())


def test_stuck_workers_are_detected_and_busy_or_idle_ones_are_not() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        queue: WorkQueue[str] = WorkQueue("main", clock=clock)
        stuck = asyncio.Event()

        async def reconcile(key: str) -> None:
            if key == "slow":
                await asyncio.sleep(50)
            if key == "stuck":
                await stuck.wait()

        controller = Controller("some", queue, reconcile, clock=clock)
        pulse = WorkersPulse(controller.statistics, queue.statistics, idle_seconds=60)
        assert pulse.alive() == ""
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name="controller")
            await asyncio.sleep(1000)
            assert pulse.alive() == ""  # nothing to do is no sign of death
            for number in range(5):
                queue.add("slow")
                await asyncio.sleep(55 + number)
                assert pulse.alive() == ""
            queue.add("stuck")
            queue.add("other")
            await asyncio.sleep(59)
            assert pulse.alive() == ""
            await asyncio.sleep(10)
            assert pulse.alive() == "no reconcile has ended for 69 s, with 1 keys due and 1 in progress"
            stuck.set()
            await asyncio.sleep(1)
            assert pulse.alive() == ""
            await controller.stop(1)
        assert pulse.alive() == ""

    run_virtual(scenario())


def test_workers_that_may_not_write_are_not_ready_until_one_write_succeeds() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        queue: WorkQueue[str] = WorkQueue("main", clock=clock)
        problem = ""

        async def reconcile(key: str) -> None:
            if problem:
                raise ReconcileError(problem)

        controller = Controller("some", queue, reconcile, clock=clock)
        pulse = WorkersPulse(controller.statistics, queue.statistics)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name="controller")
            problem = "the server is busy"
            queue.add("web")
            await asyncio.sleep(0.001)
            assert pulse.ready() == ""  # a failure of the day
            problem = NO_WRITE
            queue.add("web")
            await asyncio.sleep(0.001)
            assert "cannot write: web: endpoints" in pulse.ready()
            assert "grant update on endpoints to endpointd" in pulse.ready()
            problem = ""
            queue.add("web")
            await asyncio.sleep(0.001)
            assert pulse.ready() == ""
            await controller.stop(1)

    run_virtual(scenario())


class NoLeases:
    """A server that never has a lease."""

    async def get(self, *arguments: Any, **more: Any) -> Any:
        raise ReconcileError("no")

    create = update = get


def test_an_elector_is_alive_while_its_requests_end_with_any_outcome() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        pulse = ElectorPulse(NoLeases(), clock=clock, retry_seconds=2.0)
        assert pulse.alive() == ""
        clock.now = 1000.0
        with pytest.raises(ReconcileError):
            await pulse.get(LEASES, ObjectKey("kube-system", "endpointd"))
        clock.now = 1060.0
        assert pulse.alive() == ""
        clock.now = 1061.0
        assert pulse.alive() == "no request about the lease has ended for 61 s"

    run_virtual(scenario())


def test_checks_keep_their_order_and_have_unique_names() -> None:
    checks = Checks()
    checks.add("b", lambda: "")
    checks.add("a", lambda: "wrong")
    assert [(one.name, one.ok) for one in checks.results()] == [("b", True), ("a", False)]
    with pytest.raises(ValueError, match="'a' already"):
        checks.add("a", lambda: "")


def test_missing_permissions_are_parsed_from_rbac_errors() -> None:
    assert missing_right(NO_WRITE) == MissingRight("endpointd", "update", "endpoints", "", "shop")
    slices = (
        'User "u" cannot watch resource "endpointslices" in API group "discovery.k8s.io" at the cluster scope'
    )
    assert advice(slices).startswith("grant list and watch on endpointslices.discovery.k8s.io to u")
    assert missing_right("endpoints is forbidden: exceeded quota") is None
    assert "--runtime-config" in advice("the server could not find the requested resource")
    assert with_hint("connection refused") == "connection refused"
