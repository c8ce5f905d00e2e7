"""Guarantees of a store to readers and handlers while only the watch writes."""

import asyncio
import logging

import msgspec
import pytest
from tests.unit.runtime.watch.things import (
    Recorder,
    Thing,
    added,
    contents,
    deleted,
    key,
    modified,
    thing,
    version_of,
)

from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.api.resource import Bookmark, WatchEvent
from aiokube.runtime import tombstones as tombstones_module
from aiokube.runtime.store import Store


@pytest.fixture
def store() -> Store[Thing]:
    return Store("things")


@pytest.fixture
def recorder(store: Store[Thing]) -> Recorder:
    return Recorder(store)


def test_a_new_store_is_empty_and_not_synced(store: Store[Thing]) -> None:
    assert len(store) == 0
    assert store.values() == []
    assert store.keys() == []
    assert store.get(key("a")) is None
    assert not store.synced
    assert store.resource_version == ""


def test_events_are_applied_and_dispatched_in_order(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("a", 1)), added(thing("b", 2)), modified(thing("a", 3)), deleted(thing("b", 4))])
    assert recorder.take() == ["+a@1", "+b@2", "a@1->3", "-b@2"]
    assert store.keys() == [key("a")]
    assert store.resource_version == "4"


def test_a_reader_finds_objects_by_key_and_by_namespace(store: Store[Thing]) -> None:
    one, two, other = thing("a", 1), thing("b", 2), thing("a", 3, namespace="other")
    store.apply([added(one), added(two), added(other)])
    assert store.get(key("a")) is one
    assert store.get(key("a", "other")) is other
    assert key("b") in store
    assert key("b", "other") not in store
    assert store.in_namespace("ns") == [one, two]
    assert store.in_namespace("nowhere") == []
    assert len(store) == 3


def test_cluster_scoped_objects_are_stored_under_the_empty_namespace(store: Store[Thing]) -> None:
    node = thing("node", 1, namespace="")
    store.apply([added(node)])
    assert store.get(ObjectKey("", "node")) is node
    assert store.in_namespace("") == [node]


def test_state_of_an_empty_namespace_is_released(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 1)), added(thing("b", 2, namespace="other")), deleted(thing("a", 3))])
    assert store.statistics().namespaces == 1


def test_returned_collections_are_not_affected_by_later_changes(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 1))])
    values, names = store.values(), store.in_namespace("ns")
    store.apply([added(thing("b", 2)), deleted(thing("a", 3))])
    assert [version_of(item) for item in values] == ["1"]
    assert names == values


def test_the_store_is_at_least_as_new_as_the_change_passed_to_a_handler(store: Store[Thing]) -> None:
    seen: list[tuple[str | None, str | None]] = []
    store.subscribe(lambda _, new: seen.append((version_of(new), version_of(store.get(key("a"))))))
    store.apply([added(thing("a", 1)), modified(thing("a", 2)), modified(thing("a", 3))])
    assert seen == [("1", "3"), ("2", "3"), ("3", "3")]


def test_events_that_are_not_newer_are_dropped(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("a", 10))])
    store.apply([modified(thing("a", 9)), modified(thing("a", 10)), deleted(thing("a", 9))])
    assert recorder.take() == ["+a@10"]
    assert version_of(store.get(key("a"))) == "10"
    assert store.statistics().outdated == 3


def test_versions_are_compared_as_numbers(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 9)), modified(thing("a", 10))])
    assert version_of(store.get(key("a"))) == "10"
    store.apply([modified(thing("a", 9))])
    assert version_of(store.get(key("a"))) == "10"


def test_non_numeric_versions_count_as_newer(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("a", "x7")), modified(thing("a", "x3"))])
    assert recorder.take() == ["+a@x7", "a@x7->x3"]
    assert store.resource_version == "x3"


def test_a_deletion_event_with_the_version_of_the_object_removes_it(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 5)), deleted(thing("a", 5))])
    assert len(store) == 0


def test_replacing_an_object_under_its_name_is_dispatched_as_two_changes(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.apply([added(thing("a", 1, uid="first")), modified(thing("a", 2, uid="second"))])
    assert recorder.take() == ["+a@1", "-a@1", "+a@2"]


def test_a_late_deletion_of_an_earlier_object_does_not_remove_its_successor(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 5, uid="second")), deleted(thing("a", 4, uid="first"))])
    assert version_of(store.get(key("a"))) == "5"


