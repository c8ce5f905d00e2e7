"""What following pods costs one process: ``python -m benchmarks.discovery_usage``.

* **Import**: CPU time of ``import aiokube.discovery`` with bytecode, and the resident memory after it.
* **Pods**: resident memory of a process that follows 5,000 pods of a real kube-apiserver (``KUBEBUILDER_ASSETS``).
* **Readers**: its CPU with 1 and with 200 readers at 50 changes per second, and how many states each reader received.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from aiokube.api.core import PODS
from aiokube.client.rest import STRATEGIC_MERGE_PATCH, Client
from aiokube.clock import SystemClock
from benchmarks.objects import Workload, readiness_body
from benchmarks.resident import populate
from benchmarks.sizes import Size
from benchmarks.table import aligned
from benchmarks.usage import Memory, Usage
from tinykube.testing.control_plane import ControlPlane

CLOCK = SystemClock()
_IMPORT = (
    "import time; start = time.process_time(); import aiokube.discovery; print(time.process_time() - start)"
)
_IMPORTS = 7
_STAMP = "2026-01-01T00:00:00Z"


class Followed(msgspec.Struct, frozen=True):
    """The resources of one process while it watched the pods."""

    pods: int
    readers: int
    memory: Memory
    anonymous_mib: float
    changes: int
    seconds: float
    cpu_seconds: float
    states_of_a_reader: float


def import_seconds() -> float:
    """Return the median CPU time of the import in a new process, with bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = [
        float(
            subprocess.run(
                [sys.executable, "-c", _IMPORT], env=environment, check=True, capture_output=True
            ).stdout
        )
        for _ in range(_IMPORTS + 1)
    ]
    return statistics.median(found[1:])  # the first one may compile


class Reader:
    """A process of :mod:`benchmarks.discovery_reader`."""

    def __init__(self, kubeconfig: Path, workload: Workload, readers: int) -> None:
        service = workload.services[0]
        module = "benchmarks.discovery_reader"
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                str(kubeconfig),
                service.namespace,
                f"app={service.name}",
                str(readers),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.usage = Usage(self._process.pid)
        self._expect_ready()

    def _expect_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"

    def report(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def anonymous_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) / 1024

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def reading(kubeconfig: Path, workload: Workload, readers: int) -> Iterator[Reader]:
    reader = Reader(kubeconfig, workload, readers)
    try:
        yield reader
    finally:
        reader.end()


async def change(client: Client, workload: Workload, per_second: float, seconds: float) -> int:
    """Change the readiness of one pod after the other; return how many changes were made."""
    begun = CLOCK.monotonic()
    done = 0
    while (now := CLOCK.monotonic() - begun) < seconds:
        if now * per_second < done:
            await CLOCK.sleep(done / per_second - now)
        pod = workload.pods[done // 2 * 37 % len(workload.pods)]
        path = PODS.path(pod.key.namespace, pod.key.name, "status")
        body = readiness_body(ready=done % 2 == 1, at=_STAMP)
        await client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)
        done += 1
    return done


async def follow(
    plane: ControlPlane, workload: Workload, readers: int, per_second: float, seconds: float
) -> Followed:
    async with Client.from_config(plane.client_config(), clock=CLOCK) as client:
        with reading(plane.kubeconfig_path, workload, readers) as reader:
            await CLOCK.sleep(1.0)
            memory, anonymous = reader.usage.memory(), reader.anonymous_mib()
            before, cpu = reader.report(), reader.usage.cpu_seconds()
            changes = await change(client, workload, per_second, seconds)
            await CLOCK.sleep(0.5)
            used, after = reader.usage.cpu_seconds() - cpu, reader.report()
    assert after["endpoints"] == workload.size.pods
    assert after["lists"] == 1
    return Followed(
        pods=workload.size.pods,
        readers=readers,
        memory=memory,
        anonymous_mib=anonymous,
        changes=changes,
        seconds=seconds,
        cpu_seconds=used,
        states_of_a_reader=(after["states"] - before["states"]) / readers,
    )


async def measure(
    plane: ControlPlane, pods: int, readers: list[int], per_second: float, seconds: float
) -> list[Followed]:
    workload = Workload(Size(1, pods))
    async with Client.from_config(plane.client_config(), clock=CLOCK, timeout_seconds=120) as client:
        await populate(workload, client)
    return [await follow(plane, workload, count, per_second, seconds) for count in readers]


def table(found: list[Followed]) -> str:
    lines = [
        (
            "readers",
            "pods",
            "MiB",
            "of them anonymous",
            "changes/s",
            "CPU",
            "CPU per change",
            "states of a reader",
        )
    ]
    lines += [
        (
            f"{each.readers}",
            f"{each.pods:,}",
            f"{each.memory.resident_mib:.1f}",
            f"{each.anonymous_mib:.1f}",
            f"{each.changes / each.seconds:.0f}",
            f"{100 * each.cpu_seconds / each.seconds:.0f} %",
            f"{1000 * each.cpu_seconds / each.changes:.2f} ms",
            f"{each.states_of_a_reader:.0f} of {each.changes}",
        )
        for each in found
    ]
    return "\n".join(aligned(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--readers", type=int, action="append")
    parser.add_argument("--per-second", type=float, default=50.0, help="changes")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    print(f"import aiokube.discovery: {import_seconds():.3f} s CPU")
    with ControlPlane() as plane:
        readers = arguments.readers or [1, 200]
        found = asyncio.run(measure(plane, arguments.pods, readers, arguments.per_second, arguments.seconds))
    print(table(found))


if __name__ == "__main__":
    main()
