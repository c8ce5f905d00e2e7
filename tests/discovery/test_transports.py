"""The httpx transport, the gRPC channels and the view of several clusters, over real connections."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest

from aiokube.discovery import EndpointView, ServiceEndpoints
from aiokube.discovery.endpoint import ServicePortName
from docs.guide.examples import several_clusters
from docs.guide.examples.consumer_picker import LeastUsed, NoEndpointError
from docs.guide.examples.resolver_grpc import EndpointChannels
from docs.guide.examples.transport_httpx import EndpointTransport
from tinykube.testing.api_server import running_api_server

METHOD = "/test.Echo/Say"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec: {containers: [{name: main, image: none}]}
"""


def state(port: int, *ips: str) -> ServiceEndpoints:
    views = tuple(EndpointView(ip=ip, port=port) for ip in ips)
    return ServiceEndpoints(ServicePortName("shop", "app=web", str(port)), "IPv4", views)


class Pods:
    """HTTP servers on separate addresses and one port; they respond with their address and the Host header."""

    def __init__(self) -> None:
        self.port = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def serving(self, *ips: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for ip in ips:
                server = await asyncio.start_server(self._answer, ip, self.port)
                self.port = server.sockets[0].getsockname()[1]
                await stack.enter_async_context(server)
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        await self.may_answer.wait()
        host = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"host:"))
        body = writer.get_extra_info("sockname")[0].encode() + b" " + host[6:]
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def http_client(picker: LeastUsed) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=EndpointTransport(picker), base_url="http://llm") as client:
        yield client


async def test_a_request_goes_to_an_endpoint_and_keeps_its_host_header() -> None:
    pods, picker = Pods(), LeastUsed(random.Random(1))
    async with pods.serving("127.0.3.1"), http_client(picker) as client:
        picker.use(state(pods.port, "127.0.3.1"))
        answer = await client.get("/v1/models")
        assert (answer.status_code, answer.text) == (200, "127.0.3.1 llm")
    assert not picker._in_flight


async def test_another_endpoint_is_tried_when_one_refuses_the_connection() -> None:
    pods, picker = Pods(), LeastUsed(random.Random(1))
    async with pods.serving("127.0.3.2"), http_client(picker) as client:
        picker.use(state(pods.port, "127.0.3.8", "127.0.3.9", "127.0.3.2"))
        assert (await client.get("/")).text.startswith("127.0.3.2")
        picker.use(state(pods.port, "127.0.3.8", "127.0.3.9"))
        with pytest.raises(httpx.ConnectError, match=r"no connection to 127\.0\.3\.8"):
            await client.get("/")
        picker.use(state(pods.port))
        with pytest.raises(httpx.ConnectError, match="no endpoint is usable"):
            await client.get("/")
    assert not picker._in_flight


async def test_requests_in_flight_finish_and_new_ones_avoid_removed_endpoints() -> None:
    pods, picker = Pods(), LeastUsed(random.Random(1))
    async with (
        pods.serving("127.0.3.3", "127.0.3.4"),
        http_client(picker) as client,
        asyncio.TaskGroup() as group,
    ):
        picker.use(state(pods.port, "127.0.3.3"))
        pods.may_answer.clear()
        slow = group.create_task(client.get("/"), name="slow request")
        await pods.asked.wait()
        picker.use(state(pods.port, "127.0.3.4"))
        pods.may_answer.set()
        assert (await client.get("/")).text.startswith("127.0.3.4")
        assert (await slow).text.startswith("127.0.3.3")


class Echo(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers with the name of its server."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._say)

    async def _say(self, request: bytes, context: Any) -> bytes:
        self.asked.set()
        await self.may_answer.wait()
        return self.name


@asynccontextmanager
async def grpc_servers(*ips: str) -> AsyncIterator[tuple[int, dict[str, Echo]]]:
    """Run gRPC servers on separate addresses and one port."""
    port, handlers, servers = 0, {}, []
    for ip in ips:
        handlers[ip] = Echo(ip.encode())
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handlers[ip],))
        port = server.add_insecure_port(f"{ip}:{port}")
        await server.start()
        servers.append(server)
    yield port, handlers
    for server in servers:
        await server.stop(None)


async def say(channels: EndpointChannels) -> str:
    async with channels.channel() as (_, channel):
        answer: bytes = await channel.unary_unary(METHOD)(b"")
        return answer.decode()


@pytest.mark.slow
async def test_grpc_calls_reach_every_endpoint_and_avoid_a_removed_one_immediately() -> None:
    async with (
        grpc_servers("127.0.4.1", "127.0.4.2") as (port, handlers),
        EndpointChannels(LeastUsed(random.Random(1))) as channels,
    ):
        channels.use(state(port, "127.0.4.1", "127.0.4.2"))
        assert {await say(channels) for _ in range(20)} == {"127.0.4.1", "127.0.4.2"}
        channels.use(state(port, "127.0.4.1"))
        handlers["127.0.4.1"].asked.clear()
        handlers["127.0.4.1"].may_answer.clear()
        async with asyncio.TaskGroup() as group:
            call = group.create_task(say(channels), name="call in flight")
            await handlers["127.0.4.1"].asked.wait()
            channels.use(state(port, "127.0.4.2"))
            assert {await say(channels) for _ in range(5)} == {"127.0.4.2"}
            handlers["127.0.4.1"].may_answer.set()
            assert await call == "127.0.4.1"
        channels.use(state(port))
        with pytest.raises(NoEndpointError):
            await say(channels)


@pytest.mark.slow
async def test_a_changed_set_of_endpoints_reuses_open_channels() -> None:
    opened: list[str] = []

    def open_channel(address: str) -> grpc.aio.Channel:
        opened.append(address)
        return grpc.aio.insecure_channel(address)

    async with (
        grpc_servers("127.0.4.3") as (port, _),
        EndpointChannels(open_channel=open_channel) as channels,
    ):
        for _ in range(3):
            channels.use(state(port, "127.0.4.3"))
            assert await say(channels) == "127.0.4.3"
    assert opened == [f"127.0.4.3:{port}"]


@pytest.mark.slow
async def test_several_clusters_are_watched_together_each_with_its_own_client() -> None:
    shown: asyncio.Queue[dict[str, list[str]]] = asyncio.Queue()

    def use(clusters: several_clusters.ByCluster) -> None:
        shown.put_nowait({name: [each.ip for each in found] for name, found in clusters.items()})

    async def until(expected: dict[str, list[str]]) -> None:
        while await shown.get() != expected:
            pass

    async with running_api_server() as east, running_api_server() as west:
        await east.apply(POD % "a")
        await east.run_pod("a", ip="10.0.0.1")
        clusters = {"east": east.kubeconfig_path, "west": west.kubeconfig_path}
        async with asyncio.TaskGroup() as group:
            following = group.create_task(
                several_clusters.run("default", "app=web", 80, clusters, use), name="follow"
            )
            await until({"east": ["10.0.0.1"], "west": []})
            await west.apply(POD % "b")
            await west.run_pod("b", ip="10.0.0.1")  # networks of clusters may overlap
            await until({"east": ["10.0.0.1"], "west": ["10.0.0.1"]})
            await east.delete("v1", "Pod", "a")
            await until({"east": [], "west": ["10.0.0.1"]})
            following.cancel()
