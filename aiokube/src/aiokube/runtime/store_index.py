"""An index of a store: the objects that share a computed key, updated as the objects change."""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)

KeysOf = Callable[[T], Sequence[Hashable]]
"""Returns the index keys of an object: none, one or several.

It must be a pure function of the object. If it raises, the error is logged and the object omitted.
"""

_FAILED = "the function of index %s failed: key=%s"


class StoreIndex(Generic[T]):
    """Object keys by index key. An update costs O(index keys of the changed objects)."""

    __slots__ = ("_buckets", "_name", "keys_of")

    def __init__(self, name: str, keys_of: KeysOf[T]) -> None:
        self._name = name
        self.keys_of = keys_of
        # Dictionaries instead of sets, for their order. Empty buckets are removed.
        self._buckets: dict[Hashable, dict[ObjectKey, None]] = {}

    def update(self, changes: Iterable[tuple[T | None, T | None]]) -> None:
        """Apply changes of the store, each (old, new) of one object."""
        buckets, keys_of = self._buckets, self.keys_of
        for old, new in changes:
            item = new if new is not None else old
            if item is None:
                continue
            try:
                before = keys_of(old) if old is not None else ()
            except Exception:
                log.exception(_FAILED, self._name, key_of(item))
                before = ()
            try:
                after = keys_of(new) if new is not None else ()
            except Exception:
                log.exception(_FAILED, self._name, key_of(item))
                after = ()
            if before == after:
                continue
            key = key_of(item)
            for index_key in before:
                bucket = buckets.get(index_key)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del buckets[index_key]
            for index_key in after:
                bucket = buckets.get(index_key)
                if bucket is None:
                    buckets[index_key] = {key: None}
                else:
                    bucket[key] = None

    def keys(self) -> list[Hashable]:
        """Return the index keys that at least one object has."""
        return list(self._buckets)

    def get(self, index_key: Hashable) -> Iterable[ObjectKey]:
        """Return the keys of the objects with this index key, in the order in which they acquired it."""
        return self._buckets.get(index_key, ())
