"""Field ownership of built-in types: sets, comparisons, merges and validation of applies."""

from typing import Any

import pytest

from tinykube.server.fields.compare import compare, everything
from tinykube.server.fields.kinds import empty, version_of
from tinykube.server.fields.merge import merged, reconciled, with_named, without
from tinykube.server.fields.nodes import EntryError, ListNode, MapNode, field_set, kind_node
from tinykube.server.fields.sets import FieldSet
from tinykube.server.fields.validate import problem_text, problems

SERVICE = kind_node("", "v1", "Service")
POD = kind_node("", "v1", "Pod")
CONFIG_MAP = kind_node("", "v1", "ConfigMap")
SLICE = kind_node("discovery.k8s.io", "v1", "EndpointSlice")
WIDGET = kind_node("example.com", "v1", "Widget")

WEB = {"port": 80, "protocol": "TCP"}
WEB_KEY = 'k:{"port":80,"protocol":"TCP"}'


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def test_ports_are_owned_per_entry() -> None:
    assert field_set(SERVICE, service(ports=[{**WEB, "name": "web"}])) == {
        "f:spec": {
            "f:ports": {WEB_KEY: {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}}},
        }
    }


def test_missing_list_keys_take_their_default() -> None:
    assert set(field_set(SERVICE, service(ports=[{"port": 80}]))["f:spec"]["f:ports"]) == {WEB_KEY}


def test_atomic_fields_are_owned_as_a_whole() -> None:
    assert field_set(SERVICE, service(selector={"a": "b"})) == {"f:spec": {"f:selector": {}}}
    assert field_set(SLICE, {"endpoints": [{"addresses": ["x"]}], "ports": []}) == {
        "f:endpoints": {},
        "f:ports": {},
    }


def test_map_keys_set_values_and_empty_objects_are_members() -> None:
    document = {"metadata": {"labels": {"a": "1"}, "finalizers": ["x/a"], "annotations": {}}}
    assert field_set(CONFIG_MAP, document) == {
        "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {'v:"x/a"': {}}, "f:annotations": {}}
    }
    assert field_set(CONFIG_MAP, {"data": None}) == {"f:data": {}}
    assert field_set(CONFIG_MAP, {"metadata": {"finalizers": []}}) == {}


def test_duplicate_list_entries_have_no_fields_of_their_own() -> None:
    found = field_set(SERVICE, service(ports=[WEB, {**WEB, "name": "x"}]))
    assert found == {"f:spec": {"f:ports": {WEB_KEY: {}}}}


def test_objects_of_undescribed_kinds_are_owned_per_member() -> None:
    document = {"metadata": {"labels": {"a": "1"}}, "spec": {"size": 1, "list": [{"a": 1}], "in": {"x": {}}}}
    assert field_set(WIDGET, document) == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {".": {}, "f:size": {}, "f:list": {}, "f:in": {".": {}, "f:x": {}}},
    }
    assert merged(WIDGET, {"spec": {"a": 1, "b": 2}}, {"spec": {"b": [3]}}) == {"spec": {"a": 1, "b": [3]}}


def test_added_fields_include_their_descendants() -> None:
    new = service(ports=[{**WEB, "name": "web"}], selector={"a": "b"})
    found = compare(SERVICE, empty("", "v1", "Service"), new)
    assert found.added["f:spec"] == {
        "f:ports": {".": {}, WEB_KEY: {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}}},
        "f:selector": {},
    }
    assert not found.modified


def test_a_required_list_is_not_reported_as_added_with_its_first_entry() -> None:
    found = compare(
        POD, empty("", "v1", "Pod"), {**empty("", "v1", "Pod"), "spec": {"containers": [{"name": "c"}]}}
    )
    assert found.added["f:spec"] == {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}}}


def test_modified_added_and_removed_fields_are_distinguished() -> None:
    old = service(ports=[{**WEB, "name": "a"}], selector={"a": "b"}, type="ClusterIP")
    new = service(ports=[{**WEB, "name": "b"}, {"port": 81, "protocol": "TCP"}], type="ClusterIP")
    found = compare(SERVICE, old, new)
    assert found.modified == {"f:spec": {"f:ports": {WEB_KEY: {"f:name": {}}}}}
    assert found.added == {
        "f:spec": {"f:ports": {'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}}}}
    }
    assert found.removed == {"f:spec": {"f:selector": {}}}
    assert not found.is_same
    assert found.without({"f:spec": {}}).is_same


def test_null_and_an_empty_atomic_list_differ() -> None:
    assert compare(SLICE, {"endpoints": None}, {"endpoints": []}).modified == {"f:endpoints": {}}


def test_duplicate_entries_are_compared_as_one() -> None:
    twice = service(ports=[WEB, {**WEB, "name": "x"}])
    once = service(ports=[WEB])
    assert compare(SERVICE, once, twice).added == {"f:spec": {"f:ports": {WEB_KEY: {}}}}
    assert compare(SERVICE, twice, once).removed == {"f:spec": {"f:ports": {WEB_KEY: {}}}}
    other = service(ports=[WEB, {**WEB, "name": "y"}])
    assert compare(SERVICE, twice, other).modified == {"f:spec": {"f:ports": {WEB_KEY: {}}}}


def test_an_empty_object_has_no_fields() -> None:
    assert everything(SERVICE, {}) == {}


def test_an_apply_is_merged_per_list_entry() -> None:
    live = service(ports=[{**WEB, "name": "web"}, {"port": 81, "protocol": "TCP"}], type="ClusterIP")
    result = merged(SERVICE, live, service(ports=[{"port": 80, "targetPort": 8080}, {"port": 82}]))
    assert result["spec"]["type"] == "ClusterIP"
    assert result["spec"]["ports"] == [
        {**WEB, "name": "web", "targetPort": 8080},
        {"port": 81, "protocol": "TCP"},
        {"port": 82},
    ]


def test_duplicate_live_entries_are_replaced_by_the_applied_one() -> None:
    live = service(ports=[{**WEB, "name": "a"}, {**WEB, "name": "b"}])
    assert merged(SERVICE, live, service(ports=[{**WEB, "targetPort": 1}])) == service(
        ports=[{**WEB, "targetPort": 1}]
    )


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("abc", "cb", "acb"),
        ("abc", "xby", "axbcy"),
        ("", "ba", "ba"),
        ("ab", "", "ab"),
        ("abcd", "dxa", "bcdxa"),
    ],
)
def test_merged_lists_follow_the_applied_order_and_otherwise_the_live_order(
    live: str, applied: str, result: str
) -> None:
    def finalizers(names: str) -> dict[str, Any]:
        return {"metadata": {"finalizers": [f"x/{name}" for name in names]}}

    found = merged(CONFIG_MAP, finalizers(live), finalizers(applied))
    assert found == finalizers(result)


