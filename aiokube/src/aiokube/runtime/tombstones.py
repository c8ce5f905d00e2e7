"""What is remembered of deleted objects, so that nothing older than their end brings them back."""

from typing import NamedTuple

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of, version_number

MAX_GRAVES = 5_000
PATIENCE_BOOKMARKS = 3
"""So many bookmarks may come before the watch has told of our own deletion of an object that it told of before."""


class Grave(NamedTuple):
    """The end of an object: nothing of its key as old as ``version`` is let in again.

    ``own`` where we deleted it ourselves and the watch has not said so yet. How new the deletion is, is unknown
    then: ``version`` is that of the object, and what comes later of the same ``uid`` is let in only if it is
    terminating (finalizers hold it), for all else was written before our deletion.
    """

    uid: str
    version: int
    own: bool


class Graves:
    """The ends of objects that a store does not hold, by key; at most :data:`MAX_GRAVES`, the oldest go first.

    A grave is closed when something newer rises under its key, when the watch has come past a deletion that it told
    of itself, and at a relist that is newer. So there are no more than a minute's deletions, that being how often
    a server sends bookmarks.
    """

    __slots__ = ("_awaited", "_contradicted", "_graves")

    def __init__(self) -> None:
        self._graves: dict[ObjectKey, Grave] = {}
        self._contradicted: set[ObjectKey] = set()
        self._awaited: dict[ObjectKey, int] = {}  # own deletions of what was stored -> bookmarks since

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._graves)

    def clear(self) -> None:
        """Forget all: history has been lost."""
        self._graves.clear()
        self._contradicted.clear()
        self._awaited.clear()

    def dig(self, key: ObjectKey, grave: Grave) -> None:
        """Remember the end of an object in the place of an earlier one."""
        self._graves.pop(key, None)
        self._graves[key] = grave
        if grave.own and grave.version:
            self._awaited[key] = 0
        else:
            self._awaited.pop(key, None)
        if len(self._graves) > MAX_GRAVES:
            del self._graves[next(iter(self._graves))]

    def note_own_delete(self, key: ObjectKey, uid: str) -> None:
        """Remember our deletion of an object that is not stored, unless the watch has told of it already."""
        grave = self._graves.get(key)
        if grave is None or grave.uid != uid:
            self.dig(key, Grave(uid, grave.version if grave is not None else 0, own=True))

    def note_watched_delete(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Remember a deletion of an object that is not stored; False where it is old news."""
        grave = self._graves.get(key)
        if grave is not None and grave.uid != uid and version <= grave.version:
            return False
        self.dig(key, Grave(uid, version, own=False))
        self._contradicted.discard(key)
        return True

    def let_rise(self, item: KubernetesObject) -> bool:
        """Tell whether an object may be stored although its key was deleted; if so, the grave is closed."""
        key = key_of(item)
        grave = self._graves.get(key)
        if grave is None:
            return True
        version = version_number(item.metadata.resource_version)
        if version and version <= grave.version:
            if grave.own and grave.uid != item.metadata.uid:
                self._contradicted.add(key)
            return False
        if grave.own and grave.uid == item.metadata.uid and not _may_be_terminating(item):
            return False
        del self._graves[key]
        return True

    def forget_own_delete(self, key: ObjectKey) -> bool:
        """Forget our own deletion of an object that a read has just found; return whether there was one."""
        grave = self._graves.get(key)
        if grave is None or not grave.own:
            return False
        del self._graves[key]
        return True

    def watch_came_to(self, version: int) -> bool:
        """Forget deletions that the watch has told of: it does not go back behind ``version``.

        Tell whether it all fits together. It does not where the watch told of another object under a key that we
        deleted, at a version older than what we deleted, and of nothing since; nor where it does not tell of our
        deletion for minutes. Then an event, or the server's history, may have been lost.
        """
        over = [key for key, grave in self._graves.items() if not grave.own and grave.version <= version]
        for key in over:
            del self._graves[key]
        self._contradicted.intersection_update(self._graves)
        fits = all(self._graves[key].version > version for key in self._contradicted)
        for key in [key for key in self._awaited if key not in self._graves]:
            del self._awaited[key]
        for key in self._awaited:
            if self._graves[key].version < version:
                self._awaited[key] += 1
                fits = fits and self._awaited[key] < PATIENCE_BOOKMARKS
        return fits

    def relisted_at(self, version: int) -> None:
        """Forget all but our deletions of objects that are newer than the list: it cannot know of them."""
        self._graves = {
            key: grave for key, grave in self._graves.items() if grave.own and grave.version > version
        }
        self._contradicted.clear()
        self._awaited = dict.fromkeys(self._graves, 0)


def is_terminating(item: KubernetesObject) -> bool:
    """Tell whether an object is on its way out, as far as its kind says so."""
    return bool(getattr(item.metadata, "deletion_timestamp", None) or getattr(item, "terminating", False))


def _may_be_terminating(item: KubernetesObject) -> bool:
    says = hasattr(item.metadata, "deletion_timestamp") or hasattr(item, "terminating")
    return is_terminating(item) or not says
