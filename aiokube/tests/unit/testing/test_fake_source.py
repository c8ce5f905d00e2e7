"""The fake source: well-behaved until faults are injected."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.unit.runtime.watch.things import Thing, key, thing

from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConnectionFailedError,
    ExpiredError,
    InvalidError,
    NotFoundError,
    ResponseTruncatedError,
    ServerTimeoutError,
)
from aiokube.runtime.source import Batch, Source
from aiokube.testing.api_errors import status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import run_virtual


def new(name: str, value: str = "") -> Thing:
    return Thing(ObjectMeta(name=name, namespace="ns"), value)


@pytest.fixture
def source() -> FakeSource[Thing]:
    return FakeSource([new("a"), new("b"), new("c")])  # at 101, 102, 103


def words(batch: Batch[Thing]) -> list[str]:
    said = []
    for event in batch:
        match event:
            case WatchEvent():
                said.append(f"{event.type} {event.item.metadata.name}@{event.item.metadata.resource_version}")
            case Bookmark():
                said.append(f"{'END' if event.initial_events_end else 'BOOKMARK'} @{event.resource_version}")
            case WatchError():
                said.append(f"ERROR {event.status.code}")
    return said


async def read(watch: Any, count: int | None = None) -> list[str]:
    """Read a number of events, or up to the end."""
    said: list[str] = []
    async for batch in watch:
        said += words(batch)
        if count is not None and len(said) >= count:
            break
    return said


def run(main: Coroutine[Any, Any, None]) -> None:
    run_virtual(main)


def test_a_fake_source_implements_the_source_protocol(source: FakeSource[Thing]) -> None:
    as_protocol: Source[Thing] = source
    assert as_protocol is source


# ------------------------------------------------------------------------------------------------- no faults


def test_writes_assign_versions_and_uids(source: FakeSource[Thing]) -> None:
    changed = source.modify(new("a", "x"))
    assert (changed.metadata.resource_version, changed.metadata.uid, changed.value) == ("104", "uid-1", "x")
    assert source.delete(key("a")).metadata.resource_version == "105"
    assert set(source.objects) == {key("b"), key("c")}
    with pytest.raises(NotFoundError):
        source.modify(new("a"))
    with pytest.raises(AlreadyExistsError):
        source.create(new("b"))


def test_finalizers_keep_deleted_objects(source: FakeSource[Thing]) -> None:
    source.create(Thing(ObjectMeta(name="held", namespace="ns", finalizers=("example.com/x",))))
    terminating = source.delete(key("held"))
    assert terminating.metadata.deletion_timestamp
    assert source.delete(key("held")) is terminating
    source.finish(key("held"))
    assert ObjectKey("ns", "held") not in source.objects


def test_all_pages_of_a_list_have_one_version(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        first = await source.list_page(limit=2)
        source.create(new("d"))
        second = await source.list_page(limit=2, continue_token=first.continue_token)
        assert [item.metadata.name for item in first.items + second.items] == ["a", "b", "c"]
        assert (first.resource_version, second.resource_version) == ("103", "103")
        assert first.remaining_item_count == 1
        assert second.continue_token == ""

    run(main())


def test_a_watch_reports_changes_after_a_version(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        async with source.watch(resource_version="102") as watch:
            assert await read(watch, 1) == ["ADDED c@103"]
            source.modify(new("c"))
            source.delete(key("a"))
            assert await read(watch, 2) == ["MODIFIED c@104", "DELETED a@105"]
            assert source.open_watches == 1
        assert source.open_watches == 0

    run(main())


def test_bookmarks_are_sent_every_minute_and_the_watch_ends_at_its_timeout(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        async with source.watch(resource_version="103", timeout_seconds=150) as watch:
            source.pass_versions(7)
            assert await read(watch) == ["BOOKMARK @110"] * 3, "at 60 s, 120 s, and 2 s before the end"
        assert asyncio.get_running_loop().time() == 150

    run(main())


def test_watches_end_even_if_their_timers_fire_slightly_early(source: FakeSource[Thing]) -> None:
    """asyncio runs timers early by up to its clock resolution; two watches that wait again would stop time."""

    async def late() -> None:
        await asyncio.sleep(30 - 1e-10)
        await asyncio.sleep(0)
        source.bookmark_seconds = 1e-10
        async with source.watch(resource_version="103", timeout_seconds=30) as watch:
            assert await read(watch, 1) == ["BOOKMARK @103"]

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(late(), name="late")
            async with source.watch(resource_version="103", timeout_seconds=30) as watch:
                assert await read(watch) == ["BOOKMARK @103"]

    run(main())


def test_initial_events_end_with_a_bookmark(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        async with source.watch(send_initial_events=True) as watch:
            assert await read(watch, 4) == ["ADDED a@101", "ADDED b@102", "ADDED c@103", "END @103"]

    run(main())


def test_every_request_is_recorded(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        await source.list_page(limit=500, resource_version="5", resource_version_match="NotOlderThan")
        async with source.watch(resource_version="7", timeout_seconds=300):
            pass
        assert [(request.kind, request.resource_version) for request in source.requests] == [
            ("list", "5"),
            ("watch", "7"),
        ]
        assert source.lists[0].limit == 500
        assert source.watches[0].timeout_seconds == 300

    run(main())


# --------------------------------------------------------------------------------------------------- faults


def test_a_silent_change_appears_in_lists_but_never_on_a_watch(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        async with source.watch(resource_version="103") as watch:
            source.modify(new("a", "unseen"), silently=True)
            source.modify(new("b"))
            assert await read(watch, 1) == ["MODIFIED b@105"]
        assert (await source.list_page()).items[0].value == "unseen"

    run(main())


def test_a_compacted_version_raises_410_in_all_its_forms(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        page = await source.list_page(limit=1)
        source.modify(new("a"))
        source.compact()
        async with source.watch(resource_version="103") as watch:
            assert await read(watch) == ["ERROR 410"]
        source.says_expired_in_stream = False
        with pytest.raises(ExpiredError):
            await source.watch(resource_version="103").__aenter__()
        with pytest.raises(ExpiredError) as caught:
            await source.list_page(limit=1, continue_token=page.continue_token)
        assert caught.value.continue_token

    run(main())


def test_a_list_of_a_future_version_raises_too_large_resource_version(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        with pytest.raises(ServerTimeoutError) as caught:
            await source.list_page(resource_version="999", resource_version_match="NotOlderThan")
        assert caught.value.is_too_large_resource_version

    run(main())


def test_injected_errors_are_raised_in_order_at_their_target_method(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        source.fail_next(status_error(503, "ServiceUnavailable"), on="watch")
        source.fail_next(status_error(500, "InternalError"))
        with pytest.raises(ApiError, match="InternalError"):
            await source.list_page()
        with pytest.raises(ApiError, match="ServiceUnavailable"):
            await source.watch(resource_version="1").__aenter__()
        await source.list_page()

    run(main())


def test_a_request_can_hang(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        source.hang_next()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await source.list_page()

    run(main())


def test_watches_can_break_end_and_go_silent(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        async with source.watch(resource_version="103") as watch:
            source.break_watches()
            with pytest.raises(ResponseTruncatedError):
                await read(watch)
        async with source.watch(resource_version="103") as watch:
            source.end_watches()
            assert await read(watch) == []
        async with source.watch(resource_version="103", timeout_seconds=100) as watch:
            source.silent = True
            source.create(new("d"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3600):
                    await read(watch)

    run(main())


def test_a_lagging_server_returns_old_state_except_for_the_newest_version(
    source: FakeSource[Thing],
) -> None:
    async def main() -> None:
        source.hold()
        source.modify(new("a", "new"))
        assert (await source.list_page(resource_version="0")).items[0].value == ""
        assert (await source.list_page()).items[0].value == "new"
        with pytest.raises(ServerTimeoutError):
            await source.list_page(resource_version="104", resource_version_match="NotOlderThan")
        async with source.watch(resource_version="103", timeout_seconds=200) as watch:
            assert await read(watch, 1) == ["BOOKMARK @103"]
            source.release()
            assert await read(watch, 1) == ["MODIFIED a@104"]

    run(main())


def test_a_restored_server_loses_later_changes_and_reuses_their_versions(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        backup = source.backup()
        source.create(new("d"))
        async with source.watch(resource_version="104") as watch:
            source.restore(backup)
            with pytest.raises(ConnectionFailedError):
                await read(watch)
        assert set(source.objects) == {key("a"), key("b"), key("c")}
        assert source.create(new("e")).metadata.resource_version == "104"

    run(main())


def test_batches_can_be_mangled_and_events_injected(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        source.mangle = lambda batch: [*reversed(batch), *batch]
        async with source.watch(resource_version="103") as watch:
            source.create(new("d"))
            source.create(new("e"))
            assert await read(watch, 4) == ["ADDED e@105", "ADDED d@104", "ADDED d@104", "ADDED e@105"]
            source.inject(WatchEvent("DELETED", thing("zz", 1)), ValueError("garbled"), Bookmark("9"))
            assert await read(watch, 1) == ["DELETED zz@1"]
            with pytest.raises(ValueError, match="garbled"):
                await read(watch, 1)
            assert await read(watch, 1) == ["BOOKMARK @9"]

    run(main())


def test_watch_list_support_can_be_disabled_or_left_without_end_bookmark(source: FakeSource[Thing]) -> None:
    async def main() -> None:
        source.knows_watch_list = False
        with pytest.raises(InvalidError):
            await source.watch(send_initial_events=True).__aenter__()
        source.knows_watch_list, source.sends_initial_events_end = True, False
        async with source.watch(send_initial_events=True, timeout_seconds=10) as watch:
            events = await read(watch)
            assert events == ["ADDED a@101", "ADDED b@102", "ADDED c@103", "BOOKMARK @103"]

    run(main())
