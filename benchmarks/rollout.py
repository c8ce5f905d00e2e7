"""Requests that fail during a rollout: ``python -m benchmarks.rollout``.

Fifty HTTP servers on loopback addresses are the pods of a Deployment. A rollout replaces them as a Deployment and a
kubelet do: a new pod becomes ready; an old one is deleted; its container gets the termination signal, serves for half
a second more and closes its port; the pod is removed two seconds later. The API is tinykube's, behind a TLS proxy.

Fifty workers send 500 requests per second through the transport of the guide (``docs/guide/examples/transport_httpx.py``), fed by
:func:`aiokube.discovery.watch_pods` or by the loop that routers write by hand (:mod:`benchmarks.discovery_clients`).
Each is measured with the transport's three attempts and with a single one, which shows how often a request was sent
to a deleted pod. ``--cut`` refuses all connections to the API for three seconds in the middle.
"""

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import msgspec

from aiokube.api.core import PODS
from aiokube.api.meta import ObjectKey
from aiokube.client.errors import TransportError
from aiokube.clock import SystemClock
from aiokube.discovery import EndpointView, ServiceEndpoints, watch_pods
from aiokube.discovery.endpoint import ServicePortName
from benchmarks.discovery_clients import NAMESPACE, Usable, follow_by_hand
from benchmarks.faulty_proxy import FaultyProxy
from benchmarks.table import aligned
from docs.guide.examples.consumer_picker import LeastUsed
from docs.guide.examples.transport_httpx import ATTEMPTS, EndpointTransport
from tinykube.testing.api_server import LoopApiServer, running_api_server
from tinykube.testing.kubeconfig import write_kubeconfig

CLOCK = SystemClock()
PORT = 18081
WORKERS = 50
WRITE_ATTEMPTS = 5
SERVE_ON_SECONDS = 0.5
GRACE_SECONDS = 2.5
CUT_SECONDS = 3.0
SETTLE_SECONDS = 2.0
SELECTOR = "app=web"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {app: web}}
spec: {containers: [{name: main, image: none}]}
"""

Use = Callable[[ServiceEndpoints], None]


class Outcome(msgspec.Struct, frozen=True):
    """The answers of one rollout: statuses, and the names of errors."""

    client: str
    attempts: int
    answers: dict[str, int]
    seconds: float

    @property
    def failed(self) -> int:
        return sum(count for answer, count in self.answers.items() if answer != "200")


class Show:
    """Passes the updates of the hand-written loop to the transport's picker."""

    def __init__(self, use: Use, loop: asyncio.AbstractEventLoop) -> None:
        self._use = use
        self._loop = loop

    def show(self, usable: Usable) -> None:
        views = tuple(EndpointView(ip=ip, port=PORT) for _, ip in usable)
        endpoints = ServiceEndpoints(ServicePortName(NAMESPACE, SELECTOR, str(PORT)), "IPv4", views)
        self._loop.call_soon_threadsafe(self._use, endpoints)


@contextlib.asynccontextmanager
async def following_with_aiokube(kubeconfig: Path, use: Use) -> AsyncIterator[None]:
    async with watch_pods(kubeconfig, NAMESPACE, SELECTOR, port=PORT) as live, asyncio.TaskGroup() as group:

        async def follow() -> None:
            async for endpoints in live:
                use(endpoints)

        following = group.create_task(follow(), name="follow")
        yield
        following.cancel()


@contextlib.asynccontextmanager
async def following_by_hand(kubeconfig: Path, use: Use) -> AsyncIterator[None]:
    show = Show(use, asyncio.get_running_loop())
    threading.Thread(target=follow_by_hand, args=(str(kubeconfig), SELECTOR, show), daemon=True).start()
    yield


CLIENTS = {"aiokube.discovery": following_with_aiokube, "hand-written loop": following_by_hand}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve HTTP requests on one connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    writer.close()


