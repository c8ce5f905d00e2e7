"""The full path of a change, from watch bytes to write bytes, on the real modules with an in-memory server.

Only the network is left out. A world is built to a size once and then changed: one pod's change must cost the
same at every size.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES, Node, Pod, Service
from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.api.resource import Resource, WatchError
from aiokube.client.watchlines import LineSplitter
from aiokube.runtime.store import Store
from aiokube.testing.builders import address_number
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpoints.controller import EndpointsController, EndpointsSettings
from endpointd.controllers.endpointslice.controller import EndpointSliceController, EndpointSliceSettings
from endpointd.controllers.membership import Membership

Json = dict[str, Any]
ControllerName = Literal["slices", "endpoints"]

NAMESPACE = "shop"
SPECIAL_NODE = "node-special"
"""The node of the first ten pods of each world; all others are spread over nodes with a hundred each."""
SPECIAL_PODS = 10
FIRST_NEW_POD = 900_000
"""Pods from this number on do not exist at the start of a world."""
READY_SINCE = "2026-01-01T00:00:00Z"

_SELECTOR_TIER = "shop"


class PodFacts(msgspec.Struct, frozen=True):
    """The data of a pod's watch line."""

    number: int
    service: int = 0
    ready: bool = True
    generation: int = 0
    """Changing it changes the address."""
    annotation: str = "1"

    @property
    def name(self) -> str:
        return f"pod-{self.service:05d}-{self.number:05d}"

    @property
    def node(self) -> str:
        if self.service == 0 and self.number < SPECIAL_PODS:
            return SPECIAL_NODE
        return f"node-{self.number // 100 if self.number < FIRST_NEW_POD else 0}"

    @property
    def address(self) -> str:
        return address_number(1 + self.number + 7 * self.service + 250_000 * self.generation)


