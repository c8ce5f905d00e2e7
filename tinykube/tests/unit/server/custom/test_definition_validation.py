"""Invalid definitions: path and reason of each error (messages are compared with kube-apiserver's elsewhere)."""

import copy
from typing import Any

import pytest

from tinykube.server.custom.definition_validation import (
    definition_errors,
    definition_name_problem,
    set_approval,
)
from tinykube.server.custom.names import condition
from tinykube.server.custom.schema_validation import schema_errors

TEXT = {"type": "string"}


def crd(**spec: Any) -> dict[str, Any]:
    own: dict[str, Any] = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
        "versions": [version()],
        "conversion": {"strategy": "None"},
    }
    return {
        "metadata": {"name": "as.example.com"},
        "spec": {**own, **spec},
        "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]},
    }


def version(name: str = "v1", **members: Any) -> dict[str, Any]:
    schema = members.pop(
        "schema", {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}}}
    )
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        **members,
    }


def fields(definition: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [error.field for error in definition_errors(definition, old)]


def test_a_valid_definition_is_accepted() -> None:
    assert definition_errors(crd()) == []
    assert definition_name_problem(crd()) == ""


def test_the_name_must_be_plural_dot_group() -> None:
    assert definition_name_problem({**crd(), "metadata": {"name": "bs.example.com"}})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"group": ""}, "spec.group"),
        ({"group": "example"}, "spec.group"),
        ({"group": "Example.com"}, "spec.group"),
        ({"scope": ""}, "spec.scope"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"names": {"singular": "a", "kind": "A", "listKind": "AList"}}, "spec.names.plural"),
        ({"names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "A"}}, "spec.names.listKind"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "spec.versions[0].schema.openAPIV3Schema"),
        ({"versions": [version(storage=False)]}, "spec.versions"),
        ({"versions": [version(), version("v1", served=False)]}, "spec.versions"),
        ({"versions": [version("v1.1", storage=True), version()]}, "spec.versions[0].name"),
        ({"conversion": {"strategy": "Magic"}}, "spec.conversion.strategy"),
        ({"conversion": {"strategy": "Webhook"}, "versions": [version(), version("v2")]}, "spec.conversion.strategy"),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhookClientConfig"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
        ({"versions": [version(deprecationWarning="x")]}, "spec.versions[0].deprecationWarning"),
        ({"versions": [version(deprecated=True, deprecationWarning="\n")]}, "spec.versions[0].deprecationWarning"),
        ({"versions": [version(additionalPrinterColumns=[{"name": "", "type": "string", "jsonPath": ".a"}])]}, "spec.additionalPrinterColumns[0].name"),
        ({"versions": [version(subresources={"scale": {"specReplicasPath": ".spec.a"}})]}, "spec.subresources.scale.statusReplicasPath"),
        ({"versions": [version(selectableFields=[{"jsonPath": ".spec.b"}])]}, "spec.selectableFields[0].jsonPath"),
        ({"versions": [version(selectableFields=[{"jsonPath": ".metadata.name"}])]}, "spec.selectableFields[0].jsonPath"),
    ],
)  # fmt: skip
def test_errors_have_the_path_of_the_invalid_field(spec: dict[str, Any], field: str) -> None:
    assert field in fields(crd(**spec))


def test_each_version_is_validated_on_its_own() -> None:
    column = {"name": "A", "type": "text", "jsonPath": ".a"}
    one = crd(versions=[version(), version("v2", additionalPrinterColumns=[column])])
    assert fields(one) == ["spec.versions[1].additionalPrinterColumns[0].type"]


def test_protected_groups_need_an_approval_annotation() -> None:
    one = crd(group="x.k8s.io")
    field = "metadata.annotations[api-approved.kubernetes.io]"
    assert fields(one) == [field]
    for value, errors in (("unapproved, a test", []), ("https://example.com/1", []), ("yes", [field])):
        one["metadata"]["annotations"] = {"api-approved.kubernetes.io": value}
        assert fields(one) == errors


@pytest.mark.parametrize(
    ("value", "reason", "holds"),
    [
        ("unapproved, a test", "UnapprovedAnnotation", "False"),
        ("https://example.com/1", "ApprovedAnnotation", "True"),
        ("yes", "InvalidAnnotation", "False"),
        ("", "MissingAnnotation", "False"),
    ],
)
def test_the_approval_annotation_sets_a_condition(value: str, reason: str, holds: str) -> None:
    one = crd(group="x.k8s.io")
    one["metadata"]["annotations"] = {"api-approved.kubernetes.io": value}
    set_approval(one, "2024-01-01T00:00:00Z")
    found = condition(one, "KubernetesAPIApprovalPolicyConformant")
    assert found is not None
    assert (found["reason"], found["status"]) == (reason, holds)


