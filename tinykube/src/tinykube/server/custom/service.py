"""The schema, patches and OpenAPI of a server with built-in and custom resources."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinykube.server.custom.crd_definitions import CustomKind
from tinykube.server.custom.definition_limits import is_schema_too_deep
from tinykube.server.custom.kinds import CRDS, CustomKinds
from tinykube.server.custom.list_and_embedded_validation import (
    ConformError,
    conform_embedded,
    conform_metadata,
)
from tinykube.server.custom.structural_schema import MAX_DEFAULTED_BYTES, drop_nulls, fill_defaults, prune
from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.patch.errors import no_strategic_merge
from tinykube.server.patch.service import Patches, PatchType
from tinykube.server.schema.conform import conform
from tinykube.server.schema.loader import object_type
from tinykube.server.schema.model import ObjectRef
from tinykube.server.schema.openapi_schemas import REFERENCE, Schemas
from tinykube.server.schema.service import Schema

_SCHEMA_PROPS = ObjectRef("apiextensions_v1", "JSONSchemaProps")


class CustomSchema:
    """The types of all kinds, including custom ones (:class:`tinykube.server.schema.service.Schema`)."""

    def __init__(self, kinds: CustomKinds, typed: Schema) -> None:
        self._kinds = kinds
        self._typed = typed

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Conform a document to its type, in place; return its unknown fields. Raises 400."""
        found = self._kinds.find(group, version, kind)
        if found is not None:
            return _conform_custom(found, version, kind, document)
        unknown = self._typed.conform(group, version, kind, document)
        if (group, kind) == (CRDS.group, "CustomResourceDefinition"):
            _conform_schemas(version, kind, document)
        return unknown

    def apply_defaults(self, group: str, version: str, kind: str, document: JsonObject) -> None:
        """Set the defaults of a conformed document, in place."""
        found = self._kinds.find(group, version, kind)
        if found is None:
            self._typed.apply_defaults(group, version, kind, document)
        else:
            if not fill_defaults(document, found.schema):
                raise StatusError(
                    413,
                    "RequestEntityTooLarge",
                    f"the defaults of its schema would make the object larger by more than {MAX_DEFAULTED_BYTES} bytes",
                )


def _conform_custom(found: CustomKind, version: str, kind: str, document: JsonObject) -> list[str]:
    unknown: list[str] = []
    try:
        metadata = document.get("metadata")
        if isinstance(metadata, dict):
            unknown += conform_metadata(metadata, "metadata")
        elif metadata is not None:
            raise ConformError(
                f"json: cannot unmarshal {_json_type(metadata)} into Go value of type v1.ObjectMeta"
            )
        conform_embedded(document, {**found.schema, "x-kubernetes-embedded-resource": False}, "", unknown)
    except ConformError as error:
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from None
    unknown = sorted([*unknown, *prune(document, found.schema)])
    drop_nulls(document, found.schema)
    return [f'unknown field "{path}"' for path in unknown]


def _json_type(value: Any) -> str:
    names = {str: "string", bool: "bool", list: "array"}
    return names.get(type(value), "number")


def _conform_schemas(version: str, kind: str, document: JsonObject) -> None:
    """Conform the schemas within a definition's schemas that may have either of two types.

    Unknown fields there are removed silently, as by kube-apiserver.
    """
    path = "spec.versions.schema.openAPIV3Schema"
    for one in document.get("spec", {}).get("versions") or ():
        try:
            _conform_below((one.get("schema") or {}).get("openAPIV3Schema"), path)
        except ConformError as error:
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
            ) from None


def _conform_below(schema: Any, path: str) -> None:
    if not isinstance(schema, dict):
        return
    for name in ("items", "additionalProperties"):
        inner = schema.get(name)
        if isinstance(inner, dict):
            try:
                conform(object_type(_SCHEMA_PROPS), inner)
            except ConformError as error:
                text = str(error)
                raise ConformError(
                    text.replace("JSONSchemaProps.", f"JSONSchemaProps.{path}.{name}.")
                ) from None
            _conform_below(inner, f"{path}.{name}")
    for inner in (schema.get("properties") or {}).values():
        _conform_below(inner, f"{path}.properties")
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name) or ():
            _conform_below(inner, f"{path}.{name}")
    _conform_below(schema.get("not"), f"{path}.not")


