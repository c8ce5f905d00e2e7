"""Ordered start, supervision, and stop in reverse order, in virtual time."""

import asyncio
import logging
import random

import pytest
from tests.unit.runtime.work.virtual import now, virtually

from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectMeta
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller, ControllerStop
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.informer import Informer
from aiokube.runtime.manager import Manager, NotReadyError, PartFailedError, Runnable
from aiokube.runtime.runnables import InformerRunnable
from aiokube.testing.fake_source import FakeSource
from aiokube.work_queue import WorkQueue

Story = list[tuple[float, str]]


class Plain:
    """A part that runs until cancelled, and records its life cycle."""

    def __init__(
        self, name: str, story: Story, ends: Exception | str | None = None, after: float = 0.0
    ) -> None:
        self._name = name
        self.story = story
        self.ends = ends
        self.after = after

    @property
    def name(self) -> str:
        return self._name

    def tell(self, what: str) -> None:
        self.story.append((now(), f"{self._name} {what}"))

    async def run(self) -> None:
        self.tell("runs")
        try:
            if self.ends is None:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(self.after)
            if isinstance(self.ends, Exception):
                raise self.ends
        finally:
            self.tell("ends")


class Cache(Plain):
    """A part that becomes ready after a while, and reports a cause until then."""

    def __init__(self, name: str, story: Story, ready_at: float = 0.0, cause: str = "") -> None:
        super().__init__(name, story)
        self.ready_at = ready_at
        self.cause = cause

    async def wait_ready(self) -> None:
        await asyncio.sleep(self.ready_at - now())

    def why_not_ready(self) -> str:
        return self.cause


class Quick(Plain):
    """A part that is ready immediately."""

    async def wait_ready(self) -> None:
        return


class Worker(Plain):
    """A part that is slow to stop."""

    def __init__(self, name: str, story: Story, needs: float = 0.0) -> None:
        super().__init__(name, story)
        self.needs = needs
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        self.tell("runs")
        try:
            await self.stopped.wait()
        finally:
            self.tell("ends")

    async def stop(self, grace_seconds: float) -> ControllerStop:
        self.tell(f"is stopped with {grace_seconds:g} s")
        await asyncio.sleep(min(grace_seconds, self.needs))
        self.stopped.set()
        return ControllerStop(name=self.name)


async def run_for(seconds: float, manager: Manager) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    await manager.run(stop)


@virtually
async def test_stages_start_once_the_previous_one_is_ready_and_stop_in_reverse_order() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        services=[Plain("metrics", story)],
        informers=[Cache("pods", story, ready_at=3.0), Cache("services", story, ready_at=1.0)],
        gate=Cache("election", story, ready_at=7.0),
        controllers=[Worker("endpoints", story, needs=2.0), Worker("slices", story, needs=4.0)],
    )
    await run_for(10.0, manager)
    assert story == [
        (0.0, "metrics runs"),
        (0.0, "pods runs"),
        (0.0, "services runs"),
        (3.0, "election runs"),
        (7.0, "endpoints runs"),
        (7.0, "slices runs"),
        (10.0, "endpoints is stopped with 10 s"),
        (10.0, "slices is stopped with 10 s"),
        (12.0, "endpoints ends"),
        (14.0, "slices ends"),
        (14.0, "election ends"),
        (14.0, "pods ends"),
        (14.0, "services ends"),
        (14.0, "metrics ends"),
    ]


@virtually
async def test_the_statistics_report_the_phase_and_what_it_waits_for() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story, ready_at=3.0), Cache("nodes", story, ready_at=1.0)],
        controllers=[Worker("slices", story, needs=2.0)],
    )
    stop = asyncio.Event()
    seen = [manager.statistics()]
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        for at in (0.5, 1.5, 4.0):
            await asyncio.sleep(at - now())
            seen.append(manager.statistics())
        stop.set()
        await asyncio.sleep(1.0)
        seen.append(manager.statistics())
    seen.append(manager.statistics())
    assert [(each.phase, each.waiting_for) for each in seen] == [
        ("new", ()),
        ("starting", ("pods", "nodes")),
        ("starting", ("pods",)),
        ("running", ()),
        ("stopping", ()),
        ("stopped", ()),
    ]