def test_other_groups_have_no_approval_condition() -> None:
    one = crd()
    set_approval(one, "2024-01-01T00:00:00Z")
    assert condition(one, "KubernetesAPIApprovalPolicyConformant") is None


def test_stored_versions_cannot_be_removed_from_the_spec() -> None:
    one = crd(versions=[version("v2", storage=True)])
    assert fields(one) == ["status.storedVersions", "status.storedVersions[0]"]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("scope",), "Cluster", "spec.scope"),
        (("names", "kind"), "B", "spec.names.kind"),
        (("names", "plural"), "bs", "spec.names.plural"),
        (("group",), "other.example.com", "spec.group"),
    ],
)
def test_scope_group_and_names_are_immutable_once_established(
    path: tuple[str, ...], value: str, field: str
) -> None:
    old, new = crd(), copy.deepcopy(crd())
    holder = new["spec"]
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    assert field in fields(new, old)


def test_scope_and_kind_may_change_before_the_definition_is_established() -> None:
    old = crd()
    old["status"]["conditions"] = []
    assert fields(crd(scope="Cluster"), old) == []


def schema_fields(schema: dict[str, Any], *, has_status: bool = False) -> set[str]:
    return {error.field for error in schema_errors("s", schema, has_status=has_status)}


@pytest.mark.parametrize(
    ("inner", "field"),
    [
        ({}, "type"),
        ({"type": "text"}, "type"),
        ({"type": "array"}, "items"),
        ({"type": "integer", "allOf": [{"type": "integer"}]}, "allOf[0].type"),
        ({"type": "integer", "anyOf": [{"default": 1}]}, "anyOf[0].default"),
        ({"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT}, "additionalProperties"),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, "uniqueItems"),
        ({"type": "string", "pattern": "("}, "pattern"),
        ({"type": "string", "default": 1}, "default"),
        ({"type": "object", "properties": {"b": TEXT}, "default": {"c": 1}}, "default"),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"}, "x-kubernetes-list-map-keys"),
        ({"type": "array", "items": {"type": "object", "properties": {}}, "x-kubernetes-list-type": "set"}, "items.x-kubernetes-map-type"),
        ({"type": "string", "x-kubernetes-map-type": "atomic"}, "type"),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": False}, "x-kubernetes-preserve-unknown-fields"),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, "properties"),
        ({"type": "object", "$ref": "#/a"}, "$ref"),
        ({"type": "string", "x-kubernetes-validations": [{"rule": ""}]}, "x-kubernetes-validations[0].rule"),
    ],
)  # fmt: skip
def test_non_structural_schemas_and_invalid_defaults_are_rejected(inner: dict[str, Any], field: str) -> None:
    assert f"s.properties[a].{field}" in schema_fields({"type": "object", "properties": {"a": inner}})


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "array", "items": TEXT}, "s.type"),
        ({"type": "object", "nullable": True}, "s.nullable"),
        ({"type": "object", "additionalProperties": TEXT}, "s.additionalProperties"),
        ({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}, "s.properties[metadata]"),
        ({"type": "object", "properties": {"kind": {"type": "integer"}}}, "s.properties[kind].type"),
        ({"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]}, "s.properties[b]"),
    ],
)  # fmt: skip
def test_the_root_schema_must_be_an_object_with_standard_metadata(schema: dict[str, Any], field: str) -> None:
    assert field in schema_fields(schema)


def test_combinators_at_the_root_are_rejected_with_a_status_subresource() -> None:
    schema = {"type": "object", "properties": {}, "oneOf": [{"required": ["a"]}]}
    assert schema_fields(schema) == set()
    assert schema_fields(schema, has_status=True) == {"s"}


def test_int_or_string_may_spell_out_exactly_both_types() -> None:
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    more = {**either, "anyOf": [{"type": "integer"}]}
    assert schema_fields({"type": "object", "properties": {"a": either}}) == set()
    assert schema_fields({"type": "object", "properties": {"a": more}}) == {"s.properties[a].anyOf[0].type"}
