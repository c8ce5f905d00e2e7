"""Field ownership of custom resources: structural schemas converted to nodes.

Lists without a list type are atomic. For values without a schema, objects are owned by member, all other
values as a whole. Objects below ``x-kubernetes-preserve-unknown-fields`` may have unnamed members.
"""

from collections.abc import Mapping
from typing import Any

from tinykube.server.fields.nodes import SCALARS, FreeNode, ListNode, MapNode, Node, metadata_node

StructuralSchema = Mapping[str, Any]
"""One node of a structural schema, as JSON."""

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_ATOMIC = "atomic"
_SCALAR_KINDS = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_TEXT_FORMATS = ("", "byte")
"""With any other format (date-time, int-or-string, ...), ownership accepts any scalar for a string."""
_DEDUCED = FreeNode()


def structural_node(schema: StructuralSchema) -> MapNode:
    """Return the node of a kind with this schema. The cost is linear in the schema: create it once and keep it.

    ``apiVersion``, ``kind`` and ``metadata`` are those of every kind, regardless of the schema.
    """
    return _object_node({**schema, _EMBEDDED: True}, preserves=False)


def _node(schema: StructuralSchema, *, preserves: bool) -> Node:
    kind = schema.get("type") or ""
    preserves = preserves or schema.get(_PRESERVE) is True
    if kind == "array":
        return _list_node(schema, preserves=preserves)
    if kind == "string":
        return SCALARS["string" if (schema.get("format") or "") in _TEXT_FORMATS else "untyped"]
    if kind in _SCALAR_KINDS:
        return SCALARS[_SCALAR_KINDS[kind]]
    return _object_node(schema, preserves=preserves)


def _list_node(schema: StructuralSchema, *, preserves: bool) -> ListNode:
    items, list_type = schema.get("items"), schema.get(_LIST_TYPE) or _ATOMIC
    entry = _node(items, preserves=preserves) if isinstance(items, Mapping) else SCALARS["free"]
    keys = tuple(schema.get(_LIST_KEYS) or ()) if list_type == "map" else ()
    return ListNode(entry, is_atomic=list_type == _ATOMIC, keys=keys)


def _object_node(schema: StructuralSchema, *, preserves: bool) -> MapNode:
    """Return the node of an object; without a type, the node of any value that may be this object."""
    preserves = preserves or schema.get(_PRESERVE) is True
    properties: Mapping[str, StructuralSchema] = schema.get("properties") or {}
    fields: dict[str, Node] = {name: _node(inner, preserves=preserves) for name, inner in properties.items()}
    if schema.get(_EMBEDDED):
        fields |= {"apiVersion": SCALARS["string"], "kind": SCALARS["string"], "metadata": metadata_node()}
    node = MapNode(
        _free_value(schema, preserves=preserves, is_bare=not fields),
        is_atomic=schema.get(_MAP_TYPE) == _ATOMIC,
        is_untyped=not schema.get("type") and not schema.get(_EMBEDDED),
    )
    node.fields = {name: ("f:" + name, inner) for name, inner in fields.items()}
    node.defaults = {
        name: inner["default"] for name, inner in properties.items() if inner.get("default") is not None
    }
    node.is_undescribed = not fields and _has_no_schema(node.value)
    return node


def _free_value(schema: StructuralSchema, *, preserves: bool, is_bare: bool) -> Node | None:
    """Return the node of unnamed members, ``None`` if they are not allowed."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return _node(additional, preserves=preserves)
    if additional is None:
        return _DEDUCED if preserves or is_bare else None
    return _DEDUCED if additional else None


def _has_no_schema(value: Node | None) -> bool:
    return value is not None and (value.is_untyped or value is SCALARS["untyped"])
