"""The OpenAPI v2 document in protobuf is equivalent to its JSON."""

from typing import Any

import pytest
from tests.unit.server.schema.openapi_v2_reader import read_document

from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.openapi import TypeOpenApi
from tinykube.server.schema.openapi_v2 import swagger
from tinykube.server.schema.openapi_v2_protobuf import swagger_protobuf


def whole_document() -> dict[str, Any]:
    registry, source = builtin_registry(), TypeOpenApi()
    return swagger(
        source.document(registry, group, version)
        for group, versions in registry.versions().items()
        for version in versions
    )


def without_empty_lists(value: Any) -> Any:
    """Return a document without empty lists, which protobuf cannot distinguish from absent ones."""
    if isinstance(value, dict):
        return {word: without_empty_lists(inner) for word, inner in value.items() if inner != []}
    return [without_empty_lists(inner) for inner in value] if isinstance(value, list) else value


def document_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": {},
        "definitions": {"a.B": schema},
    }


def test_a_decoded_document_equals_the_original() -> None:
    given = whole_document()
    read = read_document(swagger_protobuf(given))
    assert read == without_empty_lists(given)
    assert list(read["definitions"]) == list(given["definitions"])
    assert len(read["definitions"]) > 200
    pod = read["definitions"]["io.k8s.api.core.v1.PodSpec"]
    assert list(pod["properties"]) == sorted(pod["properties"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        {"type": "number", "minimum": 0.5, "maximum": 300, "exclusiveMaximum": True, "multipleOf": 2.5},
        {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^a$", "title": "T"},
        {"type": "string", "enum": ["", "é", "b: c"], "example": {"a": [None, 1.5]}},
        {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/definitions/a.B"}},
        {"minProperties": 1, "maxProperties": 2, "externalDocs": {"description": "d", "url": "u"}},
        {"x-kubernetes-validations": [{"rule": "self > 1"}], "x-kubernetes-list-map-keys": ["a", "b"]},
    ],
)
def test_every_schema_keyword_is_encoded(schema: dict[str, Any]) -> None:
    given = document_of(schema)
    assert read_document(swagger_protobuf(given)) == given


def test_unknown_keywords_and_zero_values_are_omitted() -> None:
    given = document_of(
        {"type": "string", "nonsense": 1, "minLength": 0, "uniqueItems": False, "pattern": ""}
    )
    assert read_document(swagger_protobuf(given)) == document_of({"type": "string"})


def test_a_single_type_and_a_list_of_one_type_are_encoded_alike() -> None:
    one, several = (
        swagger_protobuf(document_of({"type": type_value})) for type_value in ("string", ["string"])
    )
    assert one == several
