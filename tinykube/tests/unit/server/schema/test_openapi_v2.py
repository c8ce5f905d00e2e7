"""The OpenAPI v2 document is equivalent to the v3 documents."""

import copy
from typing import Any

from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.openapi import TypeOpenApi
from tinykube.server.schema.openapi_v2 import swagger

PREFIX = "io.k8s.api.core.v1."


def documents() -> list[dict[str, Any]]:
    registry, source = builtin_registry(), TypeOpenApi()
    return [
        source.document(registry, group, version)
        for group, versions in registry.versions().items()
        for version in versions
    ]


def test_all_groups_are_merged_into_one_document_without_changing_the_inputs() -> None:
    given = documents()
    before = copy.deepcopy(given)
    made = swagger(given)
    assert given == before
    assert {"/api/v1/namespaces/{namespace}/pods", "/apis/apps/v1/deployments"} <= set(made["paths"])
    for document in given:
        assert document["components"]["schemas"].keys() <= made["definitions"].keys()


def test_references_resolve_within_the_document() -> None:
    made = swagger(documents())

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [one for inner in value.values() for one in references(inner)]
        return [one for inner in value for one in references(inner)] if isinstance(value, list) else []

    for reference in references(made):
        start, _, name = reference.rpartition("/")
        assert (start, name in made["definitions"]) == ("#/definitions", True), reference


def test_int_or_string_is_a_string_with_a_format_and_defaults_are_omitted() -> None:
    made = swagger(documents())["definitions"]
    either = made["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert {**either, "description": ""} == {
        "type": "string",
        "format": "int-or-string",
        "description": "",
    }
    assert made[f"{PREFIX}ServicePort"]["properties"]["protocol"].keys() & {"default"} == set()


def test_merge_keys_and_list_types_are_kept() -> None:
    ports = swagger(documents())["definitions"][f"{PREFIX}ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]


def test_a_request_body_becomes_a_parameter() -> None:
    create = swagger(documents())["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["post"]
    (body,) = [one for one in create["parameters"] if one["in"] == "body"]
    assert (body["required"], body["schema"]["$ref"]) == (True, f"#/definitions/{PREFIX}ConfigMap")
    assert create["consumes"] == ["*/*"]
    assert create["responses"]["201"]["schema"]["$ref"] == f"#/definitions/{PREFIX}ConfigMap"
    assert {one["name"]: one["type"] for one in create["parameters"] if one["in"] == "query"}[
        "dryRun"
    ] == "string"


def test_a_type_of_several_groups_lists_all_of_them() -> None:
    options = swagger(documents())["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    groups = {one["group"] for one in options["x-kubernetes-group-version-kind"]}
    assert {"", "apps", "discovery.k8s.io"} <= groups


def in_v2(schema: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = swagger([{"paths": {}, "components": {"schemas": {"a": schema}}}])["definitions"][
        "a"
    ]
    return made


def test_nullable_schemas_have_no_type_and_are_not_required() -> None:
    said = {"type": "object", "properties": {"b": {"type": "string"}}, "description": "d"}
    assert in_v2({**said, "nullable": True}) == {"description": "d"}
    holder = {"type": "object", "required": ["a", "b"], "properties": {"a": {**said, "nullable": True}}}
    assert in_v2(holder) == {
        "type": "object",
        "required": ["b"],
        "properties": {"a": {"description": "d"}},
    }
    assert "required" not in in_v2({**holder, "required": ["a"]})


def test_schemas_that_preserve_unknown_fields_have_no_constraints() -> None:
    keeping = {"x-kubernetes-preserve-unknown-fields": True}
    inner = {"properties": {"b": {"type": "string"}}}
    assert in_v2({"type": "object", **inner, **keeping}) == keeping
    assert in_v2({"type": "array", "items": {"type": "string"}, **keeping}) == keeping
    assert in_v2({"type": "array"}) == {}
    listed = {"type": "array", "items": {"type": "object", **keeping}}
    assert in_v2(listed) == {"type": "array", "items": keeping}


def test_combinators_are_omitted() -> None:
    choice = {"anyOf": [{"required": ["a"]}], "oneOf": [{}], "not": {}, "allOf": [{}, {}]}
    assert in_v2({"type": "object", **choice}) == {"type": "object"}
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert in_v2(either) == {"x-kubernetes-int-or-string": True}
