"""Our own writes that are in the store but that the watch has not reported yet."""

from aiokube.api.meta import ObjectKey


class PendingWrites:
    """Our writes by key, with the version that the server returned; only for objects in the store.

    An entry is removed when the watch reports its version or a later one, when the watch passes that version
    without reporting it, and by a list of that version or a later one. The number of entries is therefore
    bounded by the lag of the watch.
    """

    __slots__ = ("_unheard_of", "_versions")

    def __init__(self) -> None:
        self._versions: dict[ObjectKey, int] = {}
        self._unheard_of: set[ObjectKey] = set()  # keys that neither the watch nor a list has ever reported

    def __len__(self) -> int:
        """Return the number of pending writes."""
        return len(self._versions)

    def pending(self) -> frozenset[ObjectKey]:
        """Return the keys with pending writes."""
        return frozenset(self._versions)

    def clear(self) -> None:
        """Remove all entries after the server lost history."""
        self._versions.clear()
        self._unheard_of.clear()

    def note(self, key: ObjectKey, version: int, *, is_new: bool) -> None:
        """Add a write; ``is_new`` if nothing was stored under the key before."""
        self._versions[key] = version
        if is_new:
            self._unheard_of.add(key)

    def confirm(self, key: ObjectKey, version: int) -> bool:
        """Record that the watch reported a version of an object; return whether that confirms our write."""
        if version < self._versions.get(key, version + 1):
            return False
        self.forget(key)
        return True

    def heard_of(self, key: ObjectKey) -> None:
        """Record that the watch reported an older state of the key, so the watch covers the object."""
        self._unheard_of.discard(key)

    def forget(self, key: ObjectKey) -> None:
        """Remove a pending write."""
        self._versions.pop(key, None)
        self._unheard_of.discard(key)

    def passed_by(self, version: int) -> list[tuple[ObjectKey, bool]]:
        """Remove and return writes that the watch passed silently, and whether it covers their keys."""
        passed = [key for key, written in self._versions.items() if written <= version]
        told = [(key, key not in self._unheard_of) for key in passed]
        for key in passed:
            self.forget(key)
        return told

    def relisted_at(self, version: int) -> None:
        """Remove the writes that a list of this version reflects."""
        for key in [key for key, written in self._versions.items() if written <= version]:
            self.forget(key)
