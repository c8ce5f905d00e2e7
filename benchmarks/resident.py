"""Measure the resident memory of ``endpointd run`` against a control plane with many pods: kube-apiserver or tinykube."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.client.load_config import load_config
from aiokube.client.rest import STRATEGIC_MERGE_PATCH, Client
from aiokube.clock import Clock
from benchmarks.objects import BenchmarkPod, Workload, node_documents, service_body, status_body
from benchmarks.sizes import Size
from benchmarks.usage import Memory, Usage
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

T = TypeVar("T")

_AT_ONCE = 48
_IDLE_SECONDS = 2.0
_IDLE_CPU_SECONDS = 0.03
_POLL_SECONDS = 0.5
_READY_SECONDS = 60.0
_LONGEST_SECONDS = 600.0
_LONGEST_REQUEST_SECONDS = 120.0


class Resident(msgspec.Struct, frozen=True):
    """Memory of one process after everything was published and the process was idle."""

    size: Size
    server: str
    memory: Memory
    cpu_seconds: float


def measure_resident(size: Size, assets: Path | None, clock: Clock) -> Resident:
    """Populate a new server (kube-apiserver if ``assets`` is given), start endpointd, and return its memory at rest.

    Raises ProcessError, UsageError, TimeoutError or client errors; by then all processes have ended.
    """
    with _server(assets, clock) as kubeconfig:
        return asyncio.run(_measure(size, kubeconfig, "embedded" if assets is None else "real", clock))


def bytes_per_pod(found: Sequence[Resident]) -> float:
    """Return the slope from the smallest to the largest size, in bytes. Raises ValueError for less than two sizes."""
    ordered = sorted(found, key=lambda one: one.size.pods)
    if not ordered or ordered[0].size.pods == ordered[-1].size.pods:
        raise ValueError("a slope needs two sizes")
    first, last = ordered[0], ordered[-1]
    return (last.memory.resident_mib - first.memory.resident_mib) * 2**20 / (last.size.pods - first.size.pods)


@contextmanager
def _server(assets: Path | None, clock: Clock) -> Iterator[Path]:
    if assets is not None:
        with ControlPlane(assets, clock=clock) as plane:
            yield plane.kubeconfig_path
        return
    with tempfile.TemporaryDirectory(prefix="endpointd-memory-") as name:
        folder = Path(name)
        kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "endpointd", "serve", f"--data-dir={folder / 'data'}"]
        with ChildProcess(
            "serve",
            [*command, f"--kubeconfig-out={kubeconfig}"],
            log_path=folder / "log",
            directory=Path.cwd(),
            clock=clock,
        ) as child:
            child.wait_until(kubeconfig.exists, what="writing its kubeconfig", timeout_seconds=_READY_SECONDS)
            yield kubeconfig


async def _measure(size: Size, kubeconfig: Path, server: str, clock: Clock) -> Resident:
    config = load_config(str(kubeconfig), "", clock=clock)
    client = Client.from_config(config, clock=clock, timeout_seconds=_LONGEST_REQUEST_SECONDS)
    async with client:
        await populate(Workload(size), client)
        command = [
            sys.executable,
            "-m",
            "endpointd",
            "run",
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
        ]
        log_path = kubeconfig.parent / "memory-run.log"
        with ChildProcess("run", command, log_path=log_path, directory=Path.cwd(), clock=clock) as child:
            usage = Usage(child.pid)
            async with asyncio.timeout(_LONGEST_SECONDS):
                while await _published(client) < size.pods:
                    await clock.sleep(_POLL_SECONDS)
                await _until_idle(usage, clock)
            return Resident(size, server, usage.memory(), usage.cpu_seconds())


async def _until_idle(usage: Usage, clock: Clock) -> None:
    while True:
        before = usage.cpu_seconds()
        await clock.sleep(_IDLE_SECONDS)
        if usage.cpu_seconds() - before < _IDLE_CPU_SECONDS:
            return


async def _published(client: Client) -> int:
    page = await client.list_page(ENDPOINT_SLICES)
    return sum(len(piece.endpoints or ()) for piece in page.items)


async def populate(workload: Workload, client: Client) -> None:
    """Create nodes, namespaces, services and pods, all ready."""
    for namespace in workload.namespaces:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))

    async def node(documents: tuple[str, bytes, bytes]) -> None:
        name, body, status = documents
        await client.request("POST", NODES.path(), body=body)
        await _patch(client, NODES.path("", name, "status"), status)

    async def pod(one: BenchmarkPod) -> None:
        await client.request("POST", PODS.path(one.key.namespace), body=workload.pod_body(one))
        await _patch(client, PODS.path(one.key.namespace, one.key.name, "status"), status_body(one))

    await _at_once(list(node_documents()), node)
    await _at_once(
        workload.services,
        lambda key: client.request("POST", SERVICES.path(key.namespace), body=service_body(key)),
    )
    await _at_once(workload.pods, pod)


async def _patch(client: Client, path: str, body: bytes) -> None:
    await client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)


async def _at_once(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    todo = iter(items)

    async def worker() -> None:
        for item in todo:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(worker(), name=f"load {number}")
