"""Apply a structural schema to an object before validation: prune unknown fields, drop nulls, set defaults.

A schema is the JSON of the definition (``openAPIV3Schema``); in a structural schema, the type of each value
is specified in one place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tinykube.server.objects import JsonObject

Schema = Mapping[str, Any]
"""One node of a structural schema."""

MAX_DEFAULTED_BYTES = 3 * 1024 * 1024
"""The maximum size of defaults added to an object: the size limit of a body."""

_NONE: Mapping[str, Schema] = {}
META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_EITHER = "x-kubernetes-int-or-string"


def properties(schema: Schema | None) -> Mapping[str, Schema]:
    """Return the schemas of the named members."""
    return (schema.get("properties") or _NONE) if schema else _NONE


def additional(schema: Schema | None) -> Schema | bool | None:
    """Return the schema of arbitrary keys: a schema, True for any value, False or None if they are not allowed."""
    value = schema.get("additionalProperties") if schema else None
    return value if isinstance(value, dict | bool) else None


def additional_schema(schema: Schema | None) -> Schema | None:
    """Return the schema of arbitrary keys, or ``None``."""
    value = schema.get("additionalProperties") if schema else None
    return value if isinstance(value, dict) else None


def item_schema(schema: Schema | None) -> Schema | None:
    """Return the schema of a list's items."""
    value = schema.get("items") if schema else None
    return value if isinstance(value, dict) else None


def member_schema(schema: Schema | None, name: str) -> Schema | None:
    """Return the schema of a member, named or arbitrary."""
    named = properties(schema).get(name)
    return named if named is not None else additional_schema(schema)


def is_embedded(schema: Schema | None) -> bool:
    """Return whether a node is an embedded API object."""
    return bool(schema and schema.get(_EMBEDDED))


def prune(document: JsonObject, schema: Schema, *, is_root: bool = True) -> list[str]:
    """Remove fields without a schema, in place; return their paths, sorted. The metadata of objects is kept."""
    gone: list[str] = []
    _prune(document, schema, is_root or is_embedded(schema), "", gone)
    return sorted(gone)


def _prune(value: Any, schema: Schema | None, has_meta: bool, path: str, gone: list[str]) -> None:
    keeps = bool(schema and schema.get(_PRESERVE))
    if isinstance(value, dict):
        _prune_object(value, schema, has_meta, path, gone, keeps)
    elif isinstance(value, list):
        items = item_schema(schema)
        if keeps and items is None:
            return
        for index, item in enumerate(value):
            _prune_member(item, items, f"{path}[{index}]", gone)


def _prune_member(value: Any, schema: Schema | None, path: str, gone: list[str]) -> None:
    if isinstance(value, dict | list):
        _prune(value, schema, is_embedded(schema), path, gone)


def _prune_object(
    value: JsonObject, schema: Schema | None, has_meta: bool, path: str, gone: list[str], keeps: bool
) -> None:
    named, free = properties(schema), additional(schema)
    for name in list(value):
        if has_meta and name in META_FIELDS:
            continue
        where = f"{path}.{name}" if path else name
        if name in named:
            _prune_member(value[name], named[name], where, gone)
        elif free is not None and free is not False:
            _prune_member(value[name], free if isinstance(free, dict) else None, where, gone)
        elif not keeps:
            gone.append(where)
            del value[name]


def drop_nulls(value: Any, schema: Schema | None, *, untyped: bool = False) -> None:
    """Remove nulls that are neither allowed nor replaced by a default, in place.

    ``untyped``: only those without a type, which validation does not reject.
    """
    if isinstance(value, dict):
        for name in list(value):
            inner = member_schema(schema, name)
            member = value[name]
            if isinstance(member, dict | list):
                drop_nulls(member, inner, untyped=untyped)
            elif (
                member is None
                and inner is not None
                and not _may_be_null(inner)
                and not (untyped and (inner.get("type") or inner.get(_EITHER)))
            ):
                del value[name]
    elif isinstance(value, list):
        items = item_schema(schema)
        for item in value:
            if isinstance(item, dict | list):
                drop_nulls(item, items, untyped=untyped)


def _may_be_null(schema: Schema) -> bool:
    return bool(schema.get("nullable")) or schema.get("default") is not None


class _Defaults:
    """Copies defaults within a total size: one default may be used for a million items."""

    def __init__(self) -> None:
        self._left_bytes = MAX_DEFAULTED_BYTES

    @property
    def is_exhausted(self) -> bool:
        return self._left_bytes < 0

    def copy(self, default: Any) -> Any:
        encoded = msgspec.json.encode(default)
        self._left_bytes -= len(encoded)
        return None if self.is_exhausted else msgspec.json.decode(encoded)


def fill_defaults(value: Any, schema: Schema | None) -> bool:
    """Set the defaults of missing values and disallowed nulls, in place. Idempotent.

    Return False if the defaults exceed ``MAX_DEFAULTED_BYTES``.
    """
    defaults = _Defaults()
    _fill(value, schema, defaults)
    return not defaults.is_exhausted


def _fill(value: Any, schema: Schema | None, defaults: _Defaults) -> None:
    if schema is None or defaults.is_exhausted:
        return
    if isinstance(value, dict):
        named = properties(schema)
        for name, inner in named.items():
            default = inner.get("default")
            if default is not None and (name not in value or _is_wrong_null(value[name], inner)):
                value[name] = defaults.copy(default)
        for name, member in value.items():
            inner_schema = member_schema(schema, name)
            if inner_schema is None:
                continue
            if name not in named and _is_wrong_null(member, inner_schema):
                value[name] = defaults.copy(inner_schema.get("default"))
            _fill(value[name], inner_schema, defaults)
    elif isinstance(value, list):
        items = item_schema(schema)
        if items is None:
            return
        for index, item in enumerate(value):
            if _is_wrong_null(item, items):
                value[index] = defaults.copy(items.get("default"))
            _fill(value[index], items, defaults)


def _is_wrong_null(value: Any, schema: Schema) -> bool:
    return value is None and not schema.get("nullable")


def has_defaults(schema: Schema | None) -> bool:
    """Return whether a schema contains a default."""
    return any(one.get("default") is not None for one in nodes(schema))


def nodes(schema: Schema | None) -> Iterable[Schema]:
    """Iterate over a schema and all nested ones, including those in ``allOf`` and the like."""
    if not isinstance(schema, dict):
        return
    yield schema
    for inner in (schema.get("properties") or {}).values():
        yield from nodes(inner)
    for name in ("items", "additionalProperties", "not"):
        yield from nodes(schema.get(name))
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name) or ():
            yield from nodes(inner)
