"""Updates and patches: preserved fields, conflicts and no-op writes."""

from typing import Any

import pytest
from tests.contract.server.wire import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINTS,
    EVENTS,
    JSON_PATCH,
    LEASES,
    MERGE,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    SLICES,
    STRATEGIC,
    Api,
    deployment,
    endpoint_slice,
    pod,
    service,
    version,
)

STALE = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the '
    "latest version and try again"
)
A = f"{CONFIG_MAPS}/a"


# ------------------------------------------------------------------------------------------------ replace


async def test_an_update_gets_a_new_version_and_keeps_server_managed_fields(api: Api) -> None:
    made = await api.config_map("a", {"l": "v"}, x="1")
    put = await api.put(
        A, {"metadata": {"name": "a", "resourceVersion": made["metadata"]["resourceVersion"]}}
    )
    assert version(put) > version(made)
    for field in ("uid", "creationTimestamp", "namespace"):
        assert put["metadata"][field] == made["metadata"][field]
    assert "data" not in put
    assert "labels" not in put["metadata"]


async def test_an_update_with_a_stale_version_conflicts(api: Api) -> None:
    made = await api.config_map("a")
    await api.patch(A, {"data": {"x": "1"}})
    refusal = await api.refused("PUT", A, made)
    assert refusal == (409, "Conflict", STALE, {"name": "a", "kind": "configmaps"})


