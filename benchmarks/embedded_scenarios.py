"""Measurements of a running API server: writes, pods, lists, watches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from aiokube.clock import Clock
from benchmarks.embedded_client import STRATEGIC_MERGE, Connection, connections, watchers
from benchmarks.embedded_servers import Running
from benchmarks.objects import BenchmarkPod, Workload, status_body
from benchmarks.sizes import Size
from benchmarks.summary import median, percentile

Values = dict[str, float]
T = TypeVar("T")

NAMESPACE = "default"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_SETTLE_SECONDS = 3.0
_CLIENTS = 32
_LISTS = 5
_WATCHED_SECONDS = 120.0
_LABEL_OF_WATCHED = "labelSelector=for%3D"
_MIBIBYTE = 2**20
_PODS_BESIDE = 50
"""Pods created before measuring, to exclude one-time costs."""


class Amounts(msgspec.Struct, frozen=True):
    """Number of operations per scenario."""

    creates_alone: int = 500
    creates_together: int = 4_000
    events: int = 200
    events_per_second: float = 100.0
    watchers: tuple[int, ...] = (300, 1_000)
    latencies: int = 200
    latencies_per_second: float = 20.0


async def idle(server: Running, clock: Clock) -> Values:
    """Measure an idle server for a while."""
    await clock.sleep(_SETTLE_SECONDS)
    before, began = server.cpu_seconds(), clock.monotonic()
    await clock.sleep(_SETTLE_SECONDS)
    used = server.cpu_seconds() - before
    return {
        "start_seconds": server.start_seconds,
        "resident_mib": server.resident_mib(),
        "cpu_percent": 100.0 * used / (clock.monotonic() - began),
    }


async def creates(server: Running, clock: Clock, *, clients: int, count: int, tag: str) -> Values:
    """Create ConfigMaps from several clients, each sequentially; a 201 response means that the object is on disk."""
    bodies = [configmap(f"{tag}-{number:05d}", tag) for number in range(count + clients)]
    async with connections(server.address, clients) as opened:

        async def create(connection: Connection, body: bytes) -> None:
            await connection.request("POST", CONFIGMAPS, body)

        await spread(opened, bodies[count:], create)
        cpu, began = server.cpu_seconds(), clock.monotonic()
        await spread(opened, bodies[:count], create)
        seconds = clock.monotonic() - began
    return {
        "per_second": count / seconds,
        "cpu_ms_per_write": 1_000.0 * (server.cpu_seconds() - cpu) / count,
    }


async def pods(server: Running, clock: Clock, *, count: int, filler: int) -> Values:
    """Create realistic pods, set the status of each, then list them. ``filler``: see :func:`make_pods`."""
    workload = Workload(Size(1, count + _PODS_BESIDE))
    beside, counted = workload.pods[:_PODS_BESIDE], workload.pods[_PODS_BESIDE:]
    async with connections(server.address, _CLIENTS) as opened:
        await opened[0].request("POST", "/api/v1/namespaces", namespace_body(workload.namespaces[0]))
        await make_pods(opened, workload, beside, filler)
        await clock.sleep(_SETTLE_SECONDS)
        memory, cpu, began = server.resident_mib(), server.cpu_seconds(), clock.monotonic()
        await make_pods(opened, workload, counted, filler)
        seconds = clock.monotonic() - began
        cpu_seconds = server.cpu_seconds() - cpu
        await clock.sleep(_SETTLE_SECONDS)
        after = server.resident_mib()
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "resident_mib": after,
            "kib_per_pod": 1024.0 * (after - memory) / count,
            **await _lists(server, clock, opened[0], f"/api/v1/namespaces/{workload.namespaces[0]}/pods"),
        }


async def make_pods(
    opened: Sequence[Connection], workload: Workload, made: Sequence[BenchmarkPod], filler: int
) -> None:
    """Create pods and patch the status of each immediately.

    ``filler`` is the length of an additional annotation. kube-apiserver tracks managed fields, our server does not: the
    annotation makes both store, send and list the same number of bytes.
    """

    async def make(connection: Connection, pod: BenchmarkPod) -> None:
        path = f"/api/v1/namespaces/{pod.key.namespace}/pods"
        await connection.request("POST", path, padded(workload.pod_body(pod), filler))
        await connection.request("PATCH", f"{path}/{pod.key.name}/status", status_body(pod), STRATEGIC_MERGE)

    await spread(opened, made, make)


async def pod_bytes(server: Running) -> int:
    """Return the length of a pod with status as encoded by the server."""
    workload = Workload(Size(1, 1))
    async with connections(server.address, 1) as opened:
        await opened[0].request("POST", "/api/v1/namespaces", namespace_body(workload.namespaces[0]))
        await make_pods(opened, workload, workload.pods, 0)
        pod = workload.pods[0]
        path = f"/api/v1/namespaces/{pod.key.namespace}/pods/{pod.key.name}"
        answer = await opened[0].request("GET", path)
        await opened[0].request("DELETE", f"{path}?gracePeriodSeconds=0")
        return len(answer.body)


async def _lists(server: Running, clock: Clock, connection: Connection, path: str) -> Values:
    walls, cpus, size = [], [], 0
    for _ in range(_LISTS):
        cpu, began = server.cpu_seconds(), clock.monotonic()
        size = len((await connection.request("GET", path)).body)
        walls.append(clock.monotonic() - began)
        cpus.append(server.cpu_seconds() - cpu)
    return {
        "list_seconds": median(walls),
        "list_cpu_seconds": median(cpus),
        "list_mib": size / _MIBIBYTE,
    }


async def fan_out(server: Running, clock: Clock, *, watching: int, events: int, per_second: float) -> Values:
    """Create ConfigMaps at a steady rate until every watcher has received every event.

    The CPU is the server's total in that time, including the writes.
    """
    tag = f"fan-{watching}"
    heard = _Heard(watching * events)
    async with (
        watchers(server.address, watching, f"{CONFIGMAPS}?watch=1&{_LABEL_OF_WATCHED}{tag}", heard.hear),
        connections(server.address, 1) as opened,
    ):
        await clock.sleep(1.0)
        cpu, began = server.cpu_seconds(), clock.monotonic()
        for number in range(events):
            await clock.sleep(began + number / per_second - clock.monotonic())
            await opened[0].request("POST", CONFIGMAPS, configmap(f"{tag}-{number:05d}", tag))
        written = clock.monotonic()
        async with asyncio.timeout(_WATCHED_SECONDS):
            await heard.all.wait()
        lag = clock.monotonic() - written
        used = server.cpu_seconds() - cpu
        resident = server.resident_mib()
    return {
        "cpu_us_per_delivery": 1e6 * used / heard.count,
        "writing_seconds": written - began,
        "lag_ms": 1_000.0 * max(lag, 0.0),
        "resident_mib": resident,
    }


class _Heard:
    """Count the events received by all watchers."""

    def __init__(self, expected: int) -> None:
        self.count = 0
        self.all = asyncio.Event()
        self._expected = expected

    def hear(self, events: int) -> None:
        self.count += events
        if self.count >= self._expected:
            self.all.set()


async def latency(server: Running, clock: Clock, *, count: int, per_second: float) -> Values:
    """Create ConfigMaps at intervals; measure from just before each request until a watcher receives the event."""
    tag = "latency"
    waits: list[float] = []
    told = asyncio.Event()
    path = f"{CONFIGMAPS}?watch=1&{_LABEL_OF_WATCHED}{tag}"
    async with (
        watchers(server.address, 1, path, lambda events: told.set()),
        connections(server.address, 1) as opened,
    ):
        for number in range(count):
            told.clear()
            began = clock.monotonic()
            async with asyncio.TaskGroup() as group:
                body = configmap(f"{tag}-{number:05d}", tag)
                group.create_task(opened[0].request("POST", CONFIGMAPS, body), name="write")
                async with asyncio.timeout(_WATCHED_SECONDS):
                    await told.wait()
                waits.append(1_000.0 * (clock.monotonic() - began))
            await clock.sleep(began + 1.0 / per_second - clock.monotonic())
    return {"p50_ms": percentile(waits, 50), "p99_ms": percentile(waits, 99)}


# --------------------------------------------------------------------------------------------- request bodies


def configmap(name: str, tag: str) -> bytes:
    """Return the body that creates a ConfigMap of about 1 KB."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"for": tag}},
        "data": {f"setting-{number:02d}": f"{number:036d}" for number in range(16)},
    }
    return msgspec.json.encode(document)


def namespace_body(name: str) -> bytes:
    """Return the body that creates a namespace."""
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def padded(body: bytes, filler: int) -> bytes:
    """Return a pod with an additional annotation of about ``filler`` bytes."""
    if filler <= 0:
        return body
    return body.replace(b'"annotations":{', b'"annotations":{"example.com/filler":"%b",' % (b"x" * filler), 1)


async def spread(
    opened: Sequence[Connection], items: Iterable[T], work: Callable[[Connection, T], Awaitable[object]]
) -> None:
    """Process all items, one at a time on each connection."""
    todo = iter(items)

    async def worker(connection: Connection, rest: Iterator[T]) -> None:
        for item in rest:
            await work(connection, item)

    async with asyncio.TaskGroup() as group:
        for number, connection in enumerate(opened):
            group.create_task(worker(connection, todo), name=f"client {number}")
