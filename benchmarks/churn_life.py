"""Simulate hours of a busy cluster, including the whole program, in minutes: virtual time and a seed.

Twenty changes a second: pods become unready and recover, are deleted and replaced; services roll out new versions;
namespaces and nodes come and go; services with and without selectors; manual edits; failed writes; broken watches
and relists. Between two chapters the cluster comes to rest, so that memory can be compared.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import cast

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES, Node, Service
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.rest import Client
from aiokube.testing.builders import address_number
from aiokube.testing.virtual_time import FakeClock, run_virtual
from benchmarks.churn_server import ChurnServer
from benchmarks.footprint import Footprint, footprint
from endpointd.cli.assembly import Assembly
from endpointd.cli.assembly_parts import Observability
from endpointd.cli.run_settings import RunSettings
from endpointd.cli.serving_address import BindAddress, open_listener
from endpointd.cli.serving_secrets import ServingFiles, ServingSecrets
from endpointd.controllers.endpoints import controller as endpoints
from endpointd.controllers.endpointslice import controller as slices
from endpointd.controllers.mirroring import controller as mirroring

NAMESPACE = "shop"
CHANGES_PER_SECOND = 20
_REST_SECONDS = 240.0
"""Longer than bookmarks need to remove every tombstone, and longer than the longest backoff."""
_SICK_AT_ONCE = 20
_VISITOR_SECONDS = 30


class Chapter(msgspec.Struct, frozen=True):
    """Memory and containers at the end of a chapter, at rest."""

    minutes: float
    """Minutes of changes so far."""
    changes: int
    writes: int
    lists: int
    """Lists sent since the start."""
    held: Footprint


class LifeSettings(msgspec.Struct, frozen=True):
    """Length and size of a run: ``sizes`` are the numbers of pods per service."""

    sizes: tuple[int, ...]
    chapter_minutes: tuple[float, ...]
    """When to come to rest and measure, in minutes of changes since the start."""
    seed: int = 20_261_121
    roll_every_seconds: int = 300
    relist_every_seconds: int = 180
    most_blocks_a_change: float = 0.1
    """Allowed growth from the first chapter to the last, in memory blocks per change.

    Bounded caches fill up in that time. Slower leaks show up in the container lengths.
    """


HOUR = LifeSettings(sizes=(400,) + (40,) * 10 + (10,) * 20, chapter_minutes=(5, 15, 30, 45, 60))
"""One hour of a cluster with 1,000 pods in 31 services: 72,000 changes."""
SHORT = LifeSettings(
    sizes=(30, 10, 5),
    chapter_minutes=(0.5, 2),
    roll_every_seconds=30,
    relist_every_seconds=30,
    most_blocks_a_change=0.5,  # most growth in so short a run comes from code paths and log lines used for the first time
)
"""Two minutes of a small cluster; takes a second, for a test."""


def live(settings: LifeSettings, say: Callable[[Chapter], None] = lambda chapter: None) -> list[Chapter]:
    """Run the simulation and return the measurements of each chapter; ``say`` is called after each."""
    return run_virtual(_Life(settings, say).live(), seed=settings.seed)


class _Pod(msgspec.Struct):
    name: str
    app: str
    address: str
    version: str
    namespace: str = NAMESPACE
    ready: bool = True


class _Visitor(msgspec.Struct, frozen=True):
    """A namespace that exists for half a minute."""

    leaves_at: int
    services: list[Service]
    pods: list[_Pod]


class _Life:
    def __init__(self, settings: LifeSettings, say: Callable[[Chapter], None]) -> None:
        self._settings = settings
        self._say = say
        self._chance = Random(settings.seed)
        self._server = ChurnServer(self._chance)
        self._pods: list[_Pod] = []
        self._sick: deque[_Pod] = deque()
        self._rolling: deque[_Pod] = deque()
        self._visitors: deque[_Visitor] = deque()
        self._versions = ["v1"] * len(settings.sizes)
        self._births = self._visits = self._rolls = self._spare_nodes = 0
        self.changes = 0

    async def live(self) -> list[Chapter]:
        self._populate()
        stop = asyncio.Event()
        chapters: list[Chapter] = []
        with closing(open_listener(BindAddress("127.0.0.1", 0))) as listener:
            manager = _assembly(self._server, listener).manager()
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.run(stop), name="program")
                await asyncio.sleep(_REST_SECONDS)
                second = 0
                for minutes in self._settings.chapter_minutes:
                    while second < minutes * 60:
                        second += 1
                        await self._one_second(second)
                    await self._come_to_rest()
                    held = footprint([manager])
                    chapter = Chapter(
                        minutes, self.changes, self._server.writes, self._server.lists_begun, held
                    )
                    chapters.append(chapter)
                    self._say(chapter)
                stop.set()
        return chapters

    # ------------------------------------------------------------------------------------------- the cluster

    def _populate(self) -> None:
        for number in range(10):
            document = {
                "metadata": {"name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": "a"}}
            }
            self._server.nodes.create(NODES.decode(msgspec.json.encode(document)))
        for number, size in enumerate(self._settings.sizes):
            self._server.services.create(_service(f"service-{number}", {"app": f"app-{number}"}))
            for _ in range(size):
                self._bear(number)

    async def _one_second(self, second: int) -> None:
        self._server.refused_of_a_thousand = 2
        until = self.changes + CHANGES_PER_SECOND
        if second % 60 == 10:
            self._visit(second)
            self._replace_a_node()
        if self._visitors and self._visitors[0].leaves_at <= second:
            self._leave()
        if second % self._settings.roll_every_seconds == self._settings.roll_every_seconds // 5:
            self._begin_to_roll()
        if second % 60 == 40:
            self._meddle()
        if second % self._settings.relist_every_seconds == self._settings.relist_every_seconds // 4:
            self._lose_history()
        if second % 10 == 0:
            self._server.collect_garbage()
        if second % 60 == 0:
            self._server.forget()
        while self.changes < until:
            await asyncio.sleep(1 / CHANGES_PER_SECOND)
            self._change()

    def _change(self) -> None:
        if self._rolling and self._chance.random() < 0.5:
            pod = self._rolling.popleft()
            if pod in self._pods:
                self._bury(pod)
                self._bear(_number(pod))
        elif self._chance.random() < 0.2:
            pod = self._chance.choice(self._pods)
            self._bury(pod)
            self._bear(_number(pod))
        elif len(self._sick) >= _SICK_AT_ONCE:
            self._recover()
        else:
            pod = self._chance.choice(self._pods)
            if pod.ready:
                pod.ready = False
                self._sick.append(pod)
            self._server.pods.modify(self._document(pod))
            self.changes += 1

    def _recover(self) -> None:
        pod = self._sick.popleft()
        pod.ready = True
        self._server.pods.modify(self._document(pod))
        self.changes += 1

    def _bear(self, service: int) -> None:
        self._births += 1
        version = self._versions[service]
        name = f"service-{service}-{version}-{self._births:06d}"
        pod = _Pod(name, f"app-{service}", address_number(self._births), version)
        self._pods.append(pod)
        self._server.pods.create(self._document(pod))
        self.changes += 1

    def _bury(self, pod: _Pod) -> None:
        self._pods.remove(pod)
        if pod in self._sick:
            self._sick.remove(pod)
        self._server.pods.delete(ObjectKey(NAMESPACE, pod.name))
        self.changes += 1

    def _begin_to_roll(self) -> None:
        self._rolls += 1
        service = self._rolls % len(self._settings.sizes)
        self._versions[service] = f"v{self._rolls + 1}"
        self._rolling.extend(pod for pod in self._pods if _number(pod) == service)

    def _visit(self, second: int) -> None:
        """Create a namespace with a service whose pod labels are new, and a service with manual Endpoints."""
        self._visits += 1
        namespace, app = f"visit-{self._visits}", f"run-{self._visits}"
        selecting = _service("visitor", {"app": app}, namespace)
        by_hand = _service("by-hand", None, namespace)
        stored = [self._server.services.create(service) for service in (selecting, by_hand)]
        pods = [_Pod(f"{app}-{number}", app, f"192.0.2.{number + 1}", "v1", namespace) for number in range(3)]
        for pod in pods:
            self._server.pods.create(self._document(pod))
        document = {
            "metadata": {"name": "by-hand", "namespace": namespace},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
        }
        self._server.endpoints.create(ENDPOINTS.decode(msgspec.json.encode(document)))
        self._visitors.append(_Visitor(second + _VISITOR_SECONDS, stored, pods))

    def _leave(self) -> None:
        visitor = self._visitors.popleft()
        for service in visitor.services:
            self._server.services.delete(key_of(service))
        for pod in visitor.pods:
            self._server.pods.delete(ObjectKey(pod.namespace, pod.name))
        self._server.collect_garbage()

    def _replace_a_node(self) -> None:
        """Delete a node without pods and create another, as autoscalers do."""
        self._spare_nodes += 1
        if self._spare_nodes > 1:
            self._server.nodes.delete(ObjectKey("", f"spare-{self._spare_nodes - 1}"))
        self._server.nodes.create(_node(f"spare-{self._spare_nodes}", "b"))

    def _meddle(self) -> None:
        """Empty one slice and delete another, as manual edits do."""
        names = sorted(self._server.slices.objects)
        piece = self._server.slices.objects[self._chance.choice(names)]
        self._server.slices.modify(msgspec.structs.replace(piece, endpoints=None))
        self._server.slices.delete(self._chance.choice(names))

    def _lose_history(self) -> None:
        """Break every watch and expire its resource version: everything is relisted."""
        for source in self._server.sources:
            source.break_watches()
        for pod in self._pods[:3]:
            self._server.pods.modify(self._document(pod))
        for source in self._server.sources:
            source.pass_versions(1)
            source.compact()

    async def _come_to_rest(self) -> None:
        self._server.refused_of_a_thousand = 0
        self._rolling.clear()
        while self._visitors:
            self._leave()
        while self._sick:
            self._recover()
        await asyncio.sleep(_REST_SECONDS)
        self._server.collect_garbage()
        self._server.forget(keep=0)
        await asyncio.sleep(_REST_SECONDS)
        self._check()

    def _check(self) -> None:
        """Check that exactly the existing pods are published."""
        published = {
            endpoint.target_ref.name
            for piece in self._server.slices.objects.values()
            for endpoint in piece.endpoints or ()
        }
        if published != {pod.name for pod in self._pods}:
            raise AssertionError("the published endpoints differ from the existing pods")

    def _document(self, pod: _Pod) -> object:
        labels = {"app": pod.app, "version": pod.version}
        status = {
            "phase": "Running",
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if pod.ready else "False",
                    "lastTransitionTime": f"2026-01-01T{self.changes // 3600 % 24:02d}:{self.changes // 60 % 60:02d}:00Z",
                }
            ],
        }
        document = {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": labels},
            "spec": {
                "nodeName": f"node-{len(pod.name) % 10}",
                "containers": [{"name": "server", "ports": [{"name": "http", "containerPort": 8080}]}],
            },
            "status": status,
        }
        return PODS.decode(msgspec.json.encode(document))


def _number(pod: _Pod) -> int:
    return int(pod.app.removeprefix("app-"))


def _node(name: str, zone: str) -> Node:
    document = {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}
    return NODES.decode(msgspec.json.encode(document))


def _service(name: str, selector: dict[str, str] | None, namespace: str = NAMESPACE) -> Service:
    document = {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "clusterIP": "10.96.0.1",
            "ipFamilies": ["IPv4"],
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
        },
    }
    return SERVICES.decode(msgspec.json.encode(document))


def _assembly(server: ChurnServer, listener: socket.socket) -> Assembly:
    """Assemble the program of ``endpointd run``, including metrics, on this server."""
    settings = RunSettings(kubeconfig="", controllers=(endpoints.NAME, slices.NAME, mirroring.NAME))
    observability = Observability(listener=listener, secrets=ServingSecrets(ServingFiles()))
    return Assembly(settings, cast("Client", server), FakeClock(), observability)