@pytest.mark.parametrize("metadata", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_without_a_version_the_last_write_wins(api: Api, metadata: dict[str, str]) -> None:
    await api.config_map("a", x="1")
    put = await api.put(A, {"metadata": {"name": "a", **metadata}, "data": {"x": "2"}})
    assert put["data"] == {"x": "2"}


async def test_an_update_of_a_lease_needs_a_version(api: Api) -> None:
    await api.post(LEASES, {"metadata": {"name": "a"}})
    refusal = await api.refused("PUT", f"{LEASES}/a", {"metadata": {"name": "a"}})
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.causes == [
        ("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    ]


async def test_a_non_numeric_version_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PUT", A, {"metadata": {"name": "a", "resourceVersion": "x"}})
    assert (refusal.code, refusal.reason) == (500, None)
    assert refusal.message == 'strconv.ParseUint: parsing "x": invalid syntax'


async def test_an_update_with_another_uid_conflicts(api: Api) -> None:
    made = await api.config_map("a")
    refusal = await api.refused("PUT", A, {"metadata": {"name": "a", "uid": "other"}})
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert refusal.message == (
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/configmaps/{api.ns}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: other, UID in object meta: {made['metadata']['uid']}"
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
        ({}, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        (
            {"name": "a", "namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_name_and_namespace_must_match_the_path(
    api: Api, metadata: dict[str, str], message: str
) -> None:
    await api.config_map("a")
    refusal = await api.refused("PUT", A, {"metadata": metadata})
    assert (refusal.code, refusal.reason, refusal.message) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("collection", "body", "code"),
    [
        (SERVICES, service("new"), 201),
        (ENDPOINTS, {"metadata": {"name": "new"}}, 201),
        (LEASES, {"metadata": {"name": "new"}}, 201),
        (EVENTS, {"metadata": {"name": "new"}, "involvedObject": {"namespace": "{ns}"}}, 201),
        (CONFIG_MAPS, {"metadata": {"name": "new"}}, 404),
        (SECRETS, {"metadata": {"name": "new"}}, 404),
        (PODS, pod("new"), 404),
        (SLICES, endpoint_slice("new"), 404),
        (DEPLOYMENTS, deployment("new"), 404),
        (NODES, {"metadata": {"name": "new"}}, 404),
        ("/api/v1/namespaces", {"metadata": {"name": "new"}}, 404),
    ],
)
async def test_an_update_creates_missing_objects_of_some_kinds(
    api: Api, collection: str, body: Any, code: int
) -> None:
    if "involvedObject" in body:
        body = {**body, "involvedObject": {"namespace": api.ns}}
    answer = await api("PUT", f"{collection}/new", body)
    assert answer.code == code, answer.text
    if code == 404:
        assert answer.json["message"].endswith('"new" not found')
    else:
        assert answer.json["metadata"]["uid"]


async def test_a_write_without_changes_keeps_the_version(api: Api) -> None:
    made = await api.config_map("a", x="1")
    assert await api.put(A, made) == made
    assert await api.patch(A, {"data": {"x": "1"}}) == made
    assert await api.patch(A, [], JSON_PATCH) == made


async def test_the_data_of_an_immutable_config_map_cannot_be_changed(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "immutable": True, "data": {"x": "1"}})
    made["data"] = {"x": "2"}
    refusal = await api.refused("PUT", A, made)
    assert refusal.causes == [
        ("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set")
    ]


async def test_a_dry_run_update_changes_nothing(api: Api) -> None:
    made = await api.config_map("a", x="1")
    body = {**made, "data": {"x": "2"}}
    assert (await api.put(A, body, query={"dryRun": "All"}))["data"] == {"x": "2"}
    assert await api.get(A) == made


async def test_the_generation_of_a_slice_changes_with_content_and_labels_but_not_annotations(
    api: Api,
) -> None:
    made = await api.post(SLICES, endpoint_slice("a", None, "10.1.2.3"))
    path = f"{SLICES}/a"
    assert (await api.patch(path, {"metadata": {"annotations": {"x": "y"}}}))["metadata"]["generation"] == 1
    assert (await api.patch(path, {"metadata": {"labels": {"x": "y"}}}))["metadata"]["generation"] == 2
    made["endpoints"][0]["addresses"] = ["10.1.2.4"]
    assert (await api.patch(path, {"endpoints": made["endpoints"]}))["metadata"]["generation"] == 3


async def test_the_generation_of_a_deployment_increases_with_spec_changes(api: Api) -> None:
    await api.post(DEPLOYMENTS, deployment("a"))
    path = f"{DEPLOYMENTS}/a"
    assert (await api.patch(path, {"metadata": {"labels": {"x": "y"}}}))["metadata"]["generation"] == 1
    assert (await api.patch(path, {"spec": {"replicas": 3}}))["metadata"]["generation"] == 2
    assert (await api.patch(f"{path}/status", {"status": {"observedGeneration": 2}}))["metadata"][
        "generation"
    ] == 2


# ------------------------------------------------------------------------------------------------- status


async def test_an_update_of_the_main_resource_ignores_the_status(api: Api) -> None:
    made = await api.post(PODS, pod("a", nodeName="n"))
    patched = await api.patch(f"{PODS}/a", {"status": {"phase": "Running"}})
    assert patched["status"] == made["status"]
    assert version(patched) == version(made)


async def test_the_status_in_a_pod_create_is_ignored(api: Api) -> None:
    made = await api.post(PODS, {**pod("a"), "status": {"phase": "Running", "podIP": "10.1.2.3"}})
    assert made["status"]["phase"] == "Pending"
    assert "podIP" not in made["status"]


async def test_the_status_subresource_changes_only_the_status(api: Api) -> None:
    made = await api.post(PODS, pod("a", {"app": "x"}, nodeName="n"))
    body = {**made, "status": {"phase": "Running"}, "spec": {**made["spec"], "nodeName": "m"}}
    body["metadata"] = {**made["metadata"], "labels": {"app": "y"}}
    put = await api.put(f"{PODS}/a/status", body)
    assert put["status"]["phase"] == "Running"
    assert put["spec"]["nodeName"] == "n"
    read = await api.get(f"{PODS}/a/status")
    assert read == put == await api.get(f"{PODS}/a")


async def test_a_kind_without_a_status_has_no_status_subresource(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("GET", f"{A}/status")
    assert refusal == (404, "NotFound", "the server could not find the requested resource", {})


# -------------------------------------------------------------------------------------------- merge patch


async def test_a_merge_patch_sets_removes_and_keeps_fields(api: Api) -> None:
    await api.config_map("a", {"l": "v", "m": "w"}, x="1", y="2")
    patched = await api.patch(
        A, {"metadata": {"labels": {"l": None}}, "data": {"x": "9", "z": "3", "none": None}}
    )
    assert patched["data"] == {"x": "9", "y": "2", "z": "3"}
    assert patched["metadata"]["labels"] == {"m": "w"}


async def test_a_merge_patch_replaces_lists(api: Api) -> None:
    await api.post(SERVICES, service("a", ports=[{"name": "x", "port": 1}, {"name": "y", "port": 2}]))
    patched = await api.patch(f"{SERVICES}/a", {"spec": {"ports": [{"name": "z", "port": 3}]}})
    assert [port["name"] for port in patched["spec"]["ports"]] == ["z"]


async def test_a_patch_with_a_stale_version_conflicts(api: Api) -> None:
    made = await api.config_map("a")
    await api.patch(A, {"data": {"x": "1"}})
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "2"}}
    refusal = await api.refused("PATCH", A, old, content_type=MERGE)
    assert refusal == (409, "Conflict", STALE, {"name": "a", "kind": "configmaps"})


async def test_a_patch_of_a_missing_object_is_not_found(api: Api) -> None:
    refusal = await api.refused("PATCH", A, {}, content_type=MERGE)
    assert refusal == (404, "NotFound", 'configmaps "a" not found', {"name": "a", "kind": "configmaps"})


@pytest.mark.parametrize("field", ["name", "namespace"])
async def test_a_patch_cannot_rename_an_object(api: Api, field: str) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, {"metadata": {field: "other"}}, content_type=MERGE)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    expected = {
        "name": "the name of the object (other) does not match the name on the URL (a)",
        "namespace": "the namespace of the provided object does not match the namespace sent on the request",
    }
    assert refusal.message == expected[field]


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", None])
async def test_an_unsupported_patch_type_is_rejected(api: Api, content_type: str | None) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, b"{}", content_type=content_type)
    assert (refusal.code, refusal.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, JSON_PATCH])
