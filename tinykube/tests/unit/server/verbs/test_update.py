"""Update and patch: versions, preserved fields and no-op writes."""

import asyncio
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, config_map, refusal

from tinykube.server.objects import JsonObject
from tinykube.server.verbs.options import WriteOptions

LEASES: dict[str, Any] = {"group": "coordination.k8s.io"}


async def created(world: World, name: str = "a", **metadata: Any) -> JsonObject:
    return (await world.create(config_map(name, {"x": "1"}, **metadata))).decode()


async def test_without_a_version_the_last_writer_wins_and_server_fields_are_kept() -> None:
    async with a_world() as world:
        before = await created(world)
        after = (await world.update("a", config_map("a", {"x": "2"}))).decode()
        assert after["data"] == {"x": "2"}
        for name in ("uid", "creationTimestamp"):
            assert after["metadata"][name] == before["metadata"][name]
        assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


async def test_a_stale_resource_version_is_rejected() -> None:
    async with a_world() as world:
        version = (await created(world))["metadata"]["resourceVersion"]
        await world.update("a", config_map("a", {"x": "2"}, resourceVersion=version))
        error = await refusal(world.update("a", config_map("a", {"x": "3"}, resourceVersion=version)))
        assert (error.code, error.reason) == (409, "Conflict")
        assert error.message == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes '
            "to the latest version and try again"
        )


async def test_an_update_with_another_uid_is_rejected() -> None:
    async with a_world() as world:
        await created(world)
        error = await refusal(world.update("a", config_map("a", uid="another")))
        assert error.code == 409
        assert "Precondition failed: UID in precondition: another, UID in object meta: " in error.message


async def test_an_unchanged_object_is_not_written() -> None:
    async with a_world() as world:
        before = await created(world)
        revision = world.backend.storage.revision
        result = await world.update("a", before)
        assert result.decode() == before
        assert world.backend.storage.revision == revision


async def test_server_managed_fields_in_updates_are_ignored() -> None:
    async with a_world() as world:
        before = await created(world)
        sent = config_map(
            "a", {"x": "1"}, managedFields=[{"manager": "me"}], creationTimestamp=None, generation=9
        )
        assert (await world.update("a", sent)).decode() == before


@pytest.mark.parametrize(
    ("name", "value"), [("deletionTimestamp", "2026-01-01T00:00:00Z"), ("deletionGracePeriodSeconds", 5)]
)
async def test_an_update_cannot_start_a_deletion(name: str, value: Any) -> None:
    async with a_world() as world:
        await created(world)
        error = await refusal(world.update("a", config_map("a", None, **{name: value})))
        assert error.code == 422
        assert f"metadata.{name}: Invalid value" in error.message
        assert error.message.endswith("field is immutable")


async def test_a_body_must_have_the_name_in_its_path() -> None:
    async with a_world() as world:
        await created(world)
        other = await refusal(world.update("a", config_map("b")))
        assert other.message == "the name of the object (b) does not match the name on the URL (a)"
        none = await refusal(world.update("a", {"metadata": {}}))
        assert none.message == (
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        )


async def test_an_update_of_a_missing_object_is_not_found_for_most_kinds() -> None:
    async with a_world() as world:
        error = await refusal(world.update("a", config_map("a")))
        assert (error.code, error.message) == (404, 'configmaps "a" not found')


async def test_an_update_of_a_missing_lease_creates_it() -> None:
    async with a_world() as world:
        lease: JsonObject = {
            "metadata": {"name": "l", "resourceVersion": "77"},
            "spec": {"holderIdentity": "me"},
        }
        result = await world.update("l", lease, "leases", **LEASES)
        assert result.code == 201
        with_uid: JsonObject = {"metadata": {"name": "m", "uid": "u"}, "spec": {}}
        assert (await refusal(world.update("m", with_uid, "leases", **LEASES))).code == 409


async def test_updating_a_lease_requires_a_resource_version() -> None:
    async with a_world() as world:
        await world.create({"metadata": {"name": "l"}, "spec": {}}, "leases", **LEASES)
        body: JsonObject = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
        error = await refusal(world.update("l", body, "leases", **LEASES))
        assert error.code == 422
        assert error.message == (
            'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
            "for an update"
        )


async def test_a_dry_run_returns_the_result_and_changes_nothing() -> None:
    async with a_world() as world:
        before = await created(world)
        options = WriteOptions(kind="UpdateOptions", dry_run=("All",))
        after = (await world.update("a", config_map("a", {"x": "2"}), options=options)).decode()
        assert after["data"] == {"x": "2"}
        assert await world.get("a") == before


async def test_removing_the_last_finalizer_removes_a_deleted_object() -> None:
    async with a_world() as world:
        await created(world, finalizers=["x.io/one"])
        await world.delete("a")
        assert (await world.get("a"))["metadata"]["deletionTimestamp"]
        await world.update("a", config_map("a"))
        assert (await refusal(world.get("a"))).code == 404


