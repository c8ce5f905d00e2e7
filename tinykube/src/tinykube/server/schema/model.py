"""What is known of a type: its fields and, of each field, everything that the server, its patches and clients need.

All of it is immutable and shared. A document of a type is a plain dict; a type only describes it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec

ListType = Literal["", "atomic", "set", "map"]
MapType = Literal["", "atomic", "granular"]


class Scalar(Enum):
    """What stands in JSON as one value and is not looked into, or has a form of its own."""

    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BYTES = "bytes"
    """Base64 in JSON."""
    QUANTITY = "quantity"
    """``100m``, ``1Gi``; a number is read, too, and written as text."""
    INT_OR_STRING = "intorstring"
    TIME = "time"
    """RFC 3339 with whole seconds, in UTC."""
    MICRO_TIME = "microtime"
    """RFC 3339 with exactly six digits of a second, in UTC."""
    RAW = "raw"
    """Any object (RawExtension), kept as it is."""
    FIELDS_V1 = "fieldsv1"
    """The tree of field names in managedFields, kept as it is."""
    ANY = "any"
    """Any JSON value, kept as it is."""


class ScalarRef(msgspec.Struct, frozen=True, gc=False):
    """A scalar. ``go_name`` is how decoding errors call it: ``string``, ``v1.Protocol``."""

    scalar: Scalar
    go_name: str


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """A type by name, in the package it is described in (``core_v1``, ``Pod``)."""

    package: str
    name: str

    @property
    def go_name(self) -> str:
        """Return the name as decoding errors spell it: ``v1.PodSpec``."""
        return f"{self.package.rpartition('_')[2]}.{self.name}"


class ListRef(msgspec.Struct, frozen=True):
    """A list of one type."""

    item: "TypeRef"
    alias: str = ""
    """The name of the list type where it has one (``v1.ExtraValue``); protobuf has a message for such a list."""

    @property
    def go_name(self) -> str:
        """Return the name as decoding errors spell it: ``[]v1.Container``."""
        return self.alias or f"[]{self.item.go_name}"


class MapRef(msgspec.Struct, frozen=True):
    """An object with free keys, all values of one type."""

    value: "TypeRef"
    alias: str = ""
    """The name of the map type where it has one: ``v1.ResourceList``."""

    @property
    def go_name(self) -> str:
        """Return the name as decoding errors spell it: ``map[string]string``."""
        return self.alias or f"map[string]{self.value.go_name}"


TypeRef = ScalarRef | ObjectRef | ListRef | MapRef


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a type, by its JSON name."""

    name: str
    type: TypeRef
    number: int = 0
    """Its protobuf number; 0 where it has none."""
    pointer: bool = False
    """A value equal to zero (``0``, ``""``, ``false``, ``{}``) says something here: it is kept and written."""
    always: bool = False
    """It is written even where it is not set: its zero, or null for lists, maps and pointers."""
    omit_zero: bool = False
    """An object, not a pointer, that is left out where it is empty. (Others are written as ``{}``.)"""
    required: bool = False
    """Clients call it required (OpenAPI); nothing is refused for it but by the rules of the kind."""
    default: Any = msgspec.UNSET
    """What stands here where nothing is given and the parent exists."""
    default_when: tuple[str, str] | None = None
    """The default is for those only whose sibling field has this value (``""``: is not set)."""
    published_default: Any = msgspec.UNSET
    """The default as OpenAPI tells it. It is silent of most, and names zeros for all that is written always."""
    enum: tuple[str, ...] = ()
    format: str = ""
    """The OpenAPI format, where it does not follow from the type."""
    list_type: ListType = ""
    list_keys: tuple[str, ...] = ()
    map_type: MapType = ""
    patch_strategies: tuple[str, ...] = ()
    """Of a strategic merge patch: ``merge`` (of lists; without it they are replaced), ``retainKeys``."""
    merge_key: str = ""


class Inlined(msgspec.Struct, frozen=True, gc=False):
    """A type whose fields stand among the parent's in JSON, and in a message of their own in protobuf."""

    number: int
    type: ObjectRef


class Union(msgspec.Struct, frozen=True, gc=False):
    """A choice between fields, as OpenAPI tells it."""

    discriminator: str
    fields: tuple[tuple[str, str], ...]
    """Field, and the value of the discriminator that goes with it."""


class ObjectType(msgspec.Struct, frozen=True, kw_only=True):
    """A type with fields. ``fields`` holds all that its JSON may have, in upstream's order, inlined ones among them."""

    package: str
    name: str
    fields: Mapping[str, Field]
    own: tuple[str, ...]
    """The names of the fields that are not inlined."""
    inlined: tuple[Inlined, ...] = ()
    kind: bool = False
    """It is a document of its own: has ``apiVersion`` and ``kind``, which are among the fields."""
    group_versions: tuple[tuple[str, str], ...] = ()
    """Where it is a kind (OpenAPI's x-kubernetes-group-version-kind)."""
    every_group: bool = False
    """It is a kind of every group version (options, WatchEvent)."""
    atomic: bool = False
    """Server-side apply owns it as a whole (x-kubernetes-map-type)."""
    otherwise: str = ""
    """The inlined field that is set to an empty object where none of them is."""
    deep_defaults: tuple[tuple[tuple[str, ...], Any], ...] = ()
    """Defaults of this kind alone for fields further in: path and value."""
    unions: tuple[Union, ...] = ()

    @property
    def ref(self) -> ObjectRef:
        """Return the reference that leads here."""
        return ObjectRef(self.package, self.name)


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """The types of one group version."""

    name: str
    """``core_v1``"""
    group: str
    version: str
    openapi_prefix: str
    """``io.k8s.api.core.v1``"""
    types: Mapping[str, ObjectType]