async def test_a_malformed_patch_is_rejected(api: Api, content_type: str) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, b"{", content_type=content_type)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")


async def test_a_merge_patch_that_is_not_an_object_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, b"[]", content_type=MERGE)
    assert refusal.message == (
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    )


async def test_a_patch_that_makes_the_object_undecodable_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, {"data": 5}, content_type=MERGE)
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.message is not None
    assert refusal.message.endswith(
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string"
    )


async def test_the_patched_object_is_validated(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, {"metadata": {"labels": {"a": "!"}}}, content_type=MERGE)
    assert (refusal.code, refusal.causes[0][1]) == (422, "metadata.labels")


async def test_a_patch_with_unknown_fields_causes_a_warning(api: Api) -> None:
    await api.config_map("a")
    answer = await api("PATCH", A, {"foo": 5}, content_type=MERGE)
    assert (answer.code, answer.warnings) == (200, ['299 - "unknown field \\"foo\\""'])


async def test_force_is_accepted_only_for_apply(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, {}, content_type=MERGE, query={"force": "true"})
    assert refusal.message == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )


# --------------------------------------------------------------------------------------------- JSON patch


def operation(op: str, path: str, value: Any = None, **more: str) -> dict[str, Any]:
    return {"op": op, "path": path, **({} if value is None else {"value": value}), **more}


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([operation("add", "/data/z", "3")], {"x": "1", "y": "2", "z": "3"}),
        ([operation("replace", "/data/x", "9")], {"x": "9", "y": "2"}),
        ([operation("remove", "/data/x")], {"y": "2"}),
        ([{"op": "move", "from": "/data/x", "path": "/data/z"}], {"y": "2", "z": "1"}),
        ([{"op": "copy", "from": "/data/x", "path": "/data/z"}], {"x": "1", "y": "2", "z": "1"}),
        ([operation("test", "/data/x", "1"), operation("remove", "/data/y")], {"x": "1"}),
        ([operation("add", "/data", {"only": "this"})], {"only": "this"}),
        ([operation("replace", "/data/new", "3")], {"x": "1", "y": "2", "new": "3"}),
    ],
)
async def test_a_json_patch_is_applied(
    api: Api, operations: list[dict[str, Any]], data: dict[str, str]
) -> None:
    await api.config_map("a", x="1", y="2")
    assert (await api.patch(A, operations, JSON_PATCH))["data"] == data


