"""What all patches do with JSON values."""

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
    """Tell whether two JSON values are the same; ``1``, ``1.0`` and ``true`` are three."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> Hashable:
    """Return what is equal for two JSON values just if they are the same: a key to look them up by."""
    if isinstance(value, dict):
        return dict, frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return list, tuple(map(identity, value))
    return type(value), value
