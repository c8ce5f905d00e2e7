"""Steps in the processing of a pod's change, each repeatable in isolation.

Every function prepares a cluster of a given size and returns a step that makes one change in it. Pods become not
ready and ready again, one after the other, so the state stays the same, every step costs the same, and no step repeats
the previous one.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import cycle

import msgspec

from aiokube.api.core import PODS, SERVICES, Pod, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.resource import WatchEvent
from aiokube.clock import SystemClock
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue
from benchmarks.objects import Workload, service_body
from benchmarks.sizes import Size
from benchmarks.stopwatch import Step
from benchmarks.wire import pod_event
from endpointd.controllers.endpoints.plan import Create, Update
from endpointd.controllers.endpoints.state import ServiceState as EndpointsState
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.membership import Membership

MAX_ENDPOINTS = 100

_encode = msgspec.json.Encoder().encode


class _World:
    """The services and pods of a size, in stores."""

    def __init__(self, size: Size) -> None:
        self.workload = Workload(size)
        self.services: Store[Service] = Store("services")
        self.pods: Store[Pod] = Store("pods")
        self.version = 1000
        self.services.replace((service_of(key) for key in self.workload.services), "1")
        self.pods.replace(
            (decoded(pod_event(pod, ready=True, resource_version=1)) for pod in self.workload.pods), "1"
        )
        self.membership = Membership(self.services, self.pods)
        self.membership.start()

    @property
    def service(self) -> Service:
        (service,) = self.services.values()
        return service

    def flips(self, names: Collection[str] = ()) -> Iterator[Pod]:
        """Yield pods one after the other as not ready, then as ready again, endlessly, each with a newer version.

        Only the pods in ``names``, if any are given.
        """
        pods = [pod for pod in self.pods.values() if not names or pod.metadata.name in names]
        for pod in cycle(pods):
            for ready in (False, True):
                self.version += 1
                metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.version))
                yield msgspec.structs.replace(pod, ready=ready, metadata=metadata)


def service_of(key: ObjectKey) -> Service:
    """Return a service as the server would send it."""
    service = SERVICES.decode(service_body(key))
    metadata = msgspec.structs.replace(
        service.metadata, namespace=key.namespace, uid=f"uid-of-{key.name}", resource_version="1"
    )
    return msgspec.structs.replace(service, metadata=metadata, cluster_ip="10.96.0.1", ip_families=("IPv4",))


def decoded(line: bytes) -> Pod:
    """Return the pod of a watch event line."""
    event = PODS.decode_event(line)
    if not isinstance(event, WatchEvent):
        raise TypeError(f"no change of a pod: {event}")
    return event.item


# ------------------------------------------------------------------------------- independent of the size


def decode_pod_event() -> Step:
    """Prepare decoding one watch event line of a pod."""
    lines = cycle(
        [
            pod_event(pod, ready=True, resource_version=number)
            for number, pod in enumerate(Workload(Size(1, 50)).pods)
        ]
    )
    decode = PODS.decode_event
    return lambda: decode(next(lines))


def encode_slice() -> Step:
    """Prepare encoding a full slice."""
    slices = _SliceWorld(_World(Size(1, MAX_ENDPOINTS)))
    (piece,) = slices.written.values()
    return lambda: _encode(piece)


def encode_endpoints() -> Step:
    """Prepare encoding a full Endpoints."""
    world = _EndpointsWorld(_World(Size(1, 1000)))
    return lambda: _encode(world.observed)


def queue_a_key() -> Step:
    """Prepare adding, getting and finishing a key."""
    queue: WorkQueue[ObjectKey] = WorkQueue("bench", clock=SystemClock())
    keys = cycle([ObjectKey("bench-0", f"service-{number}") for number in range(1000)])

    def step() -> None:
        queue.add(next(keys))
        key = queue.get_nowait()
        if key is not None:
            queue.done(key)
            queue.forget(key)

    return step


# ------------------------------------------------------------------------------------ may grow with size


def store_apply(pods: int) -> Step:
    """Prepare storing a pod's change among ``pods`` pods."""
    world = _World(Size(1, pods))
    flips = world.flips()
    return lambda: world.pods.apply([WatchEvent("MODIFIED", next(flips))])


def membership_of_a_pod(services: int) -> Step:
    """Prepare finding the services of a changed pod among ``services`` services of its namespace."""
    world = _World(Size(services, 1))
    flips = world.flips()
    old = {key_of(pod): pod for pod in world.pods.values()}

    def step() -> None:
        new = next(flips)
        key = key_of(new)
        world.membership.pod_changed(old[key], new)
        old[key] = new

    return step


