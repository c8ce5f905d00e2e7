"""The garbage collector, with real verbs and storage."""

import asyncio

from tests.unit.server.lifecycle.world import World, owner, play

from tinykube.server.lifecycle.garbage import GarbageCollector
from tinykube.server.lifecycle.interfaces import Make
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.registry.definition import Definition, Strategy
from tinykube.server.storage.model import StorageSettings


def test_dependents_are_collected_with_their_last_owner_recursively() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            grandparent = await world.create("configmaps", "grandparent")
            other = await world.create("configmaps", "other")
            parent = await world.create(
                "configmaps", "parent", owners=[owner("grandparent", grandparent), owner("other", other)]
            )
            await world.create("secrets", "child", owners=[owner("parent", parent)])
            await world.settle()
            await world.delete("configmaps", "grandparent")
            await world.settle()
            kept = world.get("configmaps", "parent")
            assert kept is not None
            assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["other"]
            await world.delete("configmaps", "other")
            await world.settle()
            assert world.names("configmaps", "default") == []
            assert world.names("secrets", "default") == []

    play(scene())


def test_owners_with_another_uid_name_or_namespace_count_as_missing() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.namespace("elsewhere")
        uid = await world.create("configmaps", "owner", "elsewhere")
        mine = await world.create("configmaps", "mine")
        await world.create("secrets", "of-another-namespace", owners=[owner("owner", uid)])
        await world.create("secrets", "of-another-uid", owners=[owner("mine", "not-its-uid")])
        await world.create("secrets", "of-another-name", owners=[owner("yours", mine)])
        await world.create("secrets", "of-mine", owners=[owner("mine", mine)])
        async with world.running():  # found at start-up
            assert world.names("secrets") == ["of-mine"]

    play(scene())


def test_unknown_owner_kinds_and_namespaced_owners_of_cluster_objects_are_ignored() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        uid = await world.create("configmaps", "owner")
        await world.create("configmaps", "of-a-widget", owners=[owner("w", "u", kind="Widget")])
        await world.create("nodes", "of-a-configmap", owners=[owner("owner", uid)])
        async with world.running():
            await world.delete("configmaps", "owner")
            await world.settle(120)
            assert world.names("configmaps") == ["of-a-widget"]
            assert world.names("nodes") == ["of-a-configmap"]

    play(scene())


def test_a_cluster_object_can_own_namespaced_objects() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        uid = await world.create("nodes", "n1")
        await world.create("configmaps", "of-n1", owners=[owner("n1", uid, kind="Node")])
        async with world.running():
            assert world.names("configmaps") == ["of-n1"]
            await world.delete("nodes", "n1")
            await world.settle()
            assert world.names("configmaps") == []

    play(scene())


def test_foreground_deletion_waits_only_for_blocking_dependents() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            uid = await world.create("configmaps", "owner")
            await world.create(
                "secrets",
                "blocks",
                owners=[owner("owner", uid, blocks=True)],
                finalizers=["example.com/hold"],
            )
            await world.create(
                "secrets", "held", owners=[owner("owner", uid)], finalizers=["example.com/hold"]
            )
            await world.settle()
            await world.delete("configmaps", "owner", policy="Foreground")
            await world.settle(60)
            waiting = world.get("configmaps", "owner")
            assert waiting is not None
            assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
            for name in ("blocks", "held"):
                dependent = world.get("secrets", name)
                assert dependent is not None
                assert "deletionTimestamp" in dependent["metadata"]
            await world.drop_finalizers("secrets", "blocks")
            await world.settle()
            assert world.get("configmaps", "owner") is None
            assert world.names("secrets") == ["held"]

    play(scene())


def test_foreground_deletion_removes_dependents_before_owners() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        order: list[str] = []
        async with world.running():
            a = await world.create("configmaps", "a")
            b = await world.create("configmaps", "b", owners=[owner("a", a, blocks=True)])
            await world.create("configmaps", "c", owners=[owner("b", b, blocks=True)])
            await world.settle()
            subscription = world.storage.subscribe(
                world.definition("configmaps").resource, after_revision=world.storage.revision
            )
            await world.delete("configmaps", "a", policy="Foreground")
            await world.settle()
            order = [
                change.after.key.name
                for change in await subscription.next_batch()
                if change.type == "DELETED"
            ]
        assert order == ["c", "b", "a"]

    play(scene())