@virtually
async def test_a_stop_during_startup_stops_started_parts_and_starts_no_others() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story, ready_at=1000.0)],
        controllers=[Worker("slices", story)],
    )
    await run_for(5.0, manager)
    assert story == [(0.0, "pods runs"), (5.0, "pods ends")]


@virtually
async def test_a_stop_before_startup_starts_nothing() -> None:
    story: Story = []
    stop = asyncio.Event()
    stop.set()
    manager = Manager(clock=SystemClock(), informers=[Cache("pods", story)])
    async with asyncio.timeout(1.0):
        await manager.run(stop)
    assert story == []


def test_an_unsynced_cache_is_logged_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times: list[float] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("waiting"):
                times.append(now())

    @virtually
    async def run() -> None:
        story: Story = []
        cause = "pods is forbidden: grant list and watch"
        manager = Manager(clock=SystemClock(), informers=[Cache("pods", story, ready_at=5000.0, cause=cause)])
        await run_for(2000.0, manager)

    watch = Watch()
    logging.getLogger("aiokube.runtime.manager").addHandler(watch)
    try:
        with caplog.at_level(logging.INFO):
            run()
    finally:
        logging.getLogger("aiokube.runtime.manager").removeHandler(watch)
    assert times == [2, 6, 14, 30, 62, 126, 254, 510, 810, 1110, 1410, 1710]
    record = caplog.records[0]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "waiting: for=pods since_seconds=2 cause=pods is forbidden: grant list and watch"
    )


def test_waiting_for_leader_election_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def run() -> None:
        manager = Manager(clock=SystemClock(), gate=Cache("election", [], ready_at=50.0))
        await run_for(5.0, manager)

    with caplog.at_level(logging.INFO):
        run()
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert caplog.records[0].getMessage() == ("waiting: for=election since_seconds=2 cause=no cause reported")


@virtually
async def test_the_sync_timeout_fails_with_the_cause() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        sync_timeout_seconds=20.0,
        informers=[
            Cache("nodes", story),
            Cache("pods", story, ready_at=1e9, cause="127.0.0.1:6443 refused the connection"),
        ],
        controllers=[Worker("slices", story)],
    )
    with pytest.raises(
        NotReadyError, match=r"pods is not ready after 20 s: 127\.0\.0\.1:6443 refused"
    ) as caught:
        await run_for(1e6, manager)
    assert (caught.value.part, caught.value.cause) == ("pods", "127.0.0.1:6443 refused the connection")
    assert now() == 20.0
    assert [what for _, what in story] == ["nodes runs", "pods runs", "nodes ends", "pods ends"]


@virtually
async def test_the_sync_timeout_does_not_apply_to_leader_election() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(), sync_timeout_seconds=30.0, gate=Cache("election", story, ready_at=500.0)
    )
    await run_for(600.0, manager)
    assert now() == 600.0


class NeverReady(Plain):
    async def wait_ready(self) -> None:
        await asyncio.sleep(1.0)
        raise ReconcileError("no such resource")


@virtually
async def test_a_part_that_can_never_become_ready_fails_the_manager() -> None:
    story: Story = []
    manager = Manager(clock=SystemClock(), informers=[NeverReady("slices", story), Cache("pods", story, 1e9)])
    with pytest.raises(PartFailedError, match="slices cannot become ready: no such resource"):
        await run_for(1e6, manager)
    assert now() == 1.0


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ("returns", "metrics ended without being stopped"),
        (OSError("port 8080 is taken"), "metrics failed: OSError: port 8080 is taken"),
        (
            ExceptionGroup("two", [ReconcileError("one"), ReconcileError("two")]),
            "metrics failed: one; two",
        ),
    ],
)
def test_a_part_that_ends_unexpectedly_causes_an_orderly_stop_and_an_error(
    ends: Exception | str, text: str
) -> None:
    story: Story = []

    @virtually
    async def run() -> None:
        manager = Manager(
            clock=SystemClock(),
            services=[Plain("metrics", story, ends, after=5.0)],
            informers=[Cache("pods", story)],
            controllers=[Worker("slices", story, needs=3.0)],
        )
        with pytest.raises(PartFailedError) as caught:
            await run_for(1e6, manager)
        assert str(caught.value) == text
        assert caught.value.part == "metrics"
        if isinstance(ends, Exception):
            assert caught.value.__cause__ is ends

    run()
    assert story[3:] == [
        (5.0, "metrics ends"),
        (5.0, "slices is stopped with 10 s"),
        (8.0, "slices ends"),
        (8.0, "pods ends"),
    ]


