"""Validation of values; the messages are kube-apiserver's (tests/cluster/test_custom_parity.py compares them)."""

from typing import Any

import pytest

from tinykube.server.custom.values import value_errors

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def messages(value: Any, schema: dict[str, Any], **more: Any) -> list[str]:
    return [str(error) for error in value_errors({"a": value}, {"properties": {"a": schema}}, **more)]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("x", TEXT),
        (3, INTEGER),
        (3.0, INTEGER),
        (3, {"type": "number"}),
        (3.5, {"type": "number"}),
        (True, {"type": "boolean"}),
        ([], {"type": "array"}),
        ({}, {"type": "object"}),
        (80, {"x-kubernetes-int-or-string": True}),
        ("http", {"x-kubernetes-int-or-string": True}),
        (None, {"type": "string", "nullable": True}),
        ("a", {**TEXT, "enum": ["a", "b"]}),
        ("aaa", {**TEXT, "pattern": "^a+$", "minLength": 3, "maxLength": 3}),
        ("2024-05-05T10:10:10Z", {**TEXT, "format": "date-time"}),
        ("anything", {**TEXT, "format": "unheard-of"}),
        (1.5, {"type": "number", "multipleOf": 0.5, "minimum": 1, "maximum": 1.5}),
        (5, {**INTEGER, "oneOf": [{"minimum": 3}, {"maximum": 1}]}),
        ({"x": {"y": 1}}, {"type": "object", "additionalProperties": True}),
    ],
)
def test_valid_values_have_no_errors(value: Any, schema: dict[str, Any]) -> None:
    assert messages(value, schema) == []


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        ("x", INTEGER, 'a: Invalid value: "string": a in body must be of type integer: "string"'),
        (True, INTEGER, 'a: Invalid value: "boolean": a in body must be of type integer: "boolean"'),
        (None, TEXT, 'a: Invalid value: "null": a in body must be of type string: "null"'),
        ([1], {"x-kubernetes-int-or-string": True}, 'a: Invalid value: "array": a in body must be of type integer,string: "array"'),
        (0, {**INTEGER, "minimum": 1}, "a: Invalid value: 0: a in body should be greater than or equal to 1"),
        (1, {**INTEGER, "minimum": 1, "exclusiveMinimum": True}, "a: Invalid value: 1: a in body should be greater than 1"),
        (9, {**INTEGER, "maximum": 8}, "a: Invalid value: 9: a in body should be less than or equal to 8"),
        (8, {**INTEGER, "maximum": 8, "exclusiveMaximum": True}, "a: Invalid value: 8: a in body should be less than 8"),
        (7, {**INTEGER, "multipleOf": 2}, "a: Invalid value: 7: a in body should be a multiple of 2"),
        ("", {**TEXT, "minLength": 1}, 'a: Invalid value: "": a in body should be at least 1 chars long'),
        ("abc", {**TEXT, "maxLength": 2}, "a: Too long: may not be more than 2 bytes"),
        ("b", {**TEXT, "pattern": "^a$"}, "a: Invalid value: \"b\": a in body should match '^a$'"),
        ("c", {**TEXT, "enum": ["a", "b"]}, 'a: Unsupported value: "c": supported values: "a", "b"'),
        ("x", {**TEXT, "format": "ipv4"}, 'a: Invalid value: "x": a in body must be of type ipv4: "x"'),
        ([], {"type": "array", "minItems": 1}, "a: Invalid value: 0: a in body should have at least 1 items"),
        ([1, 2], {"type": "array", "maxItems": 1}, "a: Too many: 2: must have at most 1 items"),
        ({}, {"type": "object", "required": ["b"]}, "a.b: Required value"),
        ({}, {"type": "object", "minProperties": 1}, "a: Invalid value: 0: a in body should have at least 1 properties"),
        ({"b": 1}, {"type": "object", "maxProperties": 0}, "a: Too many: 1: must have at most 0 items"),
        ([1, "x"], {"type": "array", "items": INTEGER}, 'a[1]: Invalid value: "string": a[1] in body must be of type integer: "string"'),
        ({"b": 1}, {"type": "object", "additionalProperties": TEXT}, 'a.b: Invalid value: "integer": a.b in body must be of type string: "integer"'),
        (5, {**INTEGER, "not": {"minimum": 3}}, '<nil>: Invalid value: "": "a" must not validate the schema (not)'),
        (2**31, {**INTEGER, "format": "int32"}, '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a'),
    ],
)  # fmt: skip
def test_invalid_values_have_the_messages_of_kube_apiserver(
    value: Any, schema: dict[str, Any], text: str
) -> None:
    assert messages(value, schema) == [text]


def test_errors_of_combinators_include_those_of_the_best_alternative() -> None:
    schema = {"type": "object", "oneOf": [{"required": ["b"]}, {"properties": {"b": {"minimum": 3}}}]}
    assert messages({"b": 5}, schema) == [
        '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    ]
    assert messages(5, {**INTEGER, "anyOf": [{"maximum": 3}, {"minimum": 7}]}) == [
        '<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)',
        "a: Invalid value: 5: a in body should be less than or equal to 3",
    ]
    assert messages(9, {**INTEGER, "allOf": [{"minimum": 3}, {"maximum": 7}]}) == [
        "a: Invalid value: 9: a in body should be less than or equal to 7",
        '<nil>: Invalid value: "": "a" must validate all the schemas (allOf)',
    ]


def test_unchanged_invalid_values_are_tolerated() -> None:
    schema = {"properties": {"a": {**TEXT, "maxLength": 2}, "b": TEXT}}
    old = {"a": "long", "b": "x"}
    assert value_errors({"a": "long", "b": "y"}, schema, old=old) == []
    assert len(value_errors({"a": "longer", "b": "x"}, schema, old=old)) == 1


def test_list_items_are_matched_with_old_items_by_map_keys_only() -> None:
    items = {"properties": {"n": TEXT, "v": {**INTEGER, "maximum": 3}}}
    keyed = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
    }
    old, new = [{"n": "x", "v": 9}], [{"n": "y", "v": 1}, {"n": "x", "v": 9}]
    assert value_errors({"a": new}, {"properties": {"a": keyed}}, old={"a": old}) == []
    plain = {"type": "array", "items": items}
    assert len(value_errors({"a": new}, {"properties": {"a": plain}}, old={"a": old})) == 1


def test_status_errors_have_the_status_path() -> None:
    (error,) = value_errors({"replicas": "x"}, {"properties": {"replicas": INTEGER}}, field="status")
    assert (error.field, error.reason) == ("status.replicas", "FieldValueTypeInvalid")
