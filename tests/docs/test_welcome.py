"""The controller of the guide, in virtual time, on a server in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference
from aiokube.api.resource import WatchEvent
from aiokube.api.status import Status
from aiokube.client.errors import api_error
from aiokube.client.rest import Client
from aiokube.runtime.controller import Controller
from aiokube.runtime.queue import WorkQueue
from aiokube.runtime.store import Store
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import FakeClock, run_virtual
from docs.guide.examples.welcome import CONFIG_MAPS, LABEL, NAME, ConfigMap, Namespace, Welcome

WELCOME = ObjectKey("shop", NAME)


class Recorder:
    def __init__(self) -> None:
        self.told: list[str] = []

    def event(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.told.append(f"{type} {reason}: {message}")


class World:
    """The controller, its caches, and the server they are caches of."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.namespaces: Store[Namespace] = Store("namespaces")
        self.welcomes: Store[ConfigMap] = Store("configmaps")
        self.recorder = Recorder()
        self.version = 0
        clock = FakeClock()
        queue: WorkQueue[str] = WorkQueue("welcome", clock=clock)
        client = cast("Client", self.server)  # it has the verbs that are used
        welcome = Welcome(self.namespaces, self.welcomes, client, queue, self.recorder)
        self.controller = Controller("welcome", queue, welcome.reconcile, workers=2, clock=clock)

    def label(self, text: str | None, deleted_at: str | None = None) -> None:
        """Have a watch tell that the namespace carries this label now."""
        self.version += 1
        meta = ObjectMeta(
            name="shop",
            uid="uid-shop",
            resource_version=str(self.version),
            labels=None if text is None else {LABEL: text},
            deletion_timestamp=deleted_at,
        )
        self.namespaces.apply([WatchEvent("MODIFIED", Namespace(meta))])

    @property
    def says(self) -> str | None:
        """What the welcome says on the server."""
        found = self.server.objects(CONFIG_MAPS).get(WELCOME)
        return (found.data or {}).get("text") if found is not None else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run())
            yield
            await self.controller.stop(grace_seconds=0.0)


def in_a_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def whole() -> None:
        world = World()
        async with world.running():
            await test(world)

    return lambda: run_virtual(whole())


@in_a_world
async def test_a_label_brings_a_welcome_and_its_end_takes_it_away(world: World) -> None:
    world.label("hello")
    await asyncio.sleep(1.0)
    assert world.says == "hello"
    assert world.recorder.told == ["Normal Welcomed: It says 'hello'"]
    world.label("good evening")
    await asyncio.sleep(1.0)
    assert world.says == "good evening"
    world.label(None)
    await asyncio.sleep(1.0)
    assert world.says is None


@in_a_world
async def test_it_knows_its_own_writes_however_late_the_watch_is(world: World) -> None:
    for text in ("one", "two", "three"):
        world.label(text)
        await asyncio.sleep(1.0)
    assert [call.verb for call in world.server.writes] == ["create", "update", "update"]
    world.server.feed(CONFIG_MAPS, world.welcomes)  # only now the watch tells of them
    await asyncio.sleep(1.0)
    assert len(world.server.writes) == 3
    assert world.says == "three"


@in_a_world
async def test_what_somebody_else_changes_is_put_right(world: World) -> None:
    world.label("hello")
    await asyncio.sleep(1.0)
    world.server.feed(CONFIG_MAPS, world.welcomes)
    world.server.delete_foreign(CONFIG_MAPS, WELCOME)
    world.server.feed(CONFIG_MAPS, world.welcomes)
    await asyncio.sleep(1.0)
    assert world.says == "hello"


@in_a_world
async def test_a_broken_server_is_tried_again_until_it_is_mended(world: World) -> None:
    broken = api_error(Status(code=500, reason="InternalError", message="etcd has no leader"))
    world.server.fail_next(broken, times=10)
    world.label("hello")
    await asyncio.sleep(1.0)
    assert world.says is None
    await asyncio.sleep(60.0)
    assert world.says == "hello"


@in_a_world
async def test_a_namespace_on_its_way_out_is_left_alone(world: World) -> None:
    world.label("hello", deleted_at="2026-01-01T00:00:00Z")
    await asyncio.sleep(1.0)
    assert world.server.calls == []


@pytest.mark.parametrize("text", ["", "0"])
def test_any_text_is_a_welcome(text: str) -> None:
    @in_a_world
    async def run(world: World) -> None:
        world.label(text)
        await asyncio.sleep(1.0)
        assert world.says == text

    run()
