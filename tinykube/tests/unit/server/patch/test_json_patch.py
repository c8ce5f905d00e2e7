"""JSON patches, with the results of a real kube-apiserver 1.36."""

import copy
from typing import Any

import pytest

from tinykube.server.patch.errors import PatchError
from tinykube.server.patch.json_patch import MAX_COPIED_BYTES, MAX_OPERATIONS, apply_json_patch

DOCUMENT: dict[str, Any] = {
    "data": {"a": "1", "b": "2"},
    "metadata": {"name": "c", "annotations": {"a/b": "3", "m~n": "4"}, "creationTimestamp": None},
    "list": ["x", "y"],
}


def patched(*operations: dict[str, Any]) -> Any:
    before = copy.deepcopy(DOCUMENT)
    given = copy.deepcopy(operations)
    result = apply_json_patch(DOCUMENT, list(operations))
    assert before == DOCUMENT
    assert given == operations
    return result


def op(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **more}


@pytest.mark.parametrize(
    ("operation", "member", "after"),
    [
        (op("add", "/data/c", value="x"), "data", {"a": "1", "b": "2", "c": "x"}),
        (op("add", "/data/c"), "data", {"a": "1", "b": "2", "c": None}),
        (op("replace", "/data/zz", value="1"), "data", {"a": "1", "b": "2", "zz": "1"}),
        (op("remove", "/data/a"), "data", {"b": "2"}),
        (op("move", "/data/q", **{"from": "/data/a"}), "data", {"b": "2", "q": "1"}),
        (op("copy", "/data/q", **{"from": "/data/a"}), "data", {"a": "1", "b": "2", "q": "1"}),
        (op("copy", "/data/q", **{"from": "/data/zz"}), "data", {"a": "1", "b": "2", "q": None}),
        (op("add", "/list/-", value="z"), "list", ["x", "y", "z"]),
        (op("add", "/list/0", value="z"), "list", ["z", "x", "y"]),
        (op("add", "/list/2", value="z"), "list", ["x", "y", "z"]),
        (op("add", "/list/-1", value="z"), "list", ["x", "y", "z"]),
        (op("add", "/list/01", value="z"), "list", ["x", "z", "y"]),
        (op("remove", "/list/-1"), "list", ["x"]),
        (op("replace", "/list/1", value="z"), "list", ["x", "z"]),
        (op("add", "/", value=1), "", 1),
        (op("add", "data/c", value="x"), "c", "x"),
        (op("test", "/data/a", value="1"), "list", ["x", "y"]),
        (op("test", "/data/zz", value=None), "list", ["x", "y"]),
        (op("test", "/metadata/creationTimestamp"), "list", ["x", "y"]),
    ],
)
def test_a_valid_operation_is_applied(operation: dict[str, Any], member: str, after: Any) -> None:
    assert patched(operation)[member] == after


def test_slashes_and_tildes_in_pointers_are_escaped() -> None:
    result = patched(
        op("replace", "/metadata/annotations/a~1b", value="x"), op("remove", "/metadata/annotations/m~0n")
    )
    assert result["metadata"]["annotations"] == {"a/b": "x"}
    assert apply_json_patch({"~1": "x", "/": "y"}, [op("remove", "/~01")]) == {"/": "y"}


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"op": "add"},
        op("foo", "/data/a"),
        op("remove", "/data/zz"),
        op("remove", "/zz/a"),
        op("replace", "/zz/z", value="1"),
        op("test", "/data/a", value="2"),
        op("test", "/data/a"),
        op("test", "/data/zz", value="1"),
        op("test", "/zz/z", value="1"),
        op("test", "/list/7", value=None),
        op("test", "/list/0", value=["x"]),
        op("move", "/data/q", **{"from": "/data/zz"}),
        op("move", "/data/q"),
        op("copy", "/data/q"),
        op("copy", "/data/x", **{"from": ""}),
        op("move", "/data/x", **{"from": "/data"}),
        op("add", "/list/5", value="z"),
        op("add", "/list/x", value="z"),
        op("remove", "/list/5"),
        op("remove", "/list/x"),
        op("replace", "/list/-", value="z"),
        op("replace", "/list/3", value="z"),
        op("add", "", value={}),
        op("remove", ""),
        op("add", "/data/a/x", value=1),
        op("add", "/metadata/creationTimestamp/x", value=1),
        op("replace", "", value="x"),
    ],
)
def test_an_invalid_operation_rejects_the_whole_patch(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as caught:
        patched(op("add", "/data/new", value="x"), operation)
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({}, "object into Go value of type []handlers.jsonPatchOp"),
        ("x", "string into Go value of type []handlers.jsonPatchOp"),
        ([5], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 5, "path": "/x"}], "number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_a_malformed_json_patch_is_rejected_with_the_message_of_the_go_decoder(patch: Any, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch(DOCUMENT, patch)
    assert (caught.value.code, str(caught.value)) == (
        400,
        f"error decoding patch: json: cannot unmarshal {text}",
    )


def test_an_empty_patch_changes_nothing_and_the_root_can_be_replaced() -> None:
    assert patched() == DOCUMENT
    assert apply_json_patch(DOCUMENT, None) == DOCUMENT
    assert patched(op("replace", "", value={"a": 1})) == {"a": 1}
    assert patched(op("test", "", value=DOCUMENT)) == DOCUMENT


def test_a_test_operation_distinguishes_numbers_from_booleans() -> None:
    document = {"a": 1, "b": True}
    for path, value in (("/a", True), ("/a", 1.0), ("/b", 1)):
        with pytest.raises(PatchError):
            apply_json_patch(document, [op("test", path, value=value)])


def test_more_than_ten_thousand_operations_are_rejected() -> None:
    operations = [op("test", "/data/a", value="1")] * (MAX_OPERATIONS + 1)
    assert patched(*operations[1:]) == DOCUMENT
    with pytest.raises(PatchError, match="in a JSON patch is 10000, got 10001") as caught:
        patched(*operations)
    assert caught.value.code == 413


def test_repeated_doubling_by_copies_is_rejected() -> None:
    document = {"a": ["x" * 1000]}
    doubling = [op("copy", "/a/-", **{"from": "/a"}) for _ in range(40)]
    with pytest.raises(PatchError, match="bytes of data") as caught:
        apply_json_patch(document, doubling)
    assert caught.value.code == 422


def test_the_total_size_of_copies_is_limited() -> None:
    document = {"a": "x" * (MAX_COPIED_BYTES // 3), "b": {}}
    copies = [op("copy", f"/b/{at}", **{"from": "/a"}) for at in range(3)]
    assert len(apply_json_patch(document, copies[:2])["b"]) == 2
    with pytest.raises(PatchError, match="bytes of data"):
        apply_json_patch(document, copies)
