"""The ServiceAccount ``default`` and the ConfigMap ``kube-root-ca.crt`` of every namespace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.server.lifecycle.world import World, play

from tinykube.server.lifecycle.manager import Lifecycle
from tinykube.server.lifecycle.namespace_defaults import NamespaceDefaults
from tinykube.server.objects import GroupResource, JsonObject, StorageKey

AUTHORITY = "-----BEGIN CERTIFICATE-----\n"
ROOT_CA = StorageKey(GroupResource("", "configmaps"), "a", "kube-root-ca.crt")


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    client = world.loopback_client
    defaults = NamespaceDefaults(world.storage, world.clock, client.create, client.update, AUTHORITY)
    lifecycle = Lifecycle(
        world.storage,
        world.registry,
        world.clock,
        delete=client.delete,
        update=client.update,
        others=(defaults,),
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lifecycle.run(), name="lifecycle")
        await world.settle()
        yield
        task.cancel()


def test_existing_and_new_namespaces_get_a_service_account_and_the_root_certificate() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("a")
        async with running(world):
            await world.namespace("b")
            await world.settle()
            for namespace in ("a", "b"):
                assert world.names("serviceaccounts", namespace) == ["default"]
                config_map = world.get("configmaps", "kube-root-ca.crt", namespace)
                assert config_map is not None
                assert config_map["data"] == {"ca.crt": AUTHORITY}
                assert "kubernetes.io/description" in config_map["metadata"]["annotations"]

    play(scene())


def test_deleted_defaults_are_recreated() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("a")
        async with running(world):
            await world.delete("serviceaccounts", "default", "a")
            await world.delete("configmaps", "kube-root-ca.crt", "a")
            await world.settle()
            assert world.names("serviceaccounts", "a") == ["default"]
            assert world.names("configmaps", "a") == ["kube-root-ca.crt"]

    play(scene())


def test_an_edited_root_certificate_is_restored_and_other_metadata_stays() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("a")

        def edited(obj: JsonObject) -> JsonObject:
            obj["data"] = {"ca.crt": "wrong", "other": "x"}
            obj["metadata"]["labels"] = {"mine": "yes"}
            return obj

        async with running(world):
            await world.loopback_client.update(ROOT_CA, edited)
            await world.settle()
            config_map = world.get("configmaps", "kube-root-ca.crt", "a")
            assert config_map is not None
            assert config_map["data"] == {"ca.crt": AUTHORITY}
            assert config_map["metadata"]["labels"] == {"mine": "yes"}

    play(scene())


def test_unrelated_changes_do_not_rewrite_the_defaults() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("a")
        async with running(world):
            before = world.storage.revision
            await world.create("configmaps", "mine", "a")
            await world.delete("configmaps", "mine", "a")
            await world.settle(5.0)
            assert world.storage.revision == before + 2

    play(scene())


def test_a_deleted_namespace_is_removed_with_its_defaults() -> None:
    async def scene() -> None:
        world = World()
        await world.namespace("a")
        async with running(world):
            await world.delete("namespaces", "a")
            await world.settle(5.0)
            assert world.names("namespaces") == []
            assert world.names("serviceaccounts") == world.names("configmaps") == []

    play(scene())
