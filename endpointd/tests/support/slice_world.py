"""The EndpointSlice controller on real stores and a real queue, before a server in memory: a world for scenarios.

Everything happens when the test says so: changes of services, pods and nodes at once, the watch of slices when
:meth:`SliceWorld.watch` is called, reconciles in :meth:`SliceWorld.sync`, time in :meth:`SliceWorld.advance`. So a
watch that lags, a burst, or two controllers that disagree are a few lines of a test.
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


class ToldEvent(msgspec.Struct, frozen=True):
    """An Event that the controller had recorded."""

    regarding: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class SliceWorld:
    """A cluster's services, pods, nodes and slices, and the controller that works on them.

    Put what there is at the beginning, call :meth:`start`, go on putting and removing. ``failures`` are what
    reconciles raised, ``events`` what they told, in order; a failed key waits for its backoff as in earnest.
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
        self.events: list[ToldEvent] = []
        self.reconciles = 0
        self._version = 10_000_000

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - as the recorder's protocol has it
        reason: str,
        message: str,
    ) -> None:
        """Take note of an Event."""
        self.events.append(ToldEvent(regarding, type, reason, message))

    def start(self) -> None:
        """Begin, as the program does once its caches are filled: the slices of the server are listed by then."""
        self.slices.replace(self.server.objects(ENDPOINT_SLICES).values(), self.server.resource_version)
        self.begin()

    def begin(self) -> None:
        """Begin with what the store of slices holds already: a standby's may be older than the server."""
        self.membership.start()
        self.services.subscribe(self.membership.service_changed)
        self.pods.subscribe(self.membership.pod_changed)
        self.controller.start()

    # ------------------------------------------------------------------------------------ what happens

    def put(self, *items: Service | Pod | Node) -> None:
        """Add objects, or change those of the same name; each gets a new version. One batch a kind."""
        self._apply("MODIFIED", self.services, Service, items)
        self._apply("MODIFIED", self.nodes, Node, items)
        self._apply("MODIFIED", self.pods, Pod, items)

    def remove(self, *items: Service | Pod | Node) -> None:
        """Delete objects."""
        self._apply("DELETED", self.pods, Pod, items)
        self._apply("DELETED", self.services, Service, items)
        self._apply("DELETED", self.nodes, Node, items)

    def watch(self, count: int | None = None) -> int:
        """Let the watch of slices tell of the oldest ``count`` changes (all, where None)."""
        return self.server.feed(ENDPOINT_SLICES, self.slices, count)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    async def sync(self, *, limit: int = 1000) -> int:
        """Reconcile what is due, one after the other, until nothing is; return how often.

        Raises ``AssertionError`` where it does not come to an end.
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
        """Reconcile and watch in turn until nothing more happens, with time standing still."""
        while await self.sync() + self.watch():
            pass

    # -------------------------------------------------------------------------------------- what is seen

    def slices_of(self, service: str = "web") -> list[EndpointSlice]:
        """Return the slices on the server that carry the service's name, by name."""
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
        """Return the pods that the service's slices hold, and whether they are ready, all slices together."""
        return {
            endpoint.target_ref.name: endpoint.conditions.ready
            for endpoint_slice in self.slices_of(service)
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.target_ref is not None and endpoint.target_ref.name is not None
        }

    def take_writes(self) -> list[Call]:
        """Return the writes since the last time."""
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
