"""Deletes: responses, finalizers, errors, collections and garbage collection."""

import asyncio
from typing import Any

import pytest
from tests.contract.server.wire import (
    ACCOUNTS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICES,
    SLICES,
    YAML,
    Api,
    endpoint_slice,
    names,
    pod,
    service,
    version,
)

A = f"{CONFIG_MAPS}/a"


async def gone(api: Api, path: str) -> None:
    """Wait until an object no longer exists."""
    for _ in range(500):
        if (await api("GET", path)).code == 404:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} is still there")


# ------------------------------------------------------------------------------------------ responses


async def test_deletes_of_most_kinds_return_a_status_with_the_uid(api: Api) -> None:
    made = await api.config_map("a")
    assert await api.delete(A) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }


async def test_the_status_of_a_delete_names_the_group(api: Api) -> None:
    await api.post(LEASES, {"metadata": {"name": "a"}})
    assert (await api.delete(f"{LEASES}/a"))["details"]["group"] == "coordination.k8s.io"


@pytest.mark.parametrize(
    ("collection", "body", "kind"),
    [
        (PODS, pod("a"), "Pod"),
        (SERVICES, service("a"), "Service"),
        (ACCOUNTS, {"metadata": {"name": "a"}}, "ServiceAccount"),
        (SLICES, endpoint_slice("a"), "Status"),
    ],
)
async def test_deletes_of_some_kinds_return_the_object(
    api: Api, collection: str, body: Any, kind: str
) -> None:
    made = await api.post(collection, body)
    answer = await api.delete(f"{collection}/a")
    assert answer["kind"] == kind
    if kind != "Status":
        assert answer["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await api("GET", f"{collection}/a")).code == 404


async def test_a_delete_of_a_missing_object_is_not_found(api: Api) -> None:
    refusal = await api.refused("DELETE", A)
    assert refusal == (404, "NotFound", 'configmaps "a" not found', {"name": "a", "kind": "configmaps"})


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await api.config_map("a")
    assert (await api.delete(A, query={"dryRun": "All"}))["status"] == "Success"
    assert (await api.delete(A, {"dryRun": ["All"]}))["status"] == "Success"
    await api.get(A)


# ----------------------------------------------------------------------------------------------- options


async def test_a_delete_with_another_uid_conflicts(api: Api) -> None:
    made = await api.config_map("a")
    refusal = await api.refused("DELETE", A, {"preconditions": {"uid": "x"}})
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert refusal.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in '
        f"record ({made['metadata']['uid']}). The object might have been deleted and then recreated"
    )
    await api.delete(A, {"preconditions": {"uid": made["metadata"]["uid"]}})


async def test_a_delete_with_another_version_conflicts(api: Api) -> None:
    made = await api.config_map("a")
    refusal = await api.refused("DELETE", A, {"preconditions": {"resourceVersion": "1"}})
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert refusal.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({version(made)}). The object might have been modified"
    )
    await api.delete(A, {"preconditions": {"resourceVersion": str(version(made))}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"propagationPolicy": "Nope"},
            'propagationPolicy: Unsupported value: "Nope": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        (
            {"propagationPolicy": "Background", "orphanDependents": True},
            'propagationPolicy: Invalid value: "Background": orphanDependents and deletionPropagation cannot be both set',
        ),
        ({"dryRun": ["Some"]}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
    ],
)
async def test_invalid_options_are_rejected(api: Api, options: Any, message: str) -> None:
    await api.config_map("a")
    refusal = await api.refused("DELETE", A, options)
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.message == f'DeleteOptions.meta.k8s.io "" is invalid: {message}'


async def test_options_of_another_kind_are_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("DELETE", A, {"kind": "ConfigMap", "apiVersion": "v1"})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert (
        refusal.message
        == 'no kind "ConfigMap" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"'
    )


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "meta.k8s.io/v1"])
async def test_delete_options_are_accepted_in_every_api_group(api: Api, api_version: str) -> None:
    await api.config_map("a")
    await api.delete(A, {"kind": "DeleteOptions", "apiVersion": api_version})


