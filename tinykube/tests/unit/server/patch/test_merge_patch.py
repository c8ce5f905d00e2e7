"""JSON merge patches, with the examples of RFC 7386 and the results of a real kube-apiserver."""

import copy
from typing import Any

import pytest

from tinykube.server.patch.errors import PatchError
from tinykube.server.patch.merge_patch import apply_merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {"a": [{"b": None, "c": [None]}]}, {"a": [{"c": [None]}]}),
        ({"a": {"b": 1}}, {}, {"a": {"b": 1}}),
        # Nulls in a list are kept only if it replaces an object.
        ({"a": {"b": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
        ({"a": [1]}, {"a": [{"b": None}]}, {"a": [{}]}),
    ],
)
def test_merge_patches_follow_the_rfc(
    document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    before, given = copy.deepcopy(document), copy.deepcopy(patch)
    assert apply_merge_patch(document, patch) == result
    assert (document, patch) == (before, given)


def test_the_result_shares_no_data_with_document_and_patch() -> None:
    document, patch = {"a": {"b": [1]}}, {"c": {"d": [2]}}
    result = apply_merge_patch(document, patch)
    result["a"]["b"].append(1)
    result["c"]["d"].append(2)
    assert (document, patch) == ({"a": {"b": [1]}}, {"c": {"d": [2]}})


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (
            [],
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "x",
            "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (None, "Invalid JSON Patch"),
    ],
)
def test_a_merge_patch_that_is_not_an_object_is_rejected(patch: Any, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_merge_patch({"a": 1}, patch)
    assert (caught.value.code, str(caught.value)) == (400, text)
