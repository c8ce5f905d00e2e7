"""How many lines failures cost: the same for a thousand failing objects of one namespace as for twenty."""

import asyncio
import logging
from typing import NoReturn

import pytest
from tests.unit.runtime.work.virtual import settle, virtually

from aiokube.api.meta import ObjectKey
from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.failure_log import FailureLog
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue


def test_failures_beyond_the_burst_are_counted_and_reported_in_the_next_window() -> None:
    clock = ManualClock()
    log = FailureLog(clock, burst=2, window_seconds=60.0)
    assert [log.note("noisy") for _ in range(5)] == [(True, 0), (True, 0), (False, 0), (False, 0), (False, 0)]
    assert log.note("quiet") == (True, 0)
    clock.advance(60.0)
    assert log.note("noisy") == (True, 3)
    assert log.note("quiet") == (True, 0)


@virtually
async def test_a_thousand_failing_services_in_one_namespace_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def over_quota(_: ObjectKey) -> NoReturn:
        raise ReconcileError("exceeded quota")

    clock = SystemClock()
    queue: WorkQueue[ObjectKey] = WorkQueue(
        "things",
        clock=clock,
        limiter=RetryLimiter(ExponentialBackoff(base_seconds=1000.0, cap_seconds=1000.0)),
    )
    controller = Controller("things", queue, over_quota, 5, clock=clock)
    for number in range(1_000):
        queue.add(ObjectKey("noisy", f"s{number}"))
    queue.add(ObjectKey("quiet", "s"))
    with caplog.at_level(logging.INFO):
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name="controller")
            while controller.statistics().failed < 1_001:
                await settle()
            await controller.stop(0.0)
    lines = [record.getMessage() for record in caplog.records if "reconcile failed" in record.getMessage()]
    assert len([line for line in lines if "key=noisy/" in line]) == 20
    assert len([line for line in lines if "key=quiet/" in line]) == 1
