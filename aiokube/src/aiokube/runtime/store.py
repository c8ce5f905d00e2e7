"""The cache of one resource: it never goes back in time, and contains our own writes immediately.

Kubernetes gives each write to a resource a larger version (a decimal number) than all writes before it, and
a watch reports writes in that order. The store relies on these two facts. If versions are not numbers, every
event counts as new, and our own writes appear when the watch reports them.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of, version_number
from aiokube.api.resource import Bookmark, WatchEvent
from aiokube.runtime.handler_registry import Change, Handler, HandlerRegistry
from aiokube.runtime.pacing import Steps, run_at_once
from aiokube.runtime.pending_writes import PendingWrites
from aiokube.runtime.store_index import KeysOf, StoreIndex
from aiokube.runtime.tombstones import Tombstone, Tombstones, is_terminating

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)


class StoreStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a store; the counters count from its creation."""

    name: str
    objects: int
    namespaces: int
    resource_version: str
    synced: bool
    changes: int
    """Changes dispatched to handlers, each counted once for any number of handlers."""
    outdated: int
    """Events, writes and deletions that were dropped because they were not news."""
    replaces: int
    handler_errors: int
    pending_writes: int
    """Objects with an own write that the watch has not reported yet."""
    tombstones: int
    """Keys remembered as deleted, so that older events cannot restore them."""


