"""The reflector's guarantees on a well-behaved source."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.watch.running import LIST_FIRST, new, now, running
from tests.unit.runtime.watch.things import Thing, added, deleted, key, modified, thing

from aiokube.api.resource import Bookmark, Page, WatchError, WatchEvent
from aiokube.client.errors import ConnectionFailedError, ResponseTruncatedError
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import NotSyncedError
from aiokube.runtime.source import Batch
from aiokube.runtime.store import Store
from aiokube.testing.api_errors import expired_error, status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle


@pytest.fixture
def source() -> FakeSource[Thing]:
    return FakeSource([new("a"), new("b"), new("c")])


async def test_the_initial_state_is_stored_atomically_and_followed_by_every_change(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        assert it.asked() == ["stream newest"]
        assert it.store.synced
        assert it.recorder.take() == ["+a@101", "+b@102", "+c@103"]
        source.modify(new("a", "x"))
        source.delete(key("b"))
        source.create(new("d"))
        await settle()
        assert it.recorder.take() == ["a@101->104", "-b@102", "+d@106"]
        it.assert_alike()


async def test_a_paged_list_is_stored_atomically() -> None:
    source = FakeSource([new(f"thing-{number:04}") for number in range(1201)])
    sizes: set[int] = set()
    async with running(source, LIST_FIRST, settled=False) as it:
        it.store.subscribe(lambda _old, _new: sizes.add(len(it.store)))
        await settle()
        assert it.asked() == ["list newest", "page", "page", f"watch {100 + 1201}"]
        assert sizes == {1201}
        it.assert_alike()


async def test_changes_between_list_and_watch_are_not_lost(source: FakeSource[Thing]) -> None:
    source.page_delay_seconds = 1.0
    async with running(source, LIST_FIRST) as it:
        source.fail_next(ConnectionFailedError("refused"), on="watch")
        await asyncio.sleep(1.001)
        source.modify(new("a", "meanwhile"))
        await asyncio.sleep(10)
        it.assert_alike()
        assert len([asked for asked in it.asked() if asked.startswith("list")]) == 1


async def test_an_empty_resource_syncs_too() -> None:
    for settings in (None, LIST_FIRST):
        async with running(FakeSource[Thing](), settings) as it:
            assert it.store.synced
            it.source.create(new("a"))
            await settle()
            it.assert_alike()


async def test_changes_after_the_initial_events_in_the_same_batch_are_dispatched_as_live(
    source: FakeSource[Thing],
) -> None:
    source.mangle = lambda batch: (
        [*batch, added(thing("d", 104)), Bookmark("110")] if isinstance(batch[-1], Bookmark) else batch
    )
    async with running(source) as it:
        assert it.recorder.take() == ["+a@101", "+b@102", "+c@103", "+d@104"]
        assert it.store.resource_version == "110"


async def test_changes_during_the_initial_events_are_part_of_the_initial_state(
    source: FakeSource[Thing],
) -> None:
    source.mangle = lambda batch: (
        [
            *batch[:-1],
            deleted(thing("a", 104, uid="uid-1")),
            modified(thing("b", 105, uid="uid-2")),
            Bookmark("105", True),
        ]
        if isinstance(batch[-1], Bookmark)
        else batch
    )
    async with running(source) as it:
        assert it.recorder.take() == ["+b@105", "+c@103"]


async def test_watches_are_renewed_twice_a_minute_without_a_relist_or_gap(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        await asyncio.sleep(3600)
        asked = it.asked()
        assert asked.count("stream newest") == 1
        assert 3600 / 34 <= len(asked) <= 3600 / 28 + 2
        statistics = it.reflector.statistics()
        assert (statistics.errors, statistics.following_since) == (0, 0.0)
        source.create(new("late"))
        await settle()
        it.assert_alike()


async def test_watch_timeouts_of_two_reflectors_are_jittered() -> None:
    lengths = []
    for seed in (1, 2):
        source = FakeSource([new("a")])
        reflector = Reflector(source, Store[Thing]("x"), clock=FakeClock(), rng=random.Random(seed))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reflector.run(), name="reflector")
            await asyncio.sleep(7200)
            task.cancel()
        lengths.append([request.timeout_seconds for request in source.watches])
    assert lengths[0] != lengths[1]
    assert all(28 <= (seconds or 0) <= 34 for each in lengths for seconds in each[1:])


async def test_bookmarks_keep_the_resource_version_fresh_without_changes(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.pass_versions(5000)
        await asyncio.sleep(61)
        assert it.store.resource_version == "5103"
        source.compact()
        source.end_watches()
        await asyncio.sleep(2)
        assert [asked for asked in it.asked() if not asked.startswith("watch")] == ["stream newest"], (
            "no relist"
        )


# --------------------------------------------------------------------------------------- waits, stops,
# messages


async def test_waiting_for_sync_reports_why_the_store_is_not_synced(source: FakeSource[Thing]) -> None:
    source.fail_next(*[status_error(403, "Forbidden", "things is forbidden: no list for you")] * 10)
    async with running(source) as it:
        with pytest.raises(NotSyncedError, match="no list for you") as caught:
            await it.reflector.wait_synced(3)
        assert caught.value.statistics.phase == "waiting"
        assert "things: not synced after 3 s" in str(caught.value)
        await it.reflector.wait_synced(600)
        it.assert_alike()


async def test_a_timeout_without_an_error_reports_a_slow_server(source: FakeSource[Thing]) -> None:
    source.hang_next()
    async with running(source) as it:
        with pytest.raises(NotSyncedError, match="no error"):
            await it.reflector.wait_synced(3)


async def test_statistics_report_the_phase_and_the_last_sign_of_life(source: FakeSource[Thing]) -> None:
    source.fail_next(ConnectionFailedError("localhost:6443: connection refused"))
    reflector = Reflector(source, Store[Thing]("things"), clock=FakeClock(), rng=random.Random(1))
    assert reflector.statistics().phase == "stopped"
    assert reflector.statistics().last_contact is None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        await settle()
        waiting = reflector.statistics()
        assert (waiting.phase, waiting.failures, waiting.errors) == ("waiting", 1, 1)
        assert waiting.last_error == "localhost:6443: connection refused"
        assert waiting.last_error_at == 0.0
        assert waiting.last_contact is None
        await asyncio.sleep(100)
        watching = reflector.statistics()
        assert watching.phase == "watching"
        assert watching.synced
        assert watching.last_contact is not None
        assert now() - watching.last_contact < 34, "a bookmark comes before the end of each watch"
        assert 0 < watching.since < 2
        assert (watching.lists, watching.resource_version) == (2, "103")
        task.cancel()
    assert reflector.statistics().phase == "stopped"


async def test_a_reflector_cannot_run_twice_concurrently(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        with pytest.raises(RuntimeError, match="running already"):
            await it.reflector.run()
        source.create(new("d"))
        await settle()
        it.assert_alike()


async def test_a_stopped_reflector_resumes_from_the_stores_version(
    source: FakeSource[Thing],
) -> None:
    store: Store[Thing] = Store("things")
    reflector = Reflector(source, store, clock=FakeClock(), rng=random.Random(1))
    for asked in ("newest", "103"):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reflector.run(), name="reflector")
            await settle()
            task.cancel()
        assert (source.requests[-1].resource_version or "newest") == asked
        assert source.open_watches == 0
    source.modify(new("a", "while stopped"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        await settle()
        task.cancel()
    assert {item.value for item in store.values()} == {"", "while stopped"}


@pytest.mark.parametrize("stop_after", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5])
async def test_stopping_at_any_time_leaves_a_complete_list_or_nothing(stop_after: float) -> None:
    source = FakeSource([new(f"thing-{number}") for number in range(1200)])
    source.page_delay_seconds = 1.0
    async with running(source, LIST_FIRST) as it:
        await asyncio.sleep(stop_after)
    assert len(it.store) == (1200 if stop_after > 3 else 0)
    assert it.store.synced is (stop_after > 3)


async def test_an_unexpected_exception_in_a_source_is_not_retried(source: FakeSource[Thing]) -> None:
    source.fail_next(KeyError("a bug"))
    reflector = Reflector(source, Store[Thing]("things"), clock=FakeClock(), rng=random.Random(1))
    with pytest.raises(KeyError, match="a bug"):
        await reflector.run()
    assert reflector.statistics().phase == "stopped"


async def test_a_constantly_busy_watch_does_not_starve_other_tasks() -> None:
    """Buffered data is read without suspending, so reading must yield explicitly."""

    class Torrent:
        async def list_page(self, **_: object) -> Page[Thing]:
            return Page((), "1")

        @asynccontextmanager
        async def watch(self, **_: object) -> AsyncIterator[AsyncIterator[Batch[Thing]]]:
            async def events() -> AsyncIterator[Batch[Thing]]:
                for version in range(2, 1_000_000):
                    yield [WatchEvent("MODIFIED", thing("a", version))]

            stream = events()
            yield stream
            await stream.aclose()  # type: ignore[attr-defined]

    store: Store[Thing] = Store("things")
    reflector = Reflector(Torrent(), store, clock=FakeClock(), rng=random.Random(1), settings=LIST_FIRST)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        turns = 0
        while len(store) == 0 or turns < 5:
            await asyncio.sleep(0)
            turns += 1
        task.cancel()
    assert 0 < int(store.resource_version) < 20_000


async def test_errors_while_closing_a_watch_are_ignored(source: FakeSource[Thing]) -> None:
    class FailingOnClose(FakeSource[Thing]):
        @asynccontextmanager
        async def watch(self, **how: object) -> AsyncIterator[AsyncIterator[Batch[Thing]]]:
            async with super().watch(**how) as batches:  # type: ignore[arg-type]
                yield batches
            raise ResponseTruncatedError("while closing")

    failing = FailingOnClose([new("a")])
    async with running(failing) as it:
        failing.inject(WatchError(expired_error().status))
        await asyncio.sleep(1)
        assert it.asked() == ["stream newest", "stream 101"]
        assert it.reflector.statistics().errors == 1
        it.assert_alike()
