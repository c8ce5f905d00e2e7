"""Strategic merge patches: keys from the types, directives, and the order of merged lists."""

import copy
from typing import Any

import pytest

from tinykube.server.patch.errors import PatchError
from tinykube.server.patch.strategic_merge import apply_strategic_merge
from tinykube.server.schema.loader import kind_type

SERVICE = kind_type("", "v1", "Service")
POD = kind_type("", "v1", "Pod")
CONFIG_MAP = kind_type("", "v1", "ConfigMap")


def patched(described: Any, document: dict[str, Any], patch: Any) -> dict[str, Any]:
    before, given = copy.deepcopy(document), copy.deepcopy(patch)
    result = apply_strategic_merge(described, document, patch)
    assert (document, patch) == (before, given)
    return result


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": f"i/{name}"} for name in names]}}


def names_of(pod: dict[str, Any]) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


def refusal(described: Any, document: dict[str, Any], patch: Any) -> PatchError:
    with pytest.raises(PatchError) as caught:
        patched(described, document, patch)
    return caught.value


def test_service_ports_are_merged_by_port_number() -> None:
    ports = [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 81}]
    result = patched(
        SERVICE, {"spec": {"ports": ports}}, {"spec": {"ports": [{"port": 81, "targetPort": 9}]}}
    )
    assert result["spec"]["ports"] == [
        {"name": "a", "port": 80, "protocol": "TCP"},
        {"name": "b", "port": 81, "targetPort": 9},
    ]


def test_new_items_of_the_patch_come_first() -> None:
    result = patched(POD, containers("a", "b"), {"spec": {"containers": [{"name": "c", "image": "x"}]}})
    assert names_of(result) == ["c", "a", "b"]


def test_a_merged_item_keeps_its_position() -> None:
    result = patched(POD, containers("a", "b", "c"), {"spec": {"containers": [{"name": "b", "image": "x"}]}})
    assert names_of(result) == ["a", "b", "c"]
    assert result["spec"]["containers"][1]["image"] == "x"


def test_an_element_order_reorders_the_named_items() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "x"}],
        }
    }
    assert names_of(patched(POD, containers("a", "b", "c"), patch)) == ["b", "c", "a"]


def test_an_element_order_alone_reorders_the_list() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert names_of(patched(POD, containers("a", "b"), patch)) == ["b", "a"]


def test_items_missing_from_the_element_order_of_the_patch_are_rejected() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "b", "image": "x"}],
        }
    }
    assert refusal(POD, containers("a"), patch).code == 400


def test_a_delete_directive_removes_items_by_key() -> None:
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]}}
    assert names_of(patched(POD, containers("a", "b"), patch)) == ["b"]


def test_a_replace_directive_in_a_list_replaces_all_items() -> None:
    patch = {"spec": {"containers": [{"name": "z", "image": "x"}, {"$patch": "replace"}]}}
    assert names_of(patched(POD, containers("a", "b"), patch)) == ["z"]


def test_a_directive_replaces_or_empties_a_map() -> None:
    document = {"data": {"a": "1"}, "metadata": {"labels": {"l": "1"}}}
    patch = {"data": {"$patch": "replace", "z": "1"}, "metadata": {"labels": {"$patch": "delete"}}}
    assert patched(CONFIG_MAP, document, patch) == {"data": {"z": "1"}, "metadata": {"labels": {}}}


def test_a_replace_directive_for_a_missing_map_leaves_it_missing() -> None:
    assert patched(CONFIG_MAP, {}, {"data": {"$patch": "replace", "z": "1"}}) == {}


def test_primitive_lists_are_merged_without_duplicates_and_items_can_be_deleted() -> None:
    document = {"metadata": {"finalizers": ["a/a", "b/b"]}}
    merged = patched(CONFIG_MAP, document, {"metadata": {"finalizers": ["c/c", "a/a"]}})
    assert merged["metadata"] == {"finalizers": ["c/c", "a/a", "b/b"]}
    deleted = patched(
        CONFIG_MAP, document, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a", "x/x"]}}
    )
    assert deleted["metadata"]["finalizers"] == ["b/b"]


def test_retain_keys_removes_all_other_keys() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    result = patched(kind_type("apps", "v1", "Deployment"), {"spec": {"strategy": strategy}}, patch)
    assert result["spec"]["strategy"] == {"type": "Recreate"}


def test_a_patched_key_missing_from_retain_keys_is_rejected() -> None:
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}
    error = refusal(
        kind_type("apps", "v1", "Deployment"), {"spec": {"strategy": {"type": "Recreate"}}}, patch
    )
    assert error.code == 400
    assert "rollingUpdate is set and not retained" in str(error)


def test_null_removes_a_key_and_is_dropped_from_new_maps() -> None:
    document = {"data": {"a": "1", "b": "2"}}
    patch = {"data": {"a": None, "z": None}, "metadata": {"labels": {"x": None, "y": "1"}}}
    assert patched(CONFIG_MAP, document, patch) == {
        "data": {"b": "2"},
        "metadata": {"labels": {"y": "1"}},
    }


def test_a_list_without_a_strategy_is_replaced() -> None:
    slice_type = kind_type("discovery.k8s.io", "v1", "EndpointSlice")
    document = {"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": None}
    patch = {"endpoints": [{"addresses": ["10.0.0.2"]}], "ports": [{"port": 80}]}
    assert patched(slice_type, document, patch) == patch


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([], 400),
        ("x", 400),
        ({"data": {"$patch": "foo"}}, 400),
        ({"metadata": {"$setElementOrder/finalizers": {}}}, 400),
        ({"metadata": {"$setElementOrder": []}}, 400),
        ({"metadata": {"$deleteFromPrimitiveList": []}}, 400),
        ({"metadata": {"$retainKeys": "labels"}}, 400),
        ({"metadata": {"ownerReferences": [{"name": "x"}]}}, 422),
        ({"metadata": {"ownerReferences": ["x"]}}, 422),
        ({"metadata": {"finalizers": ["a", 5]}}, 422),
        ({"metadata": {"finalizers": [["a"]]}}, 422),
    ],
)
def test_an_invalid_patch_is_rejected(patch: Any, code: int) -> None:
    document = {
        "data": {"a": "1"},
        "metadata": {"labels": {}, "finalizers": ["a/b"], "ownerReferences": [{"uid": "u", "name": "n"}]},
    }
    assert refusal(CONFIG_MAP, document, patch).code == code


def test_an_empty_patch_changes_nothing() -> None:
    assert patched(CONFIG_MAP, {"data": {"a": "1"}}, None) == {"data": {"a": "1"}}
    assert patched(CONFIG_MAP, {"data": {"a": "1"}}, {}) == {"data": {"a": "1"}}
