"""In what order a merged list stands. Linear in the lists: each is indexed once."""

from collections.abc import Hashable
from typing import Any

from tinykube.server.patch.documents import identity
from tinykube.server.patch.errors import PatchError


class Positions:
    """Where the items of a list stand, by their merge key, or by themselves if there is none (``""``)."""

    def __init__(self, items: list[Any], key: str) -> None:
        self._key = key
        self._by_identity: dict[Hashable, int] = {}
        self._has_stranger = False
        """An item is no object: what was not found before it cannot be looked for."""
        for at, item in enumerate(items):
            if key and not isinstance(item, dict):
                self._has_stranger = True
                break
            if not key:
                self._by_identity.setdefault(identity(item), at)
            elif key in item:
                self._by_identity.setdefault(identity(item[key]), at)

    def of(self, item: Any) -> int:
        """Return where an item stands, -1 where it does not. Raises PatchError for one without the key."""
        key = self._key
        if key and (not isinstance(item, dict) or key not in item):
            raise PatchError(422, f"an item of the list does not contain declared merge key: {key}")
        return self.of_key(item[key] if key else item)

    def of_key(self, value: Any) -> int:
        """Return where the item with this value of the key stands, -1 where none does. Raises PatchError."""
        found = self._by_identity.get(identity(value), -1)
        if found < 0 and self._has_stranger:
            raise PatchError(422, f"an item of the list is no object with the merge key {self._key}")
        return found


def ordered(merged: list[Any], patch_order: list[Any], document_order: list[Any], key: str) -> list[Any]:
    """Return the merged items: those that the patch's order names in that order, the others in the document's.

    An other item comes before a named one only where the document has both, in that order. Raises PatchError where an
    item has no key.
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
