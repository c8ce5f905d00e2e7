"""The example programs, with real HTTP servers as pods: a rollout under load loses no request."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import pytest
from aiohttp import web

from aiokube.api.core import PODS
from aiokube.api.meta import ObjectKey
from aiokube.discovery import EndpointView, ServiceEndpoints, watch_pods
from aiokube.discovery.endpoint import ServicePortName
from docs.guide.examples import consumer_threads
from docs.guide.examples.consumer_picker import LeastUsed, NoEndpointError
from docs.guide.examples.consumer_router import Router
from tinykube.testing.api_server import LoopApiServer, running_api_server

NAME = ServicePortName("shop", "web", "http")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-%d, labels: {app: web}}
spec: {containers: [{name: main, image: none}]}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: ["10.0.0.1"]}]
"""
PORT = 18080


def state(*endpoints: EndpointView) -> ServiceEndpoints:
    return ServiceEndpoints(NAME, "IPv4", endpoints)


def test_the_picker_prefers_the_least_used_and_avoids_terminating_endpoints() -> None:
    picker = LeastUsed(random.Random(1))
    going = EndpointView(ip="10.0.0.3", port=80, ready=False, serving=True, terminating=True)
    picker.use(state(EndpointView(ip="10.0.0.1", port=80), EndpointView(ip="10.0.0.2", port=80), going))
    with picker.pick() as first, picker.pick() as second:
        assert {first.ip, second.ip} == {"10.0.0.1", "10.0.0.2"}
        with picker.pick(avoid=frozenset({first.address})) as third:
            assert third == second
    picker.use(state())
    with pytest.raises(NoEndpointError, match="no endpoint is usable"), picker.pick():
        pass


def test_the_picker_forgets_addresses_without_requests() -> None:
    picker = LeastUsed(random.Random(1))
    for number in range(100):
        picker.use(state(EndpointView(ip=f"10.0.0.{number}", port=80)))
        with picker.pick():
            pass
    assert len(picker._in_flight) == 0


@asynccontextmanager
async def pod_server(ip: str) -> AsyncIterator[None]:
    """Serve HTTP on a separate address, as the container of a pod does."""

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(0.002)
        return web.Response(text=ip)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, ip, PORT).start()
    yield
    await runner.cleanup()


async def replace_pods(server: LoopApiServer, pods: int, stop: asyncio.Event) -> None:
    """Roll out: for each pod start a new one, then end the old one as a kubelet does, with a grace period."""
    previous = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(pods):
            started, ended = asyncio.Event(), asyncio.Event()
            group.create_task(live_pod(server, number, started, ended), name=f"pod {number}")
            await started.wait()
            previous.set()
            previous = ended
        await asyncio.sleep(0.3)
        stop.set()
        previous.set()


async def live_pod(server: LoopApiServer, number: int, started: asyncio.Event, ended: asyncio.Event) -> None:
    ip = f"127.0.1.{number + 1}"
    async with pod_server(ip):
        await server.apply(POD % number)
        await server.run_pod(f"web-{number}", ip=ip, node="node-1")
        started.set()
        await ended.wait()
        await server.client.delete(PODS, ObjectKey("default", f"web-{number}"), grace_period_seconds=30)
        await asyncio.sleep(0.2)  # the grace period, during which the container still serves
    await server.delete("v1", "Pod", f"web-{number}")


@pytest.mark.slow
async def test_a_rollout_under_load_loses_no_request() -> None:
    answers: Counter[int] = Counter()
    picker = LeastUsed(random.Random(1))
    stop = asyncio.Event()
    async with running_api_server() as server, aiohttp.ClientSession() as session:
        router = Router(picker, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", router.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", PORT).start()

        async def follow() -> None:
            async with watch_pods(server.client, "default", "app=web", port=PORT) as live:
                async for endpoints in live:
                    picker.use(endpoints)
                    if endpoints.usable:
                        first.set()

        async def request() -> None:
            await first.wait()
            while not stop.is_set():
                async with session.get(f"http://127.0.0.1:{PORT}/") as answer:
                    answers[answer.status] += 1

        first = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow(), name="follow")
            clients = [group.create_task(request(), name="client") for _ in range(5)]
            await replace_pods(server, 6, stop)
            await asyncio.gather(*clients)
            following.cancel()
        await runner.cleanup()
    assert set(answers) == {200}
    assert answers[200] > 50


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.slow
def test_threads_fetch_from_another_endpoint_if_one_refuses() -> None:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    port = httpd.server_address[1]
    serving = threading.Thread(target=httpd.serve_forever, name="pod", daemon=True)
    serving.start()
    picker = LeastUsed(random.Random(1))
    ips = ("127.0.2.1", "127.0.2.2", "127.0.0.1")
    picker.use(state(*(EndpointView(ip=ip, port=port) for ip in ips)))
    assert consumer_threads.fetch(picker, "/") == (200, b"hello")
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.slow
def test_the_threaded_program_picks_from_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server rejects loopback addresses in slices, so the request itself is omitted."""

    def picked(picker: LeastUsed, path: str) -> tuple[int, bytes]:
        with picker.pick() as endpoint:
            return 200, endpoint.address.encode()

    monkeypatch.setattr(consumer_threads, "fetch", picked)
    with running_api_server() as server:
        server.apply(SERVICE)
        path = server.kubeconfig_path
        assert consumer_threads.run("default/web", "http", "/", kubeconfig=path) == (200, b"10.0.0.1:80")
