"""Measure recovery from an outage: seconds until the slices are correct, and the requests sent during the outage.

Uses a real control plane (``KUBEBUILDER_ASSETS``), a faulty proxy (:mod:`benchmarks.faulty_proxy`), and controllers
behind it: those of this source tree, of other trees (``--source OLD``), and kube-controller-manager (``--upstream``).
Pods change readiness during the whole outage; the slices are read directly from the server::

    python -m benchmarks.outages --source ../old --upstream

Prints for each fault the seconds from the end of the fault until all slices are correct (half-open: from its start,
as new connections work immediately), and in brackets the requests during the outage and the most for one verb and
path. Requests on refused connections are counted from endpointd's log.
"""

import argparse
import json
import os
import re
import ssl
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiokube.clock import SystemClock
from benchmarks.faulty_proxy import Fault, FaultyProxy
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig
from tinykube.testing.processes import ChildProcess

CLOCK = SystemClock()
SERVICES = 20
PODS_OF_SERVICE = 2
NAMESPACE = "outages"
CONTROLLERS = ("endpoints-controller", "endpointslice-controller")
LONGEST_SECONDS = 420.0
AWAY_SECONDS = 15.0

_REQUEST = re.compile(r'request: verb="?(\w+)"? path="?([^\s"?]+)')
_REQUEST_KLOG = re.compile(r'"request" verb="(\w+)" path="([^"?]+)')


class Result(NamedTuple):
    """Result of one outage."""

    seconds: float
    requests: int
    most_by_one: int


