"""Which stored objects are our own writes that the watch has yet to tell of."""

from aiokube.api.meta import ObjectKey


class OwnWrites:
    """Our writes, by key, with the version that the server answered; only of objects that are stored.

    An entry ends when the watch tells of its version or a later one, when the watch passes that version without a
    word, and with a list of that version or a later one. So there are as many as a watch that lags is behind.
    """

    __slots__ = ("_unheard_of", "_versions")

    def __init__(self) -> None:
        self._versions: dict[ObjectKey, int] = {}
        self._unheard_of: set[ObjectKey] = set()  # those of which the watch, or a list, never told anything

    def __len__(self) -> int:
        """Return how many writes are waited for."""
        return len(self._versions)

    def pending(self) -> frozenset[ObjectKey]:
        """Return what was written."""
        return frozenset(self._versions)

    def clear(self) -> None:
        """Forget all: history has been lost."""
        self._versions.clear()
        self._unheard_of.clear()

    def note(self, key: ObjectKey, version: int, *, is_new: bool) -> None:
        """Remember a write; ``is_new`` where nothing was stored under the key before."""
        self._versions[key] = version
        if is_new:
            self._unheard_of.add(key)

    def confirm(self, key: ObjectKey, version: int) -> bool:
        """Take in that the watch told of a version of an object; tell whether that ends the waiting for our write."""
        if version < self._versions.get(key, version + 1):
            return False
        self.forget(key)
        return True

    def heard_of(self, key: ObjectKey) -> None:
        """Take in that something older was told of the key: so it is in what is watched."""
        self._unheard_of.discard(key)

    def forget(self, key: ObjectKey) -> None:
        """Wait no longer."""
        self._versions.pop(key, None)
        self._unheard_of.discard(key)

    def passed_by(self, version: int) -> list[tuple[ObjectKey, bool]]:
        """Forget the writes that the watch has passed without a word; return each, with whether its key was ever told of."""
        passed = [key for key, written in self._versions.items() if written <= version]
        told = [(key, key not in self._unheard_of) for key in passed]
        for key in passed:
            self.forget(key)
        return told

    def relisted_at(self, version: int) -> None:
        """Forget the writes that a list of this version has in it."""
        for key in [key for key, written in self._versions.items() if written <= version]:
            self.forget(key)