class CustomPatches:
    """Patches of all kinds (:class:`tinykube.server.patch.service.Patches`)."""

    def __init__(self, kinds: CustomKinds, typed: Patches) -> None:
        self._kinds = kinds
        self._typed = typed

    def apply(
        self, patch_type: PatchType, group: str, version: str, kind: str, document: JsonObject, patch: object
    ) -> JsonObject:
        """Return the patched document. Raises 415 for a strategic merge patch of a custom resource: it has no merge keys."""
        if patch_type == "strategic" and self._kinds.find(group, version, kind) is not None:
            raise no_strategic_merge()
        return self._typed.apply(patch_type, group, version, kind, document, patch)


class CustomSchemas(Schemas):
    """Collects the schemas of a document, including those of custom resources."""

    def __init__(self, kinds: CustomKinds, group: str, version: str) -> None:
        super().__init__(group, version)
        self._kinds = kinds

    def reference(self, group: str, version: str, kind: str) -> JsonObject:
        """Return a reference to a kind, and collect its schema. Raises UnknownTypeError."""
        found = self._kinds.find(group, version, kind)
        if found is not None:
            schema = found.schema
            return self._put(group, version, kind, lambda: self._published(schema, group, version, kind))
        of_list = self._kinds.find_list(group, version, kind)
        if of_list is not None:
            item = self.reference(group, version, of_list.definition.kind)
            return self._put(group, version, kind, lambda: self._published_list(item, group, version, kind))
        return super().reference(group, version, kind)

    def _put(self, group: str, version: str, kind: str, make: Callable[[], JsonObject]) -> JsonObject:
        name = ".".join([*reversed(group.split(".")), version, kind])
        if name not in self.collected:
            self.collected[name] = make()
        return {"$ref": REFERENCE + name}

    def _published(self, described: Mapping[str, Any], group: str, version: str, kind: str) -> JsonObject:
        # A schema that is too deep to publish must not break the whole document.
        schema = published(
            {"x-kubernetes-preserve-unknown-fields": True} if is_schema_too_deep(described) else described
        )
        schema.setdefault("type", "object")
        own = schema.setdefault("properties", {})
        own.update(self._type_members("ObjectMeta"))
        schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
        return schema

    def _published_list(self, item: JsonObject, group: str, version: str, kind: str) -> JsonObject:
        return {
            "type": "object",
            "description": f"{kind} is a list of {item['$ref'].rpartition('.')[2]}",
            "required": ["items"],
            "properties": {**self._type_members("ListMeta"), "items": {"type": "array", "items": item}},
            "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
        }

    def _type_members(self, metadata: str) -> dict[str, Any]:
        reference = self._refer_to(ObjectRef("meta_v1", metadata))
        return {
            "apiVersion": {
                "type": "string",
                "description": "APIVersion defines the version of the schema of this object.",
            },
            "kind": {"type": "string", "description": "What this object is: the kind of the REST resource."},
            "metadata": {"allOf": [reference], "description": "Standard object's metadata."},
        }


_EITHER = [{"type": "integer"}, {"type": "string"}]


def published(schema: Mapping[str, Any]) -> JsonObject:
    """Return a schema in its published form: embedded objects and int-or-string types spelled out.

    Unchanged parts are shared with the schema.
    """
    shown: JsonObject = dict(schema)
    if shown.get("x-kubernetes-int-or-string") and "anyOf" not in shown:
        shown["anyOf"] = [dict(one) for one in _EITHER]
    for name in ("items", "additionalProperties", "not"):
        if isinstance(shown.get(name), dict):
            shown[name] = published(shown[name])
    if "properties" in shown:
        shown["properties"] = {name: published(inner) for name, inner in shown["properties"].items()}
    return shown


__all__ = ["CustomPatches", "CustomSchema", "CustomSchemas", "published"]
