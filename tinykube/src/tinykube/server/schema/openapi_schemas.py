"""The types as OpenAPI v3 schemas, as published by kube-apiserver, but with our own descriptions."""

from typing import Any

import msgspec

from tinykube.server.objects import JsonObject
from tinykube.server.schema.descriptions import Descriptions
from tinykube.server.schema.loader import kind_type, object_type, package
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

REFERENCE = "#/components/schemas/"
PATCH_SCHEMA = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_PLAIN: dict[Scalar, JsonObject] = {
    Scalar.STRING: {"type": "string"},
    Scalar.BOOL: {"type": "boolean"},
    Scalar.INT32: {"type": "integer", "format": "int32"},
    Scalar.INT64: {"type": "integer", "format": "int64"},
    Scalar.FLOAT64: {"type": "number", "format": "double"},
    Scalar.BYTES: {"type": "string", "format": "byte"},
}
_NAMED: dict[Scalar, tuple[str, JsonObject]] = {
    Scalar.QUANTITY: (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    Scalar.INT_OR_STRING: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    Scalar.TIME: (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    Scalar.MICRO_TIME: (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    Scalar.RAW: ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    Scalar.FIELDS_V1: (f"{_META}.FieldsV1", {"type": "object"}),
}
_ANY_NAMES = ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
SCALAR_NAMES = (
    *(("meta_v1", name.rpartition(".")[2]) for name, _ in _NAMED.values()),
    ("meta_v1", "Patch"),
    *(("apiextensions_v1", name) for name in _ANY_NAMES),
)
"""The scalars that are published by name, with the package of their descriptions."""
_ITEM_ZEROS: dict[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.FLOAT64: 0,
}


class Schemas:
    """Collects the schemas of a document: the requested ones and all that they refer to."""

    def __init__(self, group: str, version: str) -> None:
        self._group_version = (group, version)
        self._about = Descriptions()
        self.collected: dict[str, JsonObject] = {}

    def reference(self, group: str, version: str, kind: str) -> JsonObject:
        """Return a reference to a kind, and collect its schema. Raises UnknownTypeError."""
        return self._refer_to(kind_type(group, version, kind).ref)

    def patch_reference(self) -> JsonObject:
        """Return a reference to the body of a patch."""
        self.collected[PATCH_SCHEMA] = self._scalar("meta_v1", "Patch", {"type": "object"})
        return {"$ref": REFERENCE + PATCH_SCHEMA}

    def _refer_to(self, ref: ObjectRef) -> JsonObject:
        name = f"{package(ref.package).openapi_prefix}.{ref.name}"
        if name not in self.collected:
            self.collected[name] = {}  # for recursive types
            self.collected[name] = self._schema(object_type(ref))
        return {"$ref": REFERENCE + name}

    def _schema(self, described: ObjectType) -> JsonObject:
        schema: JsonObject = {"type": "object"}
        about = self._about.of_type(described)
        if about:
            schema["description"] = about
        if described.fields:
            schema["properties"] = {
                name: self._property(described, field) for name, field in sorted(described.fields.items())
            }
        required = [name for name, field in described.fields.items() if field.required]
        if required:
            schema["required"] = required
        if described.kind or described.every_group:
            group_versions = described.group_versions or (self._group_version,)
            schema["x-kubernetes-group-version-kind"] = [
                {"group": group, "version": version, "kind": described.name}
                for group, version in group_versions
            ]
        if described.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        if described.unions:
            schema["x-kubernetes-unions"] = [
                {
                    **({"discriminator": union.discriminator} if union.discriminator else {}),
                    "fields-to-discriminateBy": dict(union.fields),
                }
                for union in described.unions
            ]
        return schema

    def _property(self, owner: ObjectType, field: Field) -> JsonObject:
        described = self._type(field.type)
        if "$ref" in described:
            described = {"allOf": [described]}
        about = self._about.of_field(owner, field.name)
        if about:
            described["description"] = about
        if field.published_default is not msgspec.UNSET:
            described["default"] = field.published_default
        if field.enum:
            inner = {ListRef: "items", MapRef: "additionalProperties"}.get(type(field.type))
            (described[inner] if inner else described)["enum"] = list(field.enum)
        if field.list_type:
            described["x-kubernetes-list-type"] = field.list_type
        if field.list_keys:
            described["x-kubernetes-list-map-keys"] = list(field.list_keys)
        if field.map_type:
            described["x-kubernetes-map-type"] = field.map_type
        if field.merge_key:
            described["x-kubernetes-patch-merge-key"] = field.merge_key
        if field.patch_strategies:
            described["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategies)
        return described

    def _type(self, ref: TypeRef) -> JsonObject:
        if isinstance(ref, ObjectRef):
            return self._refer_to(ref)
        if isinstance(ref, ListRef):
            return {"type": "array", "items": self._item(ref.item)}
        if isinstance(ref, MapRef):
            return {"type": "object", "additionalProperties": self._item(ref.value)}
        if ref.scalar is Scalar.ANY:
            return self._any(ref)
        named = _NAMED.get(ref.scalar)
        if named is None:
            return dict(_PLAIN[ref.scalar])
        self.collected[named[0]] = self._scalar("meta_v1", named[0].rpartition(".")[2], named[1])
        return {"$ref": REFERENCE + named[0]}

    def _any(self, ref: ScalarRef) -> JsonObject:
        name = ref.go_name.rpartition(".")[2]
        if name == "JSONSchemaURL":
            return {"type": "string"}
        self.collected[f"{_EXTENSIONS}.{name}"] = self._scalar("apiextensions_v1", name, {})
        return {"$ref": f"{REFERENCE}{_EXTENSIONS}.{name}"}

    def _scalar(self, package_name: str, name: str, schema: JsonObject) -> JsonObject:
        about = self._about.of_scalar(package_name, name)
        return {**schema, "description": about} if about else schema

    def _item(self, ref: TypeRef) -> JsonObject:
        """Return the schema of a list or map item, with its zero value as the default."""
        described = self._type(ref)
        if isinstance(ref, ObjectRef):
            return {"allOf": [described], "default": {}}
        if isinstance(ref, ScalarRef) and ref.scalar in _ITEM_ZEROS:
            described["default"] = _ITEM_ZEROS[ref.scalar]
        return described
