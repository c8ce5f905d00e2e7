"""Delete: immediate, with finalizers, with a grace period, single objects and collections."""

from typing import Any

import pytest
from tests.unit.server.verbs.world import CALLER, World, a_world, config_map, refusal

from tinykube.server.objects import JsonObject
from tinykube.server.verbs.delete import delete_collection
from tinykube.server.verbs.options import DeleteOptions
from tinykube.server.verbs.selection import parse_selection


async def a_pod(world: World, *, node: str = "n", grace_seconds: int = 30) -> JsonObject:
    spec: JsonObject = {
        "containers": [{"name": "c", "image": "i"}],
        "terminationGracePeriodSeconds": grace_seconds,
    }
    if node:
        spec["nodeName"] = node
    return (await world.create({"metadata": {"name": "p"}, "spec": spec}, "pods")).decode()


async def test_deletes_of_most_kinds_return_a_status_with_the_uid() -> None:
    async with a_world() as world:
        uid = (await world.create(config_map("a"))).decode()["metadata"]["uid"]
        assert (await world.delete("a")).decode() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": uid},
        }
        assert (await refusal(world.delete("a"))).code == 404


async def test_deleting_a_service_returns_the_service() -> None:
    async with a_world() as world:
        await world.create({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}, "services")
        assert (await world.delete("web", "services")).decode()["kind"] == "Service"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precondition_uid": "x"}, "the UID in the precondition (x) does not match the UID in record"),
        (
            {"precondition_resource_version": "1"},
            "the ResourceVersion in the precondition (1) does not match",
        ),
    ],
)
async def test_an_unmet_precondition_is_a_conflict(options: dict[str, str], text: str) -> None:
    async with a_world() as world:
        await world.create(config_map("a"))
        error = await refusal(world.delete("a", **options))
        assert (error.code, error.details) == (409, {"name": "a", "kind": "ConfigMap"})
        assert text in error.message


async def test_an_object_with_finalizers_is_kept_and_a_second_delete_changes_nothing() -> None:
    async with a_world() as world:
        await world.create(config_map("a", finalizers=["x.io/y"]))
        first = (await world.delete("a")).decode()["metadata"]
        assert (first["deletionTimestamp"], first["deletionGracePeriodSeconds"]) == (
            "2026-01-01T00:00:00Z",
            0,
        )
        world.clock.advance(100)
        assert (await world.delete("a")).decode()["metadata"] == first


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_a_propagation_policy_sets_its_finalizer(policy: str, finalizer: str) -> None:
    async with a_world() as world:
        await world.create(config_map("a"))
        document = (await world.delete("a", propagation_policy=policy)).decode()
        assert document["metadata"]["finalizers"] == [finalizer]


async def test_background_propagation_removes_the_finalizers_of_the_garbage_collector() -> None:
    async with a_world() as world:
        await world.create(config_map("a", finalizers=["orphan"]))
        assert (await world.delete("a", propagation_policy="Background")).decode()["status"] == "Success"


async def test_a_running_pod_gets_its_grace_period_and_a_delete_with_zero_removes_it() -> None:
    async with a_world() as world:
        await a_pod(world)
        pod = (await world.delete("p", "pods")).decode()["metadata"]
        assert (pod["deletionTimestamp"], pod["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:30Z", 30)
        assert pod["generation"] == 2
        await world.delete("p", "pods", grace_period_seconds=0)
        assert (await refusal(world.get("p", "pods"))).code == 404


async def test_a_grace_period_can_be_shortened_but_not_extended() -> None:
    async with a_world() as world:
        await a_pod(world)
        await world.delete("p", "pods")
        prolonged = (await world.delete("p", "pods", grace_period_seconds=60)).decode()["metadata"]
        assert prolonged["deletionGracePeriodSeconds"] == 30
        shortened = (await world.delete("p", "pods", grace_period_seconds=10)).decode()["metadata"]
        assert shortened["deletionGracePeriodSeconds"] == 10
        assert shortened["deletionTimestamp"] == "2026-01-01T00:00:10Z"


async def test_a_grace_period_shortened_into_the_past_ends_immediately() -> None:
    async with a_world() as world:
        await a_pod(world)
        await world.delete("p", "pods")
        world.clock.advance(20)
        metadata = (await world.delete("p", "pods", grace_period_seconds=10)).decode()["metadata"]
        assert metadata["deletionTimestamp"] == "2026-01-01T00:00:20Z"
        assert metadata["deletionGracePeriodSeconds"] == 1


async def test_a_negative_grace_period_counts_as_one_second() -> None:
    async with a_world() as world:
        await a_pod(world)
        metadata = (await world.delete("p", "pods", grace_period_seconds=-5)).decode()["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 1


async def test_a_pod_without_a_node_is_deleted_immediately() -> None:
    async with a_world() as world:
        await a_pod(world, node="")
        await world.delete("p", "pods")
        assert (await refusal(world.get("p", "pods"))).code == 404


async def test_a_deleted_namespace_is_terminating_without_a_grace_period() -> None:
    async with a_world() as world:
        await world.create({"metadata": {"name": "t"}}, "namespaces")
        gone = (await world.delete("t", "namespaces")).decode()
        assert gone["status"]["phase"] == "Terminating"
        assert gone["metadata"]["deletionTimestamp"]
        assert "deletionGracePeriodSeconds" not in gone["metadata"]


async def test_a_dry_run_deletes_nothing() -> None:
    async with a_world() as world:
        await world.create(config_map("a", finalizers=["x.io/y"]))
        await world.create(config_map("b"))
        assert (await world.delete("a", dry_run=("All",))).decode()["metadata"]["deletionTimestamp"]
        assert (await world.delete("b", dry_run=("All",))).decode()["status"] == "Success"
        assert "deletionTimestamp" not in (await world.get("a"))["metadata"]
        await world.get("b")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"propagation_policy": "Foo"}, 'supported values: "Foreground", "Background", "Orphan", "nil"'),
        ({"propagation_policy": "Orphan", "orphan_dependents": True}, "cannot be both set"),
        ({"dry_run": ("x",)}, 'supported values: "All"'),
    ],
)
async def test_invalid_delete_options_are_rejected(options: dict[str, Any], text: str) -> None:
    async with a_world() as world:
        await world.create(config_map("a"))
        error = await refusal(world.delete("a", **options))
        assert error.code == 422
        assert text in error.message


async def test_a_collection_is_deleted_by_selector_and_returned() -> None:
    async with a_world() as world:
        for name in "abc":
            await world.create(config_map(name, labels={"keep": "yes" if name == "b" else "no"}))
        selection = parse_selection(world.definition("configmaps"), "keep=no", "")
        gone = await delete_collection(world.backend, world.target(), CALLER, DeleteOptions(), selection)
        assert [stored.key.name for stored in gone] == ["a", "c"]
        assert [stored.key.name for stored in (await world.list()).items] == ["b"]


def test_delete_options_of_wrong_types_are_ignored() -> None:
    document = {"gracePeriodSeconds": True, "preconditions": [], "propagationPolicy": 5, "dryRun": "All"}
    assert DeleteOptions.from_document(document) == DeleteOptions()
