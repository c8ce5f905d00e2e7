"""After any history of events, own writes and relists, the store, its handlers and the server agree."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.runtime.watch.things import Recorder, Thing, contents

from aiokube.api.meta import ObjectKey, ObjectMeta, key_of, version_number
from aiokube.api.resource import Bookmark, WatchEvent
from aiokube.runtime.store import Store
from aiokube.testing.fake_history import FakeHistory

NAMESPACES = ("one", "two")
KEYS = (ObjectKey("one", "a"), ObjectKey("one", "b"), ObjectKey("two", "a"))  # few, so that keys collide
keys = st.sampled_from(KEYS)


class Act(NamedTuple):
    version: int
    uid: str
    is_delete: bool


def index_keys_of(thing: Thing) -> list[str]:
    """Return index keys that are added, removed and kept as an object changes: none, one or two."""
    number = int(thing.value or 0)
    return [thing.metadata.namespace, f"mod {number % 3}"][: number % 4]


def assert_index_is_correct(store: Store[Thing]) -> None:
    """Compare an index with one built from all stored objects."""
    expected: dict[object, set[ObjectKey]] = {}
    for item in store.values():
        for index_key in index_keys_of(item):
            expected.setdefault(index_key, set()).add(key_of(item))
    assert set(store.index_keys("test")) == expected.keys()
    for each, object_keys in expected.items():
        found = store.by_index("test", each)
        assert len(found) == len(object_keys)
        assert all(store.get(key_of(item)) is item for item in found)
        assert {key_of(item) for item in found} == object_keys


class StoreMachine(RuleBasedStateMachine):
    """A server, a watch that lags by any amount and repeats events, and a controller that writes.

    The controller must read its confirmed writes immediately; responses may be late and in any order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server: FakeHistory[Thing] = FakeHistory()
        self.store: Store[Thing] = Store("things")
        self.store.add_index("test", index_keys_of)
        self.recorder = Recorder(self.store)
        self.store.subscribe(
            lambda old, new: assert_index_is_correct(self.store)
        )  # it fails as a handler error
        self.watched = 0  # the version that the watch has reached
        self.responses: list[tuple[ObjectKey, Callable[[], None]]] = []  # in transit; in order for each key
        self.acts: dict[ObjectKey, Act] = {}  # our last confirmed write of a key
        self.written: set[tuple[ObjectKey, str]] = set()  # our confirmed writes by version
        self.deleted: dict[ObjectKey, int] = {}  # the version of our last confirmed deletion
        self.highest: dict[tuple[ObjectKey, str], int] = {}
        self.number = 0

    def new(self, key: ObjectKey, held: bool = False) -> Thing:
        self.number += 1
        metadata = ObjectMeta(
            name=key.name, namespace=key.namespace, finalizers=("example.com/hold",) if held else None
        )
        return Thing(metadata, str(self.number))

    @initialize(held=st.booleans(), key=keys)
    def first_list(self, held: bool, key: ObjectKey) -> None:
        self.server.create(self.new(key, held))
        self.relist()

    # --------------------------------------------------------------------------- other clients, and the
    # server

    @rule(key=keys, held=st.booleans())
    def foreign_write(self, key: ObjectKey, held: bool) -> None:
        if key in self.server.objects:
            if not self.server.objects[key].metadata.deletion_timestamp:
                self.server.modify(self.new(key, held))
        else:
            self.server.create(self.new(key, held))

    @rule(key=keys)
    def foreign_delete(self, key: ObjectKey) -> None:
        if key in self.server.objects:
            self.server.delete(key)

    @rule(key=keys)
    def remove_finalizer(self, key: ObjectKey) -> None:
        if key in self.server.objects:
            self.server.finish(key)

    # -------------------------------------------------------------------------------------------- the watch

    @rule(count=st.integers(1, 6), again=st.integers(0, 3), bookmark=st.booleans())
    def watch_delivers_events(self, count: int, again: int, bookmark: bool) -> None:
        """Deliver some events, perhaps after repeating some; they may end in a bookmark."""
        events, _ = self.server.events_after(0)
        first = next((i for i, event in enumerate(events) if self.version(event) > self.watched), len(events))
        batch: list[WatchEvent[Thing] | Bookmark] = [*events[max(0, first - again) : first + count]]
        if batch:
            self.watched = max(self.watched, self.version(events[min(first + count, len(events)) - 1]))
        if bookmark:
            batch.append(Bookmark(str(self.watched)))
        if batch:
            self.store.apply(batch)

    @rule()
    def watch_catches_up(self) -> None:
        events, self.watched = self.server.events_after(self.watched)
        self.store.apply([*events, Bookmark(str(self.server.version))])
        self.watched = self.server.version

    @rule()
    def relist(self) -> None:
        self.store.replace(self.server.objects.values(), str(self.server.version))
        self.watched = self.server.version

    @rule(behind=st.integers(1, 5))
    def relist_from_a_lagging_replica(self, behind: int) -> None:
        """The list has some version between the watch's and the current one, perhaps older than our writes."""
        version = max(self.watched, self.server.version - behind)
        self.store.replace(self.state_at(version).values(), str(version))
        self.watched = version
        # It may contain objects that we deleted: the response to a deletion has no version.
        self.acts = {key: act for key, act in self.acts.items() if not act.is_delete}

    # ------------------------------------------------------------------------------------------- own writes

    def write(self, key: ObjectKey, held: bool = False) -> Thing | None:
        stored = self.server.objects.get(key)
        if stored is None:
            return self.server.create(self.new(key, held))
        if stored.metadata.deletion_timestamp:
            return None
        return self.server.modify(self.new(key, held))

    def take_write(self, answer: Thing) -> None:
        key, version = key_of(answer), version_number(answer.metadata.resource_version)
        self.store.record_write(answer)
        self.written.add((key, answer.metadata.resource_version))
        self.act(key, Act(version, answer.metadata.uid, is_delete=False))

    def take_delete(self, key: ObjectKey, act: Act) -> None:
        self.store.record_delete(key, act.uid)
        self.deleted[key] = max(act.version, self.deleted.get(key, 0))
        self.act(key, act)

    def act(self, key: ObjectKey, act: Act) -> None:
        if key not in self.acts or self.acts[key].version <= act.version:
            self.acts[key] = act

    @rule(key=keys, held=st.booleans())
    def own_write(self, key: ObjectKey, held: bool) -> None:
        answer = self.write(key, held)
        if answer is not None:
            self.responses.append((key, partial(self.take_write, answer)))

    @rule(key=keys)
    def own_no_op_write(self, key: ObjectKey) -> None:
        """A write that changes nothing: the response is the existing object at its old version (k/k#127370)."""
        answer = self.server.objects.get(key)
        if answer is not None:
            self.responses.append((key, partial(self.take_write, answer)))

    @rule(key=keys)
    def own_delete(self, key: ObjectKey) -> None:
        stored = self.server.objects.get(key)
        if stored is not None:
            self.server.delete(key)
            act = Act(self.server.version, stored.metadata.uid, is_delete=True)
            self.responses.append((key, partial(self.take_delete, key, act)))

    @precondition(lambda self: self.responses)
    @rule(which=st.integers(0, 5))
    def deliver_response(self, which: int) -> None:
        """The first pending write of a key: no client writes an object twice at the same time."""
        key, _ = self.responses[which % len(self.responses)]
        index = next(index for index, (of, _) in enumerate(self.responses) if of == key)
        self.responses.pop(index)[1]()

    @rule(key=keys)
    def own_write_with_immediate_response(self, key: ObjectKey) -> None:
        if not any(of == key for of, _ in self.responses):
            answer = self.write(key)
            if answer is not None:
                self.take_write(answer)
                assert self.store.get(key) == answer

    # -------------------------------------------------------------------------------------------- invariants

    @staticmethod
    def version(event: WatchEvent[Thing]) -> int:
        return version_number(event.item.metadata.resource_version)

    def state_at(self, version: int) -> dict[ObjectKey, Thing]:
        state: dict[ObjectKey, Thing] = {}
        for event in self.server.events_after(0)[0]:
            if self.version(event) <= version:
                if event.type == "DELETED":
                    del state[key_of(event.item)]
                else:
                    state[key_of(event.item)] = event.item
        return state

    @invariant()
    def store_equals_watched_state_plus_later_own_writes(self) -> None:
        told = self.state_at(self.watched)
        stored = contents(self.store)
        for key, item in stored.items():
            if version_number(item.metadata.resource_version) > self.watched:
                assert (key, item.metadata.resource_version) in self.written
            else:
                assert item == told[key]
        for key in told.keys() - stored.keys():
            assert version_number(told[key].metadata.resource_version) < self.deleted[key]

    @invariant()
    def own_writes_are_visible_until_the_watch_reaches_them(self) -> None:
        for key, act in self.acts.items():
            item = self.store.get(key)
            if act.version <= self.watched:
                continue
            if act.is_delete:
                assert item is None or item.metadata.uid != act.uid or item.metadata.deletion_timestamp
            else:
                assert item is not None
                assert version_number(item.metadata.resource_version) >= act.version

    @invariant()
    def dispatched_changes_add_up_to_the_store(self) -> None:
        assert self.recorder.mirror == contents(self.store)
        assert len(self.store) == len(self.recorder.mirror)
        by_namespace = [item for namespace in NAMESPACES for item in self.store.in_namespace(namespace)]
        assert sorted(map(repr, by_namespace)) == sorted(map(repr, self.store.values()))
        assert self.store.statistics().namespaces == len({key.namespace for key in self.recorder.mirror})

    @invariant()
    def index_equals_a_full_scan(self) -> None:
        assert_index_is_correct(self.store)

    @invariant()
    def versions_never_decrease(self) -> None:
        for item in self.store.values():
            of_one_uid = (key_of(item), item.metadata.uid)
            version = version_number(item.metadata.resource_version)
            assert version >= self.highest.get(of_one_uid, 0)
            self.highest[of_one_uid] = version

    @invariant()
    def pending_writes_and_tombstones_are_bounded(self) -> None:
        statistics = self.store.statistics()
        assert statistics.pending_writes <= statistics.objects
        assert statistics.tombstones <= len(KEYS)
        assert statistics.handler_errors == 0

    def teardown(self) -> None:
        """After all responses have arrived and the watch has caught up, the store equals the server, with no leftovers."""
        for _, answer in self.responses:
            answer()
        events, _ = self.server.events_after(self.watched)
        self.store.apply([*events, Bookmark(str(self.server.version))])
        assert contents(self.store) == self.server.objects
        assert self.recorder.mirror == self.server.objects
        assert self.store.statistics().pending_writes == 0
        self.store.replace(self.server.objects.values(), str(self.server.version))
        assert self.store.statistics().tombstones == 0


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), keys, st.integers(1, 30), st.integers(1, 3)
        ),
        max_size=40,
    ),
    st.integers(1, 7),
)
@settings(max_examples=300, deadline=None)
def test_the_store_and_its_dispatched_changes_agree_after_impossible_events(
    events: list[tuple[str, ObjectKey, int, int]], size: int
) -> None:
    """Impossible events in any order: no exception, no inconsistency, no duplicate name."""
    store: Store[Thing] = Store("things")
    store.add_index("test", index_keys_of)
    recorder = Recorder(store)
    batch: list[WatchEvent[Thing] | Bookmark] = []
    for kind, key, version, uid in events:
        metadata = ObjectMeta(
            name=key.name, namespace=key.namespace, uid=f"uid-{uid}", resource_version=str(version)
        )
        batch.append(WatchEvent(kind, Thing(metadata, str(version))))  # type: ignore[arg-type]
        if len(batch) == size:
            store.apply(batch)
            batch = []
            assert recorder.mirror == contents(store)
            assert_index_is_correct(store)
    store.apply(batch)
    assert recorder.mirror == contents(store)
    assert store.statistics().handler_errors == 0


@given(st.integers(1, 8).flatmap(lambda count: st.permutations(range(count))), st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_events_of_a_key_give_the_same_state_in_any_order(order: list[int], size: int) -> None:
    """All orders of the first events of a life cycle: created, changed, deleted, recreated, changed."""
    server: FakeHistory[Thing] = FakeHistory()
    metadata = ObjectMeta(name="a", namespace="one")
    server.create(Thing(metadata))
    for number in range(3):
        server.modify(Thing(metadata, str(number)))
    server.delete(ObjectKey("one", "a"))
    server.create(Thing(metadata, "again"))
    server.modify(Thing(metadata, "and again"))
    server.modify(Thing(metadata, "the end"))
    events, _ = server.events_after(0)
    last = events[len(order) - 1]
    expected = {} if last.type == "DELETED" else {key_of(last.item): last.item}
    store: Store[Thing] = Store("things")
    shuffled = [events[index] for index in order]
    for start in range(0, len(order), size):
        store.apply(shuffled[start : start + size])
    assert contents(store) == expected


def test_a_store_can_be_created_without_a_running_loop() -> None:
    store: Store[Thing] = Store("things")
    store.replace([], "1")
    asyncio.run(asyncio.wait_for(store.wait_synced(), 1))
    assert store.synced