def test_events_older_than_the_deletion_do_not_restore_an_object(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 1)), deleted(thing("a", 3)), modified(thing("a", 2))])
    assert len(store) == 0


def test_a_deletion_event_before_an_older_event_of_the_object_still_applies(store: Store[Thing]) -> None:
    store.apply([deleted(thing("a", 3)), added(thing("a", 2))])
    assert len(store) == 0


def test_an_object_that_matches_the_selector_again_is_stored(store: Store[Thing], recorder: Recorder) -> None:
    """A selector may exclude an object (DELETED) and include it again: the uid is the same."""
    store.apply([added(thing("a", 1)), deleted(thing("a", 2)), added(thing("a", 3))])
    assert recorder.take() == ["+a@1", "-a@1", "+a@3"]
    assert store.statistics().tombstones == 0


def test_tombstones_are_discarded_once_a_bookmark_has_passed_them(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 1)), deleted(thing("a", 2)), added(thing("b", 3)), deleted(thing("b", 9))])
    assert store.statistics().tombstones == 2
    store.apply([Bookmark("8")])
    assert store.statistics().tombstones == 1
    store.apply([Bookmark("9")])
    assert store.statistics().tombstones == 0


def test_tombstones_without_bookmarks_are_bounded(
    store: Store[Thing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tombstones_module, "MAX_TOMBSTONES", 10)
    store.apply([deleted(thing(f"a{number}", number)) for number in range(1, 100)])
    assert store.statistics().tombstones == 10


def test_a_bookmark_advances_the_version_without_a_dispatch(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("a", 1)), Bookmark("50")])
    assert store.resource_version == "50"
    store.apply([Bookmark("40")])
    assert store.resource_version == "50"
    assert recorder.take() == ["+a@1"]


# ------------------------------------------------------------------------------------------------- relists


def test_a_relist_is_one_atomic_replace(store: Store[Thing]) -> None:
    store.apply([added(thing("a", 1)), added(thing("b", 2))])
    sizes: list[int] = []
    store.subscribe(lambda _old, _new: sizes.append(len(store)))
    store.replace([thing("b", 2), thing("c", 3), thing("d", 4), thing("e", 5)], "6")
    assert sizes == [4, 4, 4, 4]
    assert store.resource_version == "6"
    assert store.synced


def test_a_relist_dispatches_only_the_differences(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("gone", 1)), added(thing("same", 2)), added(thing("changed", 3))])
    recorder.take()
    store.replace([thing("changed", 7), thing("new", 6), thing("same", 2)], "9")
    assert recorder.take() == ["-gone@1", "changed@3->7", "+new@6"]
    assert recorder.mirror == contents(store)


def test_a_relist_keeps_the_identity_of_unchanged_objects(store: Store[Thing]) -> None:
    before = thing("a", 1)
    store.apply([added(before)])
    store.replace([thing("a", 1)], "5")
    assert store.get(key("a")) is before


def test_a_relist_with_a_recreated_object_dispatches_two_changes(
    store: Store[Thing], recorder: Recorder
) -> None:
    store.apply([added(thing("a", 1, uid="first"))])
    store.replace([thing("a", 5, uid="second")], "5")
    assert recorder.take() == ["+a@1", "-a@1", "+a@5"]


def test_an_object_on_two_pages_is_stored_once_in_its_newer_state(store: Store[Thing]) -> None:
    store.replace([thing("a", 7), thing("a", 5), thing("b", 1), thing("b", 2)], "9")
    assert {version_of(item) for item in store.values()} == {"7", "2"}
    assert len(store) == 2


def test_an_empty_relist_empties_the_store_and_syncs_it(store: Store[Thing], recorder: Recorder) -> None:
    store.apply([added(thing("a", 1))])
    store.replace([], "5")
    assert recorder.take() == ["+a@1", "-a@1"]
    assert len(store) == 0
    assert store.statistics().namespaces == 0
    assert store.synced


