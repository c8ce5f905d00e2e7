"""Field ownership of structural schemas."""

from typing import Any

import pytest

from tinykube.server.fields.compare import compare
from tinykube.server.fields.merge import merged, reconciled, without
from tinykube.server.fields.nodes import ListNode, MapNode, ScalarNode, field_set
from tinykube.server.fields.sets import FieldSet
from tinykube.server.fields.structural import structural_node
from tinykube.server.fields.validate import problems

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}


def node_of(spec: dict[str, Any], **members: Any) -> MapNode:
    return structural_node({"type": "object", "properties": {"spec": spec}, **members})


def spec_node(spec: dict[str, Any], **members: Any) -> Any:
    return node_of(spec, **members).fields["spec"][1]


def owned(spec: dict[str, Any], value: Any) -> Any:
    """Return the fields under ``spec`` that an apply of a value owns."""
    return field_set(node_of(spec), {"spec": value}).get("f:spec")


def listed(items: dict[str, Any] | None = None, kind: str = "", *keys: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "array", "items": items or TEXT}
    if kind:
        made["x-kubernetes-list-type"] = kind
    if keys:
        made["x-kubernetes-list-map-keys"] = list(keys)
    return made


def of(*, more: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(more or {})}


def test_a_list_without_a_type_has_one_owner() -> None:
    assert owned(listed(), ["a"]) == owned(listed(kind="atomic"), ["a"]) == {}
    assert compare(node_of(listed()), {"spec": ["a"]}, {"spec": ["b"]}).modified == {"f:spec": {}}


def test_a_set_is_owned_per_value() -> None:
    assert owned(listed(kind="set"), ["a", "b"]) == {'v:"a"': {}, 'v:"b"': {}}


def test_a_map_list_is_owned_per_key_including_key_defaults() -> None:
    entry = of(name=TEXT, port={"type": "integer", "default": 80}, value=TEXT)
    found = owned(listed(entry, "map", "name", "port"), [{"name": "a", "value": "x"}])
    assert found == {'k:{"name":"a","port":80}': {".": {}, "f:name": {}, "f:value": {}}}


def test_atomic_objects_are_owned_as_a_whole_and_granular_ones_per_field() -> None:
    atomic = {"x-kubernetes-map-type": "atomic"}
    assert owned(of(a=TEXT, b=TEXT), {"a": "1", "b": "2"}) == {"f:a": {}, "f:b": {}}
    assert owned(of(a=TEXT, more={"x-kubernetes-map-type": "granular"}), {"a": "1"}) == {"f:a": {}}
    assert owned(of(a=TEXT, more=atomic), {"a": "1"}) == {}
    free = {"type": "object", "additionalProperties": TEXT}
    assert owned(free, {"x": "1"}) == {"f:x": {}}
    assert owned({**free, **atomic}, {"x": "1"}) == {}


def test_undescribed_values_are_owned_per_member() -> None:
    value = {"a": {"b": 1}, "c": [{"d": 1}]}
    found: FieldSet = {"f:a": {".": {}, "f:b": {}}, "f:c": {}}
    assert owned({"type": "object", **PRESERVE}, value) == found
    assert owned({"type": "object", "additionalProperties": True}, value) == found
    assert owned({"type": "object"}, value) == found
    assert owned(PRESERVE, value) == found
    assert owned(PRESERVE, [1]) == owned(PRESERVE, "x") == owned(PRESERVE, None) == {}


def test_unknown_members_are_allowed_only_where_they_are_preserved() -> None:
    inner = of(a=of(b=TEXT))
    assert problems(node_of(inner), {"spec": {"a": {"x": 1}}}) == [".spec.a.x: field not declared in schema"]
    assert not problems(node_of({**inner, **PRESERVE}), {"spec": {"a": {"x": 1}, "y": []}})
    within = of(a={**of(b=TEXT), **PRESERVE})
    assert problems(node_of(within), {"spec": {"x": 1}}) == [".spec.x: field not declared in schema"]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (TEXT, "string"),
        ({"type": "string", "format": "byte"}, "string"),
        ({"type": "string", "format": "date-time"}, "untyped"),
        ({"type": "integer"}, "numeric"),
        ({"type": "number"}, "numeric"),
        ({"type": "boolean"}, "boolean"),
    ],
)
def test_scalar_kinds_follow_the_schema_type(schema: dict[str, Any], kind: str) -> None:
    node = spec_node(schema)
    assert isinstance(node, ScalarNode)
    assert node.kind == kind


def test_int_or_string_accepts_any_scalar() -> None:
    node = node_of(of(a={"x-kubernetes-int-or-string": True}))
    assert not problems(node, {"spec": {"a": 1}}) + problems(node, {"spec": {"a": "1"}})
    assert compare(node, {"spec": {"a": 1}}, {"spec": {"a": "1"}}).modified == {"f:spec": {"f:a": {}}}