class Deployment:
    """Pods with containers that serve HTTP, each on a separate address."""

    def __init__(self, server: LoopApiServer) -> None:
        self._server = server
        self._containers: dict[str, asyncio.Server] = {}

    async def start(self, number: int) -> None:
        name, ip = f"web-{number}", f"127.0.{5 + number // 200}.{number % 200 + 1}"
        self._containers[name] = await asyncio.start_server(answer, ip, PORT)
        await self._retried(lambda: self._server.apply(POD % (name, NAMESPACE)))
        await self._retried(lambda: self._server.run_pod(name, NAMESPACE, ip=ip, node="node-1"))

    async def stop(self, number: int) -> None:
        """Delete a pod and be its kubelet."""
        name = f"web-{number}"
        key = ObjectKey(NAMESPACE, name)
        await self._retried(lambda: self._server.client.delete(PODS, key, grace_period_seconds=30))
        await asyncio.sleep(SERVE_ON_SECONDS)
        self._containers.pop(name).close()
        await asyncio.sleep(GRACE_SECONDS - SERVE_ON_SECONDS)
        await self._retried(lambda: self._server.client.delete(PODS, key, grace_period_seconds=0))

    async def _retried(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write to the API; on a busy machine an answer may be late."""
        for left in reversed(range(WRITE_ATTEMPTS)):
            try:
                await write()
            except TransportError:
                if not left:
                    raise
            else:
                return

    async def roll(self, pods: int, seconds: float) -> None:
        """Replace pods 0 to ``pods`` by the next ones."""
        async with asyncio.TaskGroup() as group:
            for number in range(pods):
                await self.start(pods + number)
                group.create_task(self.stop(number), name=f"stop {number}")
                await asyncio.sleep(seconds / pods)


async def measure(
    client: str, attempts: int, pods: int, per_second: float, seconds: float, cut: bool
) -> Outcome:
    """Roll out once under load. Raises TimeoutError if the client does not know the pods at first."""
    answers: Counter[str] = Counter()
    picker = LeastUsed(random.Random(1))
    all_known, stop = asyncio.Event(), asyncio.Event()

    def use(endpoints: ServiceEndpoints) -> None:
        picker.use(endpoints)
        if len(endpoints.usable) >= pods:
            all_known.set()

    async with running_api_server() as server:
        await server.apply(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n")
        with tempfile.TemporaryDirectory() as folder:
            proxy = await asyncio.to_thread(
                FaultyProxy, server.url, server.certificate_authority, Path(folder)
            )
            kubeconfig = write_kubeconfig(
                Path(folder) / "kubeconfig",
                server=proxy.url,
                certificate_authority=proxy.certificate_authority,
                token=server.token,
            )
            deployment = Deployment(server)
            for number in range(pods):
                await deployment.start(number)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
            transport = EndpointTransport(picker, httpx.AsyncHTTPTransport(limits=limits), attempts=attempts)
            async with (
                CLIENTS[client](kubeconfig, use),
                httpx.AsyncClient(transport=transport, base_url="http://web", timeout=30) as http,
                asyncio.TaskGroup() as group,
            ):
                async with asyncio.timeout(60):
                    await all_known.wait()

                async def requests() -> None:
                    """Send requests one after the other, at this worker's share of the rate."""
                    due = CLOCK.monotonic()
                    while not stop.is_set():
                        due = max(due + WORKERS / per_second, CLOCK.monotonic())
                        await asyncio.sleep(due - CLOCK.monotonic())
                        try:
                            answers[str((await http.get("/")).status_code)] += 1
                        except httpx.HTTPError as error:
                            answers[type(error).__name__] += 1

                async def cut_in_the_middle() -> None:
                    await asyncio.sleep(seconds / 2)
                    await asyncio.to_thread(proxy.begin, "refused")
                    await asyncio.sleep(CUT_SECONDS)
                    await asyncio.to_thread(proxy.end)

                began = CLOCK.monotonic()
                for number in range(WORKERS):
                    group.create_task(requests(), name=f"worker {number}")
                if cut:
                    group.create_task(cut_in_the_middle(), name="cut")
                await deployment.roll(pods, seconds)
                await asyncio.sleep(SETTLE_SECONDS)
                stop.set()
                took = CLOCK.monotonic() - began
            await asyncio.to_thread(proxy.close)
    return Outcome(client, attempts, dict(answers), took)


def table(outcomes: list[Outcome]) -> str:
    lines = [("client", "attempts", "requests", "per second", "failed", "")]
    lines += [
        (
            each.client,
            f"{each.attempts}",
            f"{sum(each.answers.values()):,}",
            f"{sum(each.answers.values()) / each.seconds:.0f}",
            f"{each.failed:,}",
            " ".join(f"{name} {count}" for name, count in sorted(each.answers.items()) if name != "200"),
        )
        for each in outcomes
    ]
    return "\n".join(aligned(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--per-second", type=float, default=500.0, help="requests")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long the rollout takes")
    parser.add_argument("--cut", action="store_true", help="refuse connections to the API in the middle")
    parser.add_argument("--client", choices=[*CLIENTS], help=argparse.SUPPRESS)
    parser.add_argument("--attempts", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:  # one measurement, in a separate process
        load = (arguments.pods, arguments.per_second, arguments.seconds, arguments.cut)
        outcome = asyncio.run(measure(arguments.client, arguments.attempts, *load))
        print(msgspec.json.encode(outcome).decode(), flush=True)
        return
    outcomes = []
    for client in CLIENTS:
        for attempts in (ATTEMPTS, 1):
            command = [sys.executable, "-m", "benchmarks.rollout", *sys.argv[1:]]
            one = [f"--client={client}", f"--attempts={attempts}"]
            done = subprocess.run([*command, *one], check=True, stdout=subprocess.PIPE)
            outcomes.append(msgspec.json.decode(done.stdout, type=Outcome))
    print(table(outcomes))


if __name__ == "__main__":
    main()