def test_foreground_deletion_of_an_ownership_cycle_completes() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            a = await world.create("configmaps", "a")
            b = await world.create("configmaps", "b", owners=[owner("a", a, blocks=True)])

            def closes_the_circle(obj: dict[str, object]) -> dict[str, object]:
                obj["metadata"]["ownerReferences"] = [owner("b", b, blocks=True)]  # type: ignore[index]
                return obj

            key = next(iter(world.storage.heads_in(world.definition("configmaps").resource))).key
            await world.loopback_client.update(key._replace(name="a"), closes_the_circle)
            await world.settle()
            await world.delete("configmaps", "a", policy="Foreground")
            await world.settle(5)
            assert world.names("configmaps") == []

    play(scene())


def test_orphaned_dependents_are_kept_without_the_owner_reference() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            uid = await world.create("configmaps", "owner")
            for number in range(3):
                await world.create("secrets", f"s{number}", owners=[owner("owner", uid)])
            await world.settle()
            await world.delete("configmaps", "owner", policy="Orphan")
            await world.settle()
            assert world.get("configmaps", "owner") is None
            assert world.names("secrets") == ["s0", "s1", "s2"]
            for number in range(3):
                orphan = world.get("secrets", f"s{number}")
                assert orphan is not None
                assert "ownerReferences" not in orphan["metadata"]

    play(scene())


def test_a_dependent_with_a_finalizer_is_deleted_once_the_finalizer_is_removed() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        async with world.running():
            uid = await world.create("configmaps", "owner")
            await world.create(
                "secrets", "held", owners=[owner("owner", uid)], finalizers=["example.com/hold"]
            )
            await world.delete("configmaps", "owner")
            await world.settle(10)
            held = world.get("secrets", "held")
            assert held is not None
            assert "deletionTimestamp" in held["metadata"]
            await world.drop_finalizers("secrets", "held")
            assert world.names("secrets") == []

    play(scene())


def test_changes_lost_to_a_short_history_are_recovered() -> None:
    async def scene() -> None:
        world = World(StorageSettings(history_changes=8))
        await world.namespace("default")
        async with world.running():
            owners = [await world.create("configmaps", f"o{number}") for number in range(30)]
            for number, uid in enumerate(owners):
                await world.create("secrets", f"s{number}", owners=[owner(f"o{number}", uid)])
            await world.settle()
            async with asyncio.TaskGroup() as group:  # more changes at the same time than the history holds
                for number in range(30):
                    group.create_task(world.delete("configmaps", f"o{number}"))
            await world.settle(5)
            assert world.names("secrets") == []

    play(scene())


def test_dependents_of_a_kind_are_collected_when_the_kind_is_added() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        gone = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
        await world.create("secrets", "of-a-widget", owners=[gone])
        async with world.running():
            await world.settle(5)
            assert world.names("secrets") == ["of-a-widget"]
            widgets = Definition(
                group="example.com",
                version="v1",
                plural="widgets",
                kind="Widget",
                singular="widget",
                namespaced=True,
                strategy=Strategy(),
            )
            world.registry.add(widgets)
            await world.settle(1)
            assert world.names("secrets") == []
            world.registry.remove("example.com", "v1", "widgets")
            await world.create("secrets", "of-a-widget", owners=[gone])
            await world.settle(1)
            assert world.names("secrets") == ["of-a-widget"]
            world.registry.add(widgets)  # its collection has been watched all the time
            await world.settle(1)
            assert world.names("secrets") == []
            assert len(world.storage.snapshot(GroupResource("example.com", "widgets"))) == 0

    play(scene())


def test_references_from_another_namespace_do_not_block_a_foreground_deletion() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")
        await world.namespace("elsewhere")
        async with world.running():
            uid = await world.create("configmaps", "owner")
            await world.create(
                "secrets",
                "stranger",
                "elsewhere",
                owners=[owner("owner", uid, blocks=True)],
                finalizers=["example.com/hold"],
            )
            await world.settle()
            await world.delete("configmaps", "owner", policy="Foreground")
            await world.settle()
            assert world.names("configmaps") == []

    play(scene())


def test_a_finalizer_is_not_removed_from_another_object_of_the_same_name() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("default")

        async def meanwhile_another(key: StorageKey, make: Make, *, subresource: str = "") -> None:
            another = {"metadata": {"name": key.name, "uid": "another", "finalizers": ["orphan"]}}
            assert make(another)["metadata"]["finalizers"] == ["orphan"]
            seen.append(key.name)

        seen: list[str] = []
        collector = GarbageCollector(
            world.storage, world.registry, world.clock, world.loopback_client.delete, meanwhile_another
        )
        await world.create("configmaps", "c")
        await world.delete("configmaps", "c", policy="Orphan")
        resource = world.definition("configmaps").resource
        objects = list(world.storage.snapshot(resource).after("", ""))
        collector.replaced(resource, objects)
        await collector.look(objects[0].key)
        assert seen == ["c"]

    play(scene())