async def test_a_deleted_object_is_kept_by_a_finalizer_or_a_grace_period() -> None:
    async with a_world() as world:
        await created(world, finalizers=["x.io/one", "x.io/two"])
        await world.delete("a")
        await world.update("a", config_map("a", finalizers=["x.io/two"]))
        assert (await world.get("a"))["metadata"]["finalizers"] == ["x.io/two"]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await world.create({"metadata": {"name": "p"}, "spec": spec}, "pods")
        await world.delete("p", "pods")
        pod = await world.get("p", "pods")
        pod["metadata"]["labels"] = {"a": "b"}
        await world.update("p", pod, "pods")
        assert (await world.get("p", "pods"))["metadata"]["labels"] == {"a": "b"}


async def test_finalizers_cannot_be_added_to_a_deleted_object() -> None:
    async with a_world() as world:
        await created(world, finalizers=["x.io/one"])
        await world.delete("a")
        error = await refusal(world.update("a", config_map("a", finalizers=["x.io/one", "x.io/two"])))
        assert error.code == 422
        assert 'found new finalizers []string{"x.io/two"}' in error.message


async def test_status_updates_write_only_the_status_and_main_updates_everything_else() -> None:
    async with a_world() as world:
        container = {"name": "c", "image": "i"}
        await world.create({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, "pods")
        pod = await world.get("p", "pods")
        pod["status"]["phase"] = "Running"
        pod["spec"]["hostname"] = "other"
        after = (await world.update("p", pod, "pods", subresource="status")).decode()
        assert after["status"]["phase"] == "Running"
        assert "hostname" not in after["spec"]
        after["status"] = {"phase": "Failed"}
        after["metadata"]["labels"] = {"a": "b"}
        again = (await world.update("p", after, "pods")).decode()
        assert again["status"]["phase"] == "Running"
        assert again["metadata"]["labels"] == {"a": "b"}


async def test_a_patch_is_retried_after_a_concurrent_write() -> None:
    async with a_world() as world:
        await created(world)
        names = [f"k{number}" for number in range(20)]
        await asyncio.gather(*(world.patch("a", {"data": {name: "v"}}) for name in names))
        assert (await world.get("a"))["data"] == {"x": "1", **dict.fromkeys(names, "v")}


async def test_a_patch_with_a_stale_resource_version_is_rejected() -> None:
    async with a_world() as world:
        version = (await created(world))["metadata"]["resourceVersion"]
        await world.update("a", config_map("a", {"x": "2"}))
        error = await refusal(
            world.patch("a", {"metadata": {"resourceVersion": version}, "data": {"x": "3"}})
        )
        assert error.reason == "Conflict"


async def test_a_patch_that_changes_nothing_is_not_written() -> None:
    async with a_world() as world:
        await created(world)
        revision = world.backend.storage.revision
        await world.patch("a", {"data": {"x": "1"}})
        assert world.backend.storage.revision == revision


async def test_a_patch_of_a_missing_object_is_404() -> None:
    async with a_world() as world:
        assert (await refusal(world.patch("a", {}))).code == 404


async def test_every_patch_type_is_accepted() -> None:
    async with a_world() as world:
        await created(world)
        await world.patch("a", [{"op": "add", "path": "/data/y", "value": "2"}], "json")
        await world.patch("a", {"data": {"x": None}}, "merge")
        await world.patch("a", {"metadata": {"labels": {"l": "v"}}}, "strategic")
        after = await world.get("a")
        assert (after["data"], after["metadata"]["labels"]) == ({"y": "2"}, {"l": "v"})


async def test_a_patch_cannot_rename_an_object() -> None:
    async with a_world() as world:
        await created(world)
        error = await refusal(world.patch("a", {"metadata": {"name": "b"}}))
        assert error.code == 400


async def test_a_patch_with_an_invalid_result_is_rejected_with_the_result() -> None:
    async with a_world() as world:
        await created(world)
        spoilt = await refusal(world.patch("a", {"data": {"x": 5}}))
        assert (spoilt.code, spoilt.reason) == (422, "Invalid")
        assert spoilt.message.startswith(' "" is invalid: patch: Invalid value: "{')
        assert "json: cannot unmarshal number into Go struct field" in spoilt.message
        strict = WriteOptions(kind="PatchOptions", field_validation="Strict")
        unknown = await refusal(world.patch("a", {"foo": 5}, options=strict))
        assert unknown.code == 422
        assert unknown.message.endswith(': strict decoding error: unknown field "foo"')
        other = await refusal(world.patch("a", {"metadata": {"uid": "other"}}))
        assert (other.code, other.reason) == (422, "Invalid")
        nameless = await refusal(world.patch("a", {"metadata": None}))
        assert nameless.code == 400


async def test_concurrent_writers_of_one_object_all_succeed() -> None:
    async with a_world() as world:
        await created(world)
        results = await asyncio.gather(
            *(world.update("a", config_map("a", {"x": f"n{n}"})) for n in range(30))
        )
        versions = {result.decode()["metadata"]["resourceVersion"] for result in results}
        assert len(versions) == 30
