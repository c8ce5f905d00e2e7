"""Who belongs to whom: the owned objects, by key and by their owners' uids, kept as changes come."""

from collections.abc import Iterable, Sequence

from tinykube.server.lifecycle.ownership import OwnershipInfo, ownership_of
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.model import Change, StoredObject


class OwnerGraph:
    """The owned, and those whose deletion waits for what they own. Everyone else leaves no trace here.

    :meth:`apply` and :meth:`replace` return the keys whose lot may have changed.
    """

    def __init__(self) -> None:
        self._info: dict[StorageKey, OwnershipInfo] = {}
        self._dependents: dict[str, dict[StorageKey, None]] = {}
        self._waiting: dict[str, StorageKey] = {}
        """By uid, those that wait for their dependents to be gone, or let go."""

    def __len__(self) -> int:
        return len(self._info)

    def get(self, key: StorageKey) -> OwnershipInfo | None:
        """Return what is known of an object; ``None`` where nothing is to be done about it."""
        return self._info.get(key)

    def owned(self) -> Iterable[StorageKey]:
        """Return the keys of all that is known."""
        return tuple(self._info)

    def dependents(self, uid: str) -> Sequence[OwnershipInfo]:
        """Return the objects that name this uid as an owner."""
        return [self._info[key] for key in self._dependents.get(uid, ())]

    def apply(self, change: Change) -> set[StorageKey]:
        """Take one change."""
        key = change.after.key
        if change.type == "DELETED":
            return self._forget(key) | set(self._dependents.get(change.after.uid, ()))
        return self._put(ownership_of(change.after))

    def replace(self, resource: GroupResource, objects: Iterable[StoredObject]) -> set[StorageKey]:
        """Take the whole of a collection in place of what was known of it."""
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
