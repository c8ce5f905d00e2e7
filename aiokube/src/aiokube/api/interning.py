"""One copy of what many objects have in common, kept no longer than it is asked for."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class InternPool(Generic[K, V]):
    """Gives the first of equal values, so that replicas hold one copy of what is equal in all of them.

    At most twice ``generation`` values are kept: those asked for since the last ``generation`` new ones, and those
    asked for in the time before that. So what nobody has any more is let go, and what is in use stays shared.
    """

    __slots__ = ("_generation", "_old", "_young")

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, key: K, value: V) -> V:
        """Return the value that is kept under a key: this one, where there is none."""
        found = self._young.get(key)
        if found is not None:
            return found
        kept = self._old.pop(key, value)
        if len(self._young) >= self._generation:
            self._old, self._young = self._young, {}
        self._young[key] = kept
        return kept
