"""Our own writes in a store, whether the response or the watch arrives first."""

import logging

import msgspec
import pytest
from tests.unit.runtime.watch.things import (
    Recorder,
    Thing,
    added,
    deleted,
    key,
    modified,
    thing,
    version_of,
)

from aiokube.api.meta import NarrowMeta
from aiokube.api.resource import Bookmark, WatchEvent
from aiokube.runtime.store import Store


@pytest.fixture
def store() -> Store[Thing]:
    store: Store[Thing] = Store("things")
    store.replace([thing("a", 10)], "10")
    return store


@pytest.fixture
def recorder(store: Store[Thing]) -> Recorder:
    recorder = Recorder()
    recorder.mirror = {key(item.metadata.name): item for item in store.values()}
    store.subscribe(recorder)
    return recorder


# ----------------------------------------------------------------------------------- creates and updates


def test_our_own_write_is_visible_immediately(store: Store[Thing], recorder: Recorder) -> None:
    store.record_write(thing("a", 12))
    store.record_write(thing("new", 13))
    assert recorder.take() == ["a@10->12", "+new@13"]
    assert version_of(store.get(key("new"))) == "13"
    assert store.resource_version == "10", "the watch has not come that far"
    assert store.statistics().pending_writes == 2


def test_the_watch_event_of_our_own_write_dispatches_nothing(store: Store[Thing], recorder: Recorder) -> None:
    store.record_write(thing("a", 12))
    recorder.take()
    store.apply([modified(thing("a", 12))])
    assert recorder.take() == []
    assert store.statistics().pending_writes == 0


def test_a_lagging_watch_does_not_revert_our_own_write(store: Store[Thing], recorder: Recorder) -> None:
    store.record_write(thing("a", 12))
    store.apply([modified(thing("a", 11))])
    assert version_of(store.get(key("a"))) == "12"
    assert store.statistics().pending_writes == 1
    store.apply([modified(thing("a", 12)), modified(thing("a", 14))])
    assert recorder.take() == ["a@10->12", "a@12->14"]


