"""Load type descriptions on demand: a package takes a few milliseconds and is kept.

The files have one line per field, below one line per type::

    kind Pod deep=spec.enableServiceLinks:true
      metadata  meta_v1.ObjectMeta  1
    type Volume otherwise=emptyDir
      name      string              1 always required
      @inline   VolumeSource        2

A type is a scalar (followed by its name in decoding errors if that differs: ``string(v1.Protocol)``), another
type, ``[T]`` for a list, ``{T}`` for a map, or ``*T`` for a pointer. The words after the protobuf number are
the attributes of :class:`~tinykube.server.schema.model.Field`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from threading import RLock
from typing import Any, cast

import msgspec

from tinykube.server.schema.model import (
    Field,
    Inlined,
    ListRef,
    ListType,
    MapRef,
    MapType,
    ObjectRef,
    ObjectType,
    Package,
    Scalar,
    ScalarRef,
    TypeRef,
    Union,
)

_GROUP_VERSIONS: Mapping[tuple[str, str], str] = {
    ("", "v1"): "core_v1",
    ("meta.k8s.io", "v1"): "meta_v1",
    ("discovery.k8s.io", "v1"): "discovery_v1",
    ("apps", "v1"): "apps_v1",
    ("coordination.k8s.io", "v1"): "coordination_v1",
    ("events.k8s.io", "v1"): "events_v1",
    ("autoscaling", "v1"): "autoscaling_v1",
    ("policy", "v1"): "policy_v1",
    ("networking.k8s.io", "v1"): "networking_v1",
    ("autoscaling", "v2"): "autoscaling_v2",
    ("batch", "v1"): "batch_v1",
    ("rbac.authorization.k8s.io", "v1"): "rbac_v1",
    ("storage.k8s.io", "v1"): "storage_v1",
    ("scheduling.k8s.io", "v1"): "scheduling_v1",
    ("node.k8s.io", "v1"): "node_v1",
    ("admissionregistration.k8s.io", "v1"): "admissionregistration_v1",
    ("authentication.k8s.io", "v1"): "authentication_v1",
    ("authorization.k8s.io", "v1"): "authorization_v1",
    ("apiextensions.k8s.io", "v1"): "apiextensions_v1",
}
PACKAGES = tuple(_GROUP_VERSIONS.values())
"""The names of all packages."""

_SCALARS = {scalar.value: scalar for scalar in Scalar}
_GO_NAMES = {
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.TIME: "v1.Time",
    Scalar.MICRO_TIME: "v1.MicroTime",
    Scalar.RAW: "runtime.RawExtension",
    Scalar.FIELDS_V1: "v1.FieldsV1",
    Scalar.BYTES: "[]uint8",
}
_ZEROS: Mapping[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.FLOAT64: 0,
}
_ALIASED = re.compile(r"(.*)\(([^()]*)\)")


class UnknownTypeError(LookupError):
    """There is no description of the type; the text names it."""


def types_of(group: str, version: str) -> Package:
    """Return all types of a group version. Raises UnknownTypeError."""
    try:
        return package(_GROUP_VERSIONS[group, version])
    except KeyError:
        raise UnknownTypeError(f"no types are described for {group or 'core'}/{version}") from None


def kind_type(group: str, version: str, kind: str) -> ObjectType:
    """Return the type of a kind. Status, WatchEvent and the options are kinds of every group version.

    Raises UnknownTypeError.
    """
    for name in (_GROUP_VERSIONS.get((group, version)), "meta_v1"):
        found = package(name).types.get(kind) if name else None
        if found is not None and (found.kind or found.every_group):
            return found
    raise UnknownTypeError(f"no kind {kind} is described for {group or 'core'}/{version}")


def object_type(ref: ObjectRef) -> ObjectType:
    """Return the type of a reference. Raises UnknownTypeError."""
    found = package(ref.package).types.get(ref.name)
    if found is None:
        raise UnknownTypeError(f"no type {ref.name} is described in {ref.package}")
    return found


COMPILING = RLock()
"""Held while anything is derived from the types on first use: servers in several threads share the results."""


@cache
def package(name: str) -> Package:
    """Return a package by name (``core_v1``); loaded once. Raises UnknownTypeError."""
    if name not in PACKAGES:
        raise UnknownTypeError(f"no package {name} is described")
    text = (files("tinykube.server.schema") / "types" / f"{name}.types").read_text(encoding="utf-8")
    return _Reader(text.splitlines()).read()


class _Reader:
    """Parses one file. Inlined types are in the same package, as upstream."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [line for line in lines if line and not line.startswith("#")]
        head = dict(word.split("=", 1) for word in self._lines[0].split()[2:])
        self._name = self._lines[0].split()[1]
        self._group, self._version, self._prefix = head["group"], head["version"], head["openapi"]
        self._blocks: dict[str, list[str]] = {}
        block: list[str] = []
        for line in self._lines[1:]:
            if line.startswith("  "):
                block.append(line)
            else:
                block = self._blocks[line.split()[1]] = [line]
        self._types: dict[str, ObjectType] = {}

    def read(self) -> Package:
        for name in self._blocks:
            self._type(name)
        return Package(
            name=self._name,
            group=self._group,
            version=self._version,
            openapi_prefix=self._prefix,
            types=self._types,
        )

    def _type(self, name: str) -> ObjectType:
        if name in self._types:
            return self._types[name]
        words = self._blocks[name][0].split()
        is_kind = words[0] == "kind"
        facts = _facts(words[2:])
        fields: dict[str, Field] = {}
        own: list[str] = []
        inlined: list[Inlined] = []
        if is_kind:
            for typed in ("apiVersion", "kind"):
                fields[typed] = Field(name=typed, type=ScalarRef(Scalar.STRING, "string"))
                own.append(typed)
        for line in self._blocks[name][1:]:
            field_name, type_text, number, *rest = line.split()
            if field_name == "@inline":
                inner = self._type(type_text)
                fields.update(inner.fields)
                inlined.append(Inlined(int(number), inner.ref))
            else:
                fields[field_name] = self._field(field_name, type_text, int(number), _facts(rest))
                own.append(field_name)
        every_group = "every-group" in facts
        group = "" if name == "Status" else self._group
        described = ObjectType(
            package=self._name,
            name=name,
            fields=fields,
            own=tuple(own),
            inlined=tuple(inlined),
            kind=is_kind,
            group_versions=((group, self._version),) if is_kind and not every_group else (),
            every_group=every_group,
            atomic="atomic" in facts,
            otherwise=facts.get("otherwise", ""),
            deep_defaults=_deep_defaults(facts.get("deep", "")),
            unions=_unions(facts.get("union", "")),
        )
        self._types[name] = described
        return described

    def _field(self, name: str, type_text: str, number: int, facts: dict[str, str]) -> Field:
        pointer = type_text.startswith("*")
        field_type = self._type_ref(type_text.lstrip("*"))
        always = "always" in facts
        default = msgspec.json.decode(facts["default"]) if "default" in facts else msgspec.UNSET
        list_type, _, list_keys = facts.get("list", "").partition(":")
        sibling, _, value = facts.get("when", "").partition(":")
        return Field(
            name=name,
            type=field_type,
            number=number,
            pointer=pointer,
            always=always,
            omit_zero="omitzero" in facts,
            required="required" in facts,
            default=default,
            default_when=(sibling, value) if sibling else None,
            published_default=_published(facts, default, field_type, pointer=pointer, always=always),
            enum=tuple(facts["enum"].split(",")) if "enum" in facts else (),
            list_type=cast("ListType", list_type),
            list_keys=tuple(list_keys.split(",")) if list_keys else (),
            map_type=cast("MapType", facts.get("map", "")),
            patch_strategies=tuple(facts["patch"].split(",")) if "patch" in facts else (),
            merge_key=facts.get("key", ""),
        )

    def _type_ref(self, text: str) -> TypeRef:
        if text.startswith(("[", "{")):
            closing = text.rindex("]" if text.startswith("[") else "}")
            inner = self._type_ref(text[1:closing].lstrip("*"))
            alias = text[closing + 1 :].strip("()")
            return ListRef(inner, alias) if text.startswith("[") else MapRef(inner, alias)
        aliased = _ALIASED.fullmatch(text)
        word, go_name = (aliased[1], aliased[2]) if aliased else (text, "")
        scalar = _SCALARS.get(word)
        if scalar is not None:
            return ScalarRef(scalar, go_name or _GO_NAMES.get(scalar, scalar.value))
        owner, _, name = word.rpartition(".")
        return ObjectRef(owner or self._name, name)


def _facts(words: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _published(
    facts: dict[str, str], default: Any, field_type: TypeRef, *, pointer: bool, always: bool
) -> Any:
    """Return the published default: the explicit one, or the zero value of fields that are always written."""
    published = facts.get("published")
    if published is not None:
        return msgspec.json.decode(published) if published else default
    if pointer:
        return msgspec.UNSET
    if isinstance(field_type, ObjectRef):
        return {}
    if always and isinstance(field_type, ScalarRef):
        return _ZEROS.get(field_type.scalar, msgspec.UNSET)
    return msgspec.UNSET


def _deep_defaults(text: str) -> tuple[tuple[tuple[str, ...], Any], ...]:
    if not text:
        return ()
    path, _, value = text.partition(":")
    return ((tuple(path.split(".")), msgspec.json.decode(value)),)


def _unions(text: str) -> tuple[Union, ...]:
    if not text:
        return ()
    discriminator, _, chosen = text.partition("/")
    pairs = tuple((name, value) for name, _, value in (one.partition(":") for one in chosen.split(",")))
    return (Union(discriminator, pairs),)


__all__ = ["PACKAGES", "UnknownTypeError", "kind_type", "object_type", "package", "types_of"]
