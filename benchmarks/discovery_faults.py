"""How long clients that follow pods are wrong during and after faults: ``python -m benchmarks.discovery_faults``.

A real control plane (``KUBEBUILDER_ASSETS``), and a faulty proxy for each client
(:mod:`benchmarks.faulty_proxy`). All clients (:mod:`benchmarks.discovery_clients`) meet the same faults at the same
time, each fault in new processes; kr8s and the official client come from the dependency group ``rivals``.

For each fault and client: the seconds in which the usable pods were not those of the API server, the attempts to
connect or requests during the fault, and the resident memory. Seconds count from the change, or from the moment at which the
server could be reached again, whichever is later; a client that is still wrong after a minute is given up.
"""

import argparse
import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiokube.clock import SystemClock
from benchmarks.admin_api import AdminApi
from benchmarks.discovery_clients import CLIENTS, NAMESPACE
from benchmarks.faulty_proxy import FaultyProxy
from benchmarks.usage import Usage
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig

CLOCK = SystemClock()
PODS = 50
LOST_NODE_PODS = 10
CUT_SECONDS = 3.0
BEHIND_SECONDS = 10.0
REFUSED_SECONDS = 60.0
GRACE_SECONDS = 10.0
GIVE_UP_SECONDS = 60.0
START_SECONDS = 120.0

State = frozenset[tuple[str, str]]


class Moment(NamedTuple):
    """The usable pods from one moment on."""

    at: float
    usable: State


class Cell(msgspec.Struct, frozen=True):
    """The result of one client with one fault."""

    fault: str
    client: str
    wrong_seconds: float
    recovered: bool
    attempts: int
    mebibytes: float
    counted_seconds: float
    """How long attempts were counted."""


class Pods:
    """The pods of one fault, and which of them are usable since when."""

    def __init__(self, api: AdminApi, run: str) -> None:
        self._api = api
        self.selector = f"run={run}"
        self._run = run
        self._path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self._usable: dict[str, str] = {}
        self.history: list[Moment] = []

    def create(self) -> None:
        for number in range(PODS):
            self.add(self.name(number), self.ip(number), "node-2" if number < LOST_NODE_PODS else "node-1")

    def name(self, number: int) -> str:
        return f"{self._run}-{number}"

    def ip(self, number: int) -> str:
        return f"10.1.0.{number + 1}"

    def add(self, name: str, ip: str, node: str = "node-1") -> None:
        container = {"name": "main", "image": "registry.invalid/none"}
        metadata = {"name": name, "labels": {"run": self._run}}
        self._api.send(
            "POST", self._path, {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}
        )
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "none",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
            ],
        }
        self._api.send("PATCH", f"{self._path}/{name}/status", {"status": status})
        self._usable[name] = ip
        self._note()

    def delete(self, name: str, *, grace_seconds: int = 0) -> None:
        """Delete a pod; with a grace period it stays, terminating, because no kubelet removes it."""
        self._api.send("DELETE", f"{self._path}/{name}", {"gracePeriodSeconds": grace_seconds})
        self._drop(name)

    def evict(self, name: str) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }
        self._api.send("POST", f"{self._path}/{name}/eviction", body)
        self._drop(name)

    def relabel(self, name: str) -> None:
        self._api.send("PATCH", f"{self._path}/{name}", {"metadata": {"labels": {"run": "another"}}})
        self._drop(name)

    def lose_contact(self, name: str) -> None:
        """Write the conditions that the node lifecycle controller writes for pods of a silent node."""
        condition = {"type": "Ready", "status": "False"}
        self._api.send("PATCH", f"{self._path}/{name}/status", {"status": {"conditions": [condition]}})
        self._drop(name)

    def return_to(self, usable: State) -> None:
        """Note that the API server has an older state again."""
        self._usable = dict(usable)
        self._note()

    def version(self) -> int:
        return int(self._api.send("GET", self._path)["metadata"]["resourceVersion"])

    def _drop(self, name: str) -> None:
        if self._usable.pop(name, None) is not None:
            self._note()

    def _note(self) -> None:
        self.history.append(Moment(CLOCK.monotonic(), frozenset(self._usable.items())))

    @property
    def usable(self) -> State:
        return frozenset(self._usable.items())


