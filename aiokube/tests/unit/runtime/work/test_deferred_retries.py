"""Keys whose writes found no server are retried when it responds, not after their backoff."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.work.virtual import now, settle, virtually

from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.client.errors import ClientError, ConnectionFailedError, RequestTimedOutError
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller, RequeueAfter
from aiokube.runtime.errors import ReconcileError, is_unavailable
from aiokube.runtime.reachability import Reachability
from aiokube.testing.api_errors import status_error
from aiokube.work_queue import WorkQueue

REFUSED = ConnectionFailedError("localhost:6443: connection refused")
UNAVAILABLE = status_error(503, "ServiceUnavailable", "no backend")
BUSY = status_error(429, "TooManyRequests", "later", retry_after_seconds=1)
TIMED_OUT = RequestTimedOutError("no answer")


class World:
    """A controller that writes in every reconcile, to a server with injected failures."""

    def __init__(self, workers: int = 5) -> None:
        clock = SystemClock()
        self.error: ClientError | None = None
        self.bad_keys: set[str] = set()
        self.attempts: list[tuple[float, str]] = []
        self.done: dict[str, float] = {}
        self.reachability = Reachability(clock=clock, rng=random.Random(5))
        backoff = ExponentialBackoff(base_seconds=1.0, cap_seconds=60.0)
        self.queue: WorkQueue[str] = WorkQueue("things", clock=clock, limiter=RetryLimiter(backoff))
        self.controller = Controller(
            "things", self.queue, self._write, workers, clock=clock, reachability=self.reachability
        )

    async def _write(self, key: str) -> RequeueAfter | None:
        self.attempts.append((now(), key))
        await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        if key in self.bad_keys:
            raise UNAVAILABLE
        self.done[key] = now()
        return None

    def attempts_since(self, moment: float) -> int:
        return sum(at >= moment for at, _ in self.attempts)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run(), name="controller")
            await settle()
            yield
            await self.controller.stop(0.0)


@pytest.mark.parametrize(
    "error", [REFUSED, UNAVAILABLE, BUSY, TIMED_OUT], ids=["refused", "503", "429", "timeout"]
)
@virtually
async def test_all_keys_are_written_two_seconds_after_the_server_returns(error: ClientError) -> None:
    world = World()
    async with world.running():
        for away_seconds in (15.0, 300.0):
            world.error = error
            world.done.clear()
            for number in range(500):
                world.queue.add(f"key-{number}")
            began = now()
            await asyncio.sleep(away_seconds)
            assert world.attempts_since(began) <= 10 + away_seconds, (
                "one a second, however many keys there are"
            )
            world.error = None
            await asyncio.sleep(3.0)
            assert len(world.done) == 500, "1 s of work for 500 keys, and 2 s"
            assert world.reachability.failing == ()


@virtually
async def test_a_successful_watch_response_wakes_deferred_writes() -> None:
    world = World()
    async with world.running():
        world.error = REFUSED
        world.queue.add("key")
        for _ in range(10):
            await asyncio.sleep(1.0)
        world.error = None
        before = now()
        world.reachability.answered("pods")
        await asyncio.sleep(1.3)
        assert world.done["key"] - before <= 1.3


@virtually
async def test_events_during_an_outage_are_deferred_once_some_keys_have_failed() -> None:
    world = World()
    async with world.running():
        world.error = REFUSED
        for number in range(5):
            world.queue.add(f"key-{number}")
        await asyncio.sleep(0.1)
        before = len(world.attempts)
        for number in range(1000):
            world.queue.add(f"key-{number}")
        await asyncio.sleep(0.1)
        assert len(world.attempts) - before <= 1
        assert world.controller.statistics().deferred >= 999
        world.error = None
        await asyncio.sleep(5.0)
        assert len(world.done) == 1000


@virtually
async def test_a_constantly_failing_key_is_retried_every_second_and_delays_no_other() -> None:
    world = World()
    async with world.running():
        world.bad_keys = {"bad"}
        world.queue.add("bad")
        await asyncio.sleep(1.0)
        for number in range(100):
            added = now()
            world.queue.add(f"good-{number}")
            await asyncio.sleep(1.0)
            assert world.done[f"good-{number}"] - added < 0.1
        tries = sum(key == "bad" for _, key in world.attempts)
        assert 60 <= tries <= 102


@virtually
async def test_non_network_failures_keep_their_own_growing_backoff() -> None:
    world = World()
    async with world.running():
        world.error = status_error(403, "Forbidden", "no right to update endpointslices")
        world.queue.add("key")
        await asyncio.sleep(100.0)
        assert len(world.attempts) == 7


@virtually
async def test_an_outage_logs_one_line_for_any_number_of_keys_and_its_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    with caplog.at_level(logging.INFO):
        async with world.running():
            world.error = REFUSED
            for number in range(200):
                world.queue.add(f"key-{number}")
            await asyncio.sleep(9.0)
            world.error = None
            await asyncio.sleep(3.0)
            told = [line for line in caplog.messages if "controller stopped" not in line]
    assert len(told) == 3
    assert told[0].startswith("reconcile failed, will be retried when the API server responds")
    assert told[1].startswith("the API server is unreachable")
    assert told[2].startswith("the API server is reachable again")


@virtually
async def test_a_controller_can_stop_while_keys_wait_for_the_server() -> None:
    world = World()
    async with world.running():
        world.error = REFUSED
        for number in range(20):
            world.queue.add(f"key-{number}")
        await asyncio.sleep(10.0)
    assert world.controller.statistics().state == "stopped"


def test_an_exception_group_is_unavailable_only_if_all_its_members_are() -> None:
    assert is_unavailable(ExceptionGroup("both", [REFUSED, BUSY]))
    assert not is_unavailable(ExceptionGroup("mixed", [REFUSED, ReconcileError("a bug")]))
