"""Type descriptions: the fields of a type, with the facts that the server, patches and clients need.

Descriptions are immutable and shared. A document of a type is a plain dict; the type only describes it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec

ListType = Literal["", "atomic", "set", "map"]
MapType = Literal["", "atomic", "granular"]


class Scalar(Enum):
    """JSON values that have a canonical form, or are not inspected."""

    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BYTES = "bytes"
    """Base64 in JSON."""
    QUANTITY = "quantity"
    """``100m``, ``1Gi``; numbers are accepted and converted to text."""
    INT_OR_STRING = "intorstring"
    TIME = "time"
    """RFC 3339 with whole seconds, in UTC."""
    MICRO_TIME = "microtime"
    """RFC 3339 with exactly six digits of a second, in UTC."""
    RAW = "raw"
    """Any object (RawExtension), kept unchanged."""
    FIELDS_V1 = "fieldsv1"
    """The tree of field names in managedFields, kept unchanged."""
    ANY = "any"
    """Any JSON value, kept unchanged."""


class ScalarRef(msgspec.Struct, frozen=True, gc=False):
    """A scalar. ``go_name`` is its name in decoding errors: ``string``, ``v1.Protocol``."""

    scalar: Scalar
    go_name: str


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """A reference to a type by package and name (``core_v1``, ``Pod``)."""

    package: str
    name: str

    @property
    def go_name(self) -> str:
        """Return the name in decoding errors: ``v1.PodSpec``."""
        return f"{self.package.rpartition('_')[2]}.{self.name}"


class ListRef(msgspec.Struct, frozen=True):
    """A list of one type."""

    item: "TypeRef"
    alias: str = ""
    """The name of a named list type (``v1.ExtraValue``); in protobuf, such a list is a message."""

    @property
    def go_name(self) -> str:
        """Return the name in decoding errors: ``[]v1.Container``."""
        return self.alias or f"[]{self.item.go_name}"


class MapRef(msgspec.Struct, frozen=True):
    """A map with string keys."""

    value: "TypeRef"
    alias: str = ""
    """The name of a named map type: ``v1.ResourceList``."""

    @property
    def go_name(self) -> str:
        """Return the name in decoding errors: ``map[string]string``."""
        return self.alias or f"map[string]{self.value.go_name}"


TypeRef = ScalarRef | ObjectRef | ListRef | MapRef


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a type, by its JSON name."""

    name: str
    type: TypeRef
    number: int = 0
    """The protobuf number, or 0."""
    pointer: bool = False
    """Zero values (``0``, ``""``, ``false``, ``{}``) are significant: they are kept and written."""
    always: bool = False
    """The field is written even if unset: as its zero value, or null for lists, maps and pointers."""
    omit_zero: bool = False
    """A non-pointer struct that is omitted if empty. (Others are written as ``{}``.)"""
    required: bool = False
    """Required in OpenAPI; only the kind's validation enforces it."""
    default: Any = msgspec.UNSET
    """The value if the field is unset and its parent exists."""
    default_when: tuple[str, str] | None = None
    """The default applies only if this sibling field has this value (``""``: is unset)."""
    published_default: Any = msgspec.UNSET
    """The default in OpenAPI, which omits most, and includes zero values of fields that are always written."""
    enum: tuple[str, ...] = ()
    format: str = ""
    """The OpenAPI format, if it does not follow from the type."""
    list_type: ListType = ""
    list_keys: tuple[str, ...] = ()
    map_type: MapType = ""
    patch_strategies: tuple[str, ...] = ()
    """For strategic merge patches: ``merge`` (lists; without it they are replaced), ``retainKeys``."""
    merge_key: str = ""


class Inlined(msgspec.Struct, frozen=True, gc=False):
    """An embedded struct: its fields belong to the parent in JSON, and to a nested message in protobuf."""

    number: int
    type: ObjectRef


class Union(msgspec.Struct, frozen=True, gc=False):
    """A union of fields, as in OpenAPI."""

    discriminator: str
    fields: tuple[tuple[str, str], ...]
    """Field, and the corresponding value of the discriminator."""


class ObjectType(msgspec.Struct, frozen=True, kw_only=True):
    """A type with fields. ``fields`` has all JSON fields in upstream's order, including inlined ones."""

    package: str
    name: str
    fields: Mapping[str, Field]
    own: tuple[str, ...]
    """The names of the fields that are not inlined."""
    inlined: tuple[Inlined, ...] = ()
    kind: bool = False
    """Whether it is a top-level document with the fields ``apiVersion`` and ``kind``."""
    group_versions: tuple[tuple[str, str], ...] = ()
    """The group versions in which it is a kind (OpenAPI's x-kubernetes-group-version-kind)."""
    every_group: bool = False
    """Whether it is a kind of every group version (options, WatchEvent)."""
    atomic: bool = False
    """Whether server-side apply treats it as atomic (x-kubernetes-map-type)."""
    otherwise: str = ""
    """The inlined field that is set to an empty object if none of them is set."""
    deep_defaults: tuple[tuple[tuple[str, ...], Any], ...] = ()
    """Defaults of nested fields for this kind only: path and value."""
    unions: tuple[Union, ...] = ()

    @property
    def ref(self) -> ObjectRef:
        """The reference to this type."""
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