class Follower:
    """One client process behind its own proxy."""

    def __init__(
        self, client: str, plane: ControlPlane, proxy: FaultyProxy, selector: str, number: str
    ) -> None:
        self.client = client
        self._proxy = proxy
        kubeconfig = write_kubeconfig(
            plane.directory / f"follower-{number}.kubeconfig",
            server=proxy.url,
            certificate_authority=proxy.certificate_authority,
            token=plane.admin_token,
        )
        self._log_path = plane.directory / f"follower-{number}.log"
        self._log = self._log_path.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.discovery_clients", client, str(kubeconfig), selector],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.history: list[Moment] = []
        self._connects: queue.Queue[int] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"read {client}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            if "connects" in found:
                self._connects.put(found["connects"])
            else:
                self.history.append(Moment(found["at"], frozenset(map(tuple, found["usable"]))))

    def counts(self) -> tuple[int, int]:
        """Return the connections that it tried to open, and its requests."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return self._connects.get(timeout=30), self._proxy.requests.total()

    def mebibytes(self) -> float:
        return Usage(self._process.pid).memory().resident_mib

    def is_right(self, usable: State) -> bool:
        return bool(self.history) and self.history[-1].usable == usable

    def trouble(self) -> str:
        """Return what there is to know of a client that is not right."""
        seen = len(self.history[-1].usable) if self.history else "no"
        log = self._log_path.read_text(errors="replace")[-2000:]
        return f"{self.client} has {seen} pods, exit code {self._process.poll()}, log: {log}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()


class Scene:
    """One fault on stage: the pods, the clients that follow them, and the proxies between them."""

    def __init__(self, plane: ControlPlane, pods: Pods, proxies: Sequence[FaultyProxy], store: Path) -> None:
        self.plane = plane
        self.pods = pods
        self.proxies = proxies
        self.store = store
        """Where the older store is kept."""

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Refuse all connections."""
        for proxy in self.proxies:
            proxy.begin("refused")
        yield
        for proxy in self.proxies:
            proxy.end()

    @property
    def first(self) -> str:
        return self.pods.name(PODS - 1)


def deleted_lost(scene: Scene) -> float:
    with scene.cut():
        scene.pods.delete(scene.first)
        pause(CUT_SECONDS)
    return CLOCK.monotonic()


def expired(scene: Scene) -> float:
    with scene.cut():
        scene.pods.delete(scene.first)
        for proxy in scene.proxies:
            proxy.expire(scene.pods.version() - 1)
        pause(CUT_SECONDS)
    return CLOCK.monotonic()


def behind(scene: Scene) -> float:
    with scene.cut():
        scene.pods.delete(scene.first)
        for proxy in scene.proxies:
            proxy.fall_behind(True)
        pause(CUT_SECONDS)
    returned = CLOCK.monotonic()
    pause(BEHIND_SECONDS)
    for proxy in scene.proxies:
        proxy.fall_behind(False)
    return returned


def refused(scene: Scene) -> float:
    with scene.cut():
        scene.pods.delete(scene.first)
        pause(REFUSED_SECONDS)
    return CLOCK.monotonic()


def silent(scene: Scene) -> float:
    for proxy in scene.proxies:
        proxy.abandon()
    scene.pods.delete(scene.first)
    return CLOCK.monotonic()


def older_store(scene: Scene) -> float:
    before = scene.pods.usable
    scene.pods.delete(scene.first)
    scene.pods.add(scene.pods.name(PODS), scene.pods.ip(PODS))
    pause(CUT_SECONDS)
    scene.plane.restore_store(scene.store)
    scene.pods.return_to(before)
    return CLOCK.monotonic()


def label_change(scene: Scene) -> float:
    scene.pods.relabel(scene.first)
    return CLOCK.monotonic()


def ip_reuse(scene: Scene) -> float:
    with scene.cut():
        scene.pods.delete(scene.first)
        scene.pods.add(scene.pods.name(PODS), scene.pods.ip(PODS - 1))
        pause(CUT_SECONDS)
    return CLOCK.monotonic()


def eviction(scene: Scene) -> float:
    scene.pods.evict(scene.first)
    evicted = CLOCK.monotonic()
    pause(GRACE_SECONDS)
    scene.pods.delete(scene.first)
    return evicted


def lost_node(scene: Scene) -> float:
    lost = CLOCK.monotonic()
    names = [scene.pods.name(number) for number in range(LOST_NODE_PODS)]
    for name in names:
        scene.pods.lose_contact(name)
    pause(GRACE_SECONDS)
    for name in names:
        scene.pods.delete(name, grace_seconds=30)
    return lost