def test_a_relist_from_a_server_that_lost_history_is_authoritative(
    store: Store[Thing], recorder: Recorder
) -> None:
    """After a restore of the database, a version may refer to a different state."""
    store.replace([thing("a", 100, "then"), thing("b", 90, "same"), thing("c", 95)], "100")
    recorder.take()
    store.replace([thing("a", 100, "now"), thing("b", 90, "same"), thing("d", 40)], "99")
    assert recorder.take() == ["-c@95", "a@100->100", "+d@40"]
    assert store.resource_version == "99"
    store.apply([modified(thing("d", 101))])
    assert version_of(store.get(key("d"))) == "101"


async def test_waiting_for_sync_ends_with_the_first_list(store: Store[Thing]) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(store.wait_synced(), name="waiter")
        await asyncio.sleep(0)
        assert not waiting.done()
        store.replace([], "1")
    assert store.synced


# ------------------------------------------------------------------------------------------------ handlers


def test_a_failing_handler_affects_neither_the_store_nor_other_handlers(
    store: Store[Thing], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(old: Thing | None, new: Thing | None) -> None:
        raise ValueError("not today")

    store.subscribe(broken)
    recorder = Recorder(store)
    with caplog.at_level(logging.ERROR):
        store.apply([added(thing("a", 1)), added(thing("b", 2))])
    assert recorder.take() == ["+a@1", "+b@2"]
    assert len(store) == 2
    assert store.statistics().handler_errors == 2
    assert "ns/a" in caplog.text
    assert "not today" in caplog.text


def test_every_handler_receives_a_change_before_any_receives_the_next(store: Store[Thing]) -> None:
    heard: list[tuple[str, str | None]] = []
    store.subscribe(lambda _, new: heard.append(("first", version_of(new))))
    store.subscribe(lambda _, new: heard.append(("second", version_of(new))))
    store.apply([added(thing("a", 1)), modified(thing("a", 2))])
    assert heard == [("first", "1"), ("second", "1"), ("first", "2"), ("second", "2")]


def test_a_handlers_own_write_is_dispatched_after_earlier_changes(
    store: Store[Thing], recorder: Recorder
) -> None:
    def writer(old: Thing | None, new: Thing | None) -> None:
        if version_of(new) == "1":
            store.record_write(thing("a", 9))

    store.subscribe(writer)
    last = Recorder(store)
    store.apply([added(thing("a", 1)), added(thing("b", 2))])
    assert recorder.take() == last.take() == ["+a@1", "+b@2", "a@1->9"]


def test_cancelling_a_subscription_does_not_affect_others(store: Store[Thing]) -> None:
    heard: list[str | None] = []

    def handler(old: Thing | None, new: Thing | None) -> None:
        heard.append(version_of(new))

    first = store.subscribe(handler)
    store.subscribe(handler)
    first()
    first()
    store.apply([added(thing("a", 1))])
    assert heard == ["1"]


def test_a_subscriber_does_not_receive_previously_stored_objects(store: Store[Thing]) -> None:
    late: list[Recorder] = []
    store.subscribe(lambda _old, _new: late.append(Recorder(store)) if not late else None)
    store.apply([added(thing("a", 1)), added(thing("b", 2))])
    assert late[0].take() == []


def test_statistics_start_at_zero(store: Store[Thing], recorder: Recorder) -> None:
    fresh = store.statistics()
    assert (fresh.objects, fresh.changes, fresh.outdated, fresh.replaces, fresh.handler_errors) == (
        0,
        0,
        0,
        0,
        0,
    )
    store.apply([added(thing("a", 1)), added(thing("a", 1))])
    store.replace([thing("a", 1)], "2")
    now = store.statistics()
    assert (now.objects, now.changes, now.outdated, now.replaces, now.synced) == (1, 1, 1, 1, True)


def test_a_store_needs_little_memory_beyond_its_objects() -> None:
    """No wrapper and no key object per entry: two dicts of the objects' own strings."""
    store: Store[Thing] = Store()
    item = thing("a", 1)
    store.apply([added(item)])
    [objects] = store._namespaces.values()
    [(name, stored)] = objects.items()
    assert name is item.metadata.name
    assert stored is item


def test_types_with_only_identity_fields_can_be_stored() -> None:
    class Narrow(msgspec.Struct, frozen=True):
        metadata: NarrowMeta

    store: Store[Narrow] = Store()
    item = Narrow(NarrowMeta("a", "ns", "uid", "1"))
    store.apply([WatchEvent("ADDED", item)])
    assert store.get(key("a")) is item