async def test_delete_options_may_be_yaml(api: Api) -> None:
    await api.config_map("a")
    await api.delete(A, b"propagationPolicy: Background\n", content_type=YAML)


async def test_malformed_options_are_rejected(api: Api) -> None:
    await api.config_map("a")
    assert (await api.refused("DELETE", A, b"{")).code == 400


# --------------------------------------------------------------------------------------- what keeps objects


async def test_a_finalizer_keeps_a_deleted_object(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    marked = await api.delete(A)
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert version(marked) > version(made)
    assert await api.get(A) == marked
    again = await api.delete(A)
    assert version(again) == version(marked), "a second deletion changes nothing"
    last = await api.patch(A, {"metadata": {"finalizers": None}})
    assert last["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    assert (await api("GET", A)).code == 404


async def test_new_finalizers_on_a_terminating_object_are_rejected(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    await api.delete(A)
    finalizers = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    refusal = await api.refused("PATCH", A, finalizers, content_type="application/merge-patch+json")
    ((reason, field, message),) = set(refusal.causes)  # kube-apiserver reports some errors twice
    assert (reason, field) == ("FieldValueForbidden", "metadata.finalizers")
    assert message.startswith("Forbidden: no new finalizers can be added if the object is being deleted")
    await api.patch(A, {"metadata": {"finalizers": None}})


async def test_a_deletion_cannot_be_cancelled(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    marked = await api.delete(A)
    patched = await api.patch(A, {"metadata": {"deletionTimestamp": None}})
    assert patched["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    await api.patch(A, {"metadata": {"finalizers": None}})


async def test_foreground_deletion_adds_a_finalizer(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    marked = await api.delete(A, {"propagationPolicy": "Foreground"})
    assert sorted(marked["metadata"]["finalizers"]) == ["example.com/wait", "foregroundDeletion"]
    await api.patch(A, {"metadata": {"finalizers": None}})


async def test_orphaning_deletion_adds_a_finalizer(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    marked = await api.delete(A, {"propagationPolicy": "Orphan"})
    assert sorted(marked["metadata"]["finalizers"]) == ["example.com/wait", "orphan"]
    await api.patch(A, {"metadata": {"finalizers": None}})


# --------------------------------------------------------------------------------------------------- pods


async def test_a_scheduled_pod_is_deleted_with_a_grace_period(api: Api) -> None:
    made = await api.post(PODS, pod("a", nodeName="n"))
    marked = await api.delete(f"{PODS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await api("GET", f"{PODS}/a")).code == 404


async def test_the_grace_period_comes_from_the_pod_or_the_request(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=600))
    await api.post(PODS, pod("b", nodeName="n", terminationGracePeriodSeconds=600))
    await api.post(PODS, pod("c", nodeName="n"))
    for path, query, expected in (
        ("a", {}, 600),
        ("b", {"gracePeriodSeconds": 60}, 60),
        ("c", {"gracePeriodSeconds": -1}, 1),
    ):
        marked = await api.delete(f"{PODS}/{path}", query=query)
        assert marked["metadata"]["deletionGracePeriodSeconds"] == expected


async def test_a_grace_period_can_only_be_shortened(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=600))
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 300})
    longer = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 500})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 300
    shorter = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 100})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 100


