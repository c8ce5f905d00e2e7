"""Deletion of namespaces, with real verbs and storage."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.server.lifecycle.world import World, play

from tinykube.server.errors import StatusError, internal
from tinykube.server.lifecycle.namespace_plan import plan_namespace, with_conditions
from tinykube.server.lifecycle.ownership import OwnershipInfo
from tinykube.server.objects import GroupResource, JsonObject, StorageKey


def conditions(world: World, name: str) -> dict[str, tuple[str, str]]:
    namespace = world.get("namespaces", name)
    assert namespace is not None
    return {
        each["type"]: (each["status"], each["message"]) for each in namespace["status"].get("conditions", ())
    }


def test_a_namespace_is_deleted_with_its_content_and_nothing_else() -> None:
    async def scene() -> None:
        world = World()
        for name in ("going", "staying"):
            await world.namespace(name)
            for number in range(100):
                await world.create("configmaps", f"c{number}", name)
            await world.create("secrets", "s", name)
        async with world.running():
            await world.delete("namespaces", "going")
            await world.settle()
            assert world.names("namespaces") == ["staying"]
            assert world.names("configmaps", "going") == world.names("secrets", "going") == []
            assert len(world.names("configmaps", "staying")) == 100

    play(scene())


def test_a_deletion_started_before_startup_is_completed() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("going")
        await world.create("configmaps", "c", "going")
        await world.delete("namespaces", "going")
        async with world.running():
            assert world.names("namespaces") == []

    play(scene())


def test_pods_are_deleted_first_and_their_grace_period_delays_the_rest() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("going")
        await world.create("nodes", "n1")
        await world.pod("p", "n1", namespace="going")
        await world.create("configmaps", "c", "going")
        async with world.running():
            await world.delete("namespaces", "going")
            await world.settle(300)
            pod = world.get("pods", "p", "going")
            assert pod is not None
            assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
            config = world.get("configmaps", "c", "going")
            assert config is not None
            assert "deletionTimestamp" not in config["metadata"]
            reported = conditions(world, "going")["NamespaceContentRemaining"]
            assert reported[0] == "True"
            assert "pods. has 1 resource instances" in reported[1]
            await world.delete("pods", "p", "going", grace_seconds=0)  # as the kubelet does
            await world.settle()
            assert world.names("namespaces") == []

    play(scene())


def test_a_terminating_namespace_reports_its_content_and_rejects_creates() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("going")
        await world.create("configmaps", "held", "going", finalizers=["example.com/hold"])
        async with world.running():
            await world.delete("namespaces", "going")
            await world.settle(10)
            reported = conditions(world, "going")
            assert reported["NamespaceFinalizersRemaining"] == (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
            )
            assert reported["NamespaceDeletionContentFailure"][0] == "False"
            with pytest.raises(StatusError) as refused:
                await world.create("configmaps", "late", "going")
            assert refused.value.code == 403
            revision = world.storage.revision
            await world.settle(600)
            assert world.storage.revision == revision, "an idle namespace is rewritten repeatedly"
            await world.drop_finalizers("configmaps", "held", "going")
            await world.settle()
            assert world.names("namespaces") == []

    play(scene())


def info(plural: str, name: str, *finalizers: str, deleting: bool = False) -> OwnershipInfo:
    key = StorageKey(GroupResource("", plural), "ns", name)
    return OwnershipInfo(
        key, name, finalizers=finalizers, deletion_timestamp="2026-01-01T00:00:00Z" if deleting else ""
    )


def test_the_plan_deletes_pods_first_and_nothing_twice() -> None:
    pod, dying, config = info("pods", "a"), info("pods", "b", deleting=True), info("configmaps", "c")
    assert plan_namespace([config, pod, dying]).to_delete == (pod,)
    assert plan_namespace([config, dying]).to_delete == ()
    assert plan_namespace([config]).to_delete == (config,)
    assert plan_namespace([]).is_empty
    assert not plan_namespace([dying]).is_empty


def test_conditions_keep_their_transition_time_while_their_status_is_unchanged() -> None:
    first = with_conditions(
        {"phase": "Terminating"}, [info("pods", "a")], [], datetime(2026, 1, 1, tzinfo=UTC)
    )
    later = datetime(2026, 1, 2, tzinfo=UTC)
    assert with_conditions(first, [info("pods", "b")], [], later) == first
    two = with_conditions(first, [info("pods", "a"), info("pods", "b", "x/y")], ["no"], later)
    times = {each["type"]: each["lastTransitionTime"] for each in two["conditions"]}
    assert times["NamespaceContentRemaining"] == "2026-01-01T00:00:00Z"
    assert times["NamespaceFinalizersRemaining"] == "2026-01-02T00:00:00Z"
    assert times["NamespaceDeletionContentFailure"] == "2026-01-02T00:00:00Z"
    foreign: JsonObject = {"type": "Mine", "status": "True"}
    assert with_conditions({"conditions": [foreign]}, [], [], later)["conditions"][0] == foreign


def test_a_rejected_deletion_is_reported_and_retried() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("going")
        await world.create("configmaps", "stubborn", "going")
        await world.create("configmaps", "willing", "going")
        refusing = True
        delete = world.loopback_client.delete

        async def refusing_delete(key: StorageKey, uid: str, **options: Any) -> None:
            if refusing and key.name == "stubborn":
                raise internal("the disk is full")
            await delete(key, uid, **options)

        world.loopback_client.delete = refusing_delete  # type: ignore[method-assign]
        async with world.running():
            await world.delete("namespaces", "going")
            await world.settle(5)
            assert world.names("configmaps", "going") == ["stubborn"]
            reported = conditions(world, "going")["NamespaceDeletionContentFailure"]
            assert reported[0] == "True"
            assert "the disk is full" in reported[1]
            refusing = False
            await world.settle(60)
            assert world.names("namespaces") == []

    play(scene())
