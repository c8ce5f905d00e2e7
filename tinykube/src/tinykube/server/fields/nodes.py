"""Ownership of a type's parts: atomic, by field, by map key, or by list entry.

Nodes are created once per type and cached. ``MISSING`` means absent; ``None`` is an ordinary value.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tinykube.server.fields.elements import key_element, value_element
from tinykube.server.fields.sets import MEMBER, SELF, FieldSet
from tinykube.server.schema.loader import COMPILING, UnknownTypeError, kind_type, object_type
from tinykube.server.schema.model import (
    Field,
    ListRef,
    MapRef,
    ObjectRef,
    ObjectType,
    Scalar,
    ScalarRef,
    TypeRef,
)

MISSING: Final[Any] = msgspec.UNSET
"""Absent."""

_NUMERIC = frozenset({Scalar.INT32, Scalar.INT64, Scalar.FLOAT64})
_FREE = frozenset({Scalar.RAW, Scalar.ANY, Scalar.FIELDS_V1})
_MERGED = ("merge", "merge,retainKeys")


class EntryError(ValueError):
    """A list entry that cannot be identified; the text is kube-apiserver's."""


class Node:
    """One type. ``is_atomic``: it is owned as a whole (scalars and atomic lists, maps and structs).

    ``is_untyped``: its type is unknown; objects are owned by member, other values as a whole.
    """

    is_atomic: bool = True
    is_untyped: bool = False

    def is_atomic_for(self, value: Any) -> bool:
        """Return whether a value of this type is owned as a whole."""
        return self.is_atomic or (self.is_untyped and not isinstance(value, dict))

    def inner(self, element: str) -> "Node | None":
        """Return the node of a path element, or None."""
        return None

    def names(self, element: str) -> bool:
        """Return whether an element is a named field of the type, not a map key or list entry."""
        return False


