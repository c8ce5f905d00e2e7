"""Field ownership in custom resources on a running server follows their definitions from the next write on."""

from typing import Any

from tests.unit.server.custom.test_server import AT, CRDS, Api, cog, crd, serving, version

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
SCALE = {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}, "status": {}}
ENTRY = {
    "type": "object",
    "required": ["k"],
    "properties": {"k": {"type": "string"}, "v": {"type": "string"}},
}


def listed(kind: str = "map") -> dict[str, Any]:
    keys = {"x-kubernetes-list-map-keys": ["k"]} if kind == "map" else {}
    entries = {"type": "array", "items": ENTRY, "x-kubernetes-list-type": kind, **keys}
    return {"a": {"type": "string"}, "l": entries, "size": {"type": "integer", "maximum": 5}}


def entry(k: str, v: str = "x") -> dict[str, str]:
    return {"k": k, "v": v}


def scaled(replicas: int | None, **metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "x", **metadata},
    }
    return made if replicas is None else {**made, "spec": {"replicas": replicas}}


async def applied(
    api: Api, body: Any, manager: str, *, at: str = f"{AT}/x", code: int = 200, more: str = ""
) -> Any:
    return await api("PATCH", f"{at}?fieldManager={manager}{more}", body, code=code, kind=APPLY)


async def owners(api: Api, at: str = f"{AT}/x") -> dict[str, Any]:
    shown = await api("GET", at)
    return {one["manager"]: one["fieldsV1"] for one in shown["metadata"].get("managedFields", ())}


async def defined(api: Api, *versions: dict[str, Any]) -> None:
    await api("POST", CRDS, crd(versions=list(versions)), code=201)


async def changed(api: Api, *versions: dict[str, Any]) -> None:
    stored = await api("GET", f"{CRDS}/cogs.example.com")
    stored["spec"]["versions"] = list(versions)
    await api("PUT", f"{CRDS}/cogs.example.com", stored)


async def test_managers_share_a_map_list() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed()))
        await applied(api, cog(l=[entry("a")]), "m1", code=201)
        both = await applied(api, cog(l=[entry("b")]), "m2")
        assert both["spec"]["l"] == [entry("a"), entry("b")]
        refused = await applied(api, cog(l=[entry("a", "y")]), "m2", code=409)
        assert refused["details"]["causes"][0]["field"] == '.spec.l[k="a"].v'
        left = await applied(api, cog(), "m1")
        assert left["spec"]["l"] == [entry("b")]


async def test_a_list_without_a_type_has_one_owner() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed("atomic")))
        await applied(api, cog(l=[entry("a")]), "m1", code=201)
        refused = await applied(api, cog(l=[entry("b")]), "m2", code=409)
        assert refused["details"]["causes"][0]["field"] == ".spec.l"


async def test_a_changed_list_type_applies_from_the_next_write() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed("atomic")))
        await applied(api, cog(l=[entry("a")]), "m1", code=201)
        await changed(api, version(spec=listed()))
        assert (await applied(api, cog(l=[entry("b")]), "m2"))["spec"]["l"] == [entry("a"), entry("b")]
        await changed(api, version(spec=listed("atomic")))
        await api("PATCH", f"{AT}/x?fieldManager=m3", {"spec": {"a": "1"}}, kind=MERGE)
        assert (await owners(api))["m2"] == {"f:spec": {"f:l": {}}}


async def test_ownership_of_a_list_is_translated_between_versions_with_different_list_types() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed("atomic")), version("v2", spec=listed()))
        await applied(api, cog(l=[entry("a")]), "m1", code=201)
        other = f"{AT}/x".replace("/v1/", "/v2/")
        body = {**cog(l=[entry("b")]), "apiVersion": "example.com/v2"}
        refused = await applied(api, body, "m2", at=other, code=409)
        assert refused["message"] == 'Apply failed with 1 conflict: conflict with "m1": .spec.l'
        taken = await applied(api, body, "m2", at=other, more="&force=true")
        assert taken["spec"]["l"] == [entry("a"), entry("b")]
        assert await owners(api, other) == {
            "m2": {"f:spec": {"f:l": {'k:{"k":"b"}': {".": {}, "f:k": {}, "f:v": {}}}}}
        }


async def test_applies_with_unknown_fields_wrong_types_or_duplicate_keys_are_rejected() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed()))
        unknown = await applied(api, cog(b="1"), "m1", code=500)
        assert unknown["message"].endswith(".spec.b: field not declared in schema")
        wrong = await applied(api, cog(l={}), "m1", code=500)
        assert wrong["message"].endswith(".spec.l: expected list, got &{map[]}")
        twice = await applied(api, cog(l=[entry("a"), entry("a")]), "m1", code=500)
        assert twice["message"].endswith('.spec.l: duplicate entries for key [k="a"]')