class RecordingWriter:
    """A writer that forwards to a :class:`MemoryServer` and encodes the bodies, as the client does."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.server.rejected_range = None  # validation by the fake server must not be counted
        self.bodies: list[tuple[str, str, bytes]] = []
        """Verb, resource and body of each write."""
        self.before_write: Callable[[], None] | None = None
        self._encode = msgspec.json.Encoder().encode

    def _record(self, verb: str, resource: Resource[Any], body: msgspec.Struct | None) -> None:
        if self.before_write is not None:
            self.before_write()
        self.bodies.append((verb, resource.plural, b"" if body is None else self._encode(body)))

    async def get(self, resource: Resource[Any], key: ObjectKey) -> Any:
        return await self.server.get(resource, key)

    async def create(self, resource: Resource[Any], body: msgspec.Struct, *, namespace: str = "") -> Any:
        self._record("create", resource, body)
        return await self.server.create(resource, body, namespace=namespace)

    async def update(
        self, resource: Resource[Any], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> Any:
        self._record("update", resource, body)
        return await self.server.update(resource, body, key=key, subresource=subresource)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        self._record("delete", resource, None)
        await self.server.delete(resource, key, uid=uid, resource_version=resource_version)


class ChainWorld:
    """Services of one namespace, each with its pods, and the controllers that publish them.

    There are ``services`` services of ``pods_each`` pods, except the first if given; ``controllers`` selects
    the controllers to run. The world is settled after :meth:`start`; :meth:`tell` delivers one batch of a
    watch and processes it completely.
    """

    def __init__(
        self,
        services: int = 1,
        pods_each: int = 100,
        *,
        pods_of_first: int | None = None,
        controllers: Iterable[ControllerName] = ("slices",),
    ) -> None:
        self._numbers = [pods_each if pods_of_first is None else pods_of_first] + [pods_each] * (services - 1)
        self.writer = RecordingWriter()
        self.clock = ManualClock()
        self.services: Store[Service] = Store("services")
        self.pods: Store[Pod] = Store("pods")
        self.nodes: Store[Node] = Store("nodes")
        self.slices: Store[EndpointSlice] = Store("endpointslices")
        self.endpoints: Store[Endpoints] = Store("endpoints")
        self.membership = Membership(self.services, self.pods)
        self.slice_controller: EndpointSliceController | None = None
        self._work: list[
            tuple[WorkQueue[ObjectKey], Callable[[ObjectKey], Awaitable[None]], Callable[[], None]]
        ] = []
        for name in controllers:
            self._add(name)
        self._splitter = LineSplitter()
        self._version = 100
        self._first_slice = ObjectKey("", "")

    def _add(self, name: ControllerName) -> None:
        queue: WorkQueue[ObjectKey] = WorkQueue(name, clock=self.clock)
        if name == "slices":
            slices = self.slice_controller = EndpointSliceController(
                services=self.services,
                pods=self.pods,
                nodes=self.nodes,
                slices=self.slices,
                membership=self.membership,
                writer=self.writer,
                queue=queue,
                recorder=self,
                clock=self.clock,
                settings=EndpointSliceSettings(),
            )
            self._work.append((queue, slices.reconcile, slices.start))
        else:
            endpoints = EndpointsController(
                services=self.services,
                endpoints=self.endpoints,
                membership=self.membership,
                writer=self.writer,
                queue=queue,
                recorder=self,
                clock=self.clock,
                settings=EndpointsSettings(),
            )
            self._work.append((queue, endpoints.reconcile, endpoints.start))

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - as the recorder's protocol has it
        reason: str,
        message: str,
    ) -> None:
        """Accept an Event; none is expected here."""
        raise AssertionError(f"{type} {reason} of {regarding.name}: {message}")

    async def start(self) -> "ChainWorld":
        services = range(len(self._numbers))
        self.services.replace((SERVICES.decode(_service(service)) for service in services), "1")
        pods = [PodFacts(number, service) for service in services for number in range(self._numbers[service])]
        nodes = {pod.node for pod in pods}
        self.nodes.replace((NODES.decode(_node(name, "zone-a")) for name in sorted(nodes)), "1")
        self.pods.replace((PODS.decode(msgspec.json.encode(_pod(pod, 1))) for pod in pods), "1")
        self.membership.start()
        self.services.subscribe(self.membership.service_changed)
        self.pods.subscribe(self.membership.pod_changed)
        for _, _, start in self._work:
            start()
        await self.settle()
        self._first_slice = self._slice_of_the_first_pod()
        return self

    # ------------------------------------------------------------------------------------ watch events

    def changed(self, *pods: PodFacts, verb: Literal["ADDED", "MODIFIED", "DELETED"] = "MODIFIED") -> bytes:
        """Return the watch bytes for these pods, each in a newer version."""
        return self._lines([(verb, _pod(pod, self._next())) for pod in pods])

    def node_changed(self, name: str, zone: str) -> bytes:
        """Return the watch bytes for a node in a zone."""
        self._version += 1
        node = msgspec.json.decode(_node(name, zone, self._version))
        return self._lines([("MODIFIED", node)])

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _lines(self, events: list[tuple[str, Json]]) -> bytes:
        return b"".join(msgspec.json.encode({"type": verb, "object": item}) + b"\n" for verb, item in events)

    # ------------------------------------------------------------------------------------------- actions

    async def tell(self, chunk: bytes, resource: Resource[Any] = PODS) -> None:
        """Deliver one chunk of watch bytes, and process it completely."""
        store: Store[Any] = self.pods if resource is PODS else self.nodes
        batch = []
        for line in self._splitter.feed(chunk):
            event = resource.decode_event(line)
            assert not isinstance(event, WatchError)
            batch.append(event)
        store.apply(batch)
        await self.settle()

    async def settle(self) -> None:
        """Run the workers and the watches of their writes until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for queue, reconcile, _ in self._work:
                while (key := queue.get_nowait()) is not None:
                    await reconcile(key)
                    queue.forget(key)
                    queue.done(key)
                    busy = True
            busy |= self.writer.server.feed(ENDPOINT_SLICES, self.slices) > 0
            busy |= self.writer.server.feed(ENDPOINTS, self.endpoints) > 0

    def rest(self) -> None:
        """Advance time until no earlier action delays anything."""
        self.clock.now += 100.0
        self.writer.bodies.clear()
        self.writer.server.calls.clear()

    async def edit_externally(self) -> None:
        """Remove the first endpoint of the first slice as an external edit, and process it completely."""
        endpoint_slice = self.slices.get(self._first_slice)
        assert endpoint_slice is not None
        edited = msgspec.structs.replace(endpoint_slice, endpoints=(endpoint_slice.endpoints or ())[1:])
        self.writer.server.update_foreign(ENDPOINT_SLICES, edited)
        await self.settle()

    # -------------------------------------------------------------------------------------------- observations

    def _slice_of_the_first_pod(self) -> ObjectKey:
        first = PodFacts(0).name
        for endpoint_slice in self.slices.values():
            for endpoint in endpoint_slice.endpoints or ():
                if endpoint.target_ref is not None and endpoint.target_ref.name == first:
                    return endpoint_slice.metadata.key
        return self._first_slice  # without slices

    def published(self) -> dict[str, bool | None]:
        """Return the pods in all slices, with their readiness."""
        return {
            endpoint.target_ref.name or "": endpoint.conditions.ready
            for endpoint_slice in self.slices.values()
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.target_ref is not None
        }


def _service(number: int) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": _metadata(f"service-{number:05d}", 1),
            "spec": {
                "clusterIP": "10.96.0.1",
                "ipFamilies": ["IPv4"],
                "type": "ClusterIP",
                "selector": {"tier": _SELECTOR_TIER, "app": f"app-{number}"},
                "ports": [
                    {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080},
                    {"name": "metrics", "protocol": "TCP", "port": 9090, "targetPort": "metrics"},
                ],
            },
        }
    )


def _node(name: str, zone: str, version: int = 1) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-of-{name}",
                "resourceVersion": str(version),
                "labels": {"topology.kubernetes.io/zone": zone},
            },
            "status": {
                "allocatable": {"cpu": "16"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def _pod(pod: PodFacts, version: int) -> Json:
    return {
        "metadata": _metadata(pod.name, version)
        | {
            "labels": {"tier": _SELECTOR_TIER, "app": f"app-{pod.service}"},
            "annotations": {"example.com/seen": pod.annotation},
        },
        "spec": {
            "nodeName": pod.node,
            "containers": [{"name": "server", "ports": [{"name": "metrics", "containerPort": 9102}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if pod.ready else "False",
                    "lastTransitionTime": READY_SINCE,
                }
            ],
        },
    }


def _metadata(name: str, version: int) -> Json:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": READY_SINCE,
    }
