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


def test_an_element_belongs_to_a_set_by_a_dot_or_by_having_nothing_below() -> None:
    assert is_member(MEMBER)
    assert is_member({".": {}, "f:a": {}})
    assert not is_member({"f:a": {}})
    assert not is_member(None)
    assert has(SPEC, ("f:spec",))
    assert not has(SPEC, ("f:spec", "f:b"))
    assert has(SPEC, ("f:spec", "f:b", "f:c"))
    assert not has(SPEC, ())


def test_union_keeps_who_belongs_itself() -> None:
    assert union({"f:a": {}}, {"f:a": {"f:b": {}}}) == {"f:a": {".": {}, "f:b": {}}}
    assert union({"f:a": {"f:c": {}}}, {"f:a": {"f:b": {}}}) == {"f:a": {"f:c": {}, "f:b": {}}}
    assert union({}, SPEC) is SPEC


def test_difference_takes_out_elements_and_leaves_what_is_below_them() -> None:
    assert difference(SPEC, {"f:spec": {}}) == {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}
    assert difference(SPEC, {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}) == {"f:spec": {}}
    assert difference({"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}) == {}


def test_recursive_difference_takes_out_what_is_below_too() -> None:
    assert recursive_difference(SPEC, {"f:spec": {}}) == {}
    assert recursive_difference(SPEC, {"f:spec": {"f:b": {}}}) == {"f:spec": {".": {}, "f:a": {}}}


def test_intersection_is_what_both_have() -> None:
    assert intersection(SPEC, {"f:spec": {"f:a": {}, "f:x": {}}}) == {"f:spec": {"f:a": {}}}
    assert intersection(SPEC, {"f:spec": {}}) == {"f:spec": {}}
    assert intersection(SPEC, {"f:status": {}}) == {}


def test_paths_come_level_by_level_and_in_the_order_of_conflicts() -> None:
    ports: FieldSet = {'k:{"port":9}': {}, 'k:{"port":80}': {}}
    found = list(paths({"f:z": {}, "f:spec": {".": {}, "f:ports": ports}}))
    assert found == [
        ("f:spec",),
        ("f:z",),
        ("f:spec", "f:ports", 'k:{"port":9}'),
        ("f:spec", "f:ports", 'k:{"port":80}'),
    ]


def test_a_set_of_paths_holds_these_and_no_others() -> None:
    assert from_paths(("f:a",), ("f:a", "f:b")) == {"f:a": {".": {}, "f:b": {}}}


def test_keys_and_values_are_written_as_json_that_go_would_write() -> None:
    assert key_element((("port", 80), ("protocol", "TCP"))) == 'k:{"port":80,"protocol":"TCP"}'
    assert key_element((("mountPath", "/a&b<c>"),)) == 'k:{"mountPath":"/a\\u0026b\\u003cc\\u003e"}'
    assert value_element("x/a") == 'v:"x/a"'
    assert (value_element(1), value_element(True), value_element(1.5)) == ("v:1", "v:true", "v:1.5")
    assert key_element((("a", [1]),)) == 'k:{"a":[1]}'


def test_what_a_client_has_written_is_brought_into_one_form() -> None:
    assert canonical_set({"f:a": {".": {}}}) == {"f:a": {}}
    assert canonical_set({"f:a": None}) == {"f:a": {}}
    assert canonical_set({'k:{"b": 1, "a": 2}': {}}) == {'k:{"a":2,"b":1}': {}}
    assert canonical_set({"i:07": {}, "v: 1": {}}) == {"i:7": {}, "v:1": {}}
    assert canonical_set({"x:unknown": {}, "f:a": {"y:b": {}}}) == {"f:a": {}}


@pytest.mark.parametrize("wrong", ["f", "", "fa", "i:x", "k:[]", "k:{", "v:"])
def test_invalid_path_elements_are_rejected(wrong: str) -> None:
    with pytest.raises(ElementError):
        canonical_set({wrong: {}})


def test_fields_that_are_no_object_are_refused() -> None:
    with pytest.raises(ElementError):
        canonical_set({"f:a": 1})


def test_conflicts_tell_a_path_as_people_read_it() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:name")
    assert format_path(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert format_path(("f:metadata", "f:finalizers", 'v:"x/a"')) == '.metadata.finalizers[="x/a"]'
    assert format_path(("i:3",)) == "[3]"


def test_elements_are_sorted_fields_first_and_numbers_by_size() -> None:
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
