"""A mirroring controller with real stores and a real queue in front of an in-memory server, driven manually."""

import random
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from tests.support.slice_world import RecordedEvent

from aiokube.api.core import SERVICES, Service
from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta, ObjectReference, key_of
from aiokube.api.resource import Resource, WatchEvent
from aiokube.api.status import Status, StatusDetails
from aiokube.backoff import RetryLimiter
from aiokube.client.errors import ApiError, api_error
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventType
from aiokube.runtime.store import Store
from aiokube.testing.builders import make_service
from aiokube.testing.memory_server import Call, MemoryServer
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.controllers.mirroring.controller import (
    QUEUE_NAME,
    RETRY_BACKOFF,
    EndpointSliceMirroringController,
    MirroringSettings,
)
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites

T = TypeVar("T", bound=KubernetesObject)

WEB = ObjectKey("default", "web")
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
OURS = "endpointslicemirroring-controller.k8s.io"
HTTP = EndpointPort(name="http", port=80, protocol="TCP")
ADMIN = EndpointPort(name="admin", port=9090, protocol="TCP")


def address(ip: str, **fields: Any) -> EndpointAddress:
    return EndpointAddress(ip=ip, **fields)


def addresses(count: int, *, start: int = 1) -> tuple[EndpointAddress, ...]:
    return tuple(
        EndpointAddress(ip=f"10.0.{number // 250}.{number % 250 + 1}")
        for number in range(start, start + count)
    )


def subset(
    *ready: str | EndpointAddress,
    not_ready: Iterable[str | EndpointAddress] = (),
    ports: tuple[EndpointPort, ...] = (HTTP,),
) -> EndpointSubset:
    """Return a subset on port http, unless given otherwise."""
    return EndpointSubset(
        addresses=tuple(map(_as_address, ready)) or None,
        not_ready_addresses=tuple(map(_as_address, not_ready)) or None,
        ports=ports or None,
    )


def _as_address(given: str | EndpointAddress) -> EndpointAddress:
    return EndpointAddress(ip=given) if isinstance(given, str) else given


def make_endpoints(
    *subsets: EndpointSubset,
    name: str = "web",
    namespace: str = "default",
    uid: str = "e-1",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    finalizers: tuple[str, ...] | None = None,
    deletion_timestamp: str | None = None,
) -> Endpoints:
    return Endpoints(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            resource_version="1",
            labels=labels,
            annotations=annotations,
            finalizers=finalizers,
            deletion_timestamp=deletion_timestamp,
        ),
        subsets=subsets or None,
    )


def make_plain_service(name: str = "web", **fields: Any) -> Service:
    """Return a service without a selector."""
    return make_service(name, selector=None, **fields)


def change(item: T, **fields: object) -> T:
    """Return an object with fields changed; metadata fields are set on the metadata."""
    any_item: Any = item
    meant = {name: value for name, value in fields.items() if name in any_item.metadata.__struct_fields__}
    rest = {name: value for name, value in fields.items() if name not in meant}
    metadata = msgspec.structs.replace(any_item.metadata, **meant)
    changed: T = msgspec.structs.replace(any_item, metadata=metadata, **rest)
    return changed


def refusal(
    code: int,
    reason: str,
    message: str = "no",
    *,
    retry_after_seconds: float | None = None,
    name: str | None = None,
) -> ApiError:
    """Return the client's error; ``name`` is the object named in the response, if any."""
    return api_error(
        Status(status="Failure", code=code, reason=reason, message=message, details=StatusDetails(name=name)),
        retry_after_seconds=retry_after_seconds,
    )


