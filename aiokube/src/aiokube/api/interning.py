"""A pool that shares equal values, and drops those that are no longer requested."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class InternPool(Generic[K, V]):
    """Returns the first of equal values, so that replicas share one copy of their common parts.

    At most ``2 * generation`` values are kept: those requested since the last ``generation`` new values, and
    those requested in the generation before. Unused values are therefore dropped, and values in use stay
    shared.
    """

    __slots__ = ("_generation", "_old", "_young")

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, key: K, value: V) -> V:
        """Return the pooled value for a key; add ``value`` if it is new."""
        found = self._young.get(key)
        if found is not None:
            return found
        kept = self._old.pop(key, value)
        if len(self._young) >= self._generation:
            self._old, self._young = self._young, {}
        self._young[key] = kept
        return kept
