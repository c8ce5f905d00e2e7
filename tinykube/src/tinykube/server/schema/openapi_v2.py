"""The OpenAPI v2 document, derived from the v3 documents of all group versions, for clients without v3. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.schema.openapi_schemas import REFERENCE

_REFERENCE = "#/definitions/"
_SEVERAL = "x-kubernetes-group-version-kind"
_UNKNOWN_FIELDS = "x-kubernetes-preserve-unknown-fields"
_TYPED = {"type", "x-kubernetes-int-or-string", _UNKNOWN_FIELDS}
"""Keys that determine a value's type in a custom resource's schema; beside one of them, oneOf is a constraint."""


def swagger(documents: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Return a v2 document with the paths and types of all v3 documents; the input is not modified.

    Features that v2 lacks are converted as by kube-apiserver: a value of several types becomes a string with
    a format, a reference keeps its siblings. In custom resources, nullable values and objects that preserve
    unknown fields are left untyped: kubectl falls back to this document for validation, would reject objects
    that the server accepts, and cannot parse lists without items.
    """
    paths: JsonObject = {}
    definitions: JsonObject = {}
    for document in documents:
        for path, item in document["paths"].items():
            paths[path] = {
                name: _operation(value) if isinstance(value, dict) else _parameters(value)
                for name, value in item.items()
            }
        for name, schema in document["components"]["schemas"].items():
            described = _schema(schema)
            known = definitions.get(name)
            if known is not None and _SEVERAL in known:  # one type of several groups (DeleteOptions)
                described[_SEVERAL] = _joined(known[_SEVERAL], described.get(_SEVERAL, []))
            definitions[name] = described
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
    }


def _joined(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(one for one in second if one not in first)]


def _schema(schema: Mapping[str, Any]) -> JsonObject:
    """Convert a schema to v2."""
    if "oneOf" in schema and not schema.keys() & _TYPED:
        kept = {name: value for name, value in schema.items() if name != "oneOf"}
        return {"type": "string", **kept}
    made: JsonObject = {}
    for name, value in _relaxed_for_v2(schema).items():
        match name:
            case "allOf" if len(value) == 1 and "$ref" in value[0]:
                made["$ref"] = value[0]["$ref"].replace(REFERENCE, _REFERENCE)
            case "$ref":
                made["$ref"] = value.replace(REFERENCE, _REFERENCE)
            case "properties":
                made["properties"] = {field: _schema(inner) for field, inner in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                made[name] = _schema(value)
            case "default" | "nullable" | "allOf" | "anyOf" | "oneOf" | "not":
                continue  # not published in v2
            case _:
                made[name] = value
    return made


def _relaxed_for_v2(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without constraints that v2 cannot relax: of nullable values and of preserved unknown fields."""
    left_out: set[str] = set()
    keeps_unknown = schema.get(_UNKNOWN_FIELDS) is True
    if schema.get("nullable"):
        left_out |= {"type", "items", "properties"}
    if keeps_unknown:
        left_out |= {"items", "properties"}
    has_items = "items" in schema and "items" not in left_out
    if (schema.get("type") == "array" and not has_items) or (
        schema.get("type") == "object" and keeps_unknown
    ):
        left_out.add("type")
    nullable = {name for name, inner in schema.get("properties", {}).items() if inner.get("nullable")}
    if not left_out and not nullable:
        return schema
    made = {name: value for name, value in schema.items() if name not in left_out}
    if "required" in made:
        made["required"] = [name for name in made["required"] if name not in nullable]
        if not made["required"]:
            del made["required"]
    return made


def _operation(operation: Mapping[str, Any]) -> JsonObject:
    made = {
        name: value
        for name, value in operation.items()
        if name not in ("requestBody", "parameters", "responses")
    }
    parameters = _parameters(operation.get("parameters", []))
    body = operation.get("requestBody")
    if body is not None:
        made["consumes"] = list(body["content"])
        schema = next(iter(body["content"].values()))["schema"]
        parameters.append(
            {
                "name": "body",
                "in": "body",
                **({"required": True} if body.get("required") else {}),
                "schema": _schema(schema),
            }
        )
    made["parameters"] = parameters
    made["responses"] = {}
    for code, response in operation.get("responses", {}).items():
        answer = {"description": response.get("description", "")}
        content = response.get("content")
        if content:
            made["produces"] = list(content)
            answer["schema"] = _schema(next(iter(content.values()))["schema"])
        made["responses"][code] = answer
    return made


def _parameters(parameters: Any) -> list[Any]:
    made = []
    for parameter in parameters:
        flat = {name: value for name, value in parameter.items() if name != "schema"}
        made.append({**flat, **_schema(parameter.get("schema", {}))})
    return made
