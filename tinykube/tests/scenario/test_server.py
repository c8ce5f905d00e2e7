"""The embedded server with aiokube's client and reflector, over a real socket: what informers rely on."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.errors import ApiError, ConflictError, NotFoundError
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.store import Store
from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.server.storage.model import StorageSettings

TOKEN = "0123456789abcdef"
CLOCK = SystemClock()


def slice_of(name: str, *addresses: str, labels: dict[str, str] | None = None) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        address_type="IPv4",
        endpoints=tuple(Endpoint(addresses=(address,)) for address in addresses),
    )


def client_of(server: ApiServer) -> Client:
    config = ClusterConfig(
        server=server.url,
        tls=TlsConfig(ca_data=server.authority),
        credentials=StaticCredentials(Credential(authorization=bearer(TOKEN))),
    )
    return Client.from_config(config, clock=CLOCK)


@asynccontextmanager
async def a_cluster(
    data_dir: Path | None = None, port: int = 0, storage: StorageSettings | None = None
) -> AsyncIterator[tuple[ApiServer, Client]]:
    settings = ServerSettings(
        token=TOKEN, data_dir=data_dir, port=port, storage=storage or StorageSettings(), shutdown_seconds=1.0
    )
    async with (
        ApiServer(settings, builtin_registry(), rng=random.Random(5)) as server,
        client_of(server) as client,
    ):
        yield server, client


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


async def until(store: Store[EndpointSlice], names: set[str]) -> None:
    """Wait until the store contains exactly these objects, up to the test's timeout."""
    changed = asyncio.Event()
    end = store.subscribe(lambda old, new: changed.set())
    while {item.metadata.name for item in store.values()} != names:
        changed.clear()
        await changed.wait()
    end()


@asynccontextmanager
async def running(reflector: Reflector[EndpointSlice]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        try:
            await reflector.wait_synced(10)
            yield
        finally:
            task.cancel()


@pytest.mark.parametrize("initial", ["watch-list", "list"])
async def test_a_reflector_fills_its_store_and_keeps_it_in_sync_with_the_server(initial: str) -> None:
    async with a_cluster() as (_, client):
        for name in ("a", "b"):
            await client.create(ENDPOINT_SLICES, slice_of(name, "10.0.0.1"), namespace="default")
        store: Store[EndpointSlice] = Store("slices")
        settings = ReflectorSettings(initial=initial)  # type: ignore[arg-type]
        reflector = Reflector(
            client.source(ENDPOINT_SLICES, namespace="default"),
            store,
            clock=CLOCK,
            rng=random.Random(1),
            settings=settings,
        )
        async with running(reflector):
            await until(store, {"a", "b", "kubernetes"})
            await client.create(ENDPOINT_SLICES, slice_of("c", "10.0.0.2"), namespace="default")
            await client.delete(ENDPOINT_SLICES, key("a"))
            await until(store, {"b", "c", "kubernetes"})
            statistics = reflector.statistics()
            assert statistics.errors == 0


async def test_a_watch_resumes_without_a_gap_after_a_server_restart(tmp_path: Path) -> None:
    store: Store[EndpointSlice] = Store("slices")
    async with a_cluster(tmp_path / "data") as (server, client):
        port = server.port
        await client.create(ENDPOINT_SLICES, slice_of("a"), namespace="default")
    async with a_cluster(tmp_path / "data", port) as (server, client):
        source = client.source(ENDPOINT_SLICES, namespace="default")
        reflector = Reflector(source, store, clock=CLOCK, rng=random.Random(1))
        async with running(reflector):
            await client.create(ENDPOINT_SLICES, slice_of("b"), namespace="default")
            await until(store, {"a", "b", "kubernetes"})
        version = store.resource_version
    async with a_cluster(tmp_path / "data", port) as (server, client):
        created = await client.create(ENDPOINT_SLICES, slice_of("c"), namespace="default")
        assert int(created.metadata.resource_version) > int(version)


async def test_pages_are_complete_and_of_one_version() -> None:
    async with a_cluster() as (_, client):
        for name in "abc":
            await client.create(ENDPOINT_SLICES, slice_of(name), namespace="default")
        source = client.source(ENDPOINT_SLICES, namespace="default")
        first = await source.list_page(limit=3)
        second = await source.list_page(limit=3, continue_token=first.continue_token)
        names = [item.metadata.name for item in (*first.items, *second.items)]
        assert names == ["a", "b", "c", "kubernetes"]
        assert first.resource_version == second.resource_version


async def test_a_watch_from_a_compacted_version_is_an_error_event_of_410() -> None:
    async with a_cluster(storage=StorageSettings(history_changes=4)) as (_, client):
        for number in range(8):
            await client.update(
                ENDPOINT_SLICES, slice_of("kubernetes", labels={"n": str(number)}), key=key("kubernetes")
            )
        async with client.watch(ENDPOINT_SLICES, namespace="default", resource_version="2") as watch:
            (event,) = await watch.__anext__()
            assert isinstance(event, WatchError)
            assert (event.status.code, event.status.reason) == (410, "Expired")


async def test_errors_map_to_distinct_client_exceptions() -> None:
    async with a_cluster() as (_, client):
        created = await client.create(ENDPOINT_SLICES, slice_of("a"), namespace="default")
        with pytest.raises(NotFoundError):
            await client.get(ENDPOINT_SLICES, key("none"))
        stale = replace(created, metadata=replace(created.metadata, resource_version="1"))
        with pytest.raises(ConflictError):
            await client.update(ENDPOINT_SLICES, stale, key=key("a"))
        with pytest.raises(ApiError) as caught:
            await client.create(ENDPOINT_SLICES, slice_of("a"), namespace="default")
        assert caught.value.status.reason == "AlreadyExists"


async def test_each_of_many_watchers_sees_every_change_once_in_order() -> None:
    changes, watchers = 60, 20

    async def seen(client: Client, version: str, ready: asyncio.Semaphore) -> list[str]:
        found: list[str] = []
        async with client.watch(ENDPOINT_SLICES, namespace="default", resource_version=version) as watch:
            ready.release()
            async for batch in watch:
                for event in batch:
                    assert not isinstance(event, WatchError)
                    if isinstance(event, WatchEvent):
                        found.append(f"{event.type} {event.item.metadata.name}")
                    assert not isinstance(event, Bookmark) or not event.initial_events_end
                if len(found) >= changes:
                    break
        return found

    async with a_cluster() as (_, client):
        page = await client.source(ENDPOINT_SLICES, namespace="default").list_page(limit=1)
        ready = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(seen(client, page.resource_version, ready), name=f"watcher {number}")
                for number in range(watchers)
            ]
            for _ in range(watchers):
                await ready.acquire()
            for number in range(changes):
                await client.create(ENDPOINT_SLICES, slice_of(f"s{number:03}"), namespace="default")
        expected = [f"ADDED s{number:03}" for number in range(changes)]
        assert all(task.result() == expected for task in tasks)
