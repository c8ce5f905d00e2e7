"""The benchmark's own watch resumes after a disconnect."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.api.status import Status
from aiokube.client.errors import ForbiddenError, ResponseTruncatedError
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle
from benchmarks.control_watch import ControlWatch, ObserverError
from benchmarks.published import ObservedEndpoints


def named(name: str) -> ObservedEndpoints:
    return ObservedEndpoints(NarrowMeta(name=name, namespace="bench-0"))


def key(name: str) -> ObjectKey:
    return ObjectKey("bench-0", name)


class World:
    """A watch on a fake source, with everything it delivered."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.source: FakeSource[ObservedEndpoints] = FakeSource()
        self.told: list[tuple[float, str, str]] = []
        self.watch = ControlWatch(self.source, "Endpoints", self._take, self.clock)

    def _take(self, events: Sequence[WatchEvent[ObservedEndpoints]], now: float) -> None:
        self.told += [(now, event.type, event.item.metadata.name) for event in events]

    @property
    def last_version(self) -> str | None:
        """Resource version at which the last watch started."""
        return self.source.watches[-1].resource_version

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.watch.run(), name="watch")
            await self.watch.started.wait()
            yield
            task.cancel()


async def test_existing_and_new_objects_are_reported_once_in_order() -> None:
    world = World()
    world.source.create(named("a"))
    async with world.running():
        await world.clock.sleep(1.0)
        world.source.create(named("b"))
        await settle()
        world.source.modify(named("a"))
        world.source.delete(key("b"))
        await settle()
    assert [(round(at, 3), *what) for at, *what in world.told] == [
        (0.0, "ADDED", "a"),
        (1.0, "ADDED", "b"),
        (1.0, "MODIFIED", "a"),
        (1.0, "DELETED", "b"),
    ]
    assert world.watch.restarts == 0


async def test_an_error_event_restarts_the_watch_like_a_broken_connection() -> None:
    world = World()
    async with world.running():
        world.source.inject(WatchError(Status(code=500, message="etcdserver: no leader")))
        world.source.end_watches()
        world.source.create(named("a"))
        await world.clock.sleep(1.0)
    assert [told[1:] for told in world.told] == [("ADDED", "a")]
    assert world.watch.restarts == 1


async def test_a_watch_that_ended_resumes_after_its_last_event_without_duplicates() -> None:
    world = World()
    async with world.running():
        world.source.create(named("a"))
        await settle()
        seen = str(world.source.version)
        world.source.end_watches()
        world.source.create(named("b"))
        await settle()
        assert world.last_version == seen
    assert [told[1:] for told in world.told] == [("ADDED", "a"), ("ADDED", "b")]
    assert world.watch.restarts == 1
    assert len(world.source.lists) == 1


async def test_a_broken_connection_restarts_the_watch() -> None:
    world = World()
    async with world.running():
        world.source.create(named("a"))
        await settle()
        world.source.break_watches()
        world.source.fail_next(ResponseTruncatedError("again"), on="watch")
        world.source.create(named("b"))
        await world.clock.sleep(1.0)
    assert [told[1:] for told in world.told] == [("ADDED", "a"), ("ADDED", "b")]
    assert world.watch.restarts == 2


async def test_a_watch_resumes_after_a_bookmark_like_after_an_event() -> None:
    world = World()
    async with world.running():
        world.source.create(named("a"))
        await settle()
        world.source.inject(Bookmark("999"))
        await settle()
        world.source.end_watches()
        await settle()
        assert world.last_version == "999"


@pytest.mark.parametrize("in_stream", [True, False])
async def test_an_expired_version_is_followed_by_a_relist_that_reports_the_differences(
    in_stream: bool,
) -> None:
    world = World()
    world.source.says_expired_in_stream = in_stream
    for name in ("kept", "changed", "gone"):
        world.source.create(named(name))
    async with world.running():
        world.told.clear()
        world.source.end_watches()
        world.source.modify(named("changed"))
        world.source.modify(named("changed"))
        world.source.delete(key("gone"))
        world.source.create(named("new"))
        world.source.compact()
        await world.clock.sleep(1.0)
        assert sorted(told[1:] for told in world.told) == [
            ("ADDED", "new"),
            ("DELETED", "gone"),
            ("MODIFIED", "changed"),
        ]
        assert len(world.source.lists) == 2
        world.source.modify(named("new"))
        await settle()
        assert world.told[-1][1:] == ("MODIFIED", "new")
    assert world.watch.restarts == 2


async def test_a_relist_does_not_report_a_deletion_that_the_watch_reported() -> None:
    world = World()
    world.source.create(named("a"))
    async with world.running():
        world.source.delete(key("a"))
        await settle()
        world.told.clear()
        world.source.end_watches()
        world.source.create(named("b"))
        world.source.compact()
        await world.clock.sleep(1.0)
    assert [told[1:] for told in world.told] == [("ADDED", "b")]


async def cut_off_for_ever(world: World) -> None:
    async with world.running():
        world.source.break_watches()
        world.source.fail_next(*[ResponseTruncatedError("the connection was reset")] * 20, on="watch")
        await world.clock.sleep(60.0)


async def test_a_watch_that_is_repeatedly_cut_off_is_abandoned() -> None:
    world = World()
    with pytest.raises(ExceptionGroup) as caught:
        await cut_off_for_ever(world)
    message = "own watch of Endpoints was cut off 10 times in a row, at last because the connection was reset"
    assert caught.group_contains(ObserverError, match=message)
    assert world.clock.monotonic() > 2.0  # with pauses, as the server may be restarting


async def test_a_watch_that_is_occasionally_cut_off_is_never_abandoned() -> None:
    world = World()
    async with world.running():
        for number in range(30):
            world.source.create(named(f"n{number}"))
            await settle()
            world.source.end_watches()
            await world.clock.sleep(1.0)
    assert world.watch.restarts == 30
    assert len(world.told) == 30


async def be_forbidden(world: World) -> None:
    async with world.running():
        world.source.fail_next(ForbiddenError(Status(code=403, message="not for you")), on="watch")
        world.source.end_watches()
        await world.clock.sleep(60.0)


async def test_an_unrecoverable_error_is_raised_immediately() -> None:
    world = World()
    with pytest.raises(ExceptionGroup) as caught:
        await be_forbidden(world)
    assert caught.group_contains(ForbiddenError, match="not for you")
    assert len(world.source.watches) == 2
