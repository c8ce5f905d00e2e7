"""A server below HTTP: real storage, kinds and schema, with a manual clock."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokube.clock import Clock
from aiokube.testing.virtual_time import ManualClock
from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject
from tinykube.server.patch.service import PatchType, TypedPatches
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import Definition, Registry, Request, UserInfo
from tinykube.server.schema.service import TypeSchema
from tinykube.server.storage.model import StorageSettings
from tinykube.server.storage.store import open_storage
from tinykube.server.verbs.context import Backend, Caller, Result, Target, new_request
from tinykube.server.verbs.delete import delete
from tinykube.server.verbs.options import DeleteOptions, ListOptions, WriteOptions
from tinykube.server.verbs.read import Page, get, list_page
from tinykube.server.verbs.watch import Failure, Watch, open_watch
from tinykube.server.verbs.write import create, patch, update

CALLER = Caller(UserInfo("tester"), "tests/1.0")


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> JsonObject:
    document: JsonObject = {"metadata": {"name": name, **metadata}}
    if data is not None:
        document["data"] = data
    return document


class World:
    """One backend, and the verbs on it by plural and name."""

    def __init__(self, backend: Backend, clock: ManualClock) -> None:
        self.backend = backend
        self.clock = clock
        self.last_request: Request | None = None

    def definition(self, plural: str, group: str = "") -> Definition:
        return next(one for one in self.backend.registry.all() if one.plural == plural and one.group == group)

    def target(
        self,
        plural: str = "configmaps",
        name: str = "",
        namespace: str = "default",
        group: str = "",
        subresource: str = "",
    ) -> Target:
        definition = self.definition(plural, group)
        sub = next((one for one in definition.subresources if one.name == subresource), None)
        return Target(definition, namespace if definition.namespaced else "", name, sub)

    def request(self, *, dry_run: bool = False) -> Request:
        self.last_request = new_request(self.backend, CALLER, dry_run=dry_run)
        return self.last_request

    async def create(
        self, body: JsonObject, plural: str = "configmaps", options: WriteOptions | None = None, **where: str
    ) -> Result:
        options = options or WriteOptions()
        request = self.request(dry_run=options.is_dry_run)
        return await create(self.backend, self.target(plural, **where), request, options, body)

    async def update(
        self,
        name: str,
        body: JsonObject,
        plural: str = "configmaps",
        options: WriteOptions | None = None,
        **where: str,
    ) -> Result:
        options = options or WriteOptions(kind="UpdateOptions")
        request = self.request(dry_run=options.is_dry_run)
        return await update(self.backend, self.target(plural, name, **where), request, options, body)

    async def patch(
        self,
        name: str,
        body: object,
        patch_type: PatchType = "merge",
        plural: str = "configmaps",
        options: WriteOptions | None = None,
        **where: str,
    ) -> Result:
        options = options or WriteOptions(kind="PatchOptions")
        request = self.request(dry_run=options.is_dry_run)
        target = self.target(plural, name, **where)
        return await patch(self.backend, target, request, options, patch_type, body)

    async def delete(
        self, name: str, plural: str = "configmaps", where: str = "default", **options: Any
    ) -> Result:
        wanted = DeleteOptions(**options)
        request = self.request(dry_run=wanted.is_dry_run)
        return await delete(self.backend, self.target(plural, name, where), request, wanted)

    async def get(self, name: str, plural: str = "configmaps", **where: str) -> JsonObject:
        return (await get(self.backend, self.target(plural, name, **where))).decode()

    async def list(self, plural: str = "configmaps", namespace: str = "default", **options: Any) -> Page:
        return await list_page(self.backend, self.target(plural, namespace=namespace), ListOptions(**options))

    async def watch(
        self, plural: str = "configmaps", namespace: str = "default", **options: Any
    ) -> Watch | Failure:
        return await open_watch(
            self.backend, self.target(plural, namespace=namespace), ListOptions(**options)
        )


@asynccontextmanager
async def a_world(
    registry: Registry | None = None, *, clock: Clock | None = None, settings: StorageSettings | None = None
) -> AsyncIterator[World]:
    """Open a server with the namespace ``default``."""
    registry = registry or builtin_registry()
    hand = ManualClock()
    clock = clock or hand
    storage = open_storage(None, describe=registry.describe, clock=clock, settings=settings)
    backend = Backend(
        storage=storage,
        registry=registry,
        schema=TypeSchema(),
        patches=TypedPatches(),
        clock=clock,
        rng=random.Random(7),
    )
    world = World(backend, hand)
    try:
        await world.create({"metadata": {"name": "default"}}, "namespaces")
        yield world
    finally:
        await storage.aclose()


async def refusal(awaitable: Any) -> StatusError:
    """Return the error of a verb."""
    try:
        await awaitable
    except StatusError as error:
        return error
    raise AssertionError("it was not refused")