class ScalarNode(Node):
    """A scalar. ``kind``: ``string``, ``numeric``, ``boolean``, ``untyped`` (any scalar) or ``free`` (any value)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class MapNode(Node):
    """An object: with named fields, with arbitrary keys whose values are ``value``, or both."""

    is_undescribed: bool = False
    """Its contents have no schema: their ownership is kept if the object becomes atomic."""

    def __init__(
        self, value: Node | None = None, *, is_atomic: bool = False, is_untyped: bool = False
    ) -> None:
        self.is_atomic = is_atomic
        self.is_untyped = is_untyped
        self.value = value
        self.fields: dict[str, tuple[str, Node]] = {}
        """Path element and node by name. Filled in after construction, for recursive types."""
        self.defaults: dict[str, Any] = {}
        """Default values of key fields that a list entry omits."""

    def item(self, name: str) -> tuple[str, Node] | None:
        """Return the path element and the node of a member; None for an unknown member."""
        known = self.fields.get(name)
        if known is not None or self.value is None:
            return known
        return "f:" + name, self.value

    def inner(self, element: str) -> Node | None:
        """Return the node of a member."""
        known = self.item(element[2:]) if element[0] == "f" else None
        return None if known is None else known[1]

    def names(self, element: str) -> bool:
        """Return whether an element is a named field of the type."""
        return element[0] == "f" and element[2:] in self.fields


class ListNode(Node):
    """A list: atomic, or owned by entry; entries are identified by key fields or by their value."""

    def __init__(self, entry: Node, *, is_atomic: bool, keys: tuple[str, ...] = ()) -> None:
        self.entry = entry
        self.is_atomic = is_atomic
        self.keys = tuple(sorted(keys))
        self.declared_keys = keys

    def element(self, entry: Any) -> str:
        """Return the path element of an entry. Raises EntryError if it cannot be identified."""
        if not self.keys:
            if isinstance(entry, dict | list) or entry is None:
                raise EntryError(_no_value(entry))
            return value_element(entry)
        if not isinstance(entry, dict):
            what = "a null element" if entry is None else "non-map elements"
            raise EntryError(f"associative list with keys may not have {what}")
        found: list[tuple[str, Any]] = []
        for name in self.keys:
            value = entry.get(name, MISSING)
            if value is MISSING and isinstance(self.entry, MapNode):
                value = self.entry.defaults.get(name, MISSING)
            if value is not MISSING:
                found.append((name, value))
        if not found:
            named = " ".join(f'"{name}"' for name in self.declared_keys)
            raise EntryError(
                f"associative list with keys has an element that omits all key fields [{named}] "
                "(and doesn't have default values for any key fields)"
            )
        return key_element(tuple(found))

    def inner(self, element: str) -> Node | None:
        """Return the node of an entry."""
        return self.entry if element[0] in "kv" else None

    def grouped(self, entries: list[Any] | None) -> dict[str, list[Any]]:
        """Group entries by path element, in the order of first occurrence."""
        groups: dict[str, list[Any]] = {}
        for entry in entries or ():
            groups.setdefault(self.element(entry), []).append(entry)
        return groups


def _no_value(entry: Any) -> str:
    if isinstance(entry, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(entry, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null"


class FreeNode(MapNode):
    """Any value, without a schema."""

    is_undescribed = True

    def __init__(self) -> None:
        super().__init__(is_untyped=True)
        self.value = self


_nodes: dict[ObjectRef, MapNode] = {}


def kind_node(group: str, version: str, kind: str) -> MapNode:
    """Return the node of a kind. For a kind without a description, only the metadata is known."""
    try:
        return _object_node(kind_type(group, version, kind).ref)
    except UnknownTypeError:
        return _undescribed()


@cache
def _undescribed() -> MapNode:
    node = MapNode(FreeNode())
    for name in ("apiVersion", "kind"):
        node.fields[name] = ("f:" + name, SCALARS["string"])
    node.fields["metadata"] = ("f:metadata", metadata_node())
    return node


def metadata_node() -> MapNode:
    """Return the node of object metadata."""
    return _object_node(ObjectRef("meta_v1", "ObjectMeta"))


def _object_node(ref: ObjectRef) -> MapNode:
    with COMPILING:  # a recursive type is registered before it is complete
        known = _nodes.get(ref)
        if known is None:
            described = object_type(ref)
            known = _nodes[ref] = MapNode(is_atomic=described.atomic)
            _fill(known, described)
        return known


def _fill(node: MapNode, described: ObjectType) -> None:
    for field in described.fields.values():
        node.fields[field.name] = ("f:" + field.name, _field_node(field))
        if field.published_default is not msgspec.UNSET:
            node.defaults[field.name] = field.published_default


def _field_node(field: Field) -> Node:
    ref = field.type
    if isinstance(ref, ListRef):
        return _list_node(field, ref)
    if isinstance(ref, MapRef):
        return MapNode(_type_node(ref.value), is_atomic=field.map_type == "atomic")
    node = _type_node(ref)
    if field.map_type and isinstance(node, MapNode) and node.is_atomic != (field.map_type == "atomic"):
        other = MapNode(is_atomic=field.map_type == "atomic")
        other.fields, other.defaults = node.fields, node.defaults
        return other
    return node


def _list_node(field: Field, ref: ListRef) -> ListNode:
    entry = _type_node(ref.item)
    if field.list_type:
        return ListNode(entry, is_atomic=field.list_type == "atomic", keys=field.list_keys)
    if ",".join(field.patch_strategies) in _MERGED:
        return ListNode(entry, is_atomic=False, keys=(field.merge_key,) if field.merge_key else ())
    return ListNode(entry, is_atomic=True)


def _type_node(ref: TypeRef) -> Node:
    if isinstance(ref, ObjectRef):
        return _object_node(ref)
    if isinstance(ref, ListRef):
        return ListNode(_type_node(ref.item), is_atomic=True)
    if isinstance(ref, MapRef):
        return MapNode(_type_node(ref.value))
    return SCALARS[_scalar_kind(ref)]


def _scalar_kind(ref: ScalarRef) -> str:
    if ref.scalar in _FREE:
        return "free"
    if ref.scalar in _NUMERIC:
        return "numeric"
    if ref.scalar is Scalar.BOOL:
        return "boolean"
    return "string" if ref.scalar in (Scalar.STRING, Scalar.BYTES) else "untyped"


SCALARS: Mapping[str, ScalarNode] = {
    kind: ScalarNode(kind) for kind in ("string", "numeric", "boolean", "untyped", "free")
}
"""The node of each kind of scalar."""


def members(node: MapNode, value: dict[str, Any]) -> Iterator[tuple[str, Node, Any]]:
    """Yield path element, node and value of each known member."""
    for name, inner in value.items():
        known = node.item(name)
        if known is not None:
            yield known[0], known[1], inner


def field_set(node: Node, value: Any) -> FieldSet:
    """Return the fields of a document: those that an apply owns."""
    return _fields(node, value) or {}


def _fields(node: Node, value: Any) -> FieldSet | None:
    """Return the fields below a value's element; None if none of them counts separately."""
    if node.is_atomic_for(value):
        return MEMBER
    found: FieldSet = {}
    if isinstance(node, MapNode):
        for element, inner_node, inner in members(node, value or {}):
            below = _fields(inner_node, inner)
            # A named field is itself a member only if nothing below it is; a map key always is.
            if inner is None or inner == {} or not node.names(element):
                below = {SELF: MEMBER, **below} if below and SELF not in below else below or MEMBER
            if below is not None:
                found[element] = below
    elif isinstance(node, ListNode):
        for element, entries in node.grouped(value).items():
            below = _fields(node.entry, entries[0]) if len(entries) == 1 else MEMBER
            found[element] = {SELF: MEMBER, **below} if below and SELF not in below else below or MEMBER
    return found or None
