"""The elector within a program: with a server, a fence and a manager; in virtual time."""

import asyncio
import logging
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.unit.runtime.work.virtual import now, virtually

from aiokube.api.coordination import LEASES, Lease
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.runtime.exposition import exposition
from aiokube.runtime.leader_election import LeaderElector, LeaseLostError, check, request_seconds
from aiokube.runtime.leader_election_fence import Fence, FencedError, FencedWriter
from aiokube.runtime.leader_election_machine import Rules
from aiokube.runtime.manager import Manager, PartFailedError
from aiokube.testing.memory_server import Call, MemoryServer
from aiokube.testing.virtual_time import FakeClock, VirtualTimeLoop

KEY = ObjectKey("kube-system", "endpointd")
CLOCK = FakeClock()


class EventLog:
    """A recorder that keeps its Events."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self.regarding: list[ObjectReference] = []

    def event(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.regarding.append(regarding)
        self.lines.append((type, reason, message))


class Program:
    """One process: elector, fence, and a writer behind it."""

    def __init__(self, server: MemoryServer, name: str, *, drift: float = 1.0) -> None:
        def clock() -> float:
            return CLOCK.monotonic() * drift

        self.name = name
        self.fence = Fence(clock=clock)
        self.event_log = EventLog()
        self.elector = LeaderElector(
            server,
            KEY,
            Rules(identity=name),
            fence=self.fence,
            clock=CLOCK,
            rng=random.Random(name),
            recorder=self.event_log,
            lease_clock=clock,
        )
        self.writer = FencedWriter(server, self.fence)
        self.outcome = ""

    async def run(self) -> None:
        try:
            await self.elector.run()
        except LeaseLostError as error:
            self.outcome = f"{error} ({now():g} s)"
        else:
            self.outcome = "ended"


def may_write(program: Program) -> bool:
    return program.fence.is_open


def held_by(server: MemoryServer) -> str:
    return server.objects(LEASES)[KEY].spec.holder


def refused(message: str = "no") -> Exception:
    return api_error(Status(code=500, reason="InternalError", message=message))


@virtually
async def test_the_second_candidate_waits_until_the_leader_releases_the_lease() -> None:
    server = MemoryServer()
    one, two = Program(server, "one"), Program(server, "two")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await one.elector.wait_ready()
        assert now() == 0.0
        group.create_task(two.run(), name="two")
        await asyncio.sleep(60.0)
        assert held_by(server) == "one"
        assert not may_write(two)
        assert two.elector.why_not_ready() == "the lease kube-system/endpointd is held by one"
        await one.elector.stop(10.0)
        await two.elector.wait_ready()
        assert now() < 63.0
        assert one.outcome == "ended"
        assert not may_write(one)
        spec = server.objects(LEASES)[KEY].spec
        assert (spec.holder, spec.lease_transitions) == ("two", 1)
        await two.elector.stop(10.0)
    assert held_by(server) == ""
    assert one.event_log.lines == [
        ("Normal", "LeaderElection", "one became leader"),
        ("Normal", "LeaderElection", "one stopped leading"),
    ]
    about = one.event_log.regarding[0]
    assert (about.kind, about.api_version, about.name) == ("Lease", "coordination.k8s.io/v1", "endpointd")
    assert about.uid == server.objects(LEASES)[KEY].metadata.uid


@virtually
async def test_a_crashed_leader_is_replaced_when_its_lease_expires() -> None:
    server = MemoryServer()
    one, two = Program(server, "one"), Program(server, "two")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(one.run(), name="one")
        await one.elector.wait_ready()
        group.create_task(two.run(), name="two")
        await asyncio.sleep(31.0)
        task.cancel()
        await two.elector.wait_ready()
        assert 31.0 + 13.0 < now() < 31.0 + 15.0 + 3.0
        await two.elector.stop(10.0)


@virtually
async def test_a_leader_sends_one_renewal_per_retry_period_and_nothing_else() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(20.5)
        assert [call.verb for call in server.calls] == ["get", "create", *["update"] * 10]
        versions = [call.body.metadata.resource_version for call in server.calls[2:]]
        assert versions == sorted(set(versions))
        await one.elector.stop(10.0)


@virtually
async def test_a_leader_cut_off_from_the_server_stops_writing_ten_seconds_after_its_last_renewal() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(7.0)  # renewed at 6 s
        server.fail_next(ConnectionFailedError("no route"), times=1000)
        await asyncio.sleep(8.99)
        assert may_write(one)
        await asyncio.sleep(0.02)
        assert not may_write(one)
    assert one.outcome == "the lease kube-system/endpointd is lost: not renewed within 10 s (16 s)"
    assert one.event_log.lines[-1][2] == "one stopped leading"


@virtually
async def test_a_hanging_server_does_not_delay_the_renew_deadline() -> None:
    server = MemoryServer()
    one = Program(server, "one")

    async def hang(call: Call) -> None:
        await asyncio.sleep(1000.0)

    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        server.before_each = hang
    assert one.outcome.endswith("not renewed within 10 s (10 s)")
    assert not may_write(one)


@virtually
async def test_a_failed_renewal_costs_only_one_extra_read() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        server.fail_next(refused())
        await asyncio.sleep(2.0)
        assert [call.verb for call in server.calls] == ["get", "create", "update", "get", "update"]
        await asyncio.sleep(30.0)
        assert one.elector.statistics().slow_paths == 1
        assert one.elector.statistics().is_leader
        await one.elector.stop(10.0)


@virtually
async def test_a_renewal_with_a_lost_response_is_recognised_as_our_own() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        server.fail_next(ConnectionFailedError("hung up", may_have_acted=True), acts=True)
        await asyncio.sleep(30.0)
        assert one.elector.statistics().is_leader
        assert server.objects(LEASES)[KEY].spec.lease_transitions == 0
        await one.elector.stop(10.0)


@virtually
async def test_a_claim_with_a_lost_response_is_confirmed_by_the_next_read() -> None:
    server = MemoryServer()
    server.fail_next(ConnectionFailedError("hung up", may_have_acted=True), verb="create", acts=True)
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        assert held_by(server) == "one"
        assert not may_write(one)
        await asyncio.sleep(2.0)
        assert may_write(one)
        await one.elector.stop(10.0)


@virtually
async def test_one_of_two_concurrent_claims_is_rejected() -> None:
    server = MemoryServer()
    one, two = Program(server, "one"), Program(server, "two")
    both = asyncio.Barrier(2)

    async def together(call: Call) -> None:
        if call.verb == "create":
            await both.wait()

    server.before_each = together
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        group.create_task(two.run(), name="two")
        await asyncio.sleep(1.0)
        assert may_write(one) != two.fence.is_open
        for program in (one, two):
            await program.elector.stop(10.0)


@virtually
async def test_losing_the_lease_to_another_holder_ends_the_term_at_the_next_renewal() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        lease = server.objects(LEASES)[KEY]
        server.update_foreign(LEASES, replace(lease, spec=replace(lease.spec, holder_identity="thief")))
        await asyncio.sleep(1.5)
    assert one.outcome == "the lease kube-system/endpointd is lost: held by thief now (2 s)"
    assert held_by(server) == "thief"


@virtually
async def test_after_a_process_pause_the_first_write_is_rejected_and_the_term_ends() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    go = asyncio.Event()
    errors: list[Exception] = []

    async def worker() -> None:
        await go.wait()
        try:
            await one.writer.create(
                ENDPOINTS, Endpoints(metadata=ObjectMeta(name="web")), namespace="default"
            )
        except FencedError as error:
            errors.append(error)

    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        group.create_task(worker(), name="worker")
        await asyncio.sleep(5.0)
        go.set()
        loop.jump(40.0)
    assert len(errors) == 1
    assert not server.objects(ENDPOINTS)
    assert one.outcome.endswith("not renewed within 10 s (45 s)")


@virtually
async def test_the_lease_is_not_released_while_a_write_is_unconfirmed() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        server.fail_next(ConnectionFailedError("hung up", may_have_acted=True))
        with pytest.raises(ConnectionFailedError):
            await one.writer.delete(ENDPOINTS, ObjectKey("default", "web"))
        await one.elector.stop(10.0)
    assert one.outcome == "ended"
    assert held_by(server) == "one"


@virtually
async def test_a_candidate_without_server_responses_stops_immediately() -> None:
    server = MemoryServer()

    async def hang(call: Call) -> None:
        await asyncio.sleep(1000.0)

    server.before_each = hang
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        await one.elector.stop(10.0)
    assert now() == 1.0
    assert one.event_log.lines == []


@virtually
async def test_a_claim_that_was_interrupted_by_a_stop_is_released() -> None:
    server = MemoryServer()
    one = Program(server, "one")

    async def late(call: Call) -> None:
        if call.verb == "create":
            await asyncio.sleep(3.0)

    server.after_each = late
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        assert held_by(server) == "one"
        await one.elector.stop(10.0)
    assert held_by(server) == ""


@virtually
async def test_the_reason_for_not_leading_is_logged_once_with_a_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MemoryServer()
    text = 'leases "endpointd" is forbidden: User "x" cannot get resource "leases" in API group'
    server.fail_next(api_error(Status(code=403, reason="Forbidden", message=text)), times=1000)
    one = Program(server, "one")
    with caplog.at_level(logging.INFO):
        async with asyncio.TaskGroup() as group:
            group.create_task(one.run(), name="one")
            await asyncio.sleep(30.0)
            assert one.elector.why_not_ready() == (
                f"the lease kube-system/endpointd: {text} "
                "(grant it get, create and update of leases: a role, and a binding to that user)"
            )
            server.heal()
            await one.elector.wait_ready()
            await one.elector.stop(10.0)
    assert sum(text in record.message for record in caplog.records) == 1


@virtually
async def test_a_404_that_does_not_name_the_lease_does_not_lead_to_a_create() -> None:
    server = MemoryServer()
    server.fail_next(api_error(Status(code=404, reason="NotFound", message="page not found")))
    one = Program(server, "one")
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await asyncio.sleep(1.0)
        assert [call.verb for call in server.calls] == ["get"]
        await one.elector.stop(10.0)


# ------------------------------------------------------------------------------------ with a manager


class Writer:
    """A controller that writes whenever it can, and is slow to stop."""

    name = "writer"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.story: list[str] = []
        self.written: list[float] = []

    async def run(self) -> None:
        number = 0
        while True:
            number += 1
            body = Endpoints(metadata=ObjectMeta(name=f"{self.program.name}-{number}"))
            try:
                await self.program.writer.create(ENDPOINTS, body, namespace="default")
            except FencedError:
                self.story.append("fenced")
            except ConnectionFailedError:
                pass
            else:
                self.written.append(now())
            await asyncio.sleep(0.25)

    async def stop(self, grace_seconds: float) -> None:
        self.story.append(f"stopped with {grace_seconds:g} s")
        raise RuntimeError("not needed any more")


def manager_of(program: Program, writer: Writer) -> Manager:
    return Manager(clock=CLOCK, gate=program.elector, controllers=[writer])


@virtually
async def test_a_lost_lease_cancels_controllers_and_fails_the_program_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MemoryServer()
    one = Program(server, "one")
    writer = Writer(one)
    asyncio.get_running_loop().call_at(
        5.0, lambda: server.fail_next(ConnectionFailedError("gone"), times=10**6)
    )
    with pytest.raises(PartFailedError) as raised:
        await manager_of(one, writer).run(asyncio.Event())
    assert isinstance(raised.value.__cause__, LeaseLostError)
    assert "stopped with 0 s" in writer.story
    assert now() < 20.0
    records = [record for record in caplog.records if "stopping everything" in record.message]
    assert len(records) == 1
    assert records[0].exc_info is None


class Service:
    """A concurrent service, which records its grace period."""

    name = "service"

    def __init__(self) -> None:
        self.graces: list[float] = []
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        await self.stopped.wait()

    async def stop(self, grace_seconds: float) -> None:
        self.graces.append(grace_seconds)
        self.stopped.set()


@virtually
async def test_a_process_that_lost_its_lease_exits_promptly() -> None:
    """Other parts get a grace period of two seconds instead of the usual ten."""
    for lost, graces in ((True, [2.0]), (False, [10.0])):
        server = MemoryServer()
        one, service, stop = Program(server, "one"), Service(), asyncio.Event()
        manager = Manager(clock=CLOCK, services=[service], gate=one.elector)
        loop = asyncio.get_running_loop()
        if lost:
            taken_away = Lease(metadata=ObjectMeta(name="endpointd", namespace="kube-system"))
            loop.call_later(5.0, server.update_foreign, LEASES, taken_away)
            with pytest.raises(PartFailedError, match="held by no one now"):
                await manager.run(stop)
        else:
            loop.call_later(5.0, stop.set)
            await manager.run(stop)
        assert service.graces == graces


@virtually
async def test_on_a_normal_stop_controllers_finish_before_the_lease_is_released() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    writer = Writer(one)
    stop = asyncio.Event()
    asyncio.get_running_loop().call_at(5.1, stop.set)
    await manager_of(one, writer).run(stop)
    assert held_by(server) == ""
    verbs = [(call.plural, call.verb) for call in server.calls]
    assert verbs[-2:] == [("leases", "get"), ("leases", "update")]


@virtually
async def test_writes_of_two_programs_never_overlap_when_leadership_changes() -> None:
    """One is partitioned, and its clock is five per cent slow; the other takes over."""
    server = MemoryServer()
    programs = [Program(server, "one", drift=0.95), Program(server, "two")]
    writers = [Writer(program) for program in programs]
    cut_off = False

    async def through_the_network(call: Call) -> None:
        body = call.body
        name = body.spec.holder if isinstance(body, Lease) else str(call.key.name)
        if cut_off and name.startswith("one"):
            await asyncio.sleep(1000.0)

    server.before_each = through_the_network
    stop = asyncio.Event()

    async def first() -> None:
        with pytest.raises(PartFailedError):
            await manager_of(programs[0], writers[0]).run(asyncio.Event())

    async def second() -> None:
        await asyncio.sleep(1.0)
        await manager_of(programs[1], writers[1]).run(stop)

    async with asyncio.TaskGroup() as group:
        group.create_task(first(), name="first")
        group.create_task(second(), name="second")
        await asyncio.sleep(20.1)
        cut_off = True
        await asyncio.sleep(25.0)
        stop.set()
    assert writers[0].written[-1] <= 20.1
    assert 20.1 + 13.0 < writers[1].written[0] < 20.1 + 18.0


# ---------------------------------------------------------------------------------------- rules and settings


@pytest.mark.parametrize(
    ("times", "which"),
    [
        ((15.0, 10.0, 2.0), None),
        ((4.0, 3.0, 1.0), None),
        ((10.0, 10.0, 2.0), "lease"),
        ((10.9, 10.5, 2.0), "lease"),
        ((15.0, 2.4, 2.0), "renew-deadline"),
        ((15.0, 0.0, 2.0), "renew-deadline"),
        ((15.0, 10.0, 0.0), "retry"),
        ((0.0, 0.0, 0.0), "retry"),
    ],
)
def test_inconsistent_lease_durations_are_rejected(
    times: tuple[float, float, float], which: str | None
) -> None:
    problem = check(*times)
    assert (problem[0] if problem else None) == which


def test_an_elector_with_inconsistent_durations_is_rejected() -> None:
    def make(rules: Rules) -> Callable[[], LeaderElector]:
        return lambda: LeaderElector(
            MemoryServer(), KEY, rules, fence=Fence(), clock=CLOCK, rng=random.Random(0)
        )

    with pytest.raises(ValueError, match="10s is not greater than the renew deadline of 10s"):
        make(Rules(identity="x", lease_seconds=10.0))()
    with pytest.raises(ValueError, match="identity"):
        make(Rules(identity=""))()


def test_the_request_timeout_is_half_the_renew_deadline_and_at_least_a_second() -> None:
    assert request_seconds(Rules(identity="x")) == 5.0
    assert request_seconds(Rules(identity="x", renew_deadline_seconds=1.5)) == 1.0


@virtually
async def test_leader_election_metrics_match_client_go() -> None:
    server = MemoryServer()
    one = Program(server, "one")
    assert b'leader_election_master_status{name="endpointd"} 0' in exposition(one.elector.families())
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(), name="one")
        await one.elector.wait_ready()
        text = exposition(one.elector.families())
        assert b'leader_election_master_status{name="endpointd"} 1' in text
        assert b'leader_election_slowpath_total{name="endpointd"} 0' in text
        assert one.elector.statistics().left_seconds == 10.0
        await one.elector.stop(10.0)
    assert b'leader_election_master_status{name="endpointd"} 0' in exposition(one.elector.families())