class Cluster:
    """Services whose pods change readiness, and their expected state."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tls = ssl.create_default_context(cadata=plane.certificate_authority.decode())
        self._ready = False

    def create(self) -> None:
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        for service in range(SERVICES):
            name = f"web-{service}"
            self._send(
                "POST",
                f"/api/v1/namespaces/{NAMESPACE}/services",
                {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}},
            )
            for pod in range(PODS_OF_SERVICE):
                container = {"name": "c", "image": "registry.invalid/none"}
                body = {
                    "metadata": {"name": f"{name}-{pod}", "labels": {"app": name}},
                    "spec": {"nodeName": "n1", "containers": [container]},
                }
                self._send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
        self.flip()

    def flip(self) -> None:
        """Toggle the readiness of every pod."""
        self._ready = not self._ready
        for service in range(SERVICES):
            for pod in range(PODS_OF_SERVICE):
                ip = f"10.77.{service}.{pod + 1}"
                status = {
                    "phase": "Running",
                    "podIP": ip,
                    "podIPs": [{"ip": ip}],
                    "conditions": [{"type": "Ready", "status": "True" if self._ready else "False"}],
                }
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/web-{service}-{pod}/status"
                self._send("PATCH", path, {"status": status})

    def is_right(self) -> bool:
        slices = self._send("GET", f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
        ready = [
            endpoint["conditions"]["ready"]
            for item in slices["items"]
            for endpoint in item.get("endpoints") or ()
        ]
        return ready == [self._ready] * (SERVICES * PODS_OF_SERVICE)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self._plane.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._plane.admin_token}",
                "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
            return json.loads(answer.read())


class Controllers:
    """Controllers that reach the server through the proxy."""

    def __init__(self, name: str, child: ChildProcess, proxy: FaultyProxy) -> None:
        self.name = name
        self.child = child
        self._proxy = proxy

    def requests(self) -> Counter[str]:
        """Return the requests so far by verb and path, from the proxy or the log, whichever counted more."""
        logged: Counter[str] = Counter()
        log = self.child.log()
        for verb, path in (*_REQUEST.findall(log), *_REQUEST_KLOG.findall(log)):
            logged[f"{verb} {path}"] += 1
        return logged | self._proxy.requests


def wait_right(cluster: Cluster, since: float) -> float:
    """Return the seconds from ``since`` until the slices were correct and remained so for a while."""
    while True:
        right_at = CLOCK.monotonic()
        if cluster.is_right():
            return right_at - since
        if right_at - since > LONGEST_SECONDS:
            return float("inf")
        _pause(0.02)


def through_proxy(fault: Fault, seconds: float = 10.0) -> Callable[..., Result]:
    def measure(
        plane: ControlPlane, cluster: Cluster, proxy: FaultyProxy, controllers: Controllers
    ) -> Result:
        before = controllers.requests()
        proxy.begin(fault)
        keep_flipping(cluster, seconds)
        used = controllers.requests() - before
        ended = CLOCK.monotonic()
        proxy.end()
        return Result(wait_right(cluster, ended), *_counted(used))

    return measure


def away(plane: ControlPlane, cluster: Cluster, proxy: FaultyProxy, controllers: Controllers) -> Result:
    before = controllers.requests()
    cluster.flip()
    plane.stop_apiserver()
    _pause(AWAY_SECONDS)
    used = controllers.requests() - before
    plane.start_apiserver()
    return Result(wait_right(cluster, CLOCK.monotonic()), *_counted(used))


def half_open(settle_seconds: float) -> Callable[..., Result]:
    def measure(
        plane: ControlPlane, cluster: Cluster, proxy: FaultyProxy, controllers: Controllers
    ) -> Result:
        _pause(settle_seconds)
        before = controllers.requests()
        began = CLOCK.monotonic()
        proxy.abandon()
        cluster.flip()
        seconds = wait_right(cluster, began)
        return Result(seconds, *_counted(controllers.requests() - before))

    return measure


def keep_flipping(cluster: Cluster, seconds: float) -> None:
    ends = CLOCK.monotonic() + seconds
    while CLOCK.monotonic() < ends - 2:
        cluster.flip()
        _pause(max(0.0, min(1.0, ends - 2 - CLOCK.monotonic())))
    if cluster.is_right():
        cluster.flip()
    _pause(max(0.0, ends - CLOCK.monotonic()))


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _counted(used: Counter[str]) -> tuple[int, int]:
    return used.total(), max(used.values(), default=0)


FAULTS: dict[str, Callable[..., Result]] = {
    "refused 10 s": through_proxy("refused"),
    "reset 10 s": through_proxy("reset"),
    "torn mid-line 10 s": through_proxy("torn"),
    "stalled 10 s": through_proxy("stalled"),
    "429 10 s": through_proxy("429"),
    "503 10 s": through_proxy("503"),
    "refused 60 s": through_proxy("refused", 60.0),
    "API server away 15 s": away,
    "half-open behind a live proxy": half_open(5.0),
}


def start(name: str, plane: ControlPlane, proxy: FaultyProxy, source: Path | None) -> Controllers:
    kubeconfig = write_kubeconfig(
        plane.directory / f"{name}.kubeconfig",
        server=proxy.url,
        certificate_authority=proxy.certificate_authority,
        token=plane.admin_token,
    )
    if source is None:
        child = plane.start_controller_manager(CONTROLLERS, flags=[f"--kubeconfig={kubeconfig}"], name=name)
        return Controllers(name, child, proxy)
    command = [
        sys.executable,
        "-m",
        "endpointd",
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        "-v",
        "6",
    ]
    child = plane.start_child(
        name, command, environment={"PYTHONPATH": _python_path(source), "HOME": str(plane.directory)}
    )
    return Controllers(name, child, proxy)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--source", type=Path, action="append", default=[], help="another source tree to measure"
    )
    parser.add_argument("--upstream", action="store_true", help="measure kube-controller-manager, too")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="measure this fault only")
    parser.add_argument(
        "--quiet", type=float, help="only count what a cluster at rest sees, over so many seconds"
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--log", type=Path, help="append the controllers' logs to this file")
    arguments = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    sides: list[Path | None] = [*(path.resolve() for path in arguments.source), here]
    if arguments.upstream:
        sides.append(None)
    faults = arguments.fault or [*FAULTS]
    if not arguments.quiet:
        print(f"{'fault':32}" + "".join(f"{_label(side, here):>34}" for side in sides))
    table: dict[str, list[list[Result]]] = {fault: [] for fault in faults}
    for number, side in enumerate(sides):
        with ControlPlane() as plane:
            cluster = Cluster(plane)
            cluster.create()
            proxy = FaultyProxy(plane.url, plane.certificate_authority, plane.directory)
            controllers = start(f"side-{number}", plane, proxy, side)
            try:
                if arguments.quiet:
                    print(f"{_label(side, here)}: {_quiet(cluster, proxy, arguments.quiet)}", flush=True)
                    continue
                for fault in faults:
                    results = []
                    for _ in range(arguments.runs):
                        wait_right(cluster, CLOCK.monotonic())
                        _pause(2.0)
                        results.append(FAULTS[fault](plane, cluster, proxy, controllers))
                        print(f"# {_label(side, here)}: {fault}: {results[-1]}", file=sys.stderr, flush=True)
                    table[fault].append(results)
            finally:
                if arguments.log is not None:
                    with arguments.log.open("a") as log:
                        log.write(controllers.child.log())
                proxy.close()
    for fault in () if arguments.quiet else faults:
        cells = [_cell(results) for results in table[fault]]
        print(f"{fault:32}" + "".join(f"{cell:>34}" for cell in cells))


def _quiet(cluster: Cluster, proxy: FaultyProxy, seconds: float) -> str:
    wait_right(cluster, CLOCK.monotonic())
    _pause(60.0)
    connections, requests = proxy.connections, proxy.requests.total()
    _pause(seconds)
    return (
        f"{proxy.connections - connections} new connections and {proxy.requests.total() - requests} requests "
        f"in {seconds:g} s without a change"
    )


def _cell(results: list[Result]) -> str:
    seconds = " ".join(
        f"{result.seconds:.1f}" if result.seconds < LONGEST_SECONDS else f">{LONGEST_SECONDS:.0f}"
        for result in results
    )
    requests = max(result.requests for result in results)
    return f"{seconds} ({requests}, {max(result.most_by_one for result in results)})"


def _python_path(tree: Path) -> str:
    return os.pathsep.join(str(tree / package / "src") for package in ("aiokube", "endpointd"))


def _label(side: Path | None, here: Path) -> str:
    if side is None:
        return "kube-controller-manager"
    return "this tree" if side == here else side.name


if __name__ == "__main__":
    main()
