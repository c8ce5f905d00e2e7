"""Attacks on our programs over loopback, with measurements: ``python -m benchmarks.attacks NAME``.

Each starts the real program as a child process, attacks it, and prints one line. docs/security.md lists the limits.
"""

import asyncio
import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from aiokube.clock import SystemClock

CLOCK = SystemClock()
PROBES = 100
PROBE_TIMEOUT_SECONDS = 1.0
START_SECONDS = 30.0


class Server(NamedTuple):
    """A tinykube process."""

    pid: int
    host: str
    port: int
    tls: ssl.SSLContext
    token: str
    kubeconfig: Path


def resident_mib(pid: int, field: str = "VmRSS") -> float:
    """Return what a process holds (VmRSS), or has held at most (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {field} of process {pid}")


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a program of this installation until the block ends."""
    with tempfile.TemporaryFile() as log:
        started = subprocess.Popen(  # noqa: ASYNC220 - it returns immediately
            [sys.executable, "-m", *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            yield started
        finally:
            started.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(started.wait, 10)
            except subprocess.TimeoutExpired:
                started.kill()
            size = log.seek(0, os.SEEK_END)
            print(f"  log of {command[0]}: {size} bytes", file=sys.stderr)
            if started.returncode not in (0, -15) or size > 10_000:
                log.seek(max(size - 2000, 0))
                print(log.read().decode(errors="replace"), file=sys.stderr)


@asynccontextmanager
async def tinykube(folder: Path, *arguments: str) -> AsyncIterator[Server]:
    """Run ``tinykube serve``."""
    path = folder / "kubeconfig"
    async with process("tinykube", "serve", f"--kubeconfig-out={path}", *arguments) as started:
        async with asyncio.timeout(START_SECONDS):
            while not path.exists() or not path.stat().st_size:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        url = urllib.parse.urlsplit(cluster["server"])
        tls = ssl.create_default_context(cadata=authority)
        yield Server(started.pid, url.hostname or "", url.port or 443, tls, user["token"], path)


async def free_port() -> int:
    """Return a port that nothing listens on."""
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def http(
    host: str, port: int, head: str, body: bytes = b"", tls: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Send one request; return the code and the body as it came."""
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        writer.write(
            f"{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n".encode()
        )
        writer.write(b"\r\n" + body)
        answer = await reader.read()
    finally:
        writer.close()
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


async def call(server: Server, method: str, path: str, document: Any = None) -> tuple[int, bytes]:
    """Send a request with the token."""
    body = b"" if document is None else json.dumps(document).encode()
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.tls)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


async def probes(port: int, count: int = PROBES) -> tuple[int, float]:
    """Probe as the kubelet does, ten times a second; return how many were answered with 200, and the slowest."""
    answered, slowest = 0, 0.0
    for _ in range(count):
        began = CLOCK.monotonic()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                code, _ = await http("127.0.0.1", port, "GET /livez")
            answered += code == 200
        except (OSError, TimeoutError, IndexError):
            pass
        took = CLOCK.monotonic() - began
        slowest = max(slowest, took)
        await asyncio.sleep(max(0.1 - took, 0.0))
    return answered, slowest


async def bare_connections(port: int, per_second: int, burst: int) -> None:
    """Open connections in bursts and leave them; only the newest thousand are kept open here."""
    kept: list[asyncio.StreamWriter] = []
    while True:
        for _ in range(burst):
            with suppress(OSError):
                kept.append((await asyncio.open_connection("127.0.0.1", port))[1])
        while len(kept) > 1000:
            kept.pop(0).transport.abort()
        await asyncio.sleep(burst / per_second)


async def scrapes(port: int, _per_second: int, at_once: int) -> None:
    """Scrape metrics continuously on several connections."""

    async def scrape() -> None:
        while True:
            with suppress(OSError, IndexError):
                await http("127.0.0.1", port, "GET /metrics")

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(scrape(), name=f"scrape-{number}")


Load = Callable[[int, int, int], Coroutine[Any, Any, None]]


async def attack_probes(
    load: Load, per_second: int, burst: int, *, own_listener: bool, on_health: bool
) -> str:
    """Probe ``endpointd run`` while a listener of it is under load."""
    with tempfile.TemporaryDirectory() as name:
        async with tinykube(Path(name)) as server:
            metrics = await free_port()
            health = await free_port() if own_listener else metrics
            flags = [f"--metrics-bind-address=127.0.0.1:{metrics}"]
            if own_listener:
                flags.append(f"--healthz-bind-address=127.0.0.1:{health}")
            async with process(
                "endpointd", "run", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", *flags
            ) as run:
                await _answering(health)
                async with asyncio.TaskGroup() as group:
                    target = health if on_health else metrics
                    attacker = group.create_task(load(target, per_second, burst), name="attacker")
                    await asyncio.sleep(1.0)
                    before = _cpu_seconds(run.pid), CLOCK.monotonic()
                    answered, slowest = await probes(health)
                    cpu = (_cpu_seconds(run.pid) - before[0]) / (CLOCK.monotonic() - before[1])
                    attacker.cancel()
    return f"{answered} of {PROBES} probes answered in {PROBE_TIMEOUT_SECONDS:g} s, slowest {slowest:.3f} s, CPU {cpu:.0%}"


async def _answering(port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(OSError, IndexError):
                if (await http("127.0.0.1", port, "GET /livez"))[0] == 200:
                    return
            await asyncio.sleep(0.1)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def attack_unread(kind: str, readers: int, seconds: float) -> str:
    """Ask ``tinykube serve`` for large lists or watches on many connections and read none of the answers."""
    with tempfile.TemporaryDirectory() as name:
        async with tinykube(Path(name)) as server:
            maps = "/api/v1/namespaces/default/configmaps"
            padding = "x" * 900_000
            for number in range(60):
                document = {"metadata": {"name": f"large-{number}"}, "data": {"text": f"{number}{padding}"}}
                code, _ = await call(server, "POST", maps, document)
                if code != 201:
                    raise RuntimeError(f"create answered {code}")
            before = resident_mib(server.pid)
            query = "" if kind == "lists" else "?watch=true&resourceVersion=0"
            if kind == "tables":
                query = "?includeObject=Object"
            accept = (
                "application/json;as=Table;g=meta.k8s.io;v=v1" if kind == "tables" else "application/json"
            )
            unread = []
            for _ in range(readers):
                reader, writer = await asyncio.open_connection(
                    server.host, server.port, ssl=server.tls, limit=1024
                )
                writer.write(
                    f"GET {maps}{query} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n"
                    f"Authorization: Bearer {server.token}\r\n\r\n".encode()
                )
                unread.append((reader, writer))
            answered, slowest, deadline = 0, 0.0, CLOCK.monotonic() + seconds
            asked = 0
            while CLOCK.monotonic() < deadline:
                began = CLOCK.monotonic()
                asked += 1
                with suppress(OSError, TimeoutError, IndexError):
                    async with asyncio.timeout(2.0):
                        answered += (await call(server, "GET", "/livez"))[0] == 200
                slowest = max(slowest, CLOCK.monotonic() - began)
                if kind == "watches" and asked % 2:
                    patch = {"metadata": {"name": "large-0"}, "data": {"text": f"{asked}{padding}"}}
                    await call(server, "PUT", f"{maps}/large-0", patch)
                await asyncio.sleep(0.2)
            after, most = resident_mib(server.pid), resident_mib(server.pid, "VmHWM")
            for _, writer in unread:
                writer.transport.abort()
    return (
        f"{readers} unread {kind} of 54 MB: {before:.0f} MiB before, {after:.0f} MiB held, {most:.0f} MiB at most; "
        f"{answered} of {asked} probes answered, slowest {slowest:.2f} s"
    )


@click.group()
def main() -> None:
    """Attack a program on loopback and print what held."""


@main.command()
@click.option("--per-second", default=150)
@click.option("--burst", default=40)
@click.option(
    "--own-listener/--shared-listener", default=True, help="Whether health has a separate listener."
)
@click.option("--on-health/--on-metrics", default=True, help="Which listener is attacked.")
def trickle(per_second: int, burst: int, own_listener: bool, on_health: bool) -> None:
    """Probe endpointd while bare connections are opened in bursts."""
    print(
        asyncio.run(
            attack_probes(bare_connections, per_second, burst, own_listener=own_listener, on_health=on_health)
        )
    )


@main.command()
@click.option("--at-once", default=32)
@click.option(
    "--own-listener/--shared-listener", default=True, help="Whether health has a separate listener."
)
def scrape(at_once: int, own_listener: bool) -> None:
    """Probe endpointd while its metrics are asked for without a pause."""
    print(asyncio.run(attack_probes(scrapes, 0, at_once, own_listener=own_listener, on_health=False)))


@main.command()
@click.argument("kind", type=click.Choice(["lists", "tables", "watches"]))
@click.option("--readers", default=20)
@click.option("--seconds", default=10.0)
def unread(kind: str, readers: int, seconds: float) -> None:
    """Ask tinykube for large answers and read none of them."""
    print(asyncio.run(attack_unread(kind, readers, seconds)))


if __name__ == "__main__":
    main()
