"""Compare the published slices and Endpoints of a cluster with the expected ones, incrementally from watch events.

Judges both controllers. Compares only pod name, address and readiness; the differential tests compare the rest.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from aiokube.api.discovery import SERVICE_NAME_LABEL
from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.api.resource import Resource

MAX_ADDRESSES = 1000  # addresses per Endpoints
MAX_ENDPOINTS_PER_SLICE = 100

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Published(NamedTuple):
    """Published (or expected) state of a pod in a slice."""

    service: ObjectKey
    address: str
    ready: bool


class _Meta(NarrowMeta, frozen=True, rename="camel", gc=False):
    labels: dict[str, str] | None = None


class _Target(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _Conditions(msgspec.Struct, frozen=True, gc=False):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    addresses: tuple[str, ...] = ()
    conditions: _Conditions = _Conditions()
    target_ref: _Target = _Target()


class ObservedSlice(msgspec.Struct, frozen=True, gc=False):
    """The compared part of a slice."""

    metadata: _Meta
    endpoints: tuple[_Endpoint, ...] | None = None


class _Address(msgspec.Struct, frozen=True, rename="camel", gc=False):
    target_ref: _Target = _Target()


class _Subset(msgspec.Struct, frozen=True, rename="camel", gc=False):
    addresses: tuple[_Address, ...] = ()
    not_ready_addresses: tuple[_Address, ...] = ()


class ObservedEndpoints(msgspec.Struct, frozen=True, gc=False):
    """The compared part of an Endpoints object."""

    metadata: NarrowMeta
    subsets: tuple[_Subset, ...] | None = None


OBSERVED_SLICES: Resource[ObservedSlice] = Resource(
    group="discovery.k8s.io", version="v1", plural="endpointslices", kind="EndpointSlice", wire=ObservedSlice
)
OBSERVED_ENDPOINTS: Resource[ObservedEndpoints] = Resource(
    group="", version="v1", plural="endpoints", kind="Endpoints", wire=ObservedEndpoints
)

_Content = dict[str, Published]


class Judge:
    """Compare published with expected state; each event costs O(its changes).

    Services without expectations (such as the API server's own) are ignored. The slices are correct when every
    expected pod is in exactly one slice of its service with the expected address and readiness, there are no other
    endpoints, and no slice exceeds its limit. The Endpoints are correct when every service has an object that lists as
    many of its pods as fit, ready pods first, each with the expected readiness.
    """

    def __init__(self, *, judge_endpoints: bool = True) -> None:
        self.judge_endpoints = judge_endpoints
        """Whether a controller maintains Endpoints; may change at any time."""
        self.slice_writes = 0
        """Slice events received: creates, updates and deletes."""
        self.endpoints_writes = 0
        self._expected: dict[ObjectKey, Published] = {}
        self._pods_of: dict[ObjectKey, tuple[set[str], set[str]]] = {}  # per service: ready, not ready
        self._slices: dict[ObjectKey, _Content] = {}
        self._places: dict[ObjectKey, dict[ObjectKey, Published]] = {}
        self._wrong_pods: set[ObjectKey] = set()
        self._wrong_slices: set[ObjectKey] = set()
        self._endpoints: dict[ObjectKey, tuple[set[str], set[str]]] = {}
        self._wrong_endpoints: set[ObjectKey] = set()

    # ------------------------------------------------------------------------------------- expected state

    def expect_service(self, service: ObjectKey) -> None:
        """Start comparing this service."""
        self._pods_of.setdefault(service, (set(), set()))
        self._judge_endpoints_of(service)

    def expect(self, pod: ObjectKey, wanted: Published) -> None:
        """Set the expected state of a pod. Its service must be expected."""
        self._expected[pod] = wanted
        ready, not_ready = self._pods_of[wanted.service]
        (not_ready if wanted.ready else ready).discard(pod.name)
        (ready if wanted.ready else not_ready).add(pod.name)
        self._judge_pod(pod)
        self._judge_endpoints_of(wanted.service)

    def expected(self, pod: ObjectKey) -> Published:
        """Return the expected state of a pod."""
        return self._expected[pod]

    # ------------------------------------------------------------------------------------ published state

    def slice_event(self, kind: EventType, item: ObservedSlice) -> Iterator[ObjectKey]:
        """Apply a slice event; return the pods whose published state changed."""
        namespace = item.metadata.namespace
        service = ObjectKey(namespace, (item.metadata.labels or {}).get(SERVICE_NAME_LABEL, ""))
        if service not in self._pods_of:
            return iter(())
        self.slice_writes += 1
        key = item.metadata.key
        before = self._slices.pop(key, {})
        now: _Content = {}
        self._wrong_slices.discard(key)
        if kind != "DELETED":
            endpoints = item.endpoints or ()
            for endpoint in endpoints:
                address = endpoint.addresses[0] if endpoint.addresses else ""
                name = endpoint.target_ref.name
                now[name] = Published(service, address, endpoint.conditions.ready is True)
            self._slices[key] = now
            if len(now) != len(endpoints) or len(now) > MAX_ENDPOINTS_PER_SLICE:
                self._wrong_slices.add(key)
        changed = [name for name, shown in now.items() if before.get(name) != shown]
        changed += [name for name in before if name not in now]
        pods = [ObjectKey(namespace, name) for name in changed]
        for pod in pods:
            places = self._places.setdefault(pod, {})
            shown = now.get(pod.name)
            if shown is None:
                places.pop(key, None)
            else:
                places[key] = shown
            self._judge_pod(pod)
        return iter(pods)

    def endpoints_event(self, kind: EventType, item: ObservedEndpoints) -> None:
        """Apply an Endpoints event."""
        service = item.metadata.key
        if service not in self._pods_of:
            return
        self.endpoints_writes += 1
        if kind == "DELETED":
            self._endpoints.pop(service, None)
        else:
            subsets = item.subsets or ()
            self._endpoints[service] = (
                _names(address for subset in subsets for address in subset.addresses),
                _names(address for subset in subsets for address in subset.not_ready_addresses),
            )
        self._judge_endpoints_of(service)

    # ----------------------------------------------------------------------------------------- comparison

    def is_pod_right(self, pod: ObjectKey) -> bool:
        """Return whether the slices publish a pod exactly once and as expected."""
        return pod not in self._wrong_pods

    def are_slices_right(self) -> bool:
        """Return whether all slices are as expected."""
        return not self._wrong_pods and not self._wrong_slices

    def are_endpoints_right(self) -> bool:
        """Return whether all Endpoints are as expected; always true while no controller maintains them."""
        return not self.judge_endpoints or not self._wrong_endpoints

    def is_empty(self) -> bool:
        """Return whether no slice and no Endpoints exists, not even an empty one."""
        return not self._slices and not self._endpoints

    def complaint(self) -> str:
        """Describe the differences for an error message."""
        pods, endpoints = sorted(self._wrong_pods), sorted(self._wrong_endpoints)
        return (
            f"{len(pods)} pods not published in slices as they are{_such_as(pods)}, "
            f"{len(self._wrong_slices)} slices malformed, "
            f"{len(endpoints)} Endpoints not right{_such_as(endpoints)}"
        )

    def _judge_pod(self, pod: ObjectKey) -> None:
        wanted = self._expected.get(pod)
        places = self._places.get(pod)
        shown = tuple(places.values()) if places else ()
        if shown == ((wanted,) if wanted is not None else ()):
            self._wrong_pods.discard(pod)
        else:
            self._wrong_pods.add(pod)

    def _judge_endpoints_of(self, service: ObjectKey) -> None:
        if self._are_endpoints_right(service):
            self._wrong_endpoints.discard(service)
        else:
            self._wrong_endpoints.add(service)

    def _are_endpoints_right(self, service: ObjectKey) -> bool:
        shown = self._endpoints.get(service)
        if shown is None:
            return False
        ready, not_ready = self._pods_of[service]
        room = MAX_ADDRESSES - min(len(ready), MAX_ADDRESSES)
        return (
            len(shown[0]) == MAX_ADDRESSES - room
            and shown[0] <= ready
            and len(shown[1]) == min(len(not_ready), room)
            and shown[1] <= not_ready
        )


def _names(addresses: Iterable[_Address]) -> set[str]:
    return {address.target_ref.name for address in addresses}


def _such_as(keys: list[ObjectKey]) -> str:
    return f" (such as {keys[0]})" if keys else ""