class Store(Generic[T]):
    """The objects of one resource (or of a part of it), for any number of readers on one event loop.

    Guarantees to readers:

    * **Whole batches.** :meth:`apply` and :meth:`replace_steps` store their input in one loop turn: no
      reader ever sees a part of a batch, or a half-done relist. Between two awaits, only the caller's own
      writes change the store.
    * **Never back in time.** The version stored under a key never decreases, even if events are duplicated
      or reordered. There is one exception: a server that lost history (its database was restored), see
      :meth:`replace`.
    * **Read your own writes.** After :meth:`record_write` and :meth:`record_delete` readers see the result,
      until the watch reaches that version and decides. Neither can make the store permanently wrong: the
      watch passing the version, and each relist, correct it.
    * **Staleness.** Otherwise the store is as old as the watch lags behind. Objects are frozen and can be
      shared freely.

    Guarantees to handlers:

    * They are called in the loop turn of the change, before the call that caused it returns (if a handler
      made that call, right after the changes dispatched before it), change by change, in order, each handler
      in the order of subscription. A relist may be dispatched over several turns (:meth:`replace_steps`); a
      change that arrives during that time is dispatched immediately, after the remaining changes of the same
      object.
    * The store is at least as new as the change: it contains the change itself, or a newer one of the same
      batch.
    * Replaying the changes gives exactly the content of the store: for each key first (None, a), then (a,
      b), (b, c), ... and perhaps (c, None). No change is dispatched twice, and none between objects with the
      same resource version.
    * If another object (with another uid) takes over a name, that is two changes: (old, None) and (None,
      new).

    Handlers must be fast and must not raise: an exception is logged with the key and counted; the other
    handlers are still called, and the store is unaffected.
    """

    __slots__ = (
        "_count",
        "_dispatched",
        "_handlers",
        "_indexes",
        "_lost_history",
        "_namespaces",
        "_needs_relist",
        "_outdated",
        "_pending",
        "_replaces",
        "_resource_version",
        "_synced",
        "_tombstones",
        "_version",
        "name",
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        # Two levels instead of one with ObjectKeys: the names are the objects' own strings, and the namespace
        # index costs nothing. Empty namespaces are removed.
        self._namespaces: dict[str, dict[str, T]] = {}
        self._count = 0
        # All changes up to this version are stored, and no later ones except `_pending`.
        self._resource_version = ""
        self._version = 0
        self._pending = PendingWrites()
        self._needs_relist = False
        self._lost_history = False
        self._tombstones = Tombstones()  # only of keys that are not stored
        self._indexes: dict[str, StoreIndex[T]] = {}
        self._handlers: HandlerRegistry[T] = HandlerRegistry(name)
        self._synced = asyncio.Event()
        self._dispatched = asyncio.Event()
        self._dispatched.set()
        self._outdated = 0
        self._replaces = 0

    # -------------------------------------------------------------------------------------------------
    # reading

    def get(self, key: ObjectKey) -> T | None:
        """Return an object, None if it does not exist."""
        objects = self._namespaces.get(key[0])
        return objects.get(key[1]) if objects is not None else None

    def __len__(self) -> int:
        """Return the number of objects."""
        return self._count

    def __contains__(self, key: ObjectKey) -> bool:
        """Return whether an object with this key exists."""
        return self.get(key) is not None

    def values(self) -> list[T]:
        """Return all objects in a new list, in no particular order."""
        return [item for objects in self._namespaces.values() for item in objects.values()]

    def in_namespace(self, namespace: str) -> list[T]:
        """Return the objects of a namespace in a new list. Costs O(their number)."""
        return list(self._namespaces.get(namespace, {}).values())

    def keys(self) -> list[ObjectKey]:
        """Return the keys of all objects."""
        return [
            ObjectKey(namespace, name) for namespace, objects in self._namespaces.items() for name in objects
        ]

    def by_index(self, name: str, key: Hashable) -> list[T]:
        """Return the objects with this key in an index, in a new list. Costs O(their number).

        Raises ``KeyError`` if there is no index of this name.
        """
        namespaces = self._namespaces
        return [namespaces[namespace][item] for namespace, item in self._index(name).get(key)]

    def index_keys(self, name: str) -> list[Hashable]:
        """Return the keys of an index that at least one object has.

        Raises ``KeyError`` if there is no index of this name.
        """
        return self._index(name).keys()

    @property
    def resource_version(self) -> str:
        """The version that the watch has reached; all changes up to it are stored. ``""`` before the first list."""
        return self._resource_version

    @property
    def synced(self) -> bool:
        """Whether the initial state has been stored. Never becomes false again."""
        return self._synced.is_set()

    @property
    def needs_relist(self) -> bool:
        """Whether the watch contradicted our state, so that a relist must decide. Reset by :meth:`replace`."""
        return self._needs_relist

    @property
    def lost_history(self) -> bool:
        """Whether handlers are receiving a list from a server that lost history: versions start again."""
        return self._lost_history

    @property
    def is_dispatching(self) -> bool:
        """Whether handlers are still receiving a relist in steps: some stored changes are not dispatched yet."""
        return not self._dispatched.is_set()

    async def wait_dispatched(self) -> None:
        """Wait until every stored change has been dispatched."""
        await self._dispatched.wait()

    async def wait_synced(self) -> None:
        """Wait until :attr:`synced` is true. The reflector has a variant with a deadline and the cause."""
        await self._synced.wait()

    def statistics(self) -> StoreStatistics:
        """Return a snapshot of the store."""
        return StoreStatistics(
            name=self.name,
            objects=self._count,
            namespaces=len(self._namespaces),
            resource_version=self._resource_version,
            synced=self.synced,
            changes=self._handlers.dispatched,
            outdated=self._outdated,
            replaces=self._replaces,
            handler_errors=self._handlers.failures,
            pending_writes=len(self._pending),
            tombstones=len(self._tombstones),
        )

    # ------------------------------------------------------------------------------------------- indexing

    def add_index(self, name: str, keys_of: KeysOf[T]) -> None:
        """Maintain an index: :meth:`by_index` returns the objects for which ``keys_of`` returns a key.

        An index always matches the stored objects, including pending writes: handlers and readers never see
        them differ. A change costs O(its index keys). Adding an index costs O(objects), so add it before the
        first list. Adding the same function under the same name again has no effect.

        Raises ``ValueError`` if the name is taken by another function.
        """
        existing = self._indexes.get(name)
        if existing is not None:
            if existing.keys_of != keys_of:
                raise ValueError(
                    f"the store of {self.name} already has another index {name!r}; choose another name"
                )
            return
        index = self._indexes[name] = StoreIndex(f"{self.name}/{name}", keys_of)
        index.update((None, item) for item in self.values())

    def _index(self, name: str) -> StoreIndex[T]:
        found = self._indexes.get(name)
        if found is None:
            raise KeyError(f"the store of {self.name} has no index {name!r}; add it with add_index()")
        return found

    # ------------------------------------------------------------------------------------------------
    # handlers

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call ``handler(old, new)`` for every later change; stored objects are not replayed.

        Returns a function that unsubscribes it. Both take effect with the next batch.
        """
        return self._handlers.add(handler)

    # --------------------------------------------------------------------------------------- watches and
    # lists

    def apply(self, batch: Iterable[WatchEvent[T] | Bookmark]) -> None:
        """Store the events of a watch in order, then call the handlers.

        Events that are not newer than the stored object are dropped.
        """
        changes: list[Change[T]] = []
        for event in batch:
            if isinstance(event, WatchEvent):
                item = event.item
                resource_version = item.metadata.resource_version
                if event.type == "DELETED":
                    self._apply_delete(item, changes)
                else:
                    self._put(item, False, changes)
                self._advance_to(resource_version)
            else:
                self._advance_to(event.resource_version)
                self._settle(version_number(event.resource_version), changes)
        self._publish(changes)

    def replace(self, items: Iterable[T], resource_version: str) -> None:
        """Run :meth:`replace_steps` to its end."""
        run_at_once(self.replace_steps(items, resource_version))

    def replace_steps(self, items: Iterable[T], resource_version: str) -> Steps[None]:
        """Replace the content by a list made at ``resource_version``, then dispatch the differences in steps.

        The list decides about every key, with one exception: our own writes and deletions at versions that
        the list has not reached are kept. Handlers receive the deletions first, then the other changes in
        the list's order.

        A list older than the watch's version means that the server lost history. Then only the list counts,
        and objects are compared by value if their versions are ambiguous (after lost history, and for our
        own unconfirmed writes).

        Readers see the whole list after the first step. The watch may continue only after the last step, and
        decisions based on handlers alone must wait for it (:attr:`is_dispatching`).
        """
        version = version_number(resource_version)
        lost_history = 0 < version < self._version
        if lost_history or not version:
            self._pending.clear()
            self._tombstones.clear()
        distrusted = lost_history or self._needs_relist
        self._needs_relist = False
        unconfirmed = self._pending.pending()
        before, now = self._namespaces, self._arranged(items, version)
        changes: list[Change[T]] = []
        for namespace, objects in before.items():
            left = now.get(namespace, {})
            changes.extend((item, None) for name, item in objects.items() if name not in left)
        count = 0
        for namespace, objects in now.items():
            were = before.get(namespace, {})
            for name, new in objects.items():
                old = were.get(name)
                if old is None:
                    changes.append((None, new))
                elif old.metadata.uid != new.metadata.uid:
                    changes += ((old, None), (None, new))
                else:
                    by_value = distrusted or (bool(unconfirmed) and ObjectKey(namespace, name) in unconfirmed)
                    if (
                        old == new
                        if by_value
                        else old.metadata.resource_version == new.metadata.resource_version
                    ):
                        objects[name] = old  # keep the object that readers share
                    else:
                        changes.append((old, new))
            count += len(objects)
        self._namespaces = now
        for index in self._indexes.values():
            index.update(changes)
        self._count = count
        self._resource_version = resource_version
        self._version = version
        self._replaces += 1
        self._synced.set()
        dispatching = self._handlers.dispatch_steps(changes)
        self._dispatched.clear()
        try:
            while True:
                self._lost_history = lost_history
                try:
                    spent = next(dispatching)
                except StopIteration:
                    break
                finally:
                    self._lost_history = False
                yield spent
        finally:
            self._lost_history = lost_history
            dispatching.close()
            self._lost_history = False
            self._dispatched.set()

    # ---------------------------------------------------------------------------------------------- own
    # writes

    def record_write(self, item: T) -> None:
        """Store the server's response to our create or update as if the watch had reported it.

        No effect if the watch has reached this version already, or if a newer version is stored. If the
        watch passes a create without reporting it, the object does not match the watch's selector, and is
        dropped again; if it passes an update, :attr:`needs_relist` becomes true.
        """
        version = version_number(item.metadata.resource_version)
        if version <= self._version:
            self._outdated += 1
            return
        changes: list[Change[T]] = []
        key = key_of(item)
        is_new = self.get(key) is None
        if self._put(item, True, changes):
            self._pending.note(key, version, is_new=is_new)
        self._publish(changes)

    def record_read(self, item: T) -> None:
        """Store the result of a read of one object, like :meth:`record_write`.

        A read also overrides our own deletion of the object, which may have been reported wrongly. If the
        watch has passed the object's version by then, it will not report the object again:
        :attr:`needs_relist` becomes true, and a relist decides. A deletion that the watch reported is not
        overridden.
        """
        was_deleted = self._tombstones.forget_own_delete(key_of(item))
        version = version_number(item.metadata.resource_version)
        if not was_deleted or not version or version > self._version:
            self.record_write(item)
            return
        changes: list[Change[T]] = []
        self._put(item, True, changes)
        self._needs_relist = True
        self._publish(changes)

    def record_delete(self, key: ObjectKey, uid: str) -> None:
        """Record that the server accepted our deletion (or that the object no longer existed).

        The object with that ``uid`` disappears for readers immediately. If finalizers keep it, it reappears,
        terminating, when the watch reports it. An object that is known to be terminating stays until the
        watch reports its deletion.
        """
        stored = self.get(key)
        if stored is None:
            self._tombstones.note_own_delete(key, uid)
            return
        if stored.metadata.uid != uid or is_terminating(stored):
            self._outdated += 1
            return
        self._remove(key)
        self._tombstones.add(key, Tombstone(uid, version_number(stored.metadata.resource_version), own=True))
        self._publish([(stored, None)])

    # -------------------------------------------------------------------------------------------------
    # internals

    def _publish(self, changes: list[Change[T]]) -> None:
        """Update the indexes, then call the handlers."""
        if not changes:
            return
        for index in self._indexes.values():
            index.update(changes)
        self._handlers.dispatch(changes)

    def _put(self, item: T, own: bool, changes: list[Change[T]]) -> bool:
        """Store an object unless it is outdated; return whether it was stored."""
        metadata = item.metadata
        objects = self._namespaces.get(metadata.namespace)
        old = objects.get(metadata.name) if objects is not None else None
        if old is not None:
            version = version_number(metadata.resource_version)
            written = bool(self._pending) and not own and self._pending.confirm(key_of(item), version)
            stored_version = version_number(old.metadata.resource_version)
            # One version is one state of one object, except on a server that lost our write and reused the
            # version.
            is_other = written and version == stored_version and old != item
            if version and version <= stored_version and not is_other:
                self._outdated += 1
                if self._pending:
                    self._pending.heard_of(key_of(item))
                return False
        else:
            if self._tombstones and not self._tombstones.may_store(item):
                self._outdated += 1
                return False
            self._count += 1
        if objects is None:
            objects = self._namespaces[metadata.namespace] = {}
        objects[metadata.name] = item
        _note(old, item, changes)
        return True

    def _apply_delete(self, item: T, changes: list[Change[T]]) -> None:
        """Apply a deletion event, whose version is that of the deletion."""
        metadata = item.metadata
        key = ObjectKey(metadata.namespace, metadata.name)
        version = version_number(metadata.resource_version)
        stored = self.get(key)
        if stored is not None:
            if version and version < version_number(stored.metadata.resource_version):
                # a deletion of an earlier object, or from before the object matched the selector again
                self._outdated += 1
                self._pending.heard_of(key)
                return
            self._remove(key)
            changes.append((stored, None))
            self._tombstones.add(key, Tombstone(metadata.uid, version, own=False))
        elif not self._tombstones.note_watched_delete(key, metadata.uid, version):
            self._outdated += 1

    def _remove(self, key: ObjectKey) -> T:
        objects = self._namespaces[key.namespace]
        item = objects.pop(key.name)
        if not objects:
            del self._namespaces[key.namespace]
        self._count -= 1
        self._pending.forget(key)
        return item

    def _advance_to(self, resource_version: str) -> None:
        version = version_number(resource_version)
        if version > self._version or (not version and resource_version):
            self._version = version
            self._resource_version = resource_version

    def _settle(self, version: int, changes: list[Change[T]]) -> None:
        """Drop pending writes and tombstones that the watch has passed at this version."""
        for key, was_heard_of in self._pending.passed_by(version):
            if was_heard_of:
                text = "the watch passed our own write without reporting it: resource=%s key=%s"
                self._needs_relist = True
            else:
                text = "our own write does not match the watch, dropped: resource=%s key=%s"
                changes.append((self._remove(key), None))
            log.warning(text, self.name, key)
        if not self._tombstones.advance_to(version):
            self._needs_relist = True

    def _arranged(self, items: Iterable[T], version: int) -> dict[str, dict[str, T]]:
        namespaces: dict[str, dict[str, T]] = {}
        for item in self._corrected(items, version):
            metadata = item.metadata
            objects = namespaces.get(metadata.namespace)
            if objects is None:
                objects = namespaces[metadata.namespace] = {}
            doubled = objects.setdefault(metadata.name, item)
            if doubled is not item and not _is_newer(doubled, item):
                objects[metadata.name] = item
        return namespaces

    def _corrected(self, items: Iterable[T], version: int) -> Iterable[T]:
        """Return the items of a list with our later writes, and drop the pending writes that it settles."""
        self._pending.relisted_at(version)
        self._tombstones.relisted_at(version)
        kept = {key: item for key in self._pending.pending() if (item := self.get(key)) is not None}
        return self._with_pending_writes(items, kept) if kept or self._tombstones else items

    def _with_pending_writes(self, items: Iterable[T], kept: dict[ObjectKey, T]) -> Iterator[T]:
        for item in items:
            key = key_of(item)
            mine = kept.pop(key, None)
            if mine is not None:
                self._pending.heard_of(key)
                yield mine
            elif not self._tombstones or self._tombstones.may_store(item):
                yield item
        yield from kept.values()


def _note(old: T | None, new: T, changes: list[Change[T]]) -> None:
    if old is not None and old.metadata.uid != new.metadata.uid:
        changes.append((old, None))
        old = None
    changes.append((old, new))


def _is_newer(one: KubernetesObject, other: KubernetesObject) -> bool:
    return version_number(one.metadata.resource_version) > version_number(other.metadata.resource_version)
