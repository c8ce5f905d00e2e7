"""Operations on JSON values that all patches need."""

from collections.abc import Hashable
from typing import Any


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; ``1``, ``1.0`` and ``true`` are different."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> Hashable:
    """Return a hashable key that is equal exactly for equal JSON values."""
    if isinstance(value, dict):
        return dict, frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return list, tuple(map(identity, value))
    return type(value), value
