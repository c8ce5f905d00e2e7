"""Tombstones of deleted objects: they keep older events and lists from bringing the objects back."""

from typing import NamedTuple

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of, version_number

MAX_TOMBSTONES = 5_000
PATIENCE_BOOKMARKS = 3
"""How many bookmarks may pass before the watch has reported our own deletion of an object it had reported."""


class Tombstone(NamedTuple):
    """A deleted object: nothing under its key that is as old as ``version`` may be stored again.

    An ``own`` tombstone is our deletion that the watch has not reported yet. Its version is unknown: ``version`` is that
    of the object, and a later version of the same ``uid`` may be stored only if it is terminating (a finalizer holds
    it), because anything else was written before our deletion.
    """

    uid: str
    version: int
    own: bool


class Tombstones:
    """The tombstones of keys that are not in the store; beyond the limit, the oldest are dropped.

    A tombstone is removed when a newer object is stored under its key, when the watch has passed a deletion that it
    reported itself, and by a newer relist. So they cover about a minute of deletions: servers send bookmarks that often.
    """

    __slots__ = ("_awaited", "_contradicted", "_tombstones")

    def __init__(self) -> None:
        self._tombstones: dict[ObjectKey, Tombstone] = {}
        self._contradicted: set[ObjectKey] = set()
        self._awaited: dict[ObjectKey, int] = {}  # own deletions of stored objects -> bookmarks since

    def __len__(self) -> int:
        """Return the number of tombstones."""
        return len(self._tombstones)

    def clear(self) -> None:
        """Remove all tombstones after the server lost history."""
        self._tombstones.clear()
        self._contradicted.clear()
        self._awaited.clear()

    def add(self, key: ObjectKey, tombstone: Tombstone) -> None:
        """Add a tombstone; it replaces an earlier one of the key."""
        self._tombstones.pop(key, None)
        self._tombstones[key] = tombstone
        if tombstone.own and tombstone.version:
            self._awaited[key] = 0
        else:
            self._awaited.pop(key, None)
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def note_own_delete(self, key: ObjectKey, uid: str) -> None:
        """Add our deletion of an object that is not stored, unless the watch has reported it already."""
        tombstone = self._tombstones.get(key)
        if tombstone is None or tombstone.uid != uid:
            self.add(key, Tombstone(uid, tombstone.version if tombstone is not None else 0, own=True))

    def note_watched_delete(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Add a watched deletion of an object that is not stored. Returns False if it is outdated."""
        tombstone = self._tombstones.get(key)
        if tombstone is not None and tombstone.uid != uid and version <= tombstone.version:
            return False
        self.add(key, Tombstone(uid, version, own=False))
        self._contradicted.discard(key)
        return True

    def may_store(self, item: KubernetesObject) -> bool:
        """Return whether an object may be stored despite a deletion; if so, remove its tombstone."""
        key = key_of(item)
        tombstone = self._tombstones.get(key)
        if tombstone is None:
            return True
        version = version_number(item.metadata.resource_version)
        if version and version <= tombstone.version:
            if tombstone.own and tombstone.uid != item.metadata.uid:
                self._contradicted.add(key)
            return False
        if tombstone.own and tombstone.uid == item.metadata.uid and not _may_be_terminating(item):
            return False
        del self._tombstones[key]
        return True

    def forget_own_delete(self, key: ObjectKey) -> bool:
        """Remove our own deletion of an object that a read has just found; return whether there was one."""
        tombstone = self._tombstones.get(key)
        if tombstone is None or not tombstone.own:
            return False
        del self._tombstones[key]
        return True

    def advance_to(self, version: int) -> bool:
        """Remove the deletions that the watch has reported up to ``version``.

        Returns False if the watch contradicts our deletions: it reported another object under a key that we deleted, at
        a version older than the deleted one, and nothing since; or it has not reported our deletion for minutes. Then an
        event, or the server's history, may have been lost.
        """
        over = [
            key
            for key, tombstone in self._tombstones.items()
            if not tombstone.own and tombstone.version <= version
        ]
        for key in over:
            del self._tombstones[key]
        self._contradicted.intersection_update(self._tombstones)
        fits = all(self._tombstones[key].version > version for key in self._contradicted)
        for key in [key for key in self._awaited if key not in self._tombstones]:
            del self._awaited[key]
        for key in self._awaited:
            if self._tombstones[key].version < version:
                self._awaited[key] += 1
                fits = fits and self._awaited[key] < PATIENCE_BOOKMARKS
        return fits

    def relisted_at(self, version: int) -> None:
        """Keep only our deletions of objects newer than the list, which cannot reflect them."""
        self._tombstones = {
            key: tombstone
            for key, tombstone in self._tombstones.items()
            if tombstone.own and tombstone.version > version
        }
        self._contradicted.clear()
        self._awaited = dict.fromkeys(self._tombstones, 0)


def is_terminating(item: KubernetesObject) -> bool:
    """Return whether an object is terminating, if its type has that information."""
    return bool(getattr(item.metadata, "deletion_timestamp", None) or getattr(item, "terminating", False))


def _may_be_terminating(item: KubernetesObject) -> bool:
    says = hasattr(item.metadata, "deletion_timestamp") or hasattr(item, "terminating")
    return is_terminating(item) or not says
