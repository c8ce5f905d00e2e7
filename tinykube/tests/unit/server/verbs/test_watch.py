"""Watch: start, selectors, bookmarks and end, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, config_map, refusal

from aiokube.clock import SystemClock
from aiokube.testing.virtual_time import run_virtual
from tinykube.server.storage.model import StorageSettings
from tinykube.server.verbs.watch import Bookmark, Event, Failure, Watch


def in_virtual_time(story: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with a_world(clock=SystemClock(), **settings) as world:
            await story(world)

    run_virtual(main())


async def opened(world: World, **options: Any) -> Watch:
    watch = await world.watch(**options)
    assert isinstance(watch, Watch)
    return watch


async def next_events(watch: Watch) -> list[tuple[str, str, str] | str]:
    """Return a batch as (type, name, revision), bookmarks as text."""
    return [readable(item) for item in await watch.next_batch()]


def readable(item: Event | Bookmark | Failure) -> Any:
    if isinstance(item, Event):
        return (item.type, item.stored.key.name, str(item.revision))
    if isinstance(item, Bookmark):
        return f"{'end' if item.ends_initial else 'bookmark'} {item.revision}"
    return item.status.code


def test_a_watch_without_a_version_starts_with_all_objects_and_an_end_bookmark() -> None:
    async def story(world: World) -> None:
        a = (await world.create(config_map("a"))).decode()["metadata"]["resourceVersion"]
        b = (await world.create(config_map("b"))).decode()["metadata"]["resourceVersion"]
        for version in ("", "0"):
            watch = await opened(world, resource_version=version, allow_bookmarks=True)
            assert await next_events(watch) == [("ADDED", "a", a), ("ADDED", "b", b), f"end {b}"]
        watch = await opened(world, resource_version="0")
        assert await next_events(watch) == [("ADDED", "a", a), ("ADDED", "b", b)]

    in_virtual_time(story)


def test_a_watch_from_a_version_delivers_later_events_once_in_order() -> None:
    async def story(world: World) -> None:
        begin = (await world.create(config_map("a"))).decode()["metadata"]["resourceVersion"]
        await world.update("a", config_map("a", {"x": "1"}))
        watch = await opened(world, resource_version=begin)
        await world.delete("a")
        events = await next_events(watch)
        while len(events) < 2:
            events += await next_events(watch)
        first = int(begin)
        assert events == [("MODIFIED", "a", str(first + 1)), ("DELETED", "a", str(first + 2))]

    in_virtual_time(story)


def test_initial_events_end_with_a_bookmark_even_if_nothing_matches() -> None:
    async def story(world: World) -> None:
        current = world.backend.storage.revision
        watch = await opened(
            world,
            send_initial_events=True,
            resource_version_match="NotOlderThan",
            allow_bookmarks=True,
            label_selector="a=b",
        )
        assert await next_events(watch) == [f"end {current}"]

    in_virtual_time(story)


def test_a_watch_without_initial_events_starts_now() -> None:
    async def story(world: World) -> None:
        await world.create(config_map("a"))
        watch = await opened(world, send_initial_events=False, resource_version_match="NotOlderThan")
        await world.create(config_map("b"))
        assert [event[1] for event in await next_events(watch)] == ["b"]

    in_virtual_time(story)


def test_objects_that_start_matching_are_added_and_those_that_stop_are_deleted() -> None:
    async def story(world: World) -> None:
        await world.create(config_map("a", {"x": "hidden"}))
        watch = await opened(
            world, resource_version=str(world.backend.storage.revision), label_selector="l=v"
        )
        await world.update("a", config_map("a", {"x": "1"}, labels={"l": "v"}))
        assert [event[0] for event in await next_events(watch)] == ["ADDED"]
        await world.update("a", config_map("a", {"x": "2"}, labels={"l": "v"}))
        assert [event[0] for event in await next_events(watch)] == ["MODIFIED"]
        after = await world.update("a", config_map("a", {"x": "3"}))
        (event,) = await watch.next_batch()
        assert isinstance(event, Event)
        assert event.type == "DELETED"
        assert event.stored.decode()["data"] == {"x": "2"}
        assert str(event.revision) == after.decode()["metadata"]["resourceVersion"]

    in_virtual_time(story)


def test_objects_that_never_matched_cause_no_event() -> None:
    async def story(world: World) -> None:
        watch = await opened(
            world, resource_version=str(world.backend.storage.revision), label_selector="l=v"
        )
        await world.create(config_map("a"))
        await world.update("a", config_map("a", {"x": "1"}))
        await world.delete("a")
        await world.create(config_map("b", labels={"l": "v"}))
        assert [event[:2] for event in await next_events(watch)] == [("ADDED", "b")]

    in_virtual_time(story)


def test_a_compacted_version_causes_an_error_event() -> None:
    async def story(world: World) -> None:
        begin = str(world.backend.storage.revision)
        for number in range(10):
            await world.create(config_map(f"c{number}"))
        failure = await world.watch(resource_version=begin)
        assert isinstance(failure, Failure)
        assert (failure.status.code, failure.status.reason) == (410, "Expired")
        assert failure.status.message.startswith(f"too old resource version: {begin} (")

    in_virtual_time(story, settings=StorageSettings(history_changes=4))


def test_a_watch_from_a_future_version_is_silent_until_it_is_reached() -> None:
    async def story(world: World) -> None:
        future = world.backend.storage.revision + 2
        watch = await opened(world, resource_version=str(future))
        for name in "abc":
            await world.create(config_map(name))
        assert [event[1] for event in await next_events(watch)] == ["c"]

    in_virtual_time(story)


def test_a_watch_list_of_an_unreached_version_is_an_error_event() -> None:
    async def story(world: World) -> None:
        failure = await world.watch(
            resource_version="99999", resource_version_match="NotOlderThan", send_initial_events=True
        )
        assert isinstance(failure, Failure)
        assert failure.status.code == 504

    in_virtual_time(story)


def test_bookmarks_are_sent_every_minute_and_shortly_before_the_end() -> None:
    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        revision = str(world.backend.storage.revision)
        begun = loop.time()
        watch = await opened(world, resource_version=revision, allow_bookmarks=True, timeout_seconds=150)
        times = []
        while batch := await next_events(watch):
            assert batch == [f"bookmark {revision}"]
            times.append(loop.time() - begun)
        assert times == [60.0, 120.0, 148.0]
        assert loop.time() - begun == 150.0

    in_virtual_time(story)


def test_a_bookmark_has_the_revision_of_the_last_event() -> None:
    async def story(world: World) -> None:
        watch = await opened(
            world,
            resource_version=str(world.backend.storage.revision),
            allow_bookmarks=True,
            timeout_seconds=70,
        )
        version = (await world.create(config_map("a"))).decode()["metadata"]["resourceVersion"]
        assert await next_events(watch) == [("ADDED", "a", version)]
        assert await next_events(watch) == [f"bookmark {version}"]

    in_virtual_time(story)


def test_a_watch_without_bookmarks_is_silent_until_its_timeout() -> None:
    async def story(world: World) -> None:
        watch = await opened(world, resource_version=str(world.backend.storage.revision), timeout_seconds=300)
        assert await watch.next_batch() == ()
        assert asyncio.get_running_loop().time() == 300.0

    in_virtual_time(story)


def test_a_watch_without_a_timeout_lasts_half_an_hour_to_an_hour() -> None:
    async def story(world: World) -> None:
        watch = await opened(world, resource_version=str(world.backend.storage.revision))
        assert await watch.next_batch() == ()
        assert 1800.0 <= asyncio.get_running_loop().time() <= 3600.0

    in_virtual_time(story)


def test_a_slow_reader_gets_410_and_is_disconnected() -> None:
    async def story(world: World) -> None:
        watch = await opened(world, resource_version=str(world.backend.storage.revision))
        for number in range(10):
            await world.create(config_map(f"c{number}"))
        (failure,) = await watch.next_batch()
        assert isinstance(failure, Failure)
        assert failure.status.code == 410
        assert await watch.next_batch() == ()

    in_virtual_time(story, settings=StorageSettings(history_changes=4))


def test_closing_a_watch_ends_it_for_a_waiting_reader() -> None:
    async def story(world: World) -> None:
        watch = await opened(world, resource_version=str(world.backend.storage.revision))
        asyncio.get_running_loop().call_later(5, watch.close)
        assert await watch.next_batch() == ()
        assert asyncio.get_running_loop().time() == 5.0

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (
            {"send_initial_events": True},
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resource_version_match": "NotOlderThan"},
            422,
            "forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            {"resource_version_match": "Exact", "send_initial_events": True},
            422,
            'supported values: "NotOlderThan"',
        ),
        ({"resource_version": "abc"}, 500, 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ({"label_selector": "a b"}, 400, "unable to parse requirement"),
    ],
)
async def test_invalid_watch_options_are_rejected(options: dict[str, Any], code: int, text: str) -> None:
    async with a_world() as world:
        error = await refusal(world.watch(**options))
        assert error.code == code
        assert text in error.message