class _SliceWorld:
    """The slices of one service, written as planned and stored as the server would return them."""

    def __init__(self, world: _World) -> None:
        self.state = ServiceState.build(world.service, lambda _: "zone-a", world.pods.values(), ())
        self.written: dict[str, EndpointSlice] = {}
        self._version = 0
        self.write()

    def write(self) -> list[bytes]:
        """Plan and apply; return the request bodies."""
        bodies: list[bytes] = []
        for _, plan in self.state.plan(MAX_ENDPOINTS, None).address_type_plans:
            for piece in (*plan.create, *plan.update):
                bodies.append(_encode(piece))
                self._version += 1
                metadata = piece.metadata
                metadata = msgspec.structs.replace(
                    metadata,
                    name=metadata.name or f"slice-{len(self.written):05d}",
                    resource_version=str(self._version),
                )
                stored = msgspec.structs.replace(piece, metadata=metadata)
                self.written[metadata.name] = stored
                self.state.observe(metadata.name, stored)
        return bodies


def plan_slices(pods: int) -> Step:
    """Prepare planning the slices of ``pods`` pods after one pod's change, encoding the body and storing the result."""
    world = _World(Size(1, pods))
    slices, flips = _SliceWorld(world), world.flips()

    def step() -> None:
        pod = next(flips)
        slices.state.set_pod(pod.metadata.name, pod)
        if len(slices.write()) != 1:
            raise AssertionError("a flip is one write")

    return step


class _EndpointsWorld:
    """The Endpoints of one service, written as planned and stored as the server would return them."""

    def __init__(self, world: _World) -> None:
        self.state = EndpointsState(world.service, world.pods.values())
        self.observed: Endpoints | None = None
        self._version = 0
        self.write()

    def write(self) -> bytes | None:
        """Plan and apply; return the request body, or None without a change."""
        plan = self.state.plan(self.observed, None)
        if not isinstance(plan, Create | Update):
            return None
        body = _encode(plan.body)
        self._version += 1
        version = str(self._version)
        metadata = msgspec.structs.replace(plan.body.metadata, resource_version=version)
        self.observed = msgspec.structs.replace(plan.body, metadata=metadata)
        self.state.written_version = version
        return body


def plan_endpoints(pods: int) -> Step:
    """Prepare planning the Endpoints of ``pods`` pods after one pod's change, including encoding.

    Above the address limit only published pods change: changes of others cost next to nothing.
    """
    world = _World(Size(1, pods))
    endpoints = _EndpointsWorld(world)
    subsets = (endpoints.observed.subsets or ()) if endpoints.observed is not None else ()
    published = {
        address.target_ref.name or ""
        for subset in subsets
        for address in subset.addresses or ()
        if address.target_ref is not None
    }
    flips = world.flips(published)
    old = {key_of(pod): pod for pod in world.pods.values()}

    def step() -> None:
        new = next(flips)
        key = key_of(new)
        endpoints.state.pod_changed(old[key], new)
        old[key] = new
        if endpoints.write() is None:
            raise AssertionError("a flip of a published pod is a write")

    return step


def event_to_slice(pods: int) -> Step:
    """Prepare the complete processing of a change, from the watch event line to the slice's body, without network."""
    world = _World(Size(1, pods))
    slices = _SliceWorld(world)
    world.membership.subscribe(_Listener(slices.state))
    world.pods.subscribe(world.membership.pod_changed)
    queue: WorkQueue[ObjectKey] = WorkQueue("bench", clock=SystemClock())
    lines = _lines(world)
    service = key_of(world.service)

    def step() -> None:
        event = PODS.decode_event(next(lines))
        if not isinstance(event, WatchEvent):
            raise TypeError(f"no change of a pod: {event}")
        world.pods.apply([event])
        queue.add(service)
        queue.get_nowait()
        if len(slices.write()) != 1:
            raise AssertionError("a flip is one write")
        queue.done(service)

    return step


def _lines(world: _World) -> Iterator[bytes]:
    """Yield watch event lines as :meth:`_World.flips` does, at next to no cost."""
    mark = 987_654_321_012
    templates = [
        tuple(pod_event(pod, ready=ready, resource_version=mark).split(str(mark).encode(), 1))
        for pod in world.workload.pods[:1000]
        for ready in (False, True)
    ]
    for before, after in cycle(templates):
        world.version += 1
        yield b"%b%d%b" % (before, world.version, after)


class _Listener:
    """Passes changes to the slice state."""

    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        raise AssertionError("no service changes here")

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._state.set_pod(new.metadata.name, new)


ONE_SIZE: tuple[tuple[str, Callable[[], Step]], ...] = (
    ("decode a pod's event (9 KB)", decode_pod_event),
    ("encode a slice of 100", encode_slice),
    ("encode an Endpoints of 1,000", encode_endpoints),
    ("queue: add, get, done", queue_a_key),
)
GROWING: tuple[tuple[str, Callable[[int], Step]], ...] = (
    ("store a change, of N pods", store_apply),
    ("services of a pod, of N in its namespace", membership_of_a_pod),
    ("flip to slices, of N pods", plan_slices),
    ("flip to Endpoints, of N pods", plan_endpoints),
    ("event to the body of a slice, of N pods", event_to_slice),
)