@pytest.mark.parametrize(
    "operations",
    [
        [operation("test", "/data/x", "2")],
        [operation("remove", "/data/nope")],
        [operation("nope", "/data/x", "2")],
        [operation("add", "/data/z", "3"), operation("test", "/data/z", "4")],
        [operation("add", "/nope/deep", "3")],
    ],
)
async def test_a_json_patch_that_fails_changes_nothing(api: Api, operations: list[dict[str, Any]]) -> None:
    made = await api.config_map("a", x="1")
    refusal = await api.refused("PATCH", A, operations, content_type=JSON_PATCH)
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert await api.get(A) == made


async def test_a_json_patch_that_is_not_a_list_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("PATCH", A, b"{}", content_type=JSON_PATCH)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message is not None
    assert refusal.message.startswith(
        "error decoding patch: json: cannot unmarshal object into Go value of type"
    )


async def test_a_json_patch_has_at_most_ten_thousand_operations(api: Api) -> None:
    await api.config_map("a", x="1")
    refusal = await api.refused(
        "PATCH", A, [operation("test", "/data/x", "1")] * 10001, content_type=JSON_PATCH
    )
    assert (refusal.code, refusal.reason) == (413, "RequestEntityTooLarge")
    assert refusal.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


# ---------------------------------------------------------------------------------------- strategic merge


async def test_a_strategic_patch_merges_lists_by_their_keys(api: Api) -> None:
    await api.post(SERVICES, service("a", ports=[{"name": "x", "port": 1}, {"name": "y", "port": 2}]))
    patched = await api.patch(f"{SERVICES}/a", {"spec": {"ports": [{"port": 2, "targetPort": 9}]}}, STRATEGIC)
    assert {port["name"]: port["targetPort"] for port in patched["spec"]["ports"]} == {"x": 1, "y": 9}


async def test_a_strategic_patch_deletes_by_directive(api: Api) -> None:
    await api.post(SERVICES, service("a", ports=[{"name": "x", "port": 1}, {"name": "y", "port": 2}]))
    patched = await api.patch(
        f"{SERVICES}/a", {"spec": {"ports": [{"$patch": "delete", "port": 2}]}}, STRATEGIC
    )
    assert [port["name"] for port in patched["spec"]["ports"]] == ["x"]


async def test_a_strategic_patch_replaces_by_directive(api: Api) -> None:
    await api.config_map("a", x="1", y="2")
    patched = await api.patch(A, {"data": {"$patch": "replace", "z": "3"}}, STRATEGIC)
    assert patched["data"] == {"z": "3"}


async def test_a_strategic_patch_adds_to_and_removes_from_lists_of_primitives(api: Api) -> None:
    metadata = {"name": "a", "finalizers": ["example.com/one", "example.com/two"]}
    await api.post(CONFIG_MAPS, {"metadata": metadata})
    patched = await api.patch(A, {"metadata": {"finalizers": ["example.com/three"]}}, STRATEGIC)
    assert sorted(patched["metadata"]["finalizers"]) == [
        "example.com/one",
        "example.com/three",
        "example.com/two",
    ]
    patched = await api.patch(
        A,
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one", "example.com/three"]}},
        STRATEGIC,
    )
    assert patched["metadata"]["finalizers"] == ["example.com/two"]


async def test_a_strategic_patch_orders_by_directive(api: Api) -> None:
    await api.post(SERVICES, service("a", ports=[{"name": "x", "port": 1}, {"name": "y", "port": 2}]))
    body = {
        "spec": {
            "$setElementOrder/ports": [{"port": 2}, {"port": 1}],
            "ports": [{"port": 1, "targetPort": 5}],
        }
    }
    patched = await api.patch(f"{SERVICES}/a", body, STRATEGIC)
    assert [port["name"] for port in patched["spec"]["ports"]] == ["y", "x"]


async def test_containers_merge_by_name(api: Api) -> None:
    await api.post(DEPLOYMENTS, deployment("a"))
    body = {
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "registry.invalid/other"}]}}}
    }
    patched = await api.patch(f"{DEPLOYMENTS}/a", body, STRATEGIC)
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.invalid/other"


async def test_a_status_is_patched_through_its_subresource(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n"))
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]
    await api.patch(f"{PODS}/a/status", {"status": {"conditions": conditions}}, STRATEGIC)
    patched = await api.patch(
        f"{PODS}/a/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC
    )
    found = {item["type"]: item["status"] for item in patched["status"]["conditions"]}
    assert found == {"Ready": "True", "Initialized": "True"}
