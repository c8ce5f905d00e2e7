"""The parts of the OpenAPI documents that kubectl needs."""

from typing import Any

from tinykube.server.registry.definition import Definition, Registry, Strategy, Subresource
from tinykube.server.registry.openapi import TypeOpenApi

ITEM = "/api/v1/namespaces/{namespace}/services/{name}"


def registry() -> Registry:
    services = Definition(
        group="",
        version="v1",
        plural="services",
        kind="Service",
        singular="service",
        namespaced=True,
        strategy=Strategy(),
        returns_object_on_delete=True,
        subresources=(Subresource(name="status", verbs=("get", "patch", "update"), kind="Service"),),
    )
    custom = Definition(
        group="example.com",
        version="v1",
        plural="foos",
        kind="Foo",
        singular="foo",
        namespaced=False,
        strategy=Strategy(),
    )
    return Registry([services, custom])


def document(group: str = "", version: str = "v1") -> dict[str, Any]:
    return TypeOpenApi().document(registry(), group, version)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {item for key, item in value.items() if key == "$ref" and isinstance(item, str)}
        return found.union(*(references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(references(item) for item in value))
    return set()


def test_every_patch_operation_has_its_kind_and_accepts_field_validation() -> None:
    patches = [path["patch"] for path in document()["paths"].values() if "patch" in path]
    assert len(patches) == 2
    for patch in patches:
        assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Service"}
        assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
        assert "application/apply-patch+yaml" in patch["requestBody"]["content"]


def test_every_reference_resolves_to_a_schema_of_the_document() -> None:
    made = document()
    schemas = made["components"]["schemas"]
    assert {reference.removeprefix("#/components/schemas/") for reference in references(made)} <= set(schemas)
    assert "io.k8s.api.core.v1.Service" in schemas
    assert "io.k8s.api.core.v1.Pod" not in schemas


def test_merge_keys_and_list_types_are_published() -> None:
    ports = document()["components"]["schemas"]["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"
    assert ports["x-kubernetes-patch-strategy"] == "merge"
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]


def test_each_verb_is_an_operation_with_a_unique_id() -> None:
    paths = document()["paths"]
    assert set(paths[ITEM]) == {"parameters", "get", "put", "patch", "delete"}
    assert set(paths["/api/v1/namespaces/{namespace}/services"]) == {"parameters", "get", "post", "delete"}
    assert paths["/api/v1/services"]["get"]["x-kubernetes-action"] == "list"
    assert set(paths[f"{ITEM}/status"]) == {"parameters", "get", "put", "patch"}
    names = [
        operation["operationId"]
        for path in paths.values()
        for operation in path.values()
        if isinstance(operation, dict)
    ]
    assert len(names) == len(set(names))
    deleted = paths[ITEM]["delete"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert deleted.endswith("core.v1.Service")


def test_a_group_without_described_kinds_has_a_document_without_paths() -> None:
    made = document("example.com")
    assert made["paths"] == {}
    kinds = made["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    assert kinds["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "DeleteOptions"}
    ]
