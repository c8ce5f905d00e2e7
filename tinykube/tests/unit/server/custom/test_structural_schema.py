"""Pruning, null handling and defaults of structural schemas."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinykube.server.custom.structural_schema import drop_nulls, fill_defaults, has_defaults, prune

TEXT = {"type": "string"}


def of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def test_unknown_fields_are_pruned_and_reported() -> None:
    document = {"spec": {"a": "1", "b": 2, "list": [{"a": 1, "c": 3}]}, "other": 1}
    schema = of(spec=of(a=TEXT, list={"type": "array", "items": of(a=TEXT)}))

    assert prune(document, schema) == ["other", "spec.b", "spec.list[0].c"]
    assert document == {"spec": {"a": "1", "list": [{"a": 1}]}}


def test_metadata_of_the_object_and_of_embedded_objects_is_not_pruned() -> None:
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    document = {
        "apiVersion": "a/v1",
        "kind": "A",
        "metadata": {"name": "x"},
        "template": inner,
        "plain": {"kind": "B"},
    }
    schema = of(template={**of(), "x-kubernetes-embedded-resource": True}, plain=of())

    assert prune(document, schema) == ["plain.kind", "template.spec"]
    assert document["metadata"] == {"name": "x"}


def test_preserved_unknown_fields_stay_except_inside_described_properties() -> None:
    document = {"free": {"a": {"b": 1}, "known": {"c": 1, "d": "x"}}}
    schema = of(free={**of(known=of(d=TEXT)), "x-kubernetes-preserve-unknown-fields": True})

    assert prune(document, schema) == ["free.known.c"]
    assert document == {"free": {"a": {"b": 1}, "known": {"d": "x"}}}


@pytest.mark.parametrize(
    ("free", "left"),
    [(True, {"a": {"b": 1}}), (of(), {"a": {}}), (False, {})],
    ids=["anything", "schema", "none"],
)
def test_additional_properties_are_pruned_by_their_schema(free: Any, left: Any) -> None:
    document: dict[str, Any] = {"map": {"a": {"b": 1}}}
    prune(document, of(map={"type": "object", "additionalProperties": free}))
    assert document["map"].keys() == left.keys()


def test_non_nullable_nulls_are_dropped_or_defaulted() -> None:
    document = {"a": None, "b": None, "c": None, "d": [None]}
    schema = of(
        a=TEXT, b={**TEXT, "nullable": True}, c={**TEXT, "default": "x"}, d={"type": "array", "items": TEXT}
    )
    drop_nulls(document, schema)

    assert document == {"b": None, "c": None, "d": [None]}
    fill_defaults(document, schema)
    assert document == {"b": None, "c": "x", "d": [None]}


def test_defaults_are_filled_into_existing_and_defaulted_parents() -> None:
    inner = {**of(a={**TEXT, "default": "x"}), "default": {}}
    schema = of(
        filled=inner, there=of(b={"type": "integer", "default": 0}), absent=of(c={**TEXT, "default": "y"})
    )
    document: dict[str, Any] = {"there": {}}
    fill_defaults(document, schema)
    assert document == {"there": {"b": 0}, "filled": {"a": "x"}}


def test_defaults_are_copied_into_each_object() -> None:
    schema = of(list={"type": "array", "default": [1], "items": {"type": "integer"}})
    one: dict[str, Any] = {}
    fill_defaults(one, schema)
    one["list"].append(2)
    other: dict[str, Any] = {}
    fill_defaults(other, schema)
    assert other == {"list": [1]}


def test_defaults_are_found_at_any_depth() -> None:
    assert has_defaults(of(a={"type": "array", "items": of(b={**TEXT, "default": "x"})}))
    assert not has_defaults(of(a={"type": "array", "items": of(b=TEXT)}))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcde"), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abcde"), _VALUES))
def test_pruning_and_defaulting_are_idempotent(document: dict[str, Any]) -> None:
    schema = of(
        a={**TEXT, "default": "x"},
        b=of(c={"type": "integer", "default": 1}),
        c={"type": "array", "items": of(a={**TEXT, "nullable": True})},
        d={"type": "object", "additionalProperties": {**TEXT, "default": "y"}},
    )

    def shape(one: dict[str, Any]) -> None:
        prune(one, schema)
        drop_nulls(one, schema)
        fill_defaults(one, schema)

    shape(document)
    once = copy.deepcopy(document)
    shape(document)
    assert document == once
    assert prune(document, schema) == []