async def test_an_unscheduled_pod_is_deleted_immediately(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.delete(f"{PODS}/a")
    assert (await api("GET", f"{PODS}/a")).code == 404


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_is_deleted_immediately(api: Api, phase: str) -> None:
    await api.post(PODS, pod("a", nodeName="n"))
    await api.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
    await api.delete(f"{PODS}/a")
    assert (await api("GET", f"{PODS}/a")).code == 404


# ------------------------------------------------------------------------------------------- collections


async def test_deleting_a_collection_returns_the_deleted_objects(api: Api) -> None:
    await api.config_map("a")
    await api.config_map("b")
    answer = await api.delete(CONFIG_MAPS)
    assert answer["kind"] == "ConfigMapList"
    assert names(answer) == ["a", "b"]
    assert "kind" not in answer["items"][0]
    assert names(await api.get(CONFIG_MAPS)) == []


async def test_deleting_a_collection_honours_selectors(api: Api) -> None:
    await api.config_map("a", {"app": "x"})
    await api.config_map("b", {"app": "y"})
    await api.config_map("c", {"app": "x"})
    assert names(await api.delete(CONFIG_MAPS, query={"labelSelector": "app=x"})) == ["a", "c"]
    assert names(await api.delete(CONFIG_MAPS, query={"fieldSelector": "metadata.name=nope"})) == []
    assert names(await api.get(CONFIG_MAPS)) == ["b"]


async def test_deleting_a_collection_supports_dry_run(api: Api) -> None:
    await api.config_map("a")
    assert names(await api.delete(CONFIG_MAPS, query={"dryRun": "All"})) == ["a"]
    assert names(await api.get(CONFIG_MAPS)) == ["a"]


async def test_deleting_a_collection_of_pods_marks_them_as_terminating(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n"))
    await api.delete(PODS)
    assert (await api.get(f"{PODS}/a"))["metadata"]["deletionTimestamp"]


# ------------------------------------------------------ work of kube-controller-manager


def owned(name: str, owner: Any, **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], **more}
    return {"metadata": {"name": name, "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}]}}


@pytest.mark.usefixtures("embedded")
async def test_dependents_are_garbage_collected_with_their_owner(api: Api) -> None:
    await api.post(CONFIG_MAPS, owned("b", await api.config_map("a")))
    await api.delete(A)
    await gone(api, f"{CONFIG_MAPS}/b")


@pytest.mark.usefixtures("embedded")
async def test_dependents_with_another_owner_are_kept(api: Api) -> None:
    body = owned("b", await api.config_map("a"))
    body["metadata"]["ownerReferences"] += owned("", await api.config_map("other"))["metadata"][
        "ownerReferences"
    ]
    await api.post(CONFIG_MAPS, body)
    await api.post(CONFIG_MAPS, owned("c", await api.get(A)))
    await api.delete(A)
    await gone(api, f"{CONFIG_MAPS}/c")
    await api.get(f"{CONFIG_MAPS}/b")


@pytest.mark.usefixtures("embedded")
async def test_foreground_deletion_removes_the_owner_last(api: Api) -> None:
    body = owned("b", await api.config_map("a"), blockOwnerDeletion=True)
    body["metadata"]["finalizers"] = ["example.com/wait"]
    await api.post(CONFIG_MAPS, body)
    await api.delete(A, {"propagationPolicy": "Foreground"})
    async with api.watch(CONFIG_MAPS, fieldSelector="metadata.name=b") as watching:
        while "deletionTimestamp" not in (await watching.next())["object"]["metadata"]:
            pass
    await api.get(A)
    await api.patch(f"{CONFIG_MAPS}/b", {"metadata": {"finalizers": None}})
    await gone(api, A)


@pytest.mark.usefixtures("embedded")
async def test_orphaned_dependents_lose_their_owner_reference(api: Api) -> None:
    await api.post(CONFIG_MAPS, owned("b", await api.config_map("a")))
    await api.delete(A, {"propagationPolicy": "Orphan"})
    await gone(api, A)
    assert "ownerReferences" not in (await api.get(f"{CONFIG_MAPS}/b"))["metadata"]


@pytest.mark.usefixtures("embedded")
async def test_deleting_a_namespace_deletes_its_contents(api: Api) -> None:
    await api.config_map("a")
    await api.post(PODS, pod("p"))
    await api.delete(f"{NAMESPACES}/{api.ns}")
    await gone(api, f"{NAMESPACES}/{api.ns}")
    assert names(await api.get(CONFIG_MAPS)) == []
