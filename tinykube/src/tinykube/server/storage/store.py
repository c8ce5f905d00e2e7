"""The storage: reads are served from memory, and a commit waits until it is in the log."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import msgspec

from aiokube.clock import Clock
from tinykube.server.objects import GroupResource, StorageKey, metadata_of
from tinykube.server.storage.collection import Collection, CollectionSnapshot
from tinykube.server.storage.compaction import Compaction
from tinykube.server.storage.encoding import at_revision, describe_stored, encode_stored
from tinykube.server.storage.loading import load
from tinykube.server.storage.log import Batch, Log, MemoryLog, Row
from tinykube.server.storage.model import (
    Change,
    Describe,
    StorageFailedError,
    StorageSettings,
    StorageStatistics,
    StoredObject,
    Write,
    WriteConflictError,
)
from tinykube.server.storage.sqlite_log import SqliteLog
from tinykube.server.storage.watch import History, HistorySubscription

_LOG = logging.getLogger(__name__)

_COMMITS_A_GROUP = 1_000
_DISK_FULL = "the disk is full: delete objects or free disk space; until then only deletions are accepted"


class _Commit(msgspec.Struct, gc=False):
    """A pending commit."""

    changes: tuple[Change, ...]
    done: asyncio.Future[None]
    makes_room: bool


def open_storage(
    data_dir: Path | None, *, describe: Describe, clock: Clock, settings: StorageSettings | None = None
) -> "ObjectStorage":
    """Open or create the storage in a directory; without one, data is only in memory.

    Loads all data before it returns. Raises StorageOpenError with one line, and
    :class:`~.model.DataDirectoryInUseError` if another server uses the directory. Close it with
    :meth:`ObjectStorage.aclose`.
    """
    log: Log = MemoryLog() if data_dir is None else SqliteLog(data_dir)
    try:
        return ObjectStorage(log, describe=describe, clock=clock, settings=settings or StorageSettings())
    except BaseException:
        log.close()
        raise


class ObjectStorage:
    """All objects of a server; see :class:`~.model.Storage` for the guarantees.

    One event loop uses it. Commits that arrive while the log writes form the next group: one sync, one
    wake-up and one publication for all of them. Between acceptance and durability, a change is visible only
    to writers.
    """

    def __init__(self, log: Log, *, describe: Describe, clock: Clock, settings: StorageSettings) -> None:
        self._log = log
        self._describe = describe
        self._clock = clock
        self._settings = settings
        self._collections: dict[GroupResource, Collection] = {}
        self._revision = self._accepted_revision = self._first_revision = max(1, log.high_water)
        self._compaction = Compaction(
            settings.history_seconds, now=clock.monotonic(), revision=self._revision
        )
        self._compaction.add_stale(load(log, self._collection, describe))
        for collection in self._collections.values():
            self._compaction.by_size(collection)
        self._queued: list[_Commit] = []
        self._in_flight: list[_Commit] = []
        self._in_flight_batch: Batch | None = None
        self._flush_is_due = False
        self._revision_waiters: dict[asyncio.Future[None], int] = {}
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._commits = self._groups = self._failures = 0
        self._last_error = ""

    # ---------------------------------------------------------------- reads

    @property
    def revision(self) -> int:
        """The revision of the last durable write; 1 before the first."""
        return self._revision

    @property
    def oldest_revision(self) -> int:
        """The revision before which every collection's history was compacted."""
        return self._compaction.oldest

    def get(self, key: StorageKey) -> StoredObject | None:
        """Return the durable state of an object."""
        collection = self._collections.get(key.resource)
        return None if collection is None else collection.get(key.namespace, key.name)

    def head(self, key: StorageKey) -> StoredObject | None:
        """Return the last accepted state of an object."""
        collection = self._collections.get(key.resource)
        return None if collection is None else collection.head(key.namespace, key.name)

    def heads_in(self, resource: GroupResource, namespace: str = "") -> Iterable[StoredObject]:
        """Return the last accepted states of a collection at the time of the call."""
        collection = self._collections.get(resource)
        return () if collection is None else collection.all_latest(namespace)

    def snapshot(
        self, resource: GroupResource, namespace: str = "", revision: int | None = None
    ) -> CollectionSnapshot:
        """Return a collection at a revision."""
        if revision is None:
            revision = self._revision
        elif revision > self._revision:
            raise ValueError(f"revision {revision} is in the future: the storage is at {self._revision}")
        return self._collection(resource).snapshot(namespace, revision)

    def subscribe(
        self, resource: GroupResource, namespace: str = "", *, after_revision: int
    ) -> HistorySubscription:
        """Return the changes of a collection after a revision."""
        subscription = HistorySubscription(self._collection(resource).history, namespace, after_revision)
        if self._closed:
            subscription.close()
        return subscription

    async def wait_for_revision(self, revision: int, timeout_seconds: float) -> bool:
        """Wait until a revision is durable; return whether it is. A closed storage returns False immediately."""
        if revision <= self._revision or timeout_seconds <= 0 or self._closed:
            return revision <= self._revision
        waiter = asyncio.get_running_loop().create_future()
        self._revision_waiters[waiter] = revision
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._revision_waiters.pop(waiter, None)
        return revision <= self._revision

    @property
    def problem(self) -> str:
        """The reason why writes are rejected at the moment, or ``""``."""
        if self._log.is_full and not self._log.try_recover():
            return _DISK_FULL
        return self._last_error

    def statistics(self) -> StorageStatistics:
        """Return statistics. Counts all objects: not for hot paths."""
        collections = self._collections.values()
        return StorageStatistics(
            revision=self._revision,
            objects=sum(map(len, collections)),
            object_bytes=sum(len(stored.encoded) for each in collections for stored in each.all_durable()),
            history_changes=sum(len(collection.history) for collection in collections),
            history_bytes=sum(collection.history.bytes for collection in collections),
            queued_commits=len(self._queued) + len(self._in_flight),
            commits=self._commits,
            groups=self._groups,
            failures=self._failures,
        )

    def refresh_fields(self, resource: GroupResource) -> None:
        """Recompute the field values of a collection's objects: its definition was added after they were loaded."""
        collection = self._collections.get(resource)
        if collection is None:
            return
        for stored in collection.all_durable():
            document = stored.decode()
            collection.replace(
                describe_stored(
                    stored.key, document, stored.revision, stored.encoded, stored.item_offset, self._describe
                )
            )

    # ---------------------------------------------------------------- writes

    async def commit(self, writes: Sequence[Write]) -> tuple[Change, ...]:
        """Write all objects atomically and durably."""
        if not writes:
            return ()
        if self._closed:
            raise StorageFailedError("the storage is closed")
        makes_room = all(map(_makes_room, writes))
        if self._log.is_full and not makes_room and not self._log.try_recover():
            raise StorageFailedError(_DISK_FULL)
        changes = self._decide(writes)
        loop = asyncio.get_running_loop()
        commit = _Commit(changes, loop.create_future(), makes_room)
        for change in changes:
            self._collections[change.after.key.resource].accept(change)
        self._accepted_revision = changes[-1].revision
        self._queued.append(commit)
        if not self._flush_is_due and not self._in_flight:
            # Deferred: other commits of this iteration of the loop join the group.
            self._flush_is_due = True
            loop.call_soon(self._flush)
        await commit.done
        return changes

    def _decide(self, writes: Sequence[Write]) -> tuple[Change, ...]:
        """Check all writes, then encode them; there are no side effects until they are accepted."""
        befores = [self._before(write) for write in writes]
        if len(writes) > 1 and len({write.key for write in writes}) < len(writes):
            raise ValueError("a commit must write each object only once")
        revision = self._accepted_revision
        changes = []
        for write, before in zip(writes, befores, strict=True):
            revision += 1
            if write.document is not None:
                after = encode_stored(write.key, write.document, revision, self._describe, before)
                changes.append(Change("ADDED" if before is None else "MODIFIED", after, before))
            elif before is not None:
                changes.append(Change("DELETED", at_revision(before, revision, self._describe), before))
            else:
                raise ValueError(
                    f"{write.key.resource} {write.key.namespace}/{write.key.name}: nothing to remove"
                )
        return tuple(changes)

    def _before(self, write: Write) -> StoredObject | None:
        before = self._collection(write.key.resource).head(write.key.namespace, write.key.name)
        actual = 0 if before is None else before.revision
        if actual != write.expected_revision:
            raise WriteConflictError(write.key, write.expected_revision, actual)
        return before

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._in_flight or not self._queued:
            return
        group = self._queued[:_COMMITS_A_GROUP]
        del self._queued[:_COMMITS_A_GROUP]
        self._in_flight = group
        self._in_flight_batch = batch = self._batch(group)
        self._log.append(batch, self._on_written)

    def _batch(self, group: Sequence[_Commit]) -> Batch:
        rows: list[Row] = []
        superseded: list[int] = []
        for commit in group:
            for change in commit.changes:
                before, after = change.before, change.after
                key = after.key
                removed = change.type == "DELETED"
                if self._collections[key.resource].volatile:
                    if before is not None:
                        superseded.append(before.revision)
                    if removed:
                        continue
                rows.append(
                    Row(
                        after.revision,
                        *key.resource,
                        key.namespace,
                        key.name,
                        0 if before is None else before.revision,
                        after.item_offset,
                        None if removed else after.encoded,
                    )
                )
        if superseded:
            # Rows that are replaced within the group need not be written.
            gone = set(superseded)
            rows = [row for row in rows if row.revision not in gone]
        makes_room = all(commit.makes_room for commit in group)
        batch = Batch(group[-1].changes[-1].revision, rows, superseded, {}, makes_room)
        self._compaction.fill(batch)
        return batch

    def _on_written(self, error: Exception | None) -> None:
        group, self._in_flight = self._in_flight, []
        if error is not None:
            self._fail(group, error)
        else:
            # The log writes the next group while this one is published.
            self._flush()
            self._publish(group)
        self._compaction.by_age(
            self._collections.values(), now=self._clock.monotonic(), revision=self._revision
        )
        if not self._in_flight:
            _resolve(self._idle_waiters)

    def _publish(self, group: Sequence[_Commit]) -> None:
        firsts: dict[GroupResource, int] = {}
        collections = self._collections
        for commit in group:
            for change in commit.changes:
                resource = change.after.key.resource
                collection = collections[resource]
                if resource not in firsts:
                    firsts[resource] = collection.history.end
                collection.apply(change)
        self._revision = group[-1].changes[-1].revision
        self._commits += len(group)
        self._groups += 1
        self._last_error = ""
        for resource, first in firsts.items():
            collections[resource].history.wake(first)
        for commit in group:
            if not commit.done.done():
                commit.done.set_result(None)
        if self._revision_waiters:
            reached = [
                waiter for waiter, revision in self._revision_waiters.items() if revision <= self._revision
            ]
            _resolve(reached)
        for resource in firsts:
            self._compaction.by_size(collections[resource])

    def _fail(self, group: Sequence[_Commit], error: Exception) -> None:
        """Discard all accepted changes: queued writes may depend on the failed ones."""
        self._failures += 1
        self._last_error = f"the log cannot be written: {error}"
        failed = [*group, *self._queued]
        _LOG.error("the storage cannot be written; rejected %d commits: %s", len(failed), error)
        self._queued.clear()
        for collection in self._collections.values():
            collection.reject_all()
        if self._in_flight_batch is not None:
            # The state that a volatile object had before is still current.
            current = {
                change.before.revision
                for commit in group
                for change in commit.changes
                if change.before is not None
            }
            self._compaction.take_back(self._in_flight_batch, current)
        for commit in failed:
            if not commit.done.done():
                commit.done.set_exception(StorageFailedError(f"the log cannot be written: {error}"))

    def _collection(self, resource: GroupResource) -> Collection:
        collection = self._collections.get(resource)
        if collection is None:
            volatile = resource in self._settings.volatile
            history = History(self._settings, volatile=volatile)
            if volatile:
                # The log has no history of it, so the history begins with this process.
                history.oldest = self._first_revision
            collection = self._collections[resource] = Collection(resource, history, volatile=volatile)
        return collection

    # ---------------------------------------------------------------- shutdown

    async def aclose(self) -> None:
        """Write accepted changes, close all subscriptions and the files. Idempotent."""
        if not self._closed:
            self._closed = True
            for collection in self._collections.values():
                collection.history.wake_all()
            _resolve(list(self._revision_waiters))
        while self._in_flight or self._queued:
            idle = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(idle)
            await idle
        await self._log.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _makes_room(write: Write) -> bool:
    """Return whether a write deletes an object or prepares its deletion (for example, removes a finalizer)."""
    return write.document is None or "deletionTimestamp" in metadata_of(write.document)


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
