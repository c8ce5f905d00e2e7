"""Invariants of all patches, for random documents: arguments are not modified, and the three types agree where possible."""

import contextlib
import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tinykube.server.patch.documents import same
from tinykube.server.patch.errors import PatchError
from tinykube.server.patch.json_patch import apply_json_patch
from tinykube.server.patch.merge_patch import apply_merge_patch
from tinykube.server.patch.strategic_merge import apply_strategic_merge
from tinykube.server.schema.conform import conform
from tinykube.server.schema.loader import kind_type

CONFIG_MAP = kind_type("", "v1", "ConfigMap")
POD = kind_type("", "v1", "Pod")

names = st.sampled_from(["a", "b", "c", "x/y", "m~n", "0", "-"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "s", "t"]))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(names, values, max_size=4)
pointers = st.lists(names, max_size=3).map(
    lambda steps: "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "test", "copy", "move"]), "path": pointers},
    optional={"value": values, "from": pointers},
)
text_maps = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.none() | st.sampled_from(["", "1", "2"]), max_size=3
)
container_lists = st.lists(
    st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=5, unique=True
).map(lambda chosen: [{"name": name, "image": f"i/{name}"} for name in chosen])


@given(documents, st.lists(operations, max_size=4))
def test_a_json_patch_modifies_neither_document_nor_patch(document: dict[str, Any], patch: list[Any]) -> None:
    before, given_patch = copy.deepcopy(document), copy.deepcopy(patch)
    result = None
    with contextlib.suppress(PatchError):
        result = apply_json_patch(document, patch)
    assert same(document, before)
    assert same(patch, given_patch)
    if isinstance(result, dict | list):
        _spoil(result)
        assert same(document, before)
        assert same(patch, given_patch)


def _spoil(value: Any) -> None:
    """Modify every part of a value, including parts that it shares with other values."""
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, dict | list):
            _spoil(item)
    value.clear()


@given(documents, documents)
def test_merge_patches_are_idempotent(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before, given_patch = copy.deepcopy(document), copy.deepcopy(patch)
    once = apply_merge_patch(document, patch)
    twice = apply_merge_patch(once, patch)
    # As on kube-apiserver, nulls are kept in a list that replaces an object, but not in one that replaces a
    # list.
    assert same(apply_merge_patch(twice, patch), twice)
    assert same(twice, once) or _has_null_in_a_list(patch)
    _spoil(once)
    assert same(document, before)
    assert same(patch, given_patch)


def _has_null_in_a_list(value: Any, *, within: bool = False) -> bool:
    if isinstance(value, dict):
        return any(_has_null_in_a_list(item, within=within) for item in value.values())
    if isinstance(value, list):
        return any(_has_null_in_a_list(item, within=True) for item in value)
    return within and value is None


@given(documents, documents)
def test_a_json_patch_of_the_difference_of_two_documents_transforms_one_into_the_other(
    document: dict[str, Any], wanted: dict[str, Any]
) -> None:
    def pointer(name: str) -> str:
        return "/" + name.replace("~", "~0").replace("/", "~1")

    patch: list[dict[str, Any]] = [
        {"op": "remove", "path": pointer(name)} for name in document if name not in wanted
    ]
    patch += [{"op": "add", "path": pointer(name), "value": value} for name, value in wanted.items()]
    patch += [{"op": "test", "path": "", "value": wanted}]
    assert same(apply_json_patch(document, patch), wanted)


@given(text_maps, text_maps, text_maps)
def test_without_lists_a_strategic_merge_equals_a_merge_patch(
    data: dict[str, Any], patch: dict[str, Any], labels: dict[str, Any]
) -> None:
    document: dict[str, Any] = {"data": dict(data), "metadata": {"name": "x"}}
    conform(CONFIG_MAP, document)
    given_patch = {"data": patch, "metadata": {"labels": labels}}
    strategic = apply_strategic_merge(CONFIG_MAP, document, given_patch)
    merged = apply_merge_patch(document, given_patch)
    conform(CONFIG_MAP, strategic)
    conform(CONFIG_MAP, merged)
    assert same(strategic, merged)


@given(container_lists, container_lists, st.randoms(use_true_random=False))
def test_a_merged_list_has_each_key_once_in_the_requested_order(
    present: list[Any], wanted: list[Any], rng: Any
) -> None:
    document = {"spec": {"containers": present}}
    order = [{"name": one["name"]} for one in wanted]
    changed = [one for one in wanted if rng.random() < 0.5]
    patch = {"spec": {"$setElementOrder/containers": order, "containers": changed}}
    before = copy.deepcopy(document)
    result = apply_strategic_merge(POD, document, patch)
    assert document == before
    merged = [one["name"] for one in result["spec"]["containers"]]
    expected = {one["name"] for one in present} | {one["name"] for one in changed}
    assert sorted(merged) == sorted(expected)
    ordered = [one["name"] for one in order if one["name"] in expected]
    assert [name for name in merged if name in ordered] == ordered
    others = [one["name"] for one in present if {"name": one["name"]} not in order]
    assert [name for name in merged if name in others] == others
