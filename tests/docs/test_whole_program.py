"""The whole program of the guide, informers and manager and all, in virtual time, on a server that misbehaves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec

from aiokube.api.events import EVENTS, Event
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import Resource
from aiokube.client.errors import ConnectionFailedError
from aiokube.client.rest import Client
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import run_virtual
from docs.guide.examples.welcome import (
    CONFIG_MAPS,
    LABEL,
    NAME,
    NAMESPACES,
    ConfigMap,
    Namespace,
    run,
)

WELCOME = ObjectKey("shop", NAME)
LONG = 200.0  # seconds: longer than any backoff


class FakeServer:
    """What the program uses of a client, on fake sources."""

    def __init__(self) -> None:
        self.namespaces: FakeSource[Namespace] = FakeSource()
        self.welcomes: FakeSource[ConfigMap] = FakeSource()
        self.events: FakeSource[Event] = FakeSource()
        self._sources: dict[str, FakeSource[Any]] = {
            NAMESPACES.plural: self.namespaces,
            CONFIG_MAPS.plural: self.welcomes,
            EVENTS.plural: self.events,
        }

    def source(self, resource: Resource[Any], *, label_selector: str = "") -> FakeSource[Any]:
        return self._sources[resource.plural]

    async def create(self, resource: Resource[Any], body: Any, *, namespace: str) -> Any:
        return self._sources[resource.plural].create(body)

    async def update(self, resource: Resource[Any], body: Any, *, key: ObjectKey) -> Any:
        return self._sources[resource.plural].modify(body)

    async def delete(self, resource: Resource[Any], key: ObjectKey, *, uid: str) -> None:
        self._sources[resource.plural].delete(key)

    @property
    def says(self) -> str | None:
        found = self.welcomes.objects.get(WELCOME)
        return (found.data or {}).get("text") if found is not None else None


def namespace(text: str | None) -> Namespace:
    return Namespace(ObjectMeta(name="shop", labels=None if text is None else {LABEL: text}))


@asynccontextmanager
async def running(server: FakeServer) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(cast("Client", server), stop))
        yield
        stop.set()


def on_a_fake_server(test: Callable[[FakeServer], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: run_virtual(test(FakeServer()))


@on_a_fake_server
async def test_what_is_there_at_the_start_is_looked_at_and_then_every_change(server: FakeServer) -> None:
    server.namespaces.create(namespace("hello"))
    async with running(server):
        await asyncio.sleep(1.0)
        assert server.says == "hello"
        server.namespaces.modify(namespace("good evening"))
        await asyncio.sleep(1.0)
        assert server.says == "good evening"
    (event,) = server.events.objects.values()
    assert (event.reason, event.metadata.namespace) == ("Welcomed", "default")


@on_a_fake_server
async def test_what_changed_while_it_was_away_is_put_right(server: FakeServer) -> None:
    server.namespaces.create(namespace("hello"))
    async with running(server):
        await asyncio.sleep(1.0)
    server.namespaces.modify(namespace(None))
    async with running(server):
        await asyncio.sleep(1.0)
    assert server.says is None


@on_a_fake_server
async def test_broken_watches_and_forgotten_events_delay_it_and_no_more(server: FakeServer) -> None:
    server.namespaces.create(namespace("hello"))
    async with running(server):
        await asyncio.sleep(1.0)
        server.namespaces.fail_next(*[ConnectionFailedError("no route to host")] * 4)
        server.namespaces.break_watches()
        server.namespaces.modify(namespace("after the break"), silently=True)
        server.namespaces.compact()
        await asyncio.sleep(LONG)
        assert server.says == "after the break"


@on_a_fake_server
async def test_it_leaves_nothing_open_when_it_stops(server: FakeServer) -> None:
    async with running(server):
        await asyncio.sleep(1.0)
        assert (server.namespaces.open_watches, server.welcomes.open_watches) == (1, 1)
    assert (server.namespaces.open_watches, server.welcomes.open_watches) == (0, 0)


def test_the_types_of_the_guide_read_and_write_json() -> None:
    body = b'{"metadata":{"name":"a","namespace":"b","labels":{"c":"d"}},"data":{"e":"f"},"binaryData":{"g":"aA=="}}'
    assert msgspec.json.encode(CONFIG_MAPS.decode(body)) == body
