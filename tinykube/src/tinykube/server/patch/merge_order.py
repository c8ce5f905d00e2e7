"""The order of merged lists. Linear time: each list is indexed once."""

from collections.abc import Hashable
from typing import Any

from tinykube.server.patch.documents import identity
from tinykube.server.patch.errors import PatchError


class Positions:
    """The positions of list items by merge key, or by value without a merge key (``""``)."""

    def __init__(self, items: list[Any], key: str) -> None:
        self._key = key
        self._by_identity: dict[Hashable, int] = {}
        self._has_non_object = False
        """An item is not an object: a lookup that misses cannot be decided."""
        for at, item in enumerate(items):
            if key and not isinstance(item, dict):
                self._has_non_object = True
                break
            if not key:
                self._by_identity.setdefault(identity(item), at)
            elif key in item:
                self._by_identity.setdefault(identity(item[key]), at)

    def of(self, item: Any) -> int:
        """Return the position of an item, or -1. Raises PatchError for an item without the key."""
        key = self._key
        if key and (not isinstance(item, dict) or key not in item):
            raise PatchError(422, f"an item of the list does not contain declared merge key: {key}")
        return self.of_key(item[key] if key else item)

    def of_key(self, value: Any) -> int:
        """Return the position of the item with this key value, or -1. Raises PatchError."""
        found = self._by_identity.get(identity(value), -1)
        if found < 0 and self._has_non_object:
            raise PatchError(422, f"an item of the list is no object with the merge key {self._key}")
        return found


def ordered(merged: list[Any], patch_order: list[Any], document_order: list[Any], key: str) -> list[Any]:
    """Return the merged items: those in the patch's order follow it, the others follow the document's.

    An item of the document comes before an item of the patch only if the document has both in that order.
    Raises PatchError for an item without a key.
    """
    in_patch, in_document = Positions(patch_order, key), Positions(document_order, key)
    named: list[Any] = []
    others: list[Any] = []
    for item in merged:
        (named if in_patch.of(item) >= 0 else others).append(item)
    named.sort(key=in_patch.of)
    others.sort(key=in_document.of)
    result: list[Any] = []
    next_named = next_other = 0
    while next_named < len(named) and next_other < len(others):
        other_at, named_at = in_document.of(others[next_other]), in_document.of(named[next_named])
        if 0 <= other_at < named_at:
            result.append(others[next_other])
            next_other += 1
        else:
            result.append(named[next_named])
            next_named += 1
    return result + named[next_named:] + others[next_other:]
