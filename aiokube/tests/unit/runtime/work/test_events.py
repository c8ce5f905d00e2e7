"""The Event writer with a server that sometimes refuses Events, in virtual time."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.unit.runtime.work.virtual import now, settle, virtually

from aiokube.api.core import SERVICES
from aiokube.api.events import EVENTS, Event
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.api.status import NAMESPACE_TERMINATING, Status, StatusCause, StatusDetails
from aiokube.client.errors import ApiError, ConnectionFailedError, api_error
from aiokube.clock import SystemClock
from aiokube.runtime.events import EventStatistics, EventWriter, reference

SERVICE = ObjectReference(kind="Service", api_version="v1", namespace="shop", name="cart", uid="uid-1")


def refusal(code: int, reason: str, *causes: str) -> ApiError:
    details = StatusDetails(causes=tuple(StatusCause(reason=cause) for cause in causes))
    return api_error(Status(code=code, reason=reason, message=f"no: {reason}", details=details))


UNREACHABLE = ConnectionFailedError("127.0.0.1:6443 refused the connection")
BROKEN = refusal(500, "InternalError")


class Server:
    """Stores Events, and fails on request."""

    def __init__(self) -> None:
        self.events: dict[ObjectKey, Event] = {}
        self.failures: list[Exception] = []
        self.calls: list[tuple[float, str]] = []
        self.takes_seconds = 0.0

    async def create(self, event: Event) -> None:
        await self._answer("create")
        self.events[event.metadata.key] = event

    async def patch(self, key: ObjectKey, patch: bytes) -> None:
        await self._answer("patch")
        if key not in self.events:
            raise refusal(404, "NotFound")
        changes = msgspec.json.decode(patch)
        self.events[key] = msgspec.structs.replace(
            self.events[key],
            count=changes["count"],
            last_timestamp=changes["lastTimestamp"],
            message=changes["message"],
        )

    async def _answer(self, verb: str) -> None:
        self.calls.append((now(), verb))
        await asyncio.sleep(self.takes_seconds)
        if self.failures:
            raise self.failures.pop(0)


@asynccontextmanager
async def writing(server: Server, capacity: int = 1000) -> AsyncIterator[EventWriter]:
    writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1), capacity=capacity)
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        yield writer
        await writer.stop(0.0)


def tell(writer: EventWriter, message: str = "it broke", reason: str = "Broken") -> None:
    writer.recorder("test-controller").event(SERVICE, "Warning", reason, message)


@virtually
async def test_events_are_written_in_recording_order() -> None:
    server = Server()
    async with writing(server) as writer:
        for message in ("one", "two", "three"):
            tell(writer, message)
        await settle()
        assert [event.message for event in server.events.values()] == ["one", "two", "three"]
        (first, *_) = server.events.values()
        assert first.source is not None
        assert first.source.component == "test-controller"
        assert writer.statistics().written == 3


@virtually
async def test_recording_an_event_neither_waits_nor_writes() -> None:
    server = Server()
    writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1))
    tell(writer)
    assert server.calls == []
    assert writer.statistics().buffered == 1


@virtually
async def test_a_repeated_event_becomes_a_patch_of_the_count() -> None:
    server = Server()
    async with writing(server) as writer:
        for _ in range(3):
            tell(writer)
            await asyncio.sleep(1.0)
    (event,) = server.events.values()
    assert event.count == 3
    assert [verb for _, verb in server.calls] == ["create", "patch", "patch"]


@virtually
async def test_an_expired_event_is_recreated_with_its_count() -> None:
    server = Server()
    async with writing(server) as writer:
        tell(writer)
        await settle()
        server.events.clear()
        tell(writer)
        await settle()
    (event,) = server.events.values()
    assert event.count == 2
    assert [verb for _, verb in server.calls] == ["create", "patch", "create"]


@pytest.mark.parametrize("failure", [UNREACHABLE, BROKEN, refusal(429, "TooManyRequests")])
def test_temporary_failures_are_retried_every_ten_seconds_and_the_first_time_earlier(
    failure: Exception,
) -> None:
    @virtually
    async def run() -> None:
        server = Server()
        server.failures = [failure] * 4
        async with writing(server) as writer:
            tell(writer)
            await asyncio.sleep(100.0)
        times = [when for when, _ in server.calls]
        assert 0.0 < times[1] < 10.0
        assert [when - times[1] for when in times[1:]] == pytest.approx([0, 10, 20, 30])
        assert len(server.events) == 1

    run()


def test_an_event_is_dropped_after_twelve_attempts_and_the_next_one_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @virtually
    async def run() -> None:
        server = Server()
        server.failures = [UNREACHABLE] * 12
        async with writing(server) as writer:
            tell(writer, "lost")
            tell(writer, "kept")
            await asyncio.sleep(1000.0)
            assert writer.statistics() == EventStatistics(
                buffered=0, written=1, quiet=0, overflowed=0, refused=0, failed=1
            )
        assert [event.message for event in server.events.values()] == ["kept"]
        assert len(server.calls) == 13

    with caplog.at_level(logging.WARNING):
        run()
    first, last = caplog.records
    assert (first.levelno, last.levelno) == (logging.WARNING, logging.ERROR)
    assert last.getMessage() == (
        "event not written: about=Service shop/cart reason=Broken attempt=12 of=12 "
        "error=127.0.0.1:6443 refused the connection"
    )


@pytest.mark.parametrize(
    ("failure", "level"),
    [
        (refusal(403, "Forbidden"), logging.WARNING),
        (refusal(422, "Invalid"), logging.WARNING),
        (refusal(403, "Forbidden", NAMESPACE_TERMINATING), logging.DEBUG),
        (refusal(409, "AlreadyExists"), logging.DEBUG),
    ],
)
def test_rejected_events_are_not_retried(
    failure: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    @virtually
    async def run() -> None:
        server = Server()
        server.failures = [failure]
        async with writing(server) as writer:
            tell(writer)
            await asyncio.sleep(1000.0)
            assert writer.statistics().refused == 1
        assert len(server.calls) == 1

    with caplog.at_level(logging.DEBUG, logger="aiokube"):
        run()
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith("event refused: about=Service shop/cart reason=Broken error=no: ")


@virtually
async def test_the_oldest_event_is_dropped_when_the_buffer_is_full() -> None:
    server = Server()
    server.takes_seconds = 5.0
    async with writing(server, capacity=3) as writer:
        tell(writer, "under way")
        await settle()
        for number in range(5):
            tell(writer, f"message {number}")
        assert writer.statistics().overflowed == 2
        await asyncio.sleep(100.0)
    assert [event.message for event in server.events.values()] == [
        "under way",
        "message 2",
        "message 3",
        "message 4",
    ]


@virtually
async def test_too_many_events_of_one_object_are_suppressed() -> None:
    server = Server()
    async with writing(server) as writer:
        for number in range(40):
            tell(writer, reason=f"Reason{number}")
        await asyncio.sleep(1.0)
        assert writer.statistics() == EventStatistics(
            buffered=0, written=25, quiet=15, overflowed=0, refused=0, failed=0
        )


@virtually
async def test_buffered_events_are_written_on_stop() -> None:
    server = Server()
    server.takes_seconds = 1.0
    writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1))
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        for number in range(3):
            tell(writer, f"message {number}")
        await settle()
        await writer.stop(10.0)
    assert now() == 3.0
    assert len(server.events) == 3


@virtually
async def test_failing_events_are_attempted_only_once_more_on_stop() -> None:
    server = Server()
    server.failures = [UNREACHABLE] * 100
    writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1))
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        tell(writer, "one")
        tell(writer, "two")
        await asyncio.sleep(30.0)
        tries = len(server.calls)
        await writer.stop(10.0)
    assert now() == 30.0
    assert len(server.calls) == tries + 2
    assert writer.statistics().failed == 2


def test_events_not_written_within_the_grace_period_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @virtually
    async def run() -> None:
        server = Server()
        server.takes_seconds = 4.0
        writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1))
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run())
            for number in range(5):
                tell(writer, f"message {number}")
            await settle()
            await writer.stop(10.0)
        assert now() == 10.0
        assert writer.statistics() == EventStatistics(
            buffered=0, written=2, quiet=0, overflowed=0, refused=0, failed=3
        )

    run()
    (record,) = caplog.records
    assert record.getMessage() == "events not written before the end: count=3"


@virtually
async def test_a_writer_stopped_before_it_ran_still_writes_buffered_events() -> None:
    server = Server()
    writer = EventWriter(server, clock=SystemClock(), rng=random.Random(1))
    tell(writer)
    await writer.stop(5.0)
    await writer.run()
    assert len(server.events) == 1


@virtually
async def test_stopping_twice_is_harmless() -> None:
    server = Server()
    async with writing(server) as writer:
        await writer.stop(5.0)
        await writer.stop(5.0)
        await settle()
        await writer.stop(5.0)


def test_an_event_that_cannot_be_encoded_does_not_stop_the_writer(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def run() -> None:
        server = Server()
        async with writing(server) as writer:
            tell(writer, "once")
            tell(writer, "a lone surrogate: \ud800")
            tell(writer, "a lone surrogate: \ud800")  # its patch is encoded here
            tell(writer, "twice")
            await settle()
            assert writer.statistics().failed == 1
            assert [event.message for event in server.events.values()][-1] == "twice"

    run()
    (record,) = caplog.records
    assert record.getMessage() == "event dropped, writing it failed: reason=Broken"


def test_an_event_of_an_unknown_type_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def run() -> None:
        writer = EventWriter(Server(), clock=SystemClock(), rng=random.Random(1))
        writer.recorder("test").event(SERVICE, "Error", "Broken", "it broke")  # type: ignore[arg-type]
        assert writer.statistics().buffered == 0

    run()
    assert "type=Error reason=Broken" in caplog.text


def test_an_object_reference_contains_all_identifying_fields() -> None:
    service = SERVICES.decode(
        b'{"metadata":{"name":"cart","namespace":"shop","uid":"uid-1","resourceVersion":"7"},"spec":{}}'
    )
    assert reference(SERVICES, service) == ObjectReference(
        kind="Service", api_version="v1", namespace="shop", name="cart", uid="uid-1", resource_version="7"
    )


def test_an_event_round_trips_with_all_its_fields() -> None:
    event = EVENTS.decode(
        msgspec.json.encode(
            {
                "metadata": {"name": "a.1", "namespace": "b"},
                "involvedObject": {"kind": "Pod", "fieldPath": "spec.containers{c}"},
                "eventTime": "2026-01-01T00:00:00.000001Z",
                "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000002Z"},
                "action": "Binding",
                "related": {"kind": "Node", "name": "n"},
                "reportingComponent": "scheduler",
                "reportingInstance": "scheduler-1",
                "source": {"component": "x", "host": "y"},
                "firstTimestamp": None,
            }
        )
    )
    assert EVENTS.decode(msgspec.json.encode(event)) == event
    assert event.related == ObjectReference(kind="Node", name="n")


@virtually
async def test_one_namespace_cannot_displace_the_events_of_another() -> None:
    server = Server()
    server.takes_seconds = 1.0
    async with writing(server, capacity=10) as writer:
        recorder = writer.recorder("test-controller")
        for number in range(100):
            noisy = msgspec.structs.replace(SERVICE, namespace="noisy", name=f"s{number}", uid=f"n{number}")
            recorder.event(noisy, "Warning", "Broken", "it broke")
            if number == 50:
                recorder.event(SERVICE, "Warning", "Broken", "it broke")
        await asyncio.sleep(3.0)
        assert [event.metadata.namespace for event in server.events.values()][:3].count("shop") == 1
        await asyncio.sleep(100.0)
    names = [event.involved_object.name for event in server.events.values()]
    assert "cart" in names
    assert names[-1] == "s99"


@virtually
async def test_thousands_of_failing_objects_in_a_namespace_write_a_bounded_number_of_events() -> None:
    server = Server()
    async with writing(server, capacity=100_000) as writer:
        recorder = writer.recorder("test-controller")
        for number in range(5_000):
            noisy = msgspec.structs.replace(SERVICE, namespace="noisy", name=f"s{number}", uid=f"n{number}")
            recorder.event(noisy, "Warning", "Broken", "it broke")
        recorder.event(SERVICE, "Warning", "Broken", "it broke")
        await asyncio.sleep(10.0)
        assert writer.statistics().written == 1_000 + 1