def test_metadata_is_always_typed_as_object_metadata() -> None:
    named = structural_node(of(metadata=of(name=TEXT)))
    document = {"apiVersion": "v1", "kind": "K", "metadata": {"finalizers": ["a"], "labels": {"x": "y"}}}
    found = field_set(named, document)["f:metadata"]
    assert found == {"f:finalizers": {'v:"a"': {}}, "f:labels": {"f:x": {}}}
    assert problems(named, {"metadata": {"foo": 1}}) == [".metadata.foo: field not declared in schema"]


def test_embedded_resources_have_typed_metadata() -> None:
    embedded = {**of(spec=TEXT), "x-kubernetes-embedded-resource": True}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["a"]}, "spec": "x"}
    found = owned(embedded, value)
    assert found["f:metadata"] == {"f:finalizers": {'v:"a"': {}}}
    assert problems(node_of(embedded), {"spec": {"metadata": {"x": 1}}})
    assert problems(node_of(embedded), {"spec": {"x": 1}}) == [".spec.x: field not declared in schema"]


def test_nested_lists_and_atomic_list_items_are_owned_correctly() -> None:
    atomic = of(k=TEXT, a=TEXT, more={"x-kubernetes-map-type": "atomic"})
    assert owned(listed(atomic, "map", "k"), [{"k": "1", "a": "2"}]) == {'k:{"k":"1"}': {}}
    inner = listed(of(k=TEXT, l=listed(kind="set")), "map", "k")
    assert owned(inner, [{"k": "1", "l": ["x"]}]) == {
        'k:{"k":"1"}': {".": {}, "f:k": {}, "f:l": {'v:"x"': {}}}
    }


# ------------------------------------------------------------------------------ values that change their type

FREE = node_of(PRESERVE)


@pytest.mark.parametrize(
    ("old", "new", "modified", "added", "removed"),
    [
        ({"a": 1}, "x", True, {}, {"f:a": {}}),
        ("x", {"a": {"b": 1}}, True, {"f:a": {".": {}, "f:b": {}}}, {}),
        ([1], {"a": 1}, True, {"f:a": {}}, {}),
        ({"a": 1}, [1], True, {}, {"f:a": {}}),
        (None, {"a": 1}, False, {"f:a": {}}, {}),
        ({"a": 1}, None, False, {}, {"f:a": {}}),
        ({}, "x", True, {}, {}),
        ("x", {}, True, {}, {}),
        (None, [1], True, {}, {}),
        ({}, None, True, {}, {}),
    ],
)
def test_untyped_values_can_change_between_object_and_scalar(
    old: Any, new: Any, modified: bool, added: Any, removed: Any
) -> None:
    found = compare(FREE, {"spec": old}, {"spec": new})
    assert found.modified == ({"f:spec": {}} if modified else {})
    assert (found.added.get("f:spec", {}), found.removed.get("f:spec", {})) == (added, removed)


def test_an_applied_null_leaves_an_untyped_object_unchanged() -> None:
    assert merged(FREE, {"spec": {"a": 1}}, {"spec": None}) == {"spec": {"a": 1}}
    assert merged(FREE, {"spec": [1]}, {"spec": None}) == {"spec": None}
    assert merged(FREE, {"spec": {"a": 1}}, {"spec": "x"}) == {"spec": "x"}
    assert merged(FREE, {"spec": {"a": 1, "b": 1}}, {"spec": {"a": 2}}) == {"spec": {"a": 2, "b": 1}}


def test_removing_a_field_from_an_untyped_list_removes_the_list() -> None:
    gone: FieldSet = {"f:spec": {"f:a": {}}}
    assert without(FREE, {"spec": [1]}, gone) == {"spec": None}
    assert without(FREE, {"spec": "x"}, gone) == {"spec": "x"}


def test_ownership_follows_a_list_that_became_atomic() -> None:
    entry = of(k=TEXT, a=TEXT)
    before = owned(listed(entry, "map", "k"), [{"k": "1", "a": "2"}])
    after = node_of(listed(entry, "atomic"))
    assert reconciled(after, {"f:spec": before}) == {"f:spec": {}}
    assert reconciled(node_of(listed(entry, "map", "k")), {"f:spec": before}) == {"f:spec": before}


def test_ownership_inside_an_undescribed_atomic_object_is_kept() -> None:
    atomic = {"x-kubernetes-map-type": "atomic"}
    fields: FieldSet = {"f:spec": {"f:a": {}}}
    assert reconciled(node_of({"type": "object", **PRESERVE, **atomic}), fields) == fields
    assert reconciled(node_of(of(a=TEXT, more=atomic)), fields) == {"f:spec": {}}


def test_duplicate_set_values_are_tolerated_when_stored_but_rejected_when_applied() -> None:
    node = node_of(listed(kind="set"))
    assert problems(node, {"spec": ["a", "a"]}) == ['.spec: duplicate entries for key [="a"]']
    assert not problems(node, {"spec": ["a", "a"]}, twice=True)
    assert problems(node, {"spec": [{}]}, twice=True)


def test_list_keys_are_sorted_by_name() -> None:
    node = spec_node(listed(of(b=TEXT, a=TEXT), "map", "b", "a"))
    assert isinstance(node, ListNode)
    assert node.element({"b": "1", "a": "2"}) == 'k:{"a":"2","b":"1"}'
