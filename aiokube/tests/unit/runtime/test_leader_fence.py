"""The fence: late and in-progress writes are stopped."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from tests.unit.client.support import client_of, failure, json_response, running_server
from tests.unit.runtime.work.virtual import virtually

from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.status import Status
from aiokube.client.errors import ConflictError, RequestTimedOutError, api_error
from aiokube.client.guard import GuardedBody
from aiokube.runtime.errors import is_expected
from aiokube.runtime.leader_election_fence import Fence, FencedError, FencedWriter
from aiokube.runtime.writer import Writer
from aiokube.testing.memory_server import Call, MemoryServer
from aiokube.testing.virtual_time import FakeClock, ManualClock, VirtualTimeLoop

KEY = ObjectKey("default", "web")
BODY = Endpoints(metadata=ObjectMeta(name="web", namespace="default"))
STORED = '{"metadata":{"name":"web","namespace":"default","resourceVersion":"7"}}'


def fence_until(moment: float) -> Fence:
    fence = Fence(clock=FakeClock().monotonic)
    fence.open_until(moment)
    return fence


def verbs(writer: Writer) -> list[Callable[[], Any]]:
    return [
        lambda: writer.create(ENDPOINTS, BODY, namespace="default"),
        lambda: writer.update(ENDPOINTS, BODY, key=KEY),
        lambda: writer.delete(ENDPOINTS, KEY),
    ]


@virtually
async def test_a_new_fence_rejects_writes_until_it_is_opened() -> None:
    server = MemoryServer()
    fence = Fence(clock=FakeClock().monotonic)
    for verb in verbs(FencedWriter(server, fence)):
        with pytest.raises(FencedError):
            await verb()
    assert server.calls == []
    assert fence.statistics().refused == 3


@virtually
async def test_an_open_fence_passes_writes_through_unchanged() -> None:
    server = MemoryServer()
    writer = FencedWriter(server, fence_until(10.0))
    stored = await writer.create(ENDPOINTS, BODY, namespace="default")
    stored = await writer.update(ENDPOINTS, stored, key=KEY)
    assert await writer.get(ENDPOINTS, KEY) == stored
    await writer.delete(ENDPOINTS, KEY, uid=stored.metadata.uid)
    assert [call.verb for call in server.calls] == ["create", "update", "get", "delete"]
    with pytest.raises(Exception, match="not found"):
        await writer.update(ENDPOINTS, stored, key=KEY)


@virtually
async def test_reads_pass_a_closed_fence() -> None:
    server = MemoryServer()
    server.create_foreign(ENDPOINTS, BODY)
    await FencedWriter(server, Fence(clock=FakeClock().monotonic)).get(ENDPOINTS, KEY)


@virtually
async def test_the_first_write_after_a_pause_is_rejected_before_any_timer_runs() -> None:
    """SIGSTOP, a minute, SIGCONT: a worker that was about to write is the first to run."""
    server = MemoryServer()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    fence = fence_until(10.0)
    writer = FencedWriter(server, fence)
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()
        assert not fence.statistics().is_open
        with pytest.raises(FencedError):
            await writer.create(ENDPOINTS, BODY, namespace="default")

    async with asyncio.TaskGroup() as group:
        group.create_task(work(), name="worker")
        await asyncio.sleep(1.0)
        go.set()  # the worker is ready to run, in the loop's next turn,
        loop.jump(60.0)  # and the process is stopped before it
    assert server.calls == []


@virtually
async def test_time_during_a_machine_suspend_counts_towards_the_deadline() -> None:
    """The machine was suspended: no time has passed for the loop."""
    slept = 0.0
    fence = Fence(clock=lambda: asyncio.get_running_loop().time() + slept)
    fence.open_until(10.0)
    fence.check()
    slept = 30.0
    with pytest.raises(FencedError):
        fence.check()
    fence.open_until(35.0)  # not closed by a timer yet: a timely renewal opens it
    fence.check()


@virtually
async def test_a_write_in_progress_is_cancelled_at_the_deadline() -> None:
    server = MemoryServer()
    fence = fence_until(10.0)

    async def hang(call: Call) -> None:
        await asyncio.sleep(60.0)

    server.before_each = hang
    for verb in verbs(FencedWriter(server, fence))[:1]:
        with pytest.raises(FencedError, match="cancelled: the lease expired"):
            await verb()
    assert asyncio.get_running_loop().time() == 10.0
    assert not server.objects(ENDPOINTS)
    assert fence.statistics().cut == 1


@virtually
async def test_a_renewal_extends_the_deadline_of_writes_in_progress() -> None:
    server = MemoryServer()
    fence = fence_until(10.0)

    async def slow(call: Call) -> None:
        await asyncio.sleep(15.0)

    server.before_each = slow
    asyncio.get_running_loop().call_at(8.0, fence.open_until, 18.0)
    await FencedWriter(server, fence).create(ENDPOINTS, BODY, namespace="default")
    assert asyncio.get_running_loop().time() == 15.0


@virtually
async def test_a_closed_fence_stays_closed() -> None:
    server = MemoryServer()
    fence = fence_until(10.0)
    begun = asyncio.Event()

    async def hang(call: Call) -> None:
        begun.set()
        await asyncio.sleep(60.0)

    server.before_each = hang

    async def write() -> None:
        with pytest.raises(FencedError):
            await FencedWriter(server, fence).create(ENDPOINTS, BODY, namespace="default")
        assert asyncio.get_running_loop().time() == 3.0

    async with asyncio.TaskGroup() as group:
        group.create_task(write(), name="writer")
        await begun.wait()
        await asyncio.sleep(3.0)
        fence.close()
        fence.close()
    fence.open_until(100.0)
    assert not fence.is_open


@virtually
async def test_closing_twice_while_a_cancelled_write_unwinds_is_harmless() -> None:
    """Its timer has cancelled it, and its clean-up takes longer than the elector needs to notice."""
    fence = fence_until(10.0)

    async def write() -> None:
        async with fence.passing():
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(5)  # a connection that is closed gracefully

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(is_cut_off(write()))
        await asyncio.sleep(12)
        assert fence.statistics().under_way == 1
        fence.close()
        fence.close()
    assert writing.result()
    assert fence.statistics().cut == 1


async def is_cut_off(writing: Any) -> bool:
    with pytest.raises(FencedError):
        await writing
    return True


@virtually
async def test_unconfirmed_writes_are_remembered_as_long_as_they_may_still_arrive() -> None:
    server = MemoryServer()
    fence = fence_until(100.0)
    writer = FencedWriter(server, fence)
    assert fence.is_settled(15.0)
    server.fail_next(api_error(Status(code=409, reason="Conflict")))
    with pytest.raises(ConflictError):
        await writer.delete(ENDPOINTS, KEY)
    assert fence.is_settled(15.0)  # a refusal is a response
    server.fail_next(RequestTimedOutError("no answer"))
    with pytest.raises(RequestTimedOutError):
        await writer.create(ENDPOINTS, BODY, namespace="default")
    assert not fence.is_settled(15.0)
    await asyncio.sleep(15.0)
    assert fence.is_settled(15.0)


@virtually
async def test_cancelling_a_write_leaves_it_unconfirmed() -> None:
    server = MemoryServer()
    fence = fence_until(100.0)

    async def hang(call: Call) -> None:
        await asyncio.sleep(60.0)

    server.before_each = hang
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await FencedWriter(server, fence).create(ENDPOINTS, BODY, namespace="default")
    assert not fence.is_settled(15.0)
    assert fence.statistics().under_way == 0


def test_a_fenced_error_is_logged_without_traceback() -> None:
    assert is_expected(FencedError("x"))


# ---------------------------------------------------------------------------------- with bytes, on a real
# server


async def test_a_throttled_write_is_not_retried_after_the_deadline() -> None:
    clock = ManualClock()
    fence = Fence(clock=clock.monotonic)
    async with running_server() as server, client_of(server, clock) as client:
        server.script(failure(429, "TooManyRequests", "busy", {"Retry-After": "5"}))
        fence.open_until(clock.now + 3.0)
        writer = FencedWriter(client.guarded(fence.check), fence)
        with pytest.raises(FencedError):
            await writer.create(ENDPOINTS, BODY, namespace="default")
        assert clock.slept == [5.0]
        assert len(server.seen) == 1


@pytest.mark.parametrize("size", [10, 700_000])
async def test_the_guard_is_checked_when_the_body_is_written_to_the_socket(size: int) -> None:
    """The connection is being set up when time runs out: no bytes are sent."""
    looks = 0

    def pass_first_check() -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            raise FencedError("too late")

    body = Endpoints(metadata=ObjectMeta(name="web", annotations={"a": "x" * size}))
    async with running_server() as server, client_of(server, ManualClock()) as client:
        guarded = client.guarded(pass_first_check)
        with pytest.raises(FencedError, match="too late"):
            await guarded.update(ENDPOINTS, body, key=KEY)
        assert server.seen == []
        assert looks == 2
        server.script(json_response(STORED))
        await client.update(ENDPOINTS, body, key=KEY)
        assert [seen.method for seen in server.seen] == ["PUT"]


@pytest.mark.parametrize("size", [10, 700_000])
async def test_a_request_accepted_by_the_guard_is_sent_unchanged(size: int) -> None:
    body = Endpoints(metadata=ObjectMeta(name="web", annotations={"a": "x" * size}))
    looks: list[int] = []
    async with running_server() as server, client_of(server, ManualClock()) as client:
        server.script(json_response(STORED))
        guarded = client.guarded(lambda: looks.append(1))
        await guarded.create(ENDPOINTS, body, namespace="default")
        await client.create(ENDPOINTS, body, namespace="default")
        assert server.seen[0].body == server.seen[1].body
        assert server.seen[0].headers["Content-Type"] == "application/json"
        before = len(looks)
        await guarded.delete(ENDPOINTS, KEY)
        await guarded.patch(ENDPOINTS, KEY, b"{}", patch_type="application/merge-patch+json")
        assert len(looks) == before + 4
        await guarded.get(ENDPOINTS, KEY)
        assert len(looks) == before + 4


async def test_a_guard_that_rejects_in_mid_body_leaves_the_request_incomplete() -> None:
    handled = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        handled.set()
        return json_response(STORED)

    looks = 0

    def pass_four_checks() -> None:
        nonlocal looks
        looks += 1
        if looks > 4:
            raise FencedError("too late")

    body = Endpoints(metadata=ObjectMeta(name="web", annotations={"a": "x" * 2_000_000}))
    async with running_server() as server, client_of(server, ManualClock()) as client:
        server.answer = answer
        with pytest.raises(FencedError):
            await client.guarded(pass_four_checks).update(ENDPOINTS, body, key=KEY)
        assert not handled.is_set()


def test_a_guarded_body_is_checked_for_every_chunk_but_not_for_the_end() -> None:
    looks: list[int] = []
    body = GuardedBody(b"abcdef", lambda: looks.append(1))
    assert [body.read(4), body.read(4), body.read(4)] == [b"abcd", b"ef", b""]
    assert len(looks) == 2
