"""Field sets in the encoding of ``fieldsV1``, and their path elements."""

import pytest

from tinykube.server.fields.elements import (
    ElementError,
    canonical_set,
    element_order,
    format_path,
    key_element,
    value_element,
)
from tinykube.server.fields.sets import (
    MEMBER,
    FieldSet,
    difference,
    from_paths,
    has,
    intersection,
    is_member,
    paths,
    recursive_difference,
    union,
)

SPEC: FieldSet = {"f:spec": {".": {}, "f:a": {}, "f:b": {"f:c": {}}}}


def test_members_of_a_set_are_leaves_or_marked_with_a_dot() -> None:
    assert is_member(MEMBER)
    assert is_member({".": {}, "f:a": {}})
    assert not is_member({"f:a": {}})
    assert not is_member(None)
    assert has(SPEC, ("f:spec",))
    assert not has(SPEC, ("f:spec", "f:b"))
    assert has(SPEC, ("f:spec", "f:b", "f:c"))
    assert not has(SPEC, ())


def test_union_keeps_members() -> None:
    assert union({"f:a": {}}, {"f:a": {"f:b": {}}}) == {"f:a": {".": {}, "f:b": {}}}
    assert union({"f:a": {"f:c": {}}}, {"f:a": {"f:b": {}}}) == {"f:a": {"f:c": {}, "f:b": {}}}
    assert union({}, SPEC) is SPEC


def test_difference_removes_elements_but_keeps_their_children() -> None:
    assert difference(SPEC, {"f:spec": {}}) == {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}
    assert difference(SPEC, {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}) == {"f:spec": {}}
    assert difference({"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}) == {}


def test_recursive_difference_removes_elements_with_their_children() -> None:
    assert recursive_difference(SPEC, {"f:spec": {}}) == {}
    assert recursive_difference(SPEC, {"f:spec": {"f:b": {}}}) == {"f:spec": {".": {}, "f:a": {}}}


def test_intersection_keeps_common_members() -> None:
    assert intersection(SPEC, {"f:spec": {"f:a": {}, "f:x": {}}}) == {"f:spec": {"f:a": {}}}
    assert intersection(SPEC, {"f:spec": {}}) == {"f:spec": {}}
    assert intersection(SPEC, {"f:status": {}}) == {}


def test_paths_are_listed_level_by_level_in_conflict_order() -> None:
    ports: FieldSet = {'k:{"port":9}': {}, 'k:{"port":80}': {}}
    found = list(paths({"f:z": {}, "f:spec": {".": {}, "f:ports": ports}}))
    assert found == [
        ("f:spec",),
        ("f:z",),
        ("f:spec", "f:ports", 'k:{"port":9}'),
        ("f:spec", "f:ports", 'k:{"port":80}'),
    ]


def test_a_set_from_paths_contains_exactly_those_paths() -> None:
    assert from_paths(("f:a",), ("f:a", "f:b")) == {"f:a": {".": {}, "f:b": {}}}


def test_keys_and_values_are_encoded_as_json_like_in_go() -> None:
    assert key_element((("port", 80), ("protocol", "TCP"))) == 'k:{"port":80,"protocol":"TCP"}'
    assert key_element((("mountPath", "/a&b<c>"),)) == 'k:{"mountPath":"/a\\u0026b\\u003cc\\u003e"}'
    assert value_element("x/a") == 'v:"x/a"'
    assert (value_element(1), value_element(True), value_element(1.5)) == ("v:1", "v:true", "v:1.5")
    assert key_element((("a", [1]),)) == 'k:{"a":[1]}'


def test_client_supplied_sets_are_normalised() -> None:
    assert canonical_set({"f:a": {".": {}}}) == {"f:a": {}}
    assert canonical_set({"f:a": None}) == {"f:a": {}}
    assert canonical_set({'k:{"b": 1, "a": 2}': {}}) == {'k:{"a":2,"b":1}': {}}
    assert canonical_set({"i:07": {}, "v: 1": {}}) == {"i:7": {}, "v:1": {}}
    assert canonical_set({"x:unknown": {}, "f:a": {"y:b": {}}}) == {"f:a": {}}


@pytest.mark.parametrize("wrong", ["f", "", "fa", "i:x", "k:[]", "k:{", "v:"])
def test_invalid_path_elements_are_rejected(wrong: str) -> None:
    with pytest.raises(ElementError):
        canonical_set({wrong: {}})


def test_non_object_fields_are_rejected() -> None:
    with pytest.raises(ElementError):
        canonical_set({"f:a": 1})


def test_paths_are_formatted_for_humans_in_conflicts() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:name")
    assert format_path(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert format_path(("f:metadata", "f:finalizers", 'v:"x/a"')) == '.metadata.finalizers[="x/a"]'
    assert format_path(("i:3",)) == "[3]"


def test_elements_are_sorted_by_type_and_numerically() -> None:
    unsorted = ["i:1", 'v:"a"', "v:10", "v:9", 'k:{"p":10}', 'k:{"p":9}', "f:b", "f:a"]
    assert sorted(unsorted, key=element_order) == [
        "f:a",
        "f:b",
        'k:{"p":9}',
        'k:{"p":10}',
        "v:9",
        "v:10",
        'v:"a"',
        "i:1",
    ]
