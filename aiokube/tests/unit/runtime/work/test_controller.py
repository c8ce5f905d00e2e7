"""Workers and the outcomes of reconciles, in virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.work.virtual import now, settle, virtually

from aiokube.api.status import Status, StatusDetails
from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller, ControllerStop, RequeueAfter
from aiokube.runtime.errors import ReconcileError
from aiokube.work_queue import WorkQueue

Reconcile = Callable[[str], Awaitable[RequeueAfter | None]]


def new_controller(
    reconcile: Reconcile, workers: int = 1, timeout_seconds: float | None = None
) -> Controller[str]:
    clock = SystemClock()
    queue: WorkQueue[str] = WorkQueue(
        "things", clock=clock, limiter=RetryLimiter(ExponentialBackoff(base_seconds=1.0, cap_seconds=8.0))
    )
    return Controller("things", queue, reconcile, workers, clock=clock, timeout_seconds=timeout_seconds)


@asynccontextmanager
async def running(controller: Controller[str]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        await settle()
        yield
        await controller.stop(0.0)


class Script:
    """A reconcile with scripted outcomes, which records the times of its calls."""

    def __init__(self, *steps: Exception | RequeueAfter | None) -> None:
        self.steps = list(steps)
        self.calls: list[tuple[float, str]] = []

    async def __call__(self, key: str) -> RequeueAfter | None:
        self.calls.append((now(), key))
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, Exception):
            raise step
        return step


@virtually
async def test_every_key_is_reconciled_once_without_failures() -> None:
    script = Script()
    controller = new_controller(script)
    async with running(controller):
        for key in "abc":
            controller.queue.add(key)
        await asyncio.sleep(100.0)
    assert script.calls == [(0.0, "a"), (0.0, "b"), (0.0, "c")]
    assert controller.statistics().succeeded == 3


@virtually
async def test_a_failing_key_is_retried_forever_with_growing_backoff() -> None:
    script = Script(*[ReconcileError("not yet")] * 30)
    controller = new_controller(script)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1000.0)
    times = [when for when, _ in script.calls]
    assert times[:7] == [0, 1, 3, 7, 15, 23, 31]
    assert len(times) == 31
    statistics = controller.statistics()
    assert (statistics.failed, statistics.succeeded, statistics.last_failure) == (30, 1, "a: not yet")


@virtually
async def test_success_resets_the_failure_count() -> None:
    error = ReconcileError("no")
    script = Script(error, error, error, None, error)
    controller = new_controller(script)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(50.0)
        controller.queue.add("a")
        await asyncio.sleep(50.0)
    assert [when for when, _ in script.calls] == [0, 1, 3, 7, 50, 51]
    assert controller.queue.failures("a") == 0


@virtually
async def test_requeue_after_reconciles_again_without_counting_as_a_failure() -> None:
    script = Script(ReconcileError("no"), RequeueAfter(30.0), RequeueAfter(30.0))
    controller = new_controller(script)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(500.0)
    assert [when for when, _ in script.calls] == [0, 1, 31, 61]
    assert controller.statistics().requeued == 2


@virtually
async def test_an_event_takes_precedence_over_a_pending_requeue() -> None:
    script = Script(RequeueAfter(30.0))
    controller = new_controller(script)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(5.0)
        controller.queue.add("a")
        await asyncio.sleep(500.0)
    assert [when for when, _ in script.calls] == [0, 5]


@virtually
async def test_a_failing_key_does_not_delay_other_keys() -> None:
    async def reconcile(key: str) -> None:
        done.append((now(), key))
        if key == "bad":
            raise ReconcileError("always")

    done: list[tuple[float, str]] = []
    controller = new_controller(reconcile)
    async with running(controller):
        controller.queue.add("bad")
        for number in range(5):
            controller.queue.add(f"good-{number}")
        await asyncio.sleep(0.5)
    assert [key for _, key in done] == ["bad", "good-0", "good-1", "good-2", "good-3", "good-4"]


@virtually
async def test_different_keys_are_reconciled_concurrently_up_to_the_number_of_workers() -> None:
    at_work = 0
    most = 0

    async def reconcile(key: str) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(1.0)
        at_work -= 1

    controller = new_controller(reconcile, workers=3)
    async with running(controller):
        for number in range(9):
            controller.queue.add(str(number))
        await controller.queue.join()
        assert now() == 3.0
    assert most == 3


@virtually
async def test_a_key_added_during_its_reconcile_is_reconciled_again() -> None:
    spans: list[tuple[float, float]] = []

    async def reconcile(key: str) -> None:
        start = now()
        await asyncio.sleep(2.0)
        spans.append((start, now()))

    controller = new_controller(reconcile, workers=4)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1.0)
        controller.queue.add("a")
        await controller.queue.join()
    assert spans == [(0.0, 2.0), (2.0, 4.0)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ReconcileError("the zone is not\n  known"), "the zone is not known"),
        (ConnectionFailedError("127.0.0.1:6443 refused the connection"), "127.0.0.1:6443 refused the connection"),
        (
            api_error(Status(code=409, reason="Conflict", message="the object has been modified")),
            "the object has been modified",
        ),
        (
            ExceptionGroup("both", [ReconcileError("first"), ConnectionFailedError("second")]),
            "first; second",
        ),
    ],
)  # fmt: skip
def test_an_expected_error_is_logged_in_one_line(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    @virtually
    async def run() -> None:
        controller = new_controller(Script(error))
        async with running(controller):
            controller.queue.add("ns/a")
            await asyncio.sleep(0.5)

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert record.getMessage() == (
        f"reconcile failed: controller=things key=ns/a attempt=1 next_try_seconds=1 error={text}"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("zone"), "KeyError: 'zone'"),
        (ExceptionGroup("both", [ReconcileError("first"), ZeroDivisionError()]), "first; ZeroDivisionError"),
    ],
)
def test_an_unexpected_error_is_logged_with_its_traceback_and_retried(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(error)

    @virtually
    async def run() -> None:
        controller = new_controller(script)
        async with running(controller):
            controller.queue.add("ns/a")
            await asyncio.sleep(10.0)

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert record.getMessage().endswith(f"error={text}")
    assert len(script.calls) == 2


@virtually
async def test_retry_after_is_honoured() -> None:
    busy = api_error(
        Status(code=429, reason="TooManyRequests", details=StatusDetails(retry_after_seconds=17))
    )
    script = Script(busy, ReconcileError("later", retry_after_seconds=0.5))
    controller = new_controller(script)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(100.0)
    assert [when for when, _ in script.calls] == [0, 17, 19]


@virtually
async def test_a_reconcile_that_times_out_is_cancelled_and_retried() -> None:
    tries: list[float] = []

    async def reconcile(key: str) -> None:
        tries.append(now())
        await asyncio.sleep(100.0 if len(tries) == 1 else 1.0)

    controller = new_controller(reconcile, timeout_seconds=5.0)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(50.0)
    assert tries == [0.0, 6.0]
    assert controller.statistics().last_failure == "a: it took longer than 5 s and was cancelled"


@virtually
async def test_a_timeout_inside_a_reconcile_is_distinguished_from_the_reconcile_timeout() -> None:
    controller = new_controller(Script(TimeoutError("of something inside")), timeout_seconds=5.0)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(0.5)
    assert controller.statistics().last_failure == "a: TimeoutError: of something inside"


@virtually
async def test_a_cancellation_raised_in_a_reconcile_fails_the_key_but_not_the_worker() -> None:
    tries: list[str] = []

    async def reconcile(key: str) -> None:
        tries.append(key)
        if len(tries) == 1:
            raise asyncio.CancelledError

    controller = new_controller(reconcile)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(10.0)
    assert tries == ["a", "a"]
    assert controller.statistics().failed == 1


@virtually
async def test_a_stopped_controller_starts_no_new_work_and_finishes_running_reconciles() -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(3.0)
        finished.append(key)

    controller = new_controller(reconcile, workers=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        for key in "abc":
            controller.queue.add(key)
        await asyncio.sleep(1.0)
        outcome = await controller.stop(10.0)
    assert now() == 3.0
    assert finished == ["a", "b"]
    assert outcome == ControllerStop(name="things", finished=("a", "b"), waiting=1)


@virtually
async def test_reconciles_beyond_the_grace_period_are_cancelled_and_reported() -> None:
    cut_off: list[str] = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(3.0 if key == "quick" else 1000.0)
        except asyncio.CancelledError:
            cut_off.append(key)
            raise

    controller = new_controller(reconcile, workers=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        controller.queue.add("quick")
        controller.queue.add("slow")
        await asyncio.sleep(1.0)
        outcome = await controller.stop(10.0)
    assert now() == 11.0
    assert outcome == ControllerStop(name="things", finished=("quick",), abandoned=("slow",))
    assert cut_off == ["slow"]


def test_cancelled_writes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def run() -> None:
        controller = new_controller(lambda key: asyncio.sleep(1000.0))
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            controller.queue.add("a")
            await settle()
            await controller.stop(2.0)

    with caplog.at_level(logging.INFO):
        run()
    (record,) = caplog.records
    assert record.getMessage() == (
        "controller stopped, reconciles were cancelled: "
        "controller=things grace_seconds=2 finished=0 abandoned=a waiting=0"
    )


def test_a_failure_while_stopping_is_not_reported_as_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: str) -> None:
        await asyncio.sleep(1.0)
        raise ReconcileError("too late")

    @virtually
    async def run() -> None:
        controller = new_controller(reconcile)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            controller.queue.add("a")
            await settle()
            outcome = await controller.stop(10.0)
            assert outcome.finished == ("a",)

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert "next_try_seconds=none" in record.getMessage()


@virtually
async def test_an_idle_controller_stops_immediately() -> None:
    controller = new_controller(Script(), workers=5)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        await settle()
        assert await controller.stop(60.0) == ControllerStop(name="things")
    assert now() == 0.0


@virtually
async def test_a_controller_stopped_before_its_run_ends_immediately() -> None:
    controller = new_controller(Script())
    controller.queue.add("a")
    assert (await controller.stop(60.0)).waiting == 1
    await controller.run()


@virtually
async def test_cancelling_a_controller_cancels_its_work_immediately() -> None:
    cut_off: list[str] = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(1000.0)
        finally:
            cut_off.append(key)

    controller = new_controller(reconcile)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        controller.queue.add("a")
        await settle()
        task.cancel()
    assert cut_off == ["a"]
    assert now() == 0.0


@virtually
async def test_a_controller_cannot_run_twice() -> None:
    controller = new_controller(Script())
    await controller.stop(0.0)
    await controller.run()
    with pytest.raises(RuntimeError, match="run already"):
        await controller.run()


def test_a_controller_without_workers_is_rejected() -> None:
    with pytest.raises(ValueError, match="controller 'things' needs at least 1 worker"):
        new_controller(Script(), workers=0)


async def test_reconciles_that_never_wait_do_not_starve_the_event_loop() -> None:
    class SlowClock(SystemClock):
        """Makes each clock access cost a millisecond, so that the test is independent of the machine."""

        ticks = 0

        def monotonic(self) -> float:
            self.ticks += 1
            return self.ticks / 1000

    clock = SlowClock()
    queue: WorkQueue[int] = WorkQueue(clock=clock)
    done: list[int] = []

    async def reconcile(key: int) -> None:
        done.append(key)

    controller = Controller("busy", queue, reconcile, clock=clock)
    for key in range(1000):
        queue.add(key)
    turns = 0
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        while len(done) < 1000:
            await asyncio.sleep(0)
            turns += 1
        await controller.stop(0.0)
    assert turns > 100


@virtually
async def test_the_statistics_report_work_in_progress() -> None:
    controller = new_controller(lambda key: asyncio.sleep(5.0), workers=3)
    assert controller.statistics().last_success_age_seconds is None
    async with running(controller):
        controller.queue.add("a")
        controller.queue.add("b")
        await asyncio.sleep(1.0)
        statistics = controller.statistics()
        assert (statistics.name, statistics.workers, statistics.running) == ("things", 3, 2)
        await asyncio.sleep(10.0)
        assert controller.statistics().last_success_age_seconds == 6.0
