"""Indexes of a store: objects found by a key computed from each of them."""

import logging

import pytest
from tests.unit.runtime.watch.things import Thing, added, deleted, key, modified, thing

from aiokube.api.meta import key_of
from aiokube.runtime.pacing import STEPS_A_YIELD
from aiokube.runtime.store import Store


def values_of(item: Thing) -> list[str]:
    return item.value.split()


def indexed_store() -> Store[Thing]:
    store: Store[Thing] = Store("things")
    store.add_index("value", values_of)
    return store


def names(store: Store[Thing], index_key: str) -> list[str]:
    return [item.metadata.name for item in store.by_index("value", index_key)]


def test_an_object_is_indexed_under_each_of_its_keys() -> None:
    store = indexed_store()
    store.apply([added(thing("a", 1, "red")), added(thing("b", 2, "red blue")), added(thing("c", 3))])
    assert names(store, "red") == ["a", "b"]
    assert names(store, "blue") == ["b"]
    assert names(store, "green") == []
    assert set(store.index_keys("value")) == {"red", "blue"}


def test_a_changed_object_moves_to_its_new_keys() -> None:
    store = indexed_store()
    store.apply([added(thing("a", 1, "red")), added(thing("b", 2, "red"))])
    store.apply([modified(thing("a", 3, "blue"))])
    assert (names(store, "red"), names(store, "blue")) == (["b"], ["a"])
    store.apply([deleted(thing("b", 4, "red"))])
    assert store.index_keys("value") == ["blue"]


def test_by_index_returns_the_stored_version() -> None:
    store = indexed_store()
    store.apply([added(thing("a", 1, "red"))])
    newer = thing("a", 2, "red")
    store.apply([modified(newer)])
    assert store.by_index("value", "red") == [newer]


def test_an_index_added_later_contains_the_stored_objects() -> None:
    store: Store[Thing] = Store("things")
    store.replace([thing("a", 1, "red")], "1")
    store.add_index("value", values_of)
    assert names(store, "red") == ["a"]


def test_a_pending_write_is_in_the_index_until_the_watch_contradicts_it() -> None:
    store = indexed_store()
    store.replace([thing("a", 1, "red")], "1")
    store.record_write(thing("a", 5, "blue"))
    store.record_write(thing("b", 6, "blue"))
    assert (names(store, "red"), names(store, "blue")) == ([], ["a", "b"])
    store.record_delete(key("a"), "uid-a")
    assert names(store, "blue") == ["b"]
    store.replace([thing("a", 4, "green")], "9")  # the list passed the write of b, and b is not in it
    assert store.index_keys("value") == ["green"]


def test_handlers_see_the_updated_index() -> None:
    store = indexed_store()
    seen: list[list[str]] = []
    store.subscribe(lambda old, new: seen.append(names(store, "red")))
    store.apply([added(thing("a", 1, "red")), added(thing("b", 2, "red"))])
    store.apply([deleted(thing("a", 3, "red"))])
    assert seen == [["a", "b"], ["a", "b"], ["b"]]


def test_an_incremental_relist_updates_the_whole_index_in_its_first_step() -> None:
    store = indexed_store()
    count = 3 * STEPS_A_YIELD
    store.replace([thing(f"old-{number}", 1, "old") for number in range(count)], "1")
    told: list[str] = []
    store.subscribe(lambda old, new: told.append("change"))
    steps = store.replace_steps([thing(f"new-{number}", 2, "new") for number in range(count)], "2")
    next(steps)
    assert len(told) < 2 * count
    assert len(store.by_index("value", "new")) == count
    assert store.by_index("value", "old") == []
    store.record_write(thing("new-0", 3, "own"))
    assert names(store, "own") == ["new-0"]
    for _ in steps:
        pass
    assert names(store, "own") == ["new-0"]
    assert len(store.by_index("value", "new")) == count - 1


def test_an_object_with_another_uid_replaces_the_first_in_the_index() -> None:
    store = indexed_store()
    store.apply([added(thing("a", 1, "red", uid="1")), modified(thing("a", 2, "blue", uid="2"))])
    assert (names(store, "red"), names(store, "blue")) == ([], ["a"])


def test_an_unknown_index_is_an_error_with_a_remedy() -> None:
    store = indexed_store()
    with pytest.raises(KeyError, match=r"the store of things has no index 'size'; add it with add_index\(\)"):
        store.by_index("size", 1)


def test_an_index_name_cannot_be_reused_for_another_function() -> None:
    store = indexed_store()
    store.apply([added(thing("a", 1, "red"))])
    store.add_index("value", values_of)
    assert names(store, "red") == ["a"]
    with pytest.raises(ValueError, match="the store of things already has another index 'value'"):
        store.add_index("value", lambda item: [item.metadata.name])


def test_an_object_with_a_failing_index_function_is_left_out_of_the_index_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store: Store[Thing] = Store("things")
    store.add_index("number", lambda item: [int(item.value)])
    with caplog.at_level(logging.ERROR):
        store.apply([added(thing("a", 1, "1")), added(thing("b", 2, "x")), added(thing("c", 3, "1"))])
    assert [key_of(item).name for item in store.by_index("number", 1)] == ["a", "c"]
    assert "the function of index things/number failed: key=ns/b" in caplog.text
    store.apply([modified(thing("b", 4, "1"))])
    assert [key_of(item).name for item in store.by_index("number", 1)] == ["a", "c", "b"]


def test_an_update_touches_only_the_keys_of_the_changed_object() -> None:
    computed: list[str] = []

    def counting(item: Thing) -> list[str]:
        computed.append(item.metadata.name)
        return [item.value]

    store: Store[Thing] = Store("things")
    store.add_index("value", counting)
    store.replace([thing(str(number), 1, "x") for number in range(100)], "1")
    computed.clear()
    store.apply([modified(thing("7", 2, "y"))])
    assert computed == ["7", "7"]
    store.replace([item for item in store.values() if item.metadata.name != "8"], "3")
    assert computed == ["7", "7", "8"]
