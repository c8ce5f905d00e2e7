"""The ownership graph: dependents by key and by owner uid, updated from changes."""

from collections.abc import Iterable, Sequence

from tinykube.server.lifecycle.ownership import OwnershipInfo, ownership_of
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.model import Change, StoredObject


class OwnerGraph:
    """The dependents, and objects whose deletion waits for dependents; other objects are not stored.

    :meth:`apply` and :meth:`replace` return the keys to reconcile.
    """

    def __init__(self) -> None:
        self._info: dict[StorageKey, OwnershipInfo] = {}
        self._dependents: dict[str, dict[StorageKey, None]] = {}
        self._waiting: dict[str, StorageKey] = {}
        """By uid, objects that wait for their dependents to be deleted or orphaned."""

    def __len__(self) -> int:
        return len(self._info)

    def get(self, key: StorageKey) -> OwnershipInfo | None:
        """Return the recorded info of an object; ``None`` if it is irrelevant."""
        return self._info.get(key)

    def owned(self) -> Iterable[StorageKey]:
        """Return all recorded keys."""
        return tuple(self._info)

    def dependents(self, uid: str) -> Sequence[OwnershipInfo]:
        """Return the objects with this owner uid."""
        return [self._info[key] for key in self._dependents.get(uid, ())]

    def apply(self, change: Change) -> set[StorageKey]:
        """Apply one change."""
        key = change.after.key
        if change.type == "DELETED":
            return self._forget(key) | set(self._dependents.get(change.after.uid, ()))
        return self._put(ownership_of(change.after))

    def replace(self, resource: GroupResource, objects: Iterable[StoredObject]) -> set[StorageKey]:
        """Replace the recorded state of a collection."""
        touched: set[StorageKey] = set()
        known = {key for key in self._info if key.resource == resource}
        for stored in objects:
            known.discard(stored.key)
            touched |= self._put(ownership_of(stored))
        for key in known:
            touched |= self._forget(key)
        return touched

    def _put(self, info: OwnershipInfo) -> set[StorageKey]:
        key = info.key
        touched = self._forget(key)
        waits = info.deletes_dependents or info.orphans_dependents
        if not info.owners and not waits:
            return touched
        self._info[key] = info
        touched.add(key)
        for owner in info.owners:
            self._dependents.setdefault(owner.uid, {})[key] = None
        if waits:
            self._waiting[info.uid] = key
            touched.update(self._dependents.get(info.uid, ()))
        return touched | self._waiting_owners(info)

    def _forget(self, key: StorageKey) -> set[StorageKey]:
        info = self._info.pop(key, None)
        if info is None:
            return set()
        for owner in info.owners:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(key, None)
                if not dependents:
                    del self._dependents[owner.uid]
        if self._waiting.get(info.uid) == key:
            del self._waiting[info.uid]
        return self._waiting_owners(info)

    def _waiting_owners(self, info: OwnershipInfo) -> set[StorageKey]:
        if not self._waiting:
            return set()
        return {self._waiting[owner.uid] for owner in info.owners if owner.uid in self._waiting}
