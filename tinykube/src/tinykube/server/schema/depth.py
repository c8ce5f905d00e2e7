"""The maximum nesting of bodies: recursive code must be able to process every stored document."""

from typing import Any

MAX_DEPTH = 200
"""Levels of nested lists and objects. The deepest real documents, CustomResourceDefinitions, have half of it."""

_BRACKETS = b"[]{}"
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def is_text_too_deep(body: bytes, value: Any) -> bool:
    """Return whether a JSON text is nested too deeply; ``value`` is its decoded value.

    The value is only walked if counting brackets is not conclusive: brackets in strings are counted, too.
    """
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    brackets = body.translate(None, _ALL_ELSE)
    for _ in range(MAX_DEPTH):
        size = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not brackets:
            return False
        if len(brackets) == size:
            break
    return is_too_deep(value)


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value is nested too deeply."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not inner:
            return False
        level = inner
    return any(isinstance(one, dict | list) for one in level)