FAULTS: dict[str, Callable[[Scene], float]] = {
    "DELETED lost at a reconnect": deleted_lost,
    "410 after a reconnect": expired,
    "504 too large resource version, 10 s": behind,
    "refused for 60 s": refused,
    "silent connection": silent,
    "label change ends the match": label_change,
    "IP reused during a reconnect": ip_reuse,
    "eviction, gone after 10 s": eviction,
    "lost node": lost_node,
    "API server back with an older store": older_store,
}


def wrong_seconds(truth: Sequence[Moment], seen: Sequence[Moment], start: float, end: float) -> float:
    """Return how long what a client showed differed from the truth between two moments."""
    moments = sorted({start, end, *(each.at for each in (*truth, *seen) if start < each.at < end)})
    return sum(
        until - at for at, until in itertools.pairwise(moments) if _state_at(truth, at) != _state_at(seen, at)
    )


def _state_at(history: Sequence[Moment], at: float) -> State:
    return next((each.usable for each in reversed(history) if each.at <= at), frozenset())


def play(fault: str, clients: Sequence[str], plane: ControlPlane, number: int) -> list[Cell]:
    """Let the clients meet one fault. Raises TimeoutError if one is not right before it."""
    api = AdminApi(plane.url, plane.certificate_authority, plane.admin_token)
    pods = Pods(api, f"run{number}")
    pods.create()
    store = plane.directory / f"store-{number}"
    if FAULTS[fault] is older_store:
        plane.save_store(store)
    proxies: list[FaultyProxy] = []
    followers: list[Follower] = []
    try:
        for index, client in enumerate(clients):
            folder = plane.directory / f"proxy-{number}-{index}"
            folder.mkdir()
            proxies.append(FaultyProxy(plane.url, plane.certificate_authority, folder))
            followers.append(Follower(client, plane, proxies[-1], pods.selector, f"{number}-{index}"))
        deadline = CLOCK.monotonic() + START_SECONDS
        while not all(each.is_right(pods.usable) for each in followers):
            if CLOCK.monotonic() > deadline:
                slow = [each.trouble() for each in followers if not each.is_right(pods.usable)]
                raise TimeoutError(f"not right before the fault {fault!r}: {'; '.join(slow)}")
            pause(0.05)
        pause(1.0)
        before = [each.counts() for each in followers]
        began = CLOCK.monotonic()
        start = FAULTS[fault](scene := Scene(plane, pods, proxies, store))
        deadline = CLOCK.monotonic() + GIVE_UP_SECONDS
        while CLOCK.monotonic() < deadline and not all(
            each.is_right(scene.pods.usable) for each in followers
        ):
            pause(0.05)
        pause(2.0)
        end = CLOCK.monotonic()
        return [
            Cell(
                fault=fault,
                client=each.client,
                wrong_seconds=wrong_seconds(pods.history, each.history, start, end),
                recovered=each.is_right(pods.usable),
                attempts=max(now - then for now, then in zip(each.counts(), used, strict=True)),
                mebibytes=each.mebibytes(),
                counted_seconds=end - began,
            )
            for each, used in zip(followers, before, strict=True)
        ]
    finally:
        for each in followers:
            each.end()
        for proxy in proxies:
            proxy.close()


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def markdown(cells: Sequence[Cell]) -> str:
    """Return the table: a row for each fault, a column for each client."""
    clients = list(dict.fromkeys(each.client for each in cells))
    lines = [["fault", *clients], ["---", *(["---:"] * len(clients))]]
    by_place = {(each.fault, each.client): each for each in cells}
    lines += [
        [fault, *(_cell(by_place[fault, client]) for client in clients)]
        for fault in dict.fromkeys(each.fault for each in cells)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell) -> str:
    seconds = f"{cell.wrong_seconds:.1f} s" if cell.recovered else f"**>{cell.wrong_seconds:.0f} s**"
    return f"{seconds} · {cell.attempts:,} · {cell.mebibytes:.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="this fault only")
    parser.add_argument("--client", action="append", choices=[*CLIENTS], help="this client only")
    parser.add_argument("-o", "--output", type=Path, help="write the figures there as JSON, too")
    arguments = parser.parse_args()
    cells: list[Cell] = []
    with ControlPlane() as plane:
        api = AdminApi(plane.url, plane.certificate_authority, plane.admin_token)
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for number, fault in enumerate(arguments.fault or FAULTS):
            found = play(fault, arguments.client or [*CLIENTS], plane, number)
            for cell in found:
                print(f"# {cell}", file=sys.stderr, flush=True)
            cells += found
    print(markdown(cells))
    if arguments.output is not None:
        arguments.output.write_bytes(msgspec.json.format(msgspec.json.encode(cells)) + b"\n")


if __name__ == "__main__":
    main()