class ServerWithServices(MemoryServer):
    """Also serves reads of services."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.services: dict[ObjectKey, Service] = {}

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        if resource.plural != SERVICES.plural:
            return await super().get(resource, key)

        def read() -> Any:
            if key not in self.services:
                raise refusal(404, "NotFound", f'services "{key.name}" not found', name=key.name)
            return self.services[key]

        found: T = await self._request(Call("get", resource.plural, key), read)
        return found


class Counted:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.plans: list[tuple[ObjectKey, MirrorCounts]] = []
        self.writes: list[SliceWrites] = []
        self.forgotten: list[ObjectKey] = []
        self.syncs: list[float] = []

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        self.plans.append((key, counts))

    def wrote(self, writes: SliceWrites) -> None:
        self.writes.append(writes)

    def forgot(self, key: ObjectKey) -> None:
        self.forgotten.append(key)

    def synced(self, seconds: float) -> None:
        self.syncs.append(seconds)


class World:
    """Everything happens on the server; :meth:`watch` feeds the stores. Time advances with ``clock.now += ...``.

    A service that is put enters its store immediately, unless ``seen`` is False.
    """

    def __init__(
        self,
        settings: MirroringSettings | None = None,
        *,
        server: ServerWithServices | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.server = server or ServerWithServices()
        self.clock = clock or ManualClock()
        self.services: Store[Service] = Store("services")
        self.endpoints: Store[Endpoints] = Store("endpoints")
        self.slices: Store[EndpointSlice] = Store("endpointslices")
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            QUEUE_NAME, clock=self.clock, limiter=RetryLimiter(RETRY_BACKOFF)
        )
        self.events: list[RecordedEvent] = []
        self.failures: list[str] = []
        self.counted = Counted()
        self._settings = settings or MirroringSettings()
        self._version = 10_000_000
        self.controller = EndpointSliceMirroringController(
            services=self.services,
            endpoints=self.endpoints,
            slices=self.slices,
            writer=self.server,
            queue=self.queue,
            recorder=self,
            clock=self.clock,
            settings=self._settings,
            observer=self.counted,
        )

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        self.events.append(RecordedEvent(regarding, type, reason, message))

    def start(self) -> None:
        """Start as the program does after its caches have synced."""
        self.endpoints.replace(self.server.objects(ENDPOINTS).values(), self.server.resource_version)
        self.slices.replace(self.server.objects(ENDPOINT_SLICES).values(), self.server.resource_version)
        self.controller.start()

    def restarted(self) -> "World":
        """Return the same cluster with a new, started process without memory."""
        world = World(self._settings, server=self.server, clock=self.clock)
        world._version = self._version
        world.services.replace(self.server.services.values(), str(self._version))
        world.start()
        return world

    # ------------------------------------------------------------------------------------ actions

    def put_service(self, service: Service, *, seen: bool = True) -> None:
        self._version += 1
        service = change(service, resource_version=str(self._version))
        self.server.services[key_of(service)] = service
        if seen:
            self.services.apply([WatchEvent("MODIFIED", service)])

    def remove_service(self, name: str = "web") -> None:
        self._version += 1
        service = self.server.services.pop(ObjectKey("default", name))
        self.services.apply([WatchEvent("DELETED", change(service, resource_version=str(self._version)))])

    def put(self, item: Endpoints | EndpointSlice, *, seen: bool = True) -> Any:
        """Create or replace an object as another client; return it as stored."""
        resource: Resource[Any] = ENDPOINTS if isinstance(item, Endpoints) else ENDPOINT_SLICES
        if key_of(item) in self.server.objects(resource):
            stored = self.server.update_foreign(resource, change(item, uid=""))
        else:
            stored = self.server.create_foreign(resource, item)
        if seen:
            self.watch()
        return stored

    def remove(self, item: Endpoints | EndpointSlice, *, seen: bool = True) -> None:
        """Delete an object as another client."""
        resource: Resource[Any] = ENDPOINTS if isinstance(item, Endpoints) else ENDPOINT_SLICES
        self.server.delete_foreign(resource, key_of(item))
        if seen:
            self.watch()

    def watch(self) -> int:
        """Let both watches catch up with the server; return the number of events."""
        return self.server.feed(ENDPOINTS, self.endpoints) + self.server.feed(ENDPOINT_SLICES, self.slices)

    def watch_slices(self) -> None:
        self.server.feed(ENDPOINT_SLICES, self.slices)

    async def work(self) -> list[ObjectKey]:
        """Reconcile due keys like a worker until none is left; return them."""
        done: list[ObjectKey] = []
        while (key := self.queue.get_nowait()) is not None:
            assert len(done) < 100, f"{key} is due again and again"
            done.append(key)
            try:
                await self.controller.reconcile(key)
            except ReconcileError as error:
                self.failures.append(str(error))
                self.queue.add_rate_limited(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)
        return done

    async def settle(self) -> None:
        """Alternate watch events and work until nothing happens, without advancing time."""
        while self.watch() + len(await self.work()):
            pass

    async def rest(self) -> None:
        """Watch, work and advance time until nothing is left to do."""
        for _ in range(100):
            await self.settle()
            left = self.queue.statistics()
            if not (left.delayed or left.depth):
                return
            self.clock.now += 60.0
        raise AssertionError("the world does not settle")

    # -------------------------------------------------------------------------------------- observations

    def slices_of(self, name: str = "web") -> list[EndpointSlice]:
        """Return the server's slices that mirror an Endpoints, by address type and port."""
        found = self.server.objects(ENDPOINT_SLICES).values()
        return sorted(
            (
                endpoint_slice
                for endpoint_slice in found
                if labels_of(endpoint_slice).get(SERVICE_NAME) == name
                and labels_of(endpoint_slice).get(MANAGED_BY) == OURS
            ),
            key=lambda endpoint_slice: (
                endpoint_slice.address_type,
                [port.port or 0 for port in endpoint_slice.ports or ()],
            ),
        )

    def published(self, name: str = "web") -> dict[str, bool | None]:
        """Return the addresses in the slices of an Endpoints, with their readiness."""
        return {
            endpoint.addresses[0]: endpoint.conditions.ready
            for endpoint_slice in self.slices_of(name)
            for endpoint in endpoint_slice.endpoints or ()
        }

    def writes(self) -> list[str]:
        """Return the verbs of the writes since the last call."""
        verbs: list[str] = [call.verb for call in self.server.writes]
        self.server.calls.clear()
        return verbs


def labels_of(endpoint_slice: EndpointSlice) -> dict[str, str]:
    return dict(endpoint_slice.metadata.labels or {})


def members(endpoint_slice: EndpointSlice) -> tuple[Endpoint, ...]:
    return endpoint_slice.endpoints or ()


async def mirrored_world(*subsets: EndpointSubset, settings: MirroringSettings | None = None) -> World:
    """Return a settled world: service web without a selector, and its mirrored Endpoints with these subsets."""
    world = World(settings)
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(*(subsets or (subset("10.0.0.1", "10.0.0.2"),))))
    await world.settle()
    world.writes()
    return world
