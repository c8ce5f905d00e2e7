"""The EndpointSlice controller with real stores and a real queue in front of an in-memory server.

Nothing happens until the test asks for it: service, pod and node changes are immediate, :meth:`SliceWorld.watch`
delivers slice events, :meth:`SliceWorld.sync` reconciles, :meth:`SliceWorld.advance` advances time. So a
lagging watch, a burst or two disagreeing controllers take a few lines.
"""

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.api.resource import WatchEvent
from aiokube.runtime.store import Store
from aiokube.testing.memory_server import Call, MemoryServer
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpointslice.controller import (
    EndpointSliceController,
    EndpointSliceSettings,
    SyncFailedError,
)
from endpointd.controllers.membership import Membership

T = TypeVar("T", Service, Pod, Node)


class RecordedEvent(msgspec.Struct, frozen=True):
    """An Event emitted by the controller."""

    regarding: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class SliceWorld:
    """The services, pods, nodes and slices of a cluster, and the controller under test.

    Put the initial objects, call :meth:`start`, then keep putting and removing. ``failures`` holds the errors
    raised by reconciles and ``events`` the emitted Events, in order; a failed key waits for its backoff.
    """

    def __init__(
        self, *, settings: EndpointSliceSettings | None = None, server: MemoryServer | None = None
    ) -> None:
        self.server = server or MemoryServer()
        self.clock = ManualClock()
        self.services: Store[Service] = Store("services")
        self.pods: Store[Pod] = Store("pods")
        self.nodes: Store[Node] = Store("nodes")
        self.slices: Store[EndpointSlice] = Store("endpointslices")
        self.queue: WorkQueue[ObjectKey] = WorkQueue("endpoint_slice", clock=self.clock)
        self.membership = Membership(self.services, self.pods)
        self.controller = EndpointSliceController(
            services=self.services,
            pods=self.pods,
            nodes=self.nodes,
            slices=self.slices,
            membership=self.membership,
            writer=self.server,
            queue=self.queue,
            recorder=self,
            clock=self.clock,
            settings=settings or EndpointSliceSettings(),
        )
        self.failures: list[SyncFailedError] = []
        self.events: list[RecordedEvent] = []
        self.reconciles = 0
        self._version = 10_000_000

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - as the recorder's protocol has it
        reason: str,
        message: str,
    ) -> None:
        """Record an Event."""
        self.events.append(RecordedEvent(regarding, type, reason, message))

    def start(self) -> None:
        """Start as the program does after its caches have synced, including the server's slices."""
        self.slices.replace(self.server.objects(ENDPOINT_SLICES).values(), self.server.resource_version)
        self.begin()

    def begin(self) -> None:
        """Start with the current store of slices: a standby's may be older than the server."""
        self.membership.start()
        self.services.subscribe(self.membership.service_changed)
        self.pods.subscribe(self.membership.pod_changed)
        self.controller.start()

    # ------------------------------------------------------------------------------------ actions

    def put(self, *items: Service | Pod | Node) -> None:
        """Add or replace objects; each gets a new version. One batch per kind."""
        self._apply("MODIFIED", self.services, Service, items)
        self._apply("MODIFIED", self.nodes, Node, items)
        self._apply("MODIFIED", self.pods, Pod, items)

    def remove(self, *items: Service | Pod | Node) -> None:
        """Delete objects."""
        self._apply("DELETED", self.pods, Pod, items)
        self._apply("DELETED", self.services, Service, items)
        self._apply("DELETED", self.nodes, Node, items)

    def watch(self, count: int | None = None) -> int:
        """Deliver the oldest ``count`` slice events, or all."""
        return self.server.feed(ENDPOINT_SLICES, self.slices, count)

    def advance(self, seconds: float) -> None:
        """Advance time."""
        self.clock.now += seconds

    async def sync(self, *, limit: int = 1000) -> int:
        """Reconcile due keys until none is left; return the number of reconciles.

        Raises ``AssertionError`` if it does not end.
        """
        count = 0
        while (key := self.queue.get_nowait()) is not None:
            if count == limit:
                raise AssertionError(f"after {limit} reconciles {key} is due again")
            count += 1
            try:
                await self.controller.reconcile(key)
            except SyncFailedError as error:
                self.failures.append(error)
                self.queue.add_rate_limited(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)
        self.reconciles += count
        return count

    async def settle(self) -> None:
        """Alternate reconciles and watch events until nothing happens, without advancing time."""
        while await self.sync() + self.watch():
            pass

    # -------------------------------------------------------------------------------------- observations

    def slices_of(self, service: str = "web") -> list[EndpointSlice]:
        """Return the server's slices with the service's label, by name."""
        found = self.server.objects(ENDPOINT_SLICES).values()
        return sorted(
            (
                endpoint_slice
                for endpoint_slice in found
                if (endpoint_slice.metadata.labels or {}).get("kubernetes.io/service-name") == service
            ),
            key=lambda endpoint_slice: endpoint_slice.metadata.name,
        )

    def published(self, service: str = "web") -> dict[str, bool | None]:
        """Return the pods in the service's slices with their readiness."""
        return {
            endpoint.target_ref.name: endpoint.conditions.ready
            for endpoint_slice in self.slices_of(service)
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.target_ref is not None and endpoint.target_ref.name is not None
        }

    def take_writes(self) -> list[Call]:
        """Return the writes since the last call."""
        writes = self.server.writes
        self.server.calls.clear()
        return writes

    def _apply(
        self, verb: Literal["MODIFIED", "DELETED"], store: Store[T], kind: type[T], items: Iterable[object]
    ) -> None:
        batch = [WatchEvent(verb, self._versioned(item)) for item in items if isinstance(item, kind)]
        if batch:
            store.apply(batch)

    def _versioned(self, item: T) -> T:
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        return msgspec.structs.replace(item, metadata=metadata)