async def test_nulls_are_validated_in_an_apply_and_dropped_in_a_create() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed()))
        await applied(api, cog(a=None), "m1", code=422)
        assert (await api("POST", AT, cog(a=None), code=201))["spec"] == {}


async def test_an_applied_null_of_an_untyped_field_is_owned_but_not_stored() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True}
    async with serving() as api:
        await defined(api, version(spec={"a": free}))
        made = await applied(api, cog(a=None), "m1", code=201)
        assert made["spec"] == {}
        assert await owners(api) == {"m1": {"f:spec": {"f:a": {}}}}


async def test_embedded_metadata_has_no_nulls_after_an_apply() -> None:
    inner = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    async with serving() as api:
        await defined(api, version(spec={"o": inner}))
        within: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}

        def labelled(**labels: str) -> dict[str, Any]:
            return cog(o={**within, "metadata": {"name": "p", "labels": labels}})

        await api("POST", f"{AT}?fieldManager=m0", labelled(a="1"), code=201)
        await applied(api, labelled(b="1"), "m1")
        gone = {"spec": {"o": {"metadata": {"labels": {"a": None}}}}}
        await api("PATCH", f"{AT}/x?fieldManager=m0", gone, kind=MERGE)
        # The labels still belong to the first manager; the rest is removed with the second one's fields.
        assert (await applied(api, cog(o=within), "m1"))["spec"] == {"o": within}


async def test_fields_dropped_by_the_storage_version_are_still_owned() -> None:
    async with serving() as api:
        more = {"a": {"type": "string"}, "b": {"type": "string"}}
        await defined(api, version(), version("v2", spec=more))
        at = AT.replace("/v1/", "/v2/")
        body = {**cog(a="1", b="2"), "apiVersion": "example.com/v2"}
        made = await api("POST", f"{at}?fieldManager=m1", body, code=201)
        assert made["spec"] == {"a": "1"}
        assert await owners(api) == {"m1": {"f:spec": {".": {}, "f:a": {}, "f:b": {}}}}


async def test_the_status_subresource_owns_only_the_status() -> None:
    status = {"type": "object", "properties": {"l": listed()["l"], "size": {"type": "integer"}}}
    described = version(spec=listed(), subresources=SCALE)
    described["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    async with serving() as api:
        await defined(api, described)
        await applied(api, {**cog(a="1"), "status": {"size": 1}}, "m1", code=201)
        body = {**cog(a="2"), "status": {"l": [entry("a")]}}
        body["metadata"]["labels"] = {"x": "y"}
        await applied(api, body, "m2", at=f"{AT}/x/status")
        assert await owners(api) == {
            "m1": {"f:spec": {"f:a": {}}},
            "m2": {"f:status": {"f:l": {'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}}}},
        }


async def test_a_status_write_with_an_invalid_list_removes_all_owners() -> None:
    texts = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    async with serving() as api:
        await defined(api, version(spec={"a": {"type": "string"}, "t": texts}, subresources=SCALE))
        await applied(api, cog(a="1"), "m1", code=201)
        await api("PATCH", f"{AT}/x/status", {"spec": {"t": [None]}, "status": {}}, kind=MERGE)
        assert await owners(api) == {}


async def test_embedded_objects_in_the_status_are_not_validated_by_status_writes() -> None:
    described = version(spec=listed(), subresources=SCALE)
    inner = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"a": {"type": "string"}},
    }
    described["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "properties": {"o": inner},
    }
    async with serving() as api:
        await defined(api, described)
        await api("POST", AT, cog(a="1"), code=201)
        bare = {"status": {"o": {"a": "x"}}}
        await api("PATCH", f"{AT}/x/status", bare, kind=MERGE)
        await api("PATCH", f"{AT}/x", {"spec": {"a": "2"}}, kind=MERGE, code=422)


# ---------------------------------------------------------------------------------------------- through scale


async def test_scaling_owns_the_replicas_field_named_by_the_definition() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed(), subresources=SCALE))
        await applied(api, cog(size=2, a="1"), "m1", code=201)
        at = f"{AT}/x/scale?fieldManager=m2"
        await api("PATCH", at, {"spec": {"replicas": 3}}, kind=MERGE)
        assert await owners(api) == {"m1": {"f:spec": {"f:a": {}}}, "m2": {"f:spec": {"f:size": {}}}}