@virtually
async def test_the_first_failure_is_raised() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        services=[
            Plain("metrics", story, ReconcileError("first"), after=5.0),
            Plain("events", story, ReconcileError("second"), after=6.0),
        ],
        controllers=[Worker("slices", story, needs=3.0)],
    )
    with pytest.raises(PartFailedError, match="metrics failed: first"):
        await run_for(1e6, manager)


def test_a_requested_stop_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def run() -> None:
        story: Story = []
        manager = Manager(
            clock=SystemClock(), informers=[Cache("pods", story)], controllers=[Worker("slices", story)]
        )
        await run_for(5.0, manager)

    with caplog.at_level(logging.WARNING):
        run()
    assert not caplog.records


@virtually
async def test_a_part_that_cancels_itself_is_reported() -> None:
    class CancelsItself(Quick):
        async def run(self) -> None:
            raise asyncio.CancelledError

    manager = Manager(clock=SystemClock(), informers=[CancelsItself("pods", [])])
    with pytest.raises(PartFailedError, match="pods was cancelled from within"):
        await run_for(1e6, manager)


@virtually
async def test_losing_the_lease_cancels_controllers_without_grace() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        gate=Quick("election", story, ReconcileError("the lease was lost"), after=5.0),
        controllers=[Worker("slices", story, needs=60.0)],
    )
    with pytest.raises(PartFailedError, match="the lease was lost"):
        await run_for(1e6, manager)
    assert story[2:] == [(5.0, "election ends"), (5.0, "slices is stopped with 0 s"), (5.0, "slices ends")]


@virtually
async def test_a_failed_informer_leaves_controllers_their_grace_period() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        grace_seconds=7.0,
        informers=[Quick("pods", story, ReconcileError("gone"), after=5.0)],
        controllers=[Worker("slices", story, needs=60.0)],
    )
    with pytest.raises(PartFailedError, match="pods failed: gone"):
        await run_for(1e6, manager)
    assert (5.0, "slices is stopped with 7 s") in story
    assert now() == 12.0


class Stubborn(Plain):
    async def stop(self, grace_seconds: float) -> None:
        await asyncio.sleep(1e9)


class FailsToStop(Plain):
    async def stop(self, grace_seconds: float) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(("kind", "ended_at"), [(Stubborn, 25.0), (FailsToStop, 10.0)])
def test_a_part_that_cannot_be_stopped_is_cancelled(kind: type[Plain], ended_at: float) -> None:
    @virtually
    async def run() -> None:
        story: Story = []
        manager = Manager(
            clock=SystemClock(), controllers=[kind("slices", story)], services=[Plain("p", story)]
        )
        await run_for(10.0, manager)
        assert story[2:] == [(ended_at, "slices ends"), (ended_at, "p ends")]

    run()


def test_a_failure_while_stopping_is_logged_and_does_not_interrupt_the_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Messy(Quick):
        async def run(self) -> None:
            try:
                await super().run()
            finally:
                raise ZeroDivisionError

    @virtually
    async def run() -> None:
        story: Story = []
        manager = Manager(clock=SystemClock(), informers=[Messy("m", story)], services=[Plain("s", story)])
        await run_for(1.0, manager)
        assert story[2:] == [(1.0, "m ends"), (1.0, "s ends")]

    run()
    (record,) = caplog.records
    assert record.getMessage() == "while stopping: cause=m failed: ZeroDivisionError"


