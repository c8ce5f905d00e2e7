"""A server without HTTP: real storage, real verbs and the lifecycle controllers, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokube.testing.virtual_time import FakeClock, run_virtual
from tinykube.server.lifecycle.manager import Lifecycle
from tinykube.server.loopback_client import LoopbackClient
from tinykube.server.objects import GroupResource, JsonObject, StorageKey
from tinykube.server.patch.service import TypedPatches
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import Definition, UserInfo
from tinykube.server.schema.service import TypeSchema
from tinykube.server.storage.model import StorageSettings
from tinykube.server.storage.store import open_storage
from tinykube.server.verbs.context import Backend, Caller, Target, new_request
from tinykube.server.verbs.delete import delete
from tinykube.server.verbs.options import DeleteOptions, WriteOptions
from tinykube.server.verbs.write import create, modify

_TESTER = Caller(UserInfo("tester"))


class World:
    """A server under test. Names of kinds are plurals of the core group."""

    def __init__(self, settings: StorageSettings | None = None) -> None:
        self.clock = FakeClock()
        self.registry = builtin_registry()
        self.storage = open_storage(
            None, describe=self.registry.describe, clock=self.clock, settings=settings
        )
        self.backend = Backend(
            storage=self.storage,
            registry=self.registry,
            schema=TypeSchema(),
            patches=TypedPatches(),
            clock=self.clock,
            rng=random.Random(1),
        )
        self.loopback_client = LoopbackClient(self.backend)

    def definition(self, plural: str) -> Definition:
        found = self.registry.get("", "v1", plural)
        assert found is not None
        return found

    async def create(
        self,
        plural: str,
        name: str,
        namespace: str = "default",
        *,
        owners: Sequence[JsonObject] = (),
        finalizers: Sequence[str] = (),
        **body: Any,
    ) -> str:
        """Create an object and return its uid."""
        definition = self.definition(plural)
        namespace = namespace if definition.namespaced else ""
        metadata: JsonObject = {"name": name, "namespace": namespace}
        if owners:
            metadata["ownerReferences"] = list(owners)
        if finalizers:
            metadata["finalizers"] = list(finalizers)
        document = {"kind": definition.kind, "apiVersion": "v1", "metadata": metadata, **body}
        target = Target(definition, namespace, "")
        request = new_request(self.backend, _TESTER, dry_run=False)
        result = await create(self.backend, target, request, WriteOptions(), document)
        uid: str = result.decode()["metadata"]["uid"]
        return uid

    async def namespace(self, name: str) -> str:
        return await self.create("namespaces", name)

    async def pod(
        self, name: str, node: str = "", *, namespace: str = "default", grace_seconds: int = 30
    ) -> str:
        spec: JsonObject = {
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": grace_seconds,
        }
        if node:
            spec["nodeName"] = node
        return await self.create("pods", name, namespace, spec=spec)

    async def delete(
        self,
        plural: str,
        name: str,
        namespace: str = "default",
        *,
        policy: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        definition = self.definition(plural)
        target = Target(definition, namespace if definition.namespaced else "", name)
        request = new_request(self.backend, _TESTER, dry_run=False)
        options = DeleteOptions(propagation_policy=policy, grace_period_seconds=grace_seconds)
        await delete(self.backend, target, request, options)

    async def drop_finalizers(self, plural: str, name: str, namespace: str = "default") -> None:
        definition = self.definition(plural)
        target = Target(definition, namespace if definition.namespaced else "", name)

        def make(obj: JsonObject) -> JsonObject:
            obj["metadata"].pop("finalizers", None)
            return obj

        await modify(self.backend, target, new_request(self.backend, _TESTER, dry_run=False), make)

    def get(self, plural: str, name: str, namespace: str = "default") -> JsonObject | None:
        namespace = namespace if self.definition(plural).namespaced else ""
        stored = self.storage.get(StorageKey(GroupResource("", plural), namespace, name))
        return None if stored is None else stored.decode()

    def names(self, plural: str, namespace: str = "") -> list[str]:
        snapshot = self.storage.snapshot(GroupResource("", plural), namespace)
        return [stored.key.name for stored in snapshot.after("", "")]

    @asynccontextmanager
    async def running(self, *, finish_graceful_deletions: bool = False) -> AsyncIterator[None]:
        """Run the controllers for a block."""
        lifecycle = Lifecycle(
            self.storage,
            self.registry,
            self.clock,
            delete=self.loopback_client.delete,
            update=self.loopback_client.update,
            finish_graceful_deletions=finish_graceful_deletions,
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(lifecycle.run(), name="lifecycle")
            await self.settle()
            yield
            task.cancel()

    async def settle(self, seconds: float = 0.01) -> None:
        """Let everything happen that is due within this time."""
        await self.clock.sleep(seconds)


def owner(name: str, uid: str, *, kind: str = "ConfigMap", blocks: bool = False) -> JsonObject:
    reference: JsonObject = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}
    if blocks:
        reference["blockOwnerDeletion"] = True
    return reference


def play(scene: Coroutine[Any, Any, None]) -> None:
    run_virtual(scene)
