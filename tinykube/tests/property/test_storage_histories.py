"""After any history of writes, failures, restarts and power failures, the storage equals a naive model."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.server.storage.gated import CONFIGMAPS, LEASES, WIDGETS, GatedLog, describe, document

from aiokube.testing.virtual_time import ManualClock
from tinykube.server.objects import GroupResource, JsonObject, StorageKey
from tinykube.server.storage.datadir import DATABASE_NAME
from tinykube.server.storage.log import MemoryLog
from tinykube.server.storage.model import (
    Change,
    RevisionCompactedError,
    StorageFailedError,
    StorageSettings,
    Write,
    WriteConflictError,
)
from tinykube.server.storage.sqlite_log import SqliteLog
from tinykube.server.storage.store import ObjectStorage
from tinykube.server.storage.watch import HistorySubscription, frame

GENEROUS = StorageSettings()
TIGHT = StorageSettings(history_changes=6, volatile_changes=4, history_bytes=4_000, history_seconds=30.0)
RESOURCES = (CONFIGMAPS, WIDGETS, LEASES)
KEYS = tuple(
    StorageKey(resource, namespace, name)
    for resource in RESOURCES
    for namespace, name in (("one", "a"), ("one", "b"), ("one-more", "a"))
)  # few keys, so that writes collide
keys = st.sampled_from(KEYS)
namespaces = st.sampled_from(("", "one", "one-more"))


class Event(NamedTuple):
    """A change in the model; ``content`` of a deletion is the last content."""

    revision: int
    key: StorageKey
    type: str
    content: JsonObject


class Pending(NamedTuple):
    task: "asyncio.Task[tuple[Change, ...]]"
    events: list[Event]


class Watcher:
    def __init__(self, resource: GroupResource, namespace: str, after: int) -> None:
        self.resource, self.namespace = resource, namespace
        self.seen = after
        self.subscription: HistorySubscription | None = None


class StorageMachine(RuleBasedStateMachine):
    """Writers, readers and watchers of one storage; rules let the disk write, fail and lose power."""

    on_disk = True

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp(prefix="storage-histories-"))
        self.generation = 0
        self.clock = ManualClock()
        self.events: list[Event] = []  # everything that was ever durable
        self.pending: list[Pending] = []
        self.accepted: dict[StorageKey, Event] = {}
        self.revision = 1
        self.last_accepted = 1
        self.number = 0
        self.watchers: list[Watcher] = []
        self.options = GENEROUS

    # ------------------------------------------------------------ the model

    def state_at(self, revision: int) -> dict[StorageKey, Event]:
        state: dict[StorageKey, Event] = {}
        for event in self.events:
            if event.revision > revision:
                break
            state[event.key] = event
        return {key: event for key, event in state.items() if event.type != "DELETED"}

    def latest(self, key: StorageKey) -> Event | None:
        event = self.accepted.get(key) or self.state_at(self.revision).get(key)
        return None if event is None or event.type == "DELETED" else event

    # ------------------------------------------------------------ tools

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def turn(self) -> None:
        async def turns() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self.run(turns())

    def open(self) -> None:
        inner = SqliteLog(self.directory / str(self.generation)) if self.on_disk else MemoryLog()
        self.log = GatedLog(inner)
        self.storage = ObjectStorage(self.log, describe=describe, clock=self.clock, settings=self.options)

    @initialize(options=st.sampled_from((GENEROUS, TIGHT)))
    def begin(self, options: StorageSettings) -> None:
        self.options = options
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.finish_writes()
            self.run(self.storage.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.directory)

    # ------------------------------------------------------------ writing

    @rule(chosen=st.lists(keys, min_size=1, max_size=4, unique=True), data=st.data())
    def commit(self, chosen: list[StorageKey], data: st.DataObject) -> None:
        writes, events, revision = [], [], self.last_accepted
        for key in chosen:
            known = self.latest(key)
            revision += 1
            if known is not None and data.draw(st.booleans(), label=f"remove {key.name}"):
                writes.append(Write(key, None, known.revision))
                events.append(Event(revision, key, "DELETED", known.content))
                continue
            self.number += 1
            content = document(key.name, key.namespace, number=self.number)
            writes.append(
                Write(
                    key, document(key.name, key.namespace, number=self.number), known.revision if known else 0
                )
            )
            events.append(Event(revision, key, "MODIFIED" if known else "ADDED", content))
        task = self.loop.create_task(self.storage.commit(writes))
        self.turn()
        assert not task.done()  # the disk has not written yet
        self.pending.append(Pending(task, events))
        self.last_accepted = revision
        self.accepted.update({event.key: event for event in events})

    @rule(chosen=st.lists(keys, min_size=1, max_size=3, unique=True), off_by=st.sampled_from((-1, 1, 1000)))
    def commit_on_a_stale_view(self, chosen: list[StorageKey], off_by: int) -> None:
        writes = []
        for position, key in enumerate(chosen):
            known = self.latest(key)
            expected = (known.revision if known else 0) + (off_by if position == len(chosen) - 1 else 0)
            writes.append(Write(key, document(key.name, key.namespace), expected))
        with pytest.raises(WriteConflictError) as refused:
            self.run(self.storage.commit(writes))
        assert refused.value.key == chosen[-1]

    @precondition(lambda self: self.pending)
    @rule()
    def the_disk_writes(self) -> None:
        last = self.run(self.log.release())
        self.turn()
        assert self.storage.revision == last
        while self.pending and self.pending[0].events[-1].revision <= last:
            pending = self.pending.pop(0)
            assert [change.revision for change in pending.task.result()] == [
                event.revision for event in pending.events
            ]
            self.events.extend(pending.events)
            for event in pending.events:
                if self.accepted.get(event.key) is event:
                    del self.accepted[event.key]
        self.revision = last

    @precondition(lambda self: self.pending)
    @rule()
    def the_disk_is_full(self) -> None:
        self.log.fail()
        self.turn()
        for pending in self.pending:
            assert isinstance(pending.task.exception(), StorageFailedError)
        self.pending.clear()
        self.accepted.clear()

    @precondition(lambda self: self.pending)
    @rule()
    def a_writer_gives_up_waiting(self) -> None:
        waiting = self.pending[-1]
        if waiting.task.cancelled():
            return
        waiting.task.cancel()
        self.turn()

        async def was_committed() -> tuple[Change, ...]:
            return tuple(Change("ADDED", _Revision(event.revision), None) for event in waiting.events)  # type: ignore[arg-type]

        done = self.loop.create_task(was_committed())
        self.turn()
        # Its write continues, but then its failure has no recipient.
        self.pending[-1] = Pending(_Settled(done), waiting.events)  # type: ignore[arg-type]

    @rule(seconds=st.sampled_from((0.5, 2.0, 40.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    # ------------------------------------------------------------ restarts

    def finish_writes(self) -> None:
        while self.pending:
            self.the_disk_writes()

    @precondition(lambda self: self.on_disk)
    @rule()
    def an_orderly_restart(self) -> None:
        self.finish_writes()
        revision = self.storage.revision
        self.run(self.storage.aclose())
        self.open()
        assert self.storage.revision == revision
        self.after_restart()

    @precondition(lambda self: self.on_disk)
    @rule()
    def the_power_goes(self) -> None:
        """Only the current contents of the files survive."""
        old, self.generation = self.directory / str(self.generation), self.generation + 1
        new = self.directory / str(self.generation)
        new.mkdir(mode=0o700)
        for path in old.iterdir():
            if path.name.startswith(DATABASE_NAME):
                shutil.copy(path, new / path.name)
        for pending in self.pending:
            pending.task.cancel()
        self.pending.clear()
        self.accepted.clear()
        self.log.held.clear()
        self.turn()
        self.run(self.log.aclose())
        self.open()
        assert self.storage.revision >= self.revision
        self.after_restart()

    def after_restart(self) -> None:
        self.revision = self.last_accepted = self.storage.revision
        for watcher in self.watchers:
            watcher.subscription = None

    # ------------------------------------------------------------ watching

    @rule(resource=st.sampled_from(RESOURCES), namespace=namespaces, back=st.integers(0, 12))
    def watch(self, resource: GroupResource, namespace: str, back: int) -> None:
        self.watchers.append(Watcher(resource, namespace, max(self.revision - back, 1)))

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def a_watcher_reads(self, data: st.DataObject) -> None:
        watcher = data.draw(st.sampled_from(self.watchers))
        if watcher.subscription is None:
            try:
                watcher.subscription = self.storage.subscribe(
                    watcher.resource, watcher.namespace, after_revision=watcher.seen
                )
            except RevisionCompactedError as error:
                self.check_refusal(error, watcher.seen, watcher.resource)
                self.watchers.remove(watcher)
                return
        expected = [
            event
            for event in self.events
            if event.revision > watcher.seen
            and event.key.resource == watcher.resource
            and watcher.namespace in ("", event.key.namespace)
        ]
        reading = self.loop.create_task(_read(watcher.subscription))
        self.turn()
        if not reading.done():
            assert not expected
            reading.cancel()
            self.turn()
            return
        batch = reading.result()
        if watcher.subscription.overrun:
            assert not batch
            assert expected, "cut off for changes of other namespaces"
            assert self.options is TIGHT
            self.watchers.remove(watcher)
            return
        assert [(change.revision, change.type, change.after.key) for change in batch] == [
            (event.revision, event.type, event.key) for event in expected
        ]
        for change, event in zip(batch, expected, strict=True):
            assert change.after.decode() == with_revision(event.content, event.revision)
            self.check_before(change)
            encoded = frame(change, change.type)
            assert encoded is frame(change, change.type) or not change.encoded_events.kept
            assert change.after.encoded in encoded
        watcher.seen = max(watcher.seen, batch[-1].revision)

    def check_refusal(self, error: RevisionCompactedError, asked: int, resource: GroupResource) -> None:
        assert asked < error.oldest <= self.revision
        assert self.options is TIGHT or resource == LEASES

    def check_before(self, change: Change) -> None:
        before = self.state_at(change.revision - 1).get(change.after.key)
        if change.before is None:
            assert before is None
        else:
            assert before is not None
            assert change.before.decode() == with_revision(before.content, before.revision)

    # ------------------------------------------------------------ reading

    @rule(resource=st.sampled_from(RESOURCES), namespace=namespaces, back=st.integers(0, 15))
    def read_the_past(self, resource: GroupResource, namespace: str, back: int) -> None:
        revision = max(self.revision - back, 1)
        try:
            snapshot = self.storage.snapshot(resource, namespace, revision)
        except RevisionCompactedError as error:
            self.check_refusal(error, revision, resource)
            return
        self.check_snapshot(snapshot, self.state_at(revision), resource, namespace)

    def check_snapshot(
        self, snapshot: Any, state: dict[StorageKey, Event], resource: GroupResource, namespace: str
    ) -> None:
        expected = sorted(
            (key for key in state if key.resource == resource and namespace in ("", key.namespace)),
            key=lambda key: f"{key.namespace}/{key.name}",
        )
        found = list(snapshot.after("", ""))
        assert [stored.key for stored in found] == expected
        assert len(snapshot) == len(expected)
        for position, stored in enumerate(found):
            assert stored.decode() == with_revision(state[stored.key].content, stored.revision)
            assert list(snapshot.after(stored.key.namespace, stored.key.name)) == found[position + 1 :]

    @invariant()
    def readers_see_what_is_durable_and_writers_what_was_accepted(self) -> None:
        if not hasattr(self, "storage"):
            return
        state = self.state_at(self.revision)
        for key in KEYS:
            stored, event = self.storage.get(key), state.get(key)
            assert (stored.revision if stored else None) == (event.revision if event else None)
            latest, wanted = self.storage.head(key), self.latest(key)
            assert (latest.revision if latest else None) == (wanted.revision if wanted else None)
            if latest is not None and wanted is not None:
                assert latest.decode() == with_revision(wanted.content, wanted.revision)
                assert latest.decode()["metadata"]["labels"] == latest.labels
                assert latest.fields["metadata.name"] == key.name
                assert latest.encoded.startswith(b'{"kind":"ConfigMap","apiVersion":"v1",')
                assert (b"{" + latest.encoded[latest.item_offset :]).startswith(b'{"metadata":')
        for resource in RESOURCES:
            self.check_snapshot(self.storage.snapshot(resource), state, resource, "")
            for namespace in ("", "one"):
                found = {stored.key: stored.revision for stored in self.storage.heads_in(resource, namespace)}
                assert found == {
                    key: event.revision
                    for key in KEYS
                    if key.resource == resource
                    and namespace in ("", key.namespace)
                    and (event := self.latest(key)) is not None
                }


class _Revision(NamedTuple):
    revision: int


class _Settled(NamedTuple):
    """A commit without a waiter."""

    task: "asyncio.Task[tuple[Change, ...]]"

    def result(self) -> tuple[Change, ...]:
        return self.task.result()

    def exception(self) -> BaseException:
        return StorageFailedError("not confirmed")

    def cancel(self) -> None:
        pass

    def cancelled(self) -> bool:
        return True


async def _read(subscription: HistorySubscription) -> Any:
    return await subscription.next_batch()


def with_revision(content: JsonObject, revision: int) -> JsonObject:
    return {**content, "metadata": {**content["metadata"], "resourceVersion": str(revision)}}


class MemoryStorageMachine(StorageMachine):
    """The same without a disk: the in-memory storage has the same guarantees."""

    on_disk = False


StorageMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
MemoryStorageMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestStorageOnDisk = StorageMachine.TestCase
TestStorageInMemory = MemoryStorageMachine.TestCase
