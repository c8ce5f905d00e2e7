"""In what order a merged list stands."""

from typing import Any

from endpointd.apiserver.patch.documents import same
from endpointd.apiserver.patch.errors import PatchError


def partition(merged: list[Any], named_by: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return the items that a list names (by their key, or by themselves where there is none), and the others.

    Raises PatchError where an item has no key.
    """
    named: list[Any] = []
    others: list[Any] = []
    for item in merged:
        (named if _position(item, named_by, key) >= 0 else others).append(item)
    return named, others


def in_order(
    named: list[Any], others: list[Any], patch_order: list[Any], document_order: list[Any], key: str
) -> list[Any]:
    """Return all items: the named ones in the patch's order, the others in the document's.

    An other item comes before a named one only where the document has both, in that order.
    """
    named = _sorted(named, patch_order, key)
    others = _sorted(others, document_order, key)
    merged: list[Any] = []
    while named and others:
        other_at = _position(others[0], document_order, key)
        named_at = _position(named[0], document_order, key)
        other_first = 0 <= other_at < named_at
        merged.append((others if other_first else named).pop(0))
    return merged + named + others


def _sorted(items: list[Any], order: list[Any], key: str) -> list[Any]:
    return sorted(items, key=lambda item: _position(item, order, key))


def _position(item: Any, order: list[Any], key: str) -> int:
    """Return where an item stands in a list, by its key; -1 where it does not."""
    if key:
        if not isinstance(item, dict) or key not in item:
            raise PatchError(422, f"an item of the list does not contain declared merge key: {key}")
        value = item[key]
        for at, one in enumerate(order):
            if not isinstance(one, dict):
                raise PatchError(422, f"an item of the list is no object with the merge key {key}")
            if key in one and same(one[key], value):
                return at
        return -1
    return next((at for at, one in enumerate(order) if same(one, item)), -1)
