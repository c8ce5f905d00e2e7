"""Two upstreams with one interface: the fake source, and a real kube-apiserver if available."""

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import pytest
from msgspec.structs import replace

from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from aiokube.runtime.source import Source
from aiokube.testing.fake_source import FakeSource
from tinykube.testing.control_plane import AssetsMissingError, ControlPlane, find_assets


class Upstream(Protocol):
    """The operations of a test on a server, and the source that reads it."""

    source: Source[EndpointSlice]
    namespace: str
    has_watch_list: bool

    async def create(self, name: str, *, finalizers: tuple[str, ...] | None = None) -> EndpointSlice: ...

    async def update(self, item: EndpointSlice) -> EndpointSlice: ...

    async def delete(self, item: EndpointSlice) -> None: ...

    async def age(self) -> str:
        """Return a resource version that the server has compacted."""
        ...


def slice_of(namespace: str, name: str, finalizers: tuple[str, ...] | None = None) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name=name, namespace=namespace, finalizers=finalizers),
        address_type="IPv4",
        endpoints=(),
    )


class FakeUpstream:
    def __init__(self) -> None:
        self.fake: FakeSource[EndpointSlice] = FakeSource()
        self.source: Source[EndpointSlice] = self.fake
        self.namespace = "fake"
        self.has_watch_list = True

    async def create(self, name: str, *, finalizers: tuple[str, ...] | None = None) -> EndpointSlice:
        return self.fake.create(slice_of(self.namespace, name, finalizers))

    async def update(self, item: EndpointSlice) -> EndpointSlice:
        if item.metadata.deletion_timestamp and not item.metadata.finalizers:
            return self.fake.finish(item.metadata.key)
        return self.fake.modify(item)

    async def delete(self, item: EndpointSlice) -> None:
        self.fake.delete(item.metadata.key)

    async def age(self) -> str:
        self.fake.compact()
        return "1"


class RealUpstream:
    def __init__(self, plane: ControlPlane, client: Client, namespace: str) -> None:
        self.plane = plane
        self.client = client
        self.namespace = namespace
        self.has_watch_list = plane.has_watch_list
        self.source: Source[EndpointSlice] = client.source(ENDPOINT_SLICES, namespace=namespace)

    async def create(self, name: str, *, finalizers: tuple[str, ...] | None = None) -> EndpointSlice:
        item = slice_of(self.namespace, name, finalizers)
        return await self.client.create(ENDPOINT_SLICES, item, namespace=self.namespace)

    async def update(self, item: EndpointSlice) -> EndpointSlice:
        return await self.client.update(ENDPOINT_SLICES, item, key=item.metadata.key)

    async def delete(self, item: EndpointSlice) -> None:
        await self.client.delete(ENDPOINT_SLICES, item.metadata.key, uid=item.metadata.uid)

    async def age(self) -> str:
        """Restart the server: its watch cache starts empty."""
        self.plane.stop_apiserver()
        self.plane.start_apiserver()  # in this thread: a child process ends with the thread that started it
        return "1"


def labelled(item: EndpointSlice, value: str) -> EndpointSlice:
    return replace(item, metadata=replace(item.metadata, labels={"value": value}))


def without_finalizers(item: EndpointSlice) -> EndpointSlice:
    return replace(item, metadata=replace(item.metadata, finalizers=None))


def key_in(upstream: Upstream, name: str) -> ObjectKey:
    return ObjectKey(upstream.namespace, name)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    try:
        find_assets()
    except AssetsMissingError as error:
        pytest.skip(str(error))
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    if request.param == "fake":
        yield FakeUpstream()
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    async with Client.from_config(plane.client_config(), clock=SystemClock()) as client:
        namespace = f"contract-{abs(hash(request.node.nodeid)) % 10**9}"
        body = f'{{"metadata":{{"name":"{namespace}"}}}}'.encode()
        await client.request("POST", "/api/v1/namespaces", body=body)
        yield RealUpstream(plane, client, namespace)
