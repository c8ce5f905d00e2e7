"""Path elements: the encoding of one step into a document in ``fieldsV1``, and its form in conflict messages."""

import json
from functools import lru_cache
from typing import Any

from tinykube.server.fields.sets import MEMBER, SELF, FieldSet

# Go's encoder escapes HTML characters.
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_CACHED = 16_384


class ElementError(ValueError):
    """An invalid path element."""


def go_json(value: Any) -> str:
    """Encode JSON as Go does: sorted members, one line, HTML characters escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).translate(_ESCAPES)


def key_element(keys: tuple[tuple[str, Any], ...]) -> str:
    """Return the element of a list entry that is identified by key fields, sorted by name."""
    try:
        return _key_element(keys)
    except TypeError:  # an object or list as a key cannot be cached
        return "k:" + go_json(dict(keys))


@lru_cache(_CACHED, typed=True)
def _key_element(keys: tuple[tuple[str, Any], ...]) -> str:
    return "k:" + go_json(dict(keys))


@lru_cache(_CACHED, typed=True)
def value_element(value: str | float | bool) -> str:
    """Return the element of a set entry: its value."""
    return "v:" + go_json(value)


def canonical(element: str) -> str | None:
    """Return an element in canonical form; None for an unknown kind of element, which is ignored.

    Raises ElementError for an invalid element.
    """
    kind, text = element[:1], element[2:]
    if len(element) < 2 or element[1] != ":":
        raise ElementError(f"{element!r} is no path element")
    if kind == "f":
        return element
    if kind == "i":
        try:
            return f"i:{int(text)}"
        except ValueError:
            raise ElementError(f"{element!r} bears no index") from None
    if kind not in ("k", "v"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ElementError(f"{element!r} bears no JSON") from None
    if kind == "v":
        return "v:" + go_json(value)
    if not isinstance(value, dict):
        raise ElementError(f"{element!r} bears no object")
    return "k:" + go_json(value)


def canonical_set(fields: Any) -> FieldSet:
    """Return a client's set in canonical form, which sets are compared in. Raises ElementError."""
    below, _ = _read(fields)
    return below


def _read(given: Any) -> tuple[FieldSet, bool]:
    """Return the fields below an element, and whether the element itself belongs to the set."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ElementError("fields are objects")
    read: FieldSet = {}
    for name, inner in given.items():
        if name == SELF:
            continue
        element = canonical(name)
        if element is None:
            continue
        below, belongs = _read(inner)
        if below:
            read[element] = {SELF: MEMBER, **below} if belongs else below
        elif belongs:
            read[element] = MEMBER
    return read, SELF in given or not read


def element_order(element: str) -> tuple[Any, ...]:
    """Return the sort key of elements: fields by name, then keys, values, indices."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return (0, text)
    if kind == "k":
        return (1, tuple((name, _value_order(value)) for name, value in sorted(json.loads(text).items())))
    if kind == "v":
        return (2, _value_order(json.loads(text)))
    return (3, int(text))


def _value_order(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, go_json(value))


def format_path(path: tuple[str, ...]) -> str:
    """Format a path for conflicts: ``.spec.ports[port=80,protocol="TCP"].name``."""
    return "".join(map(format_element, path))


def format_element(element: str) -> str:
    """Format one element for conflicts."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = sorted(json.loads(text).items())
        return "[" + ",".join(f"{name}={_format_value(value)}" for name, value in keys) + "]"
    if kind == "v":
        return f"[={_format_value(json.loads(text))}]"
    return f"[{text}]"


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(_format_value, value)) + "]"
    if isinstance(value, dict):
        return "".join(f"{name}={_format_value(item)}" for name, item in value.items())
    return json.dumps(value, ensure_ascii=False)