@virtually
async def test_cancelling_a_manager_cancels_every_part_without_grace() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story)],
        controllers=[Worker("slices", story, needs=60.0)],
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run(asyncio.Event()))
        await asyncio.sleep(5.0)
        task.cancel()
    assert sorted(story[2:]) == [(5.0, "pods ends"), (5.0, "slices ends")]


@virtually
async def test_controllers_drain_within_the_grace_period_and_are_reported() -> None:
    clock = SystemClock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    controller: Controller[str] = Controller(
        "slices",
        queue,
        lambda key: asyncio.sleep(3.0 if key == "quick" else 1e9),
        workers=2,
        clock=clock,
    )
    parts: list[Runnable] = [controller]
    manager = Manager(clock=clock, controllers=parts, grace_seconds=5.0)
    queue.add("quick")
    queue.add("slow")
    queue.add("late")
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stop.set)
    report = await manager.run(stop)
    assert now() == 6.0
    assert report.controllers == (
        ControllerStop(name="slices", finished=("quick",), abandoned=("slow",), waiting=1),
    )


@virtually
async def test_tasks_carry_the_names_of_their_parts() -> None:
    clock = SystemClock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    controller: Controller[str] = Controller("slices", queue, lambda key: asyncio.sleep(0), 2, clock=clock)
    stop = asyncio.Event()
    manager = Manager(clock=clock, informers=[Cache("pods", [])], controllers=[controller])
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop), name="the manager")
        await asyncio.sleep(1.0)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert {
            "the manager",
            "manager-stop",
            "pods",
            "slices",
            "slices-worker-0",
            "slices-worker-1",
        } <= names
        stop.set()


@virtually
async def test_a_manager_cannot_run_twice() -> None:
    manager = Manager(clock=SystemClock())
    await run_for(1.0, manager)
    with pytest.raises(RuntimeError, match="run already"):
        await run_for(1.0, manager)


@virtually
async def test_the_manager_waits_until_the_store_of_an_informer_is_synced() -> None:
    clock = SystemClock()
    source = FakeSource([Endpoints(ObjectMeta(name="a", namespace="n"))])
    source.fail_next(*[ConnectionFailedError("127.0.0.1:6443 refused the connection")] * 3)
    informer: Informer[Endpoints] = Informer(source, name="endpoints", clock=clock, rng=random.Random(1))
    seen: list[int] = []

    class Looking(Plain):
        async def run(self) -> None:
            seen.append(len(informer.lister))
            await super().run()

    manager = Manager(clock=clock, informers=[informer], controllers=[Looking("slices", [])])
    await run_for(60.0, manager)
    assert seen == [1]
    assert source.open_watches == 0


@virtually
async def test_an_informer_without_permission_reports_it_with_a_remedy() -> None:
    clock = SystemClock()
    source: FakeSource[Endpoints] = FakeSource()
    forbidden = 'endpoints is forbidden: User "me" cannot list resource "endpoints" at the cluster scope'
    status = Status(code=403, reason="Forbidden", message=forbidden)
    source.fail_next(*[api_error(status)] * 100)
    informer: Informer[Endpoints] = Informer(source, name="endpoints", clock=clock, rng=random.Random(1))
    part = InformerRunnable(informer)
    assert part.why_not_ready() == "no errors so far, it is stopped"
    manager = Manager(clock=clock, informers=[informer], sync_timeout_seconds=60.0)
    with pytest.raises(NotReadyError) as caught:
        await run_for(1e6, manager)
    assert str(caught.value) == (
        f"endpoints is not ready after 60 s: {forbidden} (grant list and watch on endpoints to me: a role, and a binding "
        "to that user)"
    )


@virtually
async def test_an_informer_without_wait_ready_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"pods cannot run as an informer: it has no wait_ready\(\)"):
        Manager(clock=SystemClock(), informers=[Plain("pods", [])])
