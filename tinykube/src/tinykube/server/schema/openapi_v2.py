"""The OpenAPI v2 document, made of the v3 documents of all group versions: for clients that know no other. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.schema.openapi_schemas import REFERENCE

_REFERENCE = "#/definitions/"
_SEVERAL = "x-kubernetes-group-version-kind"
_UNKNOWN_FIELDS = "x-kubernetes-preserve-unknown-fields"
_TYPED = {"type", "x-kubernetes-int-or-string", _UNKNOWN_FIELDS}
"""What says in a custom resource's schema which type a value has; with one of these, oneOf says something else."""


def swagger(documents: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Return one document with the paths and types of all; it owns what is in it, and changes nothing it is given.

    What v2 cannot say is said as a real server says it: a value of several types is a string with a format, a reference
    stands beside what is said of it. Of custom resources, what may be null, and what keeps unknown fields, is left open:
    kubectl, which validates by this document where it knows no better, would refuse what the server takes, and cannot
    read a list without items at all.
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
    """Return a schema in the words of v2."""
    if "oneOf" in schema and not schema.keys() & _TYPED:
        kept = {name: value for name, value in schema.items() if name != "oneOf"}
        return {"type": "string", **kept}
    made: JsonObject = {}
    for name, value in _said_in_v2(schema).items():
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
                continue  # v2 does not publish them
            case _:
                made[name] = value
    return made


def _said_in_v2(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without what would say too much in v2: of values that may be null, or have unknown fields."""
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
