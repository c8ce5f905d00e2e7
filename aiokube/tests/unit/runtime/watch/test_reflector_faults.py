"""The reflector under all faults of the checklist (reliability), in virtual time."""

import asyncio
import logging
from itertools import pairwise

import pytest
from tests.unit.runtime.watch.running import LIST_FIRST, new, now, running
from tests.unit.runtime.watch.things import Thing, key, modified, thing

from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Bookmark, WatchError
from aiokube.client.errors import ConnectionFailedError, UndecodableEventError, UnexpectedResponseError
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.testing.api_errors import expired_error, failure_status, status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import settle

REFUSED = ConnectionFailedError("localhost:6443: connection refused")


@pytest.fixture
def source() -> FakeSource[Thing]:
    return FakeSource([new("a"), new("b"), new("c")])


# ------------------------------------------------------------------------------------------------ connections


async def test_a_broken_watch_resumes_at_the_last_resource_version(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.modify(new("a", "1"))
        await settle()
        source.break_watches()
        source.modify(new("a", "2"))
        source.delete(key("b"))
        await asyncio.sleep(2)
        assert it.asked() == ["stream newest", "watch 104"]
        it.assert_alike()


async def test_a_server_that_is_down_is_polled_every_second_and_followed_soon_after_its_return(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        source.fail_next(*[REFUSED] * 10_000)
        source.break_watches(REFUSED)
        await asyncio.sleep(1000)
        assert 800 <= len(source.watches) <= 1001
        source.clear_faults()
        source.create(new("d"))
        await asyncio.sleep(2)
        it.assert_alike()
        assert len([asked for asked in it.asked() if asked.startswith("stream")]) == 1, "no relist"


async def test_a_healthy_watch_resets_the_failure_count(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.fail_next(*[REFUSED] * 8)
        source.break_watches(REFUSED)
        await asyncio.sleep(15)
        assert it.reflector.statistics().failures == 9
        await asyncio.sleep(35)
        source.break_watches(REFUSED)
        await settle()
        assert it.reflector.statistics().failures == 1
        await asyncio.sleep(1.0)
        assert it.reflector.statistics().phase == "watching"


@pytest.mark.parametrize("bookmark_seconds", [60.0, None], ids=["bookmarks", "no bookmarks"])
@pytest.mark.parametrize("alive_seconds", [0.0, 3.0, 61.0], ids=["immediately", "soon", "later"])
@pytest.mark.parametrize("settings", [None, LIST_FIRST], ids=["stream", "list"])
async def test_a_silently_dead_connection_is_detected_within_45_seconds(
    alive_seconds: float, bookmark_seconds: float | None, settings: ReflectorSettings | None
) -> None:
    """The bookmark that ends initial events was not counted: it took 396 s in the first minute of a watch."""
    source = FakeSource([new("a")], bookmark_seconds=bookmark_seconds)
    async with running(source, settings) as it:
        await asyncio.sleep(alive_seconds)
        relists = it.store.statistics().replaces
        source.abandon_watches()
        source.modify(new("a", "unheard"))
        await asyncio.sleep(45)
        it.assert_alike()
        assert it.store.statistics().replaces == relists, "no relist"


async def test_with_bookmarks_every_five_seconds_a_dead_connection_is_detected_in_15_seconds() -> None:
    source = FakeSource([new("a")], bookmark_seconds=5.0)
    async with running(source) as it:
        await asyncio.sleep(41)
        source.abandon_watches()
        source.modify(new("a", "unheard"))
        await asyncio.sleep(16)
        it.assert_alike()


@pytest.mark.parametrize("bookmark_seconds", [60.0, 5.0, None])
async def test_a_quiet_cluster_causes_no_unnecessary_reconnects(bookmark_seconds: float | None) -> None:
    source = FakeSource([new("a")], bookmark_seconds=bookmark_seconds)
    async with running(source) as it:
        await asyncio.sleep(7200)
        statistics = it.reflector.statistics()
        assert (statistics.errors, statistics.lists, statistics.following_since) == (0, 1, 0.0)


async def test_a_silent_watch_discards_the_other_pooled_connections() -> None:
    distrusted = []

    class Pooled(FakeSource[Thing]):
        def distrust_connections(self) -> None:
            distrusted.append(now())

    source = Pooled([new("a")])
    async with running(source, LIST_FIRST):
        source.abandon_watches()
        await asyncio.sleep(45)
        assert distrusted == [42.0]


async def test_a_server_that_stopped_sending_bookmarks_is_relisted_only_once(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        await asyncio.sleep(61)
        source.bookmark_seconds = None
        source.end_watches()
        await asyncio.sleep(300)
        it.asked()
        relists = it.store.statistics().replaces
        assert relists == 2, "it may have lost history"
        await asyncio.sleep(300)
        assert it.store.statistics().replaces == relists
        assert set(it.asked()) == {"watch 103"}


async def test_an_unanswered_watch_request_times_out_after_20_seconds(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.hang_next()
        source.break_watches(REFUSED)
        await asyncio.sleep(20.5)
        assert len(source.watches) == 2
        await asyncio.sleep(2)
        assert "did not arrive within 20 s" in it.reflector.statistics().last_error
        it.assert_alike()


async def test_an_unanswered_request_times_out(source: FakeSource[Thing]) -> None:
    for settings in (None, LIST_FIRST):
        source.hang_next()
        async with running(source, settings) as it:
            await asyncio.sleep(89)
            assert not it.store.synced
            await asyncio.sleep(3)
            assert "did not arrive within 90 s" in it.reflector.statistics().last_error
            it.assert_alike()


async def test_a_watch_that_always_ends_immediately_is_not_reopened_in_a_hot_loop(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        it.asked()
        for _ in range(400):
            source.end_watches()
            await asyncio.sleep(0.5)
        assert len(it.asked()) < 20


# ---------------------------------------------------------------------------------------------- initial events


async def test_a_server_without_watch_list_support_is_listed(source: FakeSource[Thing]) -> None:
    source.knows_watch_list = False
    async with running(source) as it:
        assert it.asked() == ["stream newest", "list newest", "watch 103"]
        it.assert_alike()
        source.compact()
        source.pass_versions(10)
        source.compact()
        source.end_watches()
        await asyncio.sleep(1)
        assert it.asked() == ["watch 103", "list 103", "watch 113"], "and it is not asked again"


async def test_initial_events_with_a_dropped_end_bookmark_are_replaced_by_a_list(
    source: FakeSource[Thing], caplog: pytest.LogCaptureFixture
) -> None:
    """k9s#4186: a proxy drops the end bookmark, and nothing ever reports it."""
    source.sends_initial_events_end = False
    async with running(source) as it:
        await asyncio.sleep(29)
        assert not it.store.synced
        await asyncio.sleep(2)
        it.assert_alike()
        assert it.asked() == ["stream newest", "list newest", "watch 103"]
        assert "drops bookmarks" in caplog.text
        source.modify(new("a", "x"))
        await settle()
        it.assert_alike()


async def test_initial_events_that_never_end_are_replaced_by_a_list_after_five_minutes() -> None:
    source = FakeSource([new("a")])
    source.sends_initial_events_end = False
    async with running(source) as it:
        for number in range(299):
            source.create(new(f"b{number}"))
            await asyncio.sleep(1)
        assert not it.store.synced
        await asyncio.sleep(3)
        it.assert_alike()


async def test_a_server_that_ignores_send_initial_events_is_listed(
    source: FakeSource[Thing],
) -> None:
    source.ignores_watch_list = True
    async with running(source) as it:
        await asyncio.sleep(31)
        it.assert_alike()


async def test_interrupted_initial_events_leave_the_store_unchanged(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.sends_initial_events_end = False
        source.delete(key("a"), silently=True)
        source.compact()
        source.end_watches()
        await asyncio.sleep(5)
        assert len(it.store) == 3, "half a stream is not a state"
        source.break_watches()
        source.sends_initial_events_end = True
        await asyncio.sleep(5)
        it.assert_alike()
        assert len(it.store) == 2


# ---------------------------------------------------------------------------------------------------- 410 Gone


@pytest.mark.parametrize("in_stream", [True, False], ids=["ERROR event", "HTTP"])
@pytest.mark.parametrize("settings", [None, LIST_FIRST], ids=["stream", "list"])
async def test_an_expired_version_causes_one_relist_that_detects_deletions(
    source: FakeSource[Thing], in_stream: bool, settings: None
) -> None:
    source.says_expired_in_stream = in_stream
    async with running(source, settings) as it:
        source.delete(key("a"), silently=True)
        source.modify(new("b", "x"), silently=True)
        source.create(new("d"), silently=True)
        source.compact()
        it.recorder.take()
        it.asked()
        source.end_watches()
        await asyncio.sleep(2)
        assert it.recorder.take() == ["-a@101", "b@102->105", "+d@106"]
        assert it.asked()[0] == "watch 103"
        assert it.store.statistics().replaces == 2
        it.assert_alike()


async def test_a_410_with_an_unusual_reason_is_treated_as_expired(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.inject(WatchError(failure_status(410, "HistoryIsBunk", "who needs it")))
        source.modify(new("a", "x"), silently=True)
        await asyncio.sleep(1)
        it.assert_alike()


async def test_events_before_an_error_in_the_same_batch_are_applied(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.inject(modified(thing("a", 110, uid="uid-1")), WatchError(expired_error().status))
        await settle()
        assert it.asked() == ["stream newest", "stream 110"]


async def test_a_list_that_expires_on_its_second_page_is_repeated_without_paging() -> None:
    source = FakeSource([new(f"thing-{number:04}") for number in range(1000)])
    source.page_delay_seconds = 1.0
    async with running(source, LIST_FIRST) as it:
        await asyncio.sleep(1.5)
        source.delete(key("thing-0001"))
        source.compact()
        await asyncio.sleep(5)
        assert it.asked() == ["list newest", "page", "list newest", "watch 1101"]
        assert source.objects
        it.assert_alike()


async def test_constantly_expiring_versions_do_not_cause_a_hot_loop(source: FakeSource[Thing]) -> None:
    """k/k#133810: relists 43 ms apart."""
    async with running(source) as it:
        for _ in range(2000):
            source.inject(WatchError(expired_error().status))
            await asyncio.sleep(0.1)
        assert len(it.asked()) < 40
        assert it.reflector.statistics().phase in ("watching", "waiting")


# ----------------------------------------------------------------------------------------- never back in time


async def test_the_reflector_waits_for_a_lagging_replica(source: FakeSource[Thing]) -> None:
    async with running(source, LIST_FIRST) as it:
        source.hold()
        [newer] = [source.create(new("d"))]
        it.store.record_write(newer)  # ours, so that the store is ahead of the replica
        source.inject(Bookmark("104"), WatchError(expired_error().status))
        await asyncio.sleep(2)
        assert it.asked() == ["list newest", "watch 103", "list 104", "list 104"]
        source.release()
        await asyncio.sleep(3)
        assert it.asked() == ["list 104", "watch 104"]
        it.assert_alike()


async def test_a_server_that_lost_history_is_accepted_after_some_tries_with_a_warning(
    source: FakeSource[Thing], caplog: pytest.LogCaptureFixture
) -> None:
    async with running(source) as it:
        backup = source.backup()
        source.create(new("never was"))
        source.modify(new("a", "never was"))
        await settle()
        it.recorder.take()
        source.restore(backup)
        source.delete(key("b"))
        with caplog.at_level(logging.ERROR):
            # A watch at a version that the server has not reached gets a 200, and silence.
            await asyncio.sleep(900)
        it.assert_alike()
        assert it.store.statistics().replaces == 2
        assert "lost history" in caplog.text
        source.create(new("new times"))
        await settle()
        it.assert_alike()


async def test_a_server_that_lost_history_is_detected_by_its_bookmarks_within_minutes(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        backup = source.backup()
        source.pass_versions(1000)
        source.create(new("never was"))
        await settle()
        source.restore(backup)
        await asyncio.sleep(220)
        it.assert_alike()


async def test_an_own_write_undone_by_a_restore_is_detected(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        backup = source.backup()
        source.hold()
        it.store.record_write(source.modify(new("a", "ours, and lost")))
        source.restore(backup)
        source.create(new("d"))
        source.modify(new("d"))
        await asyncio.sleep(70)
        it.assert_alike()


async def test_stale_bookmarks_do_not_move_the_resource_version_back(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.inject(Bookmark("50"))
        await settle()
        assert it.store.resource_version == "103"
        source.end_watches()
        await asyncio.sleep(2)
        assert it.asked() == ["stream newest", "watch 103"]


async def test_duplicated_and_reordered_events_give_the_same_state(source: FakeSource[Thing]) -> None:
    source.mangle = lambda batch: [*reversed(batch), *batch, *batch]
    source.bookmark_seconds = None
    async with running(source, LIST_FIRST) as it:
        for number in range(20):
            source.modify(new("a", str(number)))
            source.create(new(f"n{number}"))
            if number % 2:
                source.delete(key(f"n{number}"))
            if number % 3 == 0:
                await settle()
        await settle()
        it.assert_alike()


# ------------------------------------------------------------------------------------------- a failing server


async def test_retry_after_is_honoured_exactly_and_causes_no_relist(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        it.asked()
        source.fail_next(
            *[status_error(429, "TooManyRequests", "later", retry_after_seconds=17)] * 4, on="watch"
        )
        source.end_watches()
        await asyncio.sleep(120)
        at = [request.at_seconds for request in source.watches]
        assert all(17 <= after - before <= 22 for before, after in pairwise(at[:5])), at
        assert set(it.asked()) == {"watch 103"}
        it.assert_alike()


async def test_repeated_internal_errors_cause_no_relist(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        for _ in range(4):
            source.inject(WatchError(failure_status(500, "InternalError", "etcdserver: leader changed")))
            source.modify(new("a", str(now())))
            await asyncio.sleep(8)
        it.assert_alike()
        assert [asked for asked in it.asked() if asked.startswith("stream")] == ["stream newest"]


async def test_a_403_is_reported_and_recovers_when_permission_returns(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.fail_next(*[status_error(403, "Forbidden", "RBAC was removed")] * 5)
        source.end_watches()
        source.modify(new("a", "x"))
        await asyncio.sleep(6)
        statistics = it.reflector.statistics()
        assert (statistics.phase, statistics.last_error) == ("waiting", "RBAC was removed")
        assert statistics.synced, "the cached objects stay"
        assert len(it.store) == 3
        await asyncio.sleep(60)
        it.assert_alike()
        assert [asked for asked in it.asked() if not asked.startswith("watch")] == ["stream newest"]


# --------------------------------------------------------------------------------------------- broken objects


async def test_an_undecodable_event_causes_an_immediate_relist(source: FakeSource[Thing]) -> None:
    async with running(source) as it:
        source.modify(new("a", "garbled on its way"), silently=True)
        source.inject(UndecodableEventError("things", "unexpected byte", key=key("a")))
        await settle()
        it.assert_alike()
        statistics = it.reflector.statistics()
        assert statistics.undecodable_events == 1
        assert "ns/a" in statistics.last_error


async def test_a_permanently_undecodable_object_does_not_block_other_objects(
    source: FakeSource[Thing],
) -> None:
    poison = UndecodableEventError("things", "expected int", key=key("a"))
    async with running(source) as it:
        for number in range(600):
            source.inject(poison)
            source.modify(new("b", str(number)))
            await asyncio.sleep(1)
            stored = it.store.get(key("b"))
            assert stored is not None
            assert stored.value == str(number)
        assert it.reflector.statistics().undecodable_events >= 590
        relists = [asked for asked in it.asked() if asked.startswith("stream")]
        assert len(relists) <= 6, "each costs the server a whole list"


async def test_an_undecodable_object_in_the_initial_events_keeps_its_stored_state(
    source: FakeSource[Thing],
) -> None:
    async with running(source) as it:
        await asyncio.sleep(2)
        before = it.store.get(key("a"))
        source.modify(new("b", "x"), silently=True)
        source.mangle = lambda batch: []  # the initial events are injected by hand below
        source.compact()
        source.end_watches()
        await settle()
        source.mangle = None
        [b, c] = (source.objects[key(name)] for name in "bc")
        source.inject(
            modified(b),
            UndecodableEventError("things", "expected int", key=key("a")),
            modified(c),
            Bookmark("104", initial_events_end=True),
        )
        await settle()
        assert it.store.get(key("a")) is before
        stored = it.store.get(key("b"))
        assert stored is not None
        assert stored.value == "x"
        assert it.store.statistics().replaces == 2


async def test_an_undecodable_list_does_not_stop_the_watch(source: FakeSource[Thing]) -> None:
    async with running(source, LIST_FIRST) as it:
        source.fail_next(*[UnexpectedResponseError("expected int at $.items[0]")] * 50, on="list")
        source.inject(UndecodableEventError("things", "expected int", key=ObjectKey("ns", "a")))
        await asyncio.sleep(2)
        for number in range(200):
            source.modify(new("b", str(number)))
            await asyncio.sleep(1)
            stored = it.store.get(key("b"))
            assert stored is not None
            assert stored.value == str(number)
        assert it.asked().count("list 103") == 1