async def test_a_custom_resource_scale_is_validated_by_its_schema() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed(), subresources=SCALE))
        await api("POST", AT, cog(size=2), code=201)
        refused = await api("PATCH", f"{AT}/x/scale", {"spec": {"replicas": 9}}, kind=MERGE, code=422)
        assert "spec.size" in refused["message"]
        strategic = "application/strategic-merge-patch+json"
        await api("PATCH", f"{AT}/x/scale", {"spec": {"replicas": 3}}, kind=strategic, code=415)


async def test_a_scale_patch_that_leaves_the_replicas_unset_is_rejected() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed(), subresources=SCALE))
        await api("POST", AT, cog(a="1"), code=201)
        labels = {"metadata": {"labels": {"a": "b"}}}
        refused = await api("PATCH", f"{AT}/x/scale", labels, kind=MERGE, code=400)
        assert refused["message"] == 'the spec replicas field ".spec.size" cannot be empty'
        await api("PATCH", f"{AT}/x/scale", {"spec": {"replicas": 0}}, kind=MERGE)
        assert (await api("GET", f"{AT}/x"))["spec"] == {"a": "1", "size": 0}


async def test_an_apply_cannot_change_a_custom_resource_scale_as_upstream() -> None:
    async with serving() as api:
        await defined(api, version(spec=listed(), subresources=SCALE))
        await applied(api, cog(size=2), "m1", code=201)
        at = f"{AT}/x/scale"
        await applied(api, scaled(2), "m2", at=at)
        assert set(await owners(api)) == {"m1", "m2"}
        failed = await applied(api, scaled(3), "m2", at=at, more="&force=true", code=500)
        assert "request to convert CR to an invalid group/version: autoscaling/v1" in failed["message"]


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def test_a_workload_scale_can_be_applied() -> None:
    at = f"{DEPLOYMENTS}/x/scale"
    async with serving() as api:
        await applied(api, DEPLOYMENT, "m1", at=f"{DEPLOYMENTS}/x", code=201)
        refused = await applied(api, scaled(3), "m2", at=at, code=409)
        assert refused["message"] == 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas'
        made = await applied(api, scaled(3), "m2", at=at, more="&force=true")
        assert (made["kind"], made["spec"]) == ("Scale", {"replicas": 3})
        assert "managedFields" not in made["metadata"]
        shown = await api("GET", f"{DEPLOYMENTS}/x")
        assert (shown["spec"]["replicas"], shown["metadata"]["generation"]) == (3, 2)
        mine = next(one for one in shown["metadata"]["managedFields"] if one["manager"] == "m2")
        assert mine == {
            "manager": "m2",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
            "subresource": "scale",
        }


async def test_a_dry_run_apply_of_a_scale_changes_nothing() -> None:
    at = f"{DEPLOYMENTS}/x/scale"
    async with serving() as api:
        await applied(api, DEPLOYMENT, "m1", at=f"{DEPLOYMENTS}/x", code=201)
        before = await api("GET", f"{DEPLOYMENTS}/x")
        await applied(api, scaled(3), "m2", at=at, more="&force=true&dryRun=All")
        assert await api("GET", f"{DEPLOYMENTS}/x") == before


async def test_a_scale_patch_that_only_changes_managed_field_times_is_not_written() -> None:
    at = f"{DEPLOYMENTS}/x"
    async with serving() as api:
        without = {name: value for name, value in DEPLOYMENT["spec"].items() if name != "replicas"}
        await applied(api, {**DEPLOYMENT, "spec": without}, "m1", at=at, code=201)
        await api("PATCH", f"{at}?fieldManager=m2", {"spec": {"replicas": 3}}, kind=MERGE)
        before = await api("GET", at)
        await api("PATCH", f"{at}/scale?fieldManager=m3", {"spec": {"replicas": 3}}, kind=MERGE)
        assert (await api("GET", at))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_invalid_applies_of_a_scale_are_rejected() -> None:
    at = f"{DEPLOYMENTS}/x/scale"
    async with serving() as api:
        await applied(api, scaled(1), "m1", at=at, code=404)
        await applied(api, DEPLOYMENT, "m1", at=f"{DEPLOYMENTS}/x", code=201)
        await applied(api, DEPLOYMENT, "m2", at=at, code=400)
        await applied(api, {**scaled(1), "more": 1}, "m2", at=at, code=500)
        await applied(api, scaled(-1), "m2", at=at, more="&force=true", code=422)
        await applied(api, scaled(2, resourceVersion="1"), "m2", at=at, code=409)
        await applied(api, scaled(2, name="y"), "m2", at=at, code=400)
        await api("PATCH", at, scaled(2), kind=APPLY, code=422)
