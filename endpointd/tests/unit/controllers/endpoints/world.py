"""An Endpoints controller with everything around it in memory, driven manually by the test."""

import random
from typing import Any

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.api.resource import WatchEvent
from aiokube.backoff import RetryLimiter
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventType
from aiokube.runtime.store import Store
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpoints.controller import RETRY_BACKOFF, EndpointsController, EndpointsSettings
from endpointd.controllers.membership import Membership


class RecordedEvent(msgspec.Struct, frozen=True):
    regarding: ObjectReference
    type: str
    reason: str
    message: str


class World:
    """:meth:`put` and :meth:`remove` feed the stores; :meth:`watch` feeds the store of Endpoints from the server."""

    def __init__(self, settings: EndpointsSettings | None = None) -> None:
        self.clock = ManualClock()
        self.server = MemoryServer(random.Random(1))
        self.services: Store[Service] = Store("services")
        self.pods: Store[Pod] = Store("pods")
        self.endpoints: Store[Endpoints] = Store("endpoints")
        self.membership = Membership(self.services, self.pods)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            "endpoint", clock=self.clock, limiter=RetryLimiter(RETRY_BACKOFF)
        )
        self.events: list[RecordedEvent] = []
        self.errors: list[str] = []
        self._version = 0
        self.controller = EndpointsController(
            services=self.services,
            endpoints=self.endpoints,
            membership=self.membership,
            writer=self.server,
            queue=self.queue,
            recorder=self,
            clock=self.clock,
            settings=settings or EndpointsSettings(rest_seconds_per_address=0.0),
        )

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        self.events.append(RecordedEvent(regarding, type, reason, message))

    def start(self) -> None:
        """Start as after the first lists."""
        self.watch()
        self.membership.start()
        self.services.subscribe(self.membership.service_changed)
        self.pods.subscribe(self.membership.pod_changed)
        self.controller.start()

    def put(self, item: Service | Pod) -> None:
        """Deliver a watch event for a created or changed service or pod."""
        item = self._at_new_version(item)
        store: Store[Any] = self.services if isinstance(item, Service) else self.pods
        store.apply([WatchEvent("MODIFIED", item)])

    def remove(self, item: Service | Pod) -> None:
        """Deliver a watch event for a deleted service or pod."""
        store: Store[Any] = self.services if isinstance(item, Service) else self.pods
        store.apply([WatchEvent("DELETED", self._at_new_version(item))])

    def watch(self) -> None:
        """Let the watch of endpoints catch up with the server."""
        self.server.feed(ENDPOINTS, self.endpoints)

    async def work(self) -> list[ObjectKey]:
        """Reconcile due keys like a worker until none is left; return them."""
        done: list[ObjectKey] = []
        while (key := self.queue.get_nowait()) is not None:
            done.append(key)
            try:
                await self.controller.reconcile(key)
            except ReconcileError as error:
                self.errors.append(str(error))
                self.queue.add_rate_limited(key)
            else:
                self.queue.forget(key)
            self.queue.done(key)
        return done

    async def settle(self) -> None:
        """Work, watch and advance time until nothing is left to do."""
        for _ in range(50):
            self.watch()
            worked = await self.work()
            self.clock.now += 100.0
            left = self.queue.statistics()
            if not (worked or left.delayed or left.depth or self.server.pending_events(ENDPOINTS)):
                return
        raise AssertionError("the world does not settle")

    def stored(self, name: str = "svc") -> Endpoints | None:
        """Return the server's Endpoints."""
        return self.server.objects(ENDPOINTS).get(ObjectKey("ns", name))

    def ips(self, name: str = "svc") -> tuple[list[str], list[str]]:
        """Return the server's addresses, ready and not ready."""
        item = self.stored(name)
        assert item is not None
        subsets = item.subsets or ()
        return (
            [address.ip for subset in subsets for address in subset.addresses or ()],
            [address.ip for subset in subsets for address in subset.not_ready_addresses or ()],
        )

    def writes(self) -> list[str]:
        """Return the verbs of the writes since the last call."""
        verbs: list[str] = [call.verb for call in self.server.writes]
        self.server.calls.clear()
        return verbs

    def _at_new_version(self, item: Any) -> Any:
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        return msgspec.structs.replace(item, metadata=metadata)


def change(item: msgspec.Struct, **changes: object) -> Any:
    """Return a frozen object with fields changed."""
    return msgspec.structs.replace(item, **changes)