def test_a_response_after_its_watch_event_dispatches_nothing(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([modified(thing("a", 12))])
    store.record_write(thing("a", 12))
    assert recorder.take() == ["a@10->12"]
    assert store.statistics().pending_writes == 0


def test_a_late_response_does_not_restore_a_deleted_object(store: Store[Thing]) -> None:
    store.apply([added(thing("new", 12)), deleted(thing("new", 13)), Bookmark("20")])
    store.record_write(thing("new", 12))
    assert store.get(key("new")) is None


def test_a_late_response_does_not_undo_a_newer_change(store: Store[Thing]) -> None:
    store.record_write(thing("a", 15))
    store.record_write(thing("a", 12))
    assert version_of(store.get(key("a"))) == "15"


def test_a_no_op_write_with_an_unchanged_version_blocks_nothing(
    store: Store[Thing], recorder: Recorder
) -> None:
    """k/k#127370: a tracker that waits for a version that never arrives froze Endpoints permanently."""
    store.record_write(thing("a", 10))
    assert store.statistics().pending_writes == 0
    store.apply([modified(thing("a", 11))])
    assert recorder.take() == ["a@10->11"]


def test_a_foreign_deletion_after_our_write_applies_when_the_watch_reports_it(store: Store[Thing]) -> None:
    store.record_write(thing("new", 12))
    store.apply([added(thing("new", 12)), deleted(thing("new", 13))])
    assert store.get(key("new")) is None
    assert store.statistics().pending_writes == 0


def test_a_deletion_event_newer_than_our_write_removes_the_object(store: Store[Thing]) -> None:
    store.record_write(thing("new", 12))
    store.apply([deleted(thing("new", 13))])
    assert store.get(key("new")) is None
    assert store.statistics().pending_writes == 0


def test_a_write_out_of_the_selector_is_removed_by_a_deletion_event_of_the_same_version(
    store: Store[Thing],
) -> None:
    """An update after which a selector no longer matches: DELETED, with the version of the update."""
    store.record_write(thing("a", 12))
    store.apply([deleted(thing("a", 12))])
    assert store.get(key("a")) is None


def test_a_create_that_the_watch_passes_without_an_event_is_removed_with_a_warning(
    store: Store[Thing], recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    store.record_write(thing("new", 12))
    store.apply([Bookmark("11")])
    assert store.get(key("new")) is not None
    with caplog.at_level(logging.WARNING):
        store.apply([Bookmark("12")])
    assert store.get(key("new")) is None
    assert recorder.take() == ["+new@12", "-new@12"]
    assert "ns/new" in caplog.text


def test_an_update_skipped_by_the_watch_requires_a_relist(store: Store[Thing], recorder: Recorder) -> None:
    store.record_write(thing("a", 12))
    before = store.needs_relist
    store.apply([Bookmark("12")])
    assert (before, store.needs_relist) == (False, True)
    assert version_of(store.get(key("a"))) == "12", "better ours than nothing"
    assert store.statistics().pending_writes == 0
    store.replace([thing("a", 10)], "12")
    assert recorder.take() == ["a@10->12", "a@12->10"]
    after = store.needs_relist
    assert not after


def test_a_create_whose_name_the_watch_reports_with_another_uid_requires_a_relist(
    store: Store[Thing],
) -> None:
    """A restored server lost our create, and another client has reused the name, at a smaller version."""
    store.record_write(thing("new", 14))
    store.apply([added(thing("new", 12, uid="other")), Bookmark("14")])
    assert store.get(key("new")) is not None
    assert store.needs_relist


def test_a_write_to_an_object_that_a_list_contained_counts_as_an_update(
    store: Store[Thing],
) -> None:
    store.record_write(thing("new", 14))
    store.replace([thing("a", 10), thing("new", 12)], "13")
    store.apply([Bookmark("14")])
    assert store.get(key("new")) is not None
    assert store.needs_relist


def test_an_object_created_and_updated_ahead_of_the_watch_counts_as_created(
    store: Store[Thing],
) -> None:
    store.record_write(thing("new", 12))
    store.record_write(thing("new", 13))
    store.apply([Bookmark("13")])
    assert store.get(key("new")) is None
    assert not store.needs_relist


def test_a_write_lost_in_a_restore_is_replaced_by_an_event_of_the_same_version(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_write(thing("a", 12, "lost"))
    store.record_write(thing("b", 13, "lost"))
    store.apply([modified(thing("a", 12, "other")), added(thing("b", 13, uid="other"))])
    assert recorder.take() == ["a@10->12", "+b@13", "a@12->12", "-b@13", "+b@13"]


def test_a_write_lost_in_a_restore_is_replaced_by_a_listed_object_of_the_same_version(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_write(thing("a", 12, "lost"))
    store.replace([thing("a", 12, "other")], "20")
    assert recorder.take() == ["a@10->12", "a@12->12"]


def test_a_list_from_a_lagging_server_does_not_revert_our_write(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_write(thing("a", 14))
    store.record_write(thing("new", 15))
    recorder.take()
    store.replace([thing("a", 11), thing("b", 12)], "13")
    assert recorder.take() == ["+b@12"]
    assert version_of(store.get(key("a"))) == "14"
    assert version_of(store.get(key("new"))) == "15"
    assert len(store) == 3


def test_a_list_at_or_after_our_write_is_authoritative(store: Store[Thing], recorder: Recorder) -> None:
    store.record_write(thing("a", 14))
    store.record_write(thing("new", 15))
    recorder.take()
    store.replace([thing("a", 14)], "15")
    assert recorder.take() == ["-new@15"]
    assert store.statistics().pending_writes == 0


def test_the_initial_list_is_authoritative_for_earlier_own_writes() -> None:
    store: Store[Thing] = Store()
    store.record_write(thing("a", 14))
    store.replace([thing("b", 3)], "20")
    assert store.keys() == [key("b")]


def test_pending_writes_are_dropped_when_the_server_lost_history(store: Store[Thing]) -> None:
    store.record_write(thing("new", 12))
    store.replace([thing("a", 4)], "9")
    assert store.keys() == [key("a")]
    assert store.statistics().pending_writes == 0


def test_own_writes_with_non_numeric_versions_are_not_tracked(store: Store[Thing]) -> None:
    store.record_write(thing("new", "x1"))
    assert store.get(key("new")) is None
    store.record_write(thing("new", 12))
    store.replace([thing("a", "x2")], "x3")
    assert store.keys() == [key("a")]


# ------------------------------------------------------------------------------------------------- reads


def test_a_read_newer_than_the_store_is_stored_immediately(store: Store[Thing], recorder: Recorder) -> None:
    store.record_read(thing("a", 12))
    store.record_read(thing("a", 11))
    assert recorder.take() == ["a@10->12"]
    assert not store.needs_relist


def test_a_newer_read_reverts_our_recorded_deletion(store: Store[Thing], recorder: Recorder) -> None:
    store.record_delete(key("a"), "uid-a")
    store.record_read(thing("a", 12))
    assert recorder.take() == ["-a@10", "+a@12"]
    store.apply([modified(thing("a", 12)), Bookmark("12")])
    assert recorder.take() == []
    assert (store.needs_relist, store.statistics().tombstones) == (False, 0)


def test_a_read_older_than_the_watch_is_stored_until_a_relist_decides(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_delete(key("a"), "uid-a")
    store.record_read(thing("a", 10))
    assert recorder.take() == ["-a@10", "+a@10"]
    assert store.needs_relist
    store.replace([], "15")
    assert recorder.take() == ["-a@10"]


def test_a_read_does_not_override_a_later_deletion_that_the_watch_reported(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.apply([deleted(thing("a", 15))])
    store.record_read(thing("a", 12))
    store.record_read(thing("b", "not-a-number"))
    assert recorder.take() == ["-a@10"]
    assert store.keys() == []
    store.record_read(thing("a", 16, uid="second"))
    assert recorder.take() == ["+a@16"]


# ----------------------------------------------------------------------------------------------- deletes


def test_our_own_deletion_is_visible_immediately(store: Store[Thing], recorder: Recorder) -> None:
    store.record_delete(key("a"), "uid-a")
    assert recorder.take() == ["-a@10"]
    assert store.get(key("a")) is None


def test_events_from_before_our_deletion_do_not_restore_the_object(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_delete(key("a"), "uid-a")
    store.apply([modified(thing("a", 11)), deleted(thing("a", 12))])
    assert recorder.take() == ["-a@10"]
    store.apply([Bookmark("12")])
    assert store.statistics().tombstones == 0


def test_a_deleted_object_with_finalizers_reappears_as_terminating(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_delete(key("a"), "uid-a")
    store.apply([modified(thing("a", 12, terminating=True))])
    assert recorder.take() == ["-a@10", "+a@12"]
    store.apply([deleted(thing("a", 15))])
    assert store.get(key("a")) is None


def test_deleting_a_terminating_object_keeps_it_until_the_watch_reports_its_deletion(
    store: Store[Thing],
) -> None:
    """Its deletion changes nothing on the server, so no event would ever restore it."""
    store.apply([modified(thing("a", 11, terminating=True))])
    store.record_delete(key("a"), "uid-a")
    assert version_of(store.get(key("a"))) == "11"


def test_a_late_delete_response_after_the_watch_event_leaves_no_tombstone(
    store: Store[Thing],
) -> None:
    store.apply([deleted(thing("a", 12))])
    store.record_delete(key("a"), "uid-a")
    store.apply([Bookmark("12")])
    assert store.statistics().tombstones == 0


def test_deleting_an_earlier_object_does_not_remove_its_successor(store: Store[Thing]) -> None:
    store.apply([modified(thing("a", 12, uid="second"))])
    store.record_delete(key("a"), "uid-a")
    assert version_of(store.get(key("a"))) == "12"


def test_a_name_can_be_deleted_and_recreated_ahead_of_the_watch(
    store: Store[Thing], recorder: Recorder
) -> None:
    """k/k#141592: delete and recreate faster than the watch left a phantom in upstream's tracker."""
    store.record_delete(key("a"), "uid-a")
    store.record_write(thing("a", 13, uid="second"))
    store.apply([modified(thing("a", 11)), deleted(thing("a", 12)), added(thing("a", 13, uid="second"))])
    assert recorder.take() == ["-a@10", "+a@13"]
    store.apply([deleted(thing("a", 14, uid="second")), Bookmark("14")])
    statistics = store.statistics()
    assert (statistics.objects, statistics.pending_writes, statistics.tombstones) == (0, 0, 0)


def test_an_object_created_and_deleted_ahead_of_the_watch_never_reappears(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_write(thing("new", 12))
    store.record_delete(key("new"), "uid-new")
    store.apply([added(thing("new", 12)), deleted(thing("new", 13))])
    assert recorder.take() == ["+new@12", "-new@12"]


def test_two_objects_of_one_name_deleted_ahead_of_the_watch_both_stay_deleted(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_delete(key("a"), "uid-a")
    store.record_write(thing("a", 13, uid="second"))
    store.record_delete(key("a"), "second")
    store.apply([modified(thing("a", 11)), deleted(thing("a", 12))])
    store.apply([added(thing("a", 13, uid="second")), deleted(thing("a", 14, uid="second"))])
    assert recorder.take() == ["-a@10", "+a@13", "-a@13"]


def test_late_events_of_a_deleted_object_that_was_never_stored_are_ignored(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.record_delete(key("unseen"), "uid-unseen")
    store.apply([added(thing("unseen", 12)), deleted(thing("unseen", 13))])
    assert recorder.take() == []


def test_a_different_object_under_a_deleted_name_is_stored(store: Store[Thing]) -> None:
    store.record_delete(key("a"), "uid-a")
    store.apply([added(thing("a", 12, uid="second"))])
    assert version_of(store.get(key("a"))) == "12"
    assert store.statistics().tombstones == 0


def test_a_write_response_after_our_deletion_of_the_object_is_ignored(store: Store[Thing]) -> None:
    store.record_delete(key("a"), "uid-a")
    store.record_write(thing("a", 12))
    assert store.get(key("a")) is None


def test_a_list_overrides_our_deletion_unless_it_is_provably_older(
    store: Store[Thing],
) -> None:
    store.record_write(thing("new", 15))
    store.record_delete(key("new"), "uid-new")
    store.record_delete(key("a"), "uid-a")
    store.replace([thing("a", 10)], "14")
    assert store.keys() == [key("a")], (
        "made at 14, and the object is of 10: perhaps the deletion had no effect"
    )
    store.apply([added(thing("new", 15))])
    assert store.get(key("new")) is None, "its deletion came after 15"
    store.replace([thing("new", 15)], "15")
    assert store.keys() == [key("new")]
    assert store.statistics().tombstones == 0


def test_an_object_older_than_the_deleted_one_under_its_name_requires_a_relist(
    store: Store[Thing],
) -> None:
    """A restored server lost our create and our deletion, and another client has reused the name since."""
    store.record_write(thing("new", 14))
    store.record_delete(key("new"), "uid-new")
    store.apply([added(thing("new", 12, uid="other")), Bookmark("13")])
    before = store.needs_relist
    store.apply([Bookmark("14")])
    assert (before, store.needs_relist) == (False, True)
    store.replace([thing("new", 12, uid="other")], "15")
    assert version_of(store.get(key("new"))) == "12"


def test_a_deletion_that_the_watch_does_not_report_for_minutes_requires_a_relist(
    store: Store[Thing],
) -> None:
    """A restored server lost our deletion: the object exists, and may never change again."""
    store.record_delete(key("a"), "uid-a")
    doubts = []
    for version in ("10", "11", "11", "12"):
        store.apply([Bookmark(version)])
        doubts.append(store.needs_relist)
    assert doubts == [False, False, False, True]
    store.replace([thing("a", 10)], "12")
    assert store.get(key("a")) is not None
    store.apply([Bookmark("13"), Bookmark("14"), Bookmark("15")])
    assert not store.needs_relist


def test_a_deletion_reported_by_the_watch_or_held_by_finalizers_requires_no_relist(
    store: Store[Thing],
) -> None:
    store.apply([added(thing("b", 11))])
    store.record_delete(key("a"), "uid-a")
    store.record_delete(key("b"), "uid-b")
    store.record_delete(key("never stored"), "uid")
    store.apply([deleted(thing("a", 12)), modified(thing("b", 13, terminating=True))])
    store.apply([Bookmark(str(version)) for version in range(13, 30)])
    assert not store.needs_relist


def test_a_deleted_object_without_deletion_timestamp_field_reappears_with_newer_events() -> None:
    class Narrow(msgspec.Struct, frozen=True):
        metadata: NarrowMeta

    store: Store[Narrow] = Store()
    store.apply([WatchEvent("ADDED", Narrow(NarrowMeta("a", "ns", "uid", "5")))])
    store.record_delete(key("a"), "uid")
    store.apply([WatchEvent("MODIFIED", Narrow(NarrowMeta("a", "ns", "uid", "5")))])
    assert store.get(key("a")) is None
    store.apply([WatchEvent("MODIFIED", Narrow(NarrowMeta("a", "ns", "uid", "6")))])
    assert store.get(key("a")) is not None