def test_atomic_values_are_replaced() -> None:
    result = merged(SERVICE, service(selector={"a": "b"}), service(selector={"c": "d"}))
    assert result == service(selector={"c": "d"})


def test_an_applied_null_replaces_a_map_value_but_leaves_a_map_unchanged() -> None:
    live = {"data": {"x": "1", "y": "2"}}
    assert merged(CONFIG_MAP, live, {"data": {"x": None}}) == {"data": {"x": None, "y": "2"}}
    assert merged(CONFIG_MAP, live, {"data": None}) == live


def test_removed_fields_leave_null_in_place_of_an_empty_list() -> None:
    document = service(ports=[{**WEB, "name": "web"}], type="ClusterIP")
    assert without(SERVICE, document, {"f:spec": {"f:ports": {WEB_KEY: {"f:name": {}}}}}) == service(
        ports=[WEB], type="ClusterIP"
    )
    assert without(SERVICE, document, {"f:spec": {"f:ports": {WEB_KEY: {}}}}) == service(
        ports=None, type="ClusterIP"
    )


def test_named_ancestors_of_members_are_added_to_the_set() -> None:
    fields: FieldSet = {"f:spec": {"f:ports": {WEB_KEY: {"f:name": {}}}}}
    assert with_named(SERVICE, fields) == {"f:spec": {".": {}, "f:ports": {".": {}, WEB_KEY: {"f:name": {}}}}}


def test_partial_ownership_of_an_atomic_field_becomes_ownership_of_the_whole() -> None:
    assert reconciled(SLICE, {"f:endpoints": {"f:x": {}}, "f:metadata": {"f:labels": {"f:a": {}}}}) == {
        "f:endpoints": {},
        "f:metadata": {"f:labels": {"f:a": {}}},
    }


def test_each_subresource_resets_the_fields_that_it_cannot_write() -> None:
    assert version_of("", "v1", "Service", "", True).reset == {"f:status": {}}
    assert version_of("", "v1", "Service", "status", True).reset == {"f:spec": {}}
    assert version_of("", "v1", "ConfigMap", "", False).reset == {}
    assert version_of("apps", "v1", "Deployment", "status", True).reset == {
        "f:spec": {},
        "f:metadata": {"f:labels": {}},
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"foo": 1}, ".foo: field not declared in schema"),
        (service(ports=[{"port": "80"}]), '.spec.ports[port="80",protocol="TCP"].port: expected numeric (int or float), got string'),
        (service(ports="x"), ".spec.ports: expected list, got &{x}"),
        (service(ports=[1]), ".spec.ports: element 0: associative list with keys may not have non-map elements"),
        (service(ports=[None]), ".spec.ports: element 0: associative list with keys may not have a null element"),
        (service(ports=[WEB, WEB]), '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]'),
        (service(externalIPs=[1]), ".spec.externalIPs[0]: expected string, got &value.valueUnstructured{Value:1}"),
        (service(publishNotReadyAddresses="x"), ".spec.publishNotReadyAddresses: expected boolean, got &{x}"),
        ({"spec": [{"a": [None, True]}]}, ".spec: expected map, got &{[map[a:[<nil> true]]]}"),
        (service(ports=[{"port": 80, "targetPort": {}}]), '.spec.ports[port=80,protocol="TCP"].targetPort: expected any scalar, got &{map[]}'),
        ({"metadata": {"finalizers": [{}]}}, ".metadata.finalizers: element 0: associative list without keys has an element that's a map type"),
    ],
)  # fmt: skip
def test_type_errors_have_the_messages_of_kube_apiserver(document: dict[str, Any], expected: str) -> None:
    assert problem_text(problems(SERVICE, document)) == expected


def test_all_errors_are_reported() -> None:
    found = problems(SERVICE, service(type=1, clusterIP=2))
    assert problem_text(found).startswith("errors:\n  .spec.type: expected string")
    assert len(found) == 2


def test_undescribed_kinds_accept_anything_except_invalid_metadata() -> None:
    assert not problems(WIDGET, {"spec": {"a": [1, None]}, "foo": 1})
    assert problems(WIDGET, {"metadata": {"labels": 1}}) == [".metadata.labels: expected map, got &{1}"]


def test_list_entries_without_keys_are_rejected() -> None:
    node = ListNode(MapNode(), is_atomic=False, keys=("b", "a"))
    with pytest.raises(EntryError, match=r'omits all key fields \["b" "a"\]'):
        node.element({"c": 1})
    assert node.element({"a": 1}) == 'k:{"a":1}'
    with pytest.raises(EntryError, match="explicit null"):
        ListNode(MapNode(), is_atomic=False).element(None)
