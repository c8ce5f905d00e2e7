"""What the slices and Endpoints of a cluster publish, beside what they should: kept as events arrive.

The judge of both sides. It knows pods by name, address and readiness, and looks at nothing else of an endpoint; the
details are the business of the differential tests.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from aiokube.api.discovery import SERVICE_NAME_LABEL
from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.api.resource import Resource

MAX_ADDRESSES = 1000  # of one Endpoints
MAX_ENDPOINTS_PER_SLICE = 100

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Published(NamedTuple):
    """How a pod is (or should be) published in a slice."""

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
    """A slice as far as it is judged."""

    metadata: _Meta
    endpoints: tuple[_Endpoint, ...] | None = None


class _Address(msgspec.Struct, frozen=True, rename="camel", gc=False):
    target_ref: _Target = _Target()


class _Subset(msgspec.Struct, frozen=True, rename="camel", gc=False):
    addresses: tuple[_Address, ...] = ()
    not_ready_addresses: tuple[_Address, ...] = ()


class ObservedEndpoints(msgspec.Struct, frozen=True, gc=False):
    """An Endpoints as far as it is judged."""

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
    """Compares what is published with what should be, O(what an event changes) each time.

    Services that were never expected (the API server's own, say) are not looked at. The slices are right when every
    expected pod stands in exactly one slice of its service, with its address and readiness, nothing else stands
    anywhere, and no slice is larger than it may be. The Endpoints are right when every service has one, which shows
    as many of its pods as fit, the ready ones first, each as what it is.
    """

    def __init__(self, *, judge_endpoints: bool = True) -> None:
        self.judge_endpoints = judge_endpoints
        """Whether anybody keeps the Endpoints; can be changed at any time."""
        self.slice_writes = 0
        """Events of slices so far: creations, updates and deletions."""
        self.endpoints_writes = 0
        self._expected: dict[ObjectKey, Published] = {}
        self._pods_of: dict[ObjectKey, tuple[set[str], set[str]]] = {}  # of a service: ready, not ready
        self._slices: dict[ObjectKey, _Content] = {}
        self._places: dict[ObjectKey, dict[ObjectKey, Published]] = {}
        self._wrong_pods: set[ObjectKey] = set()
        self._wrong_slices: set[ObjectKey] = set()
        self._endpoints: dict[ObjectKey, tuple[set[str], set[str]]] = {}
        self._wrong_endpoints: set[ObjectKey] = set()

    # ------------------------------------------------------------------------------------ what should be

    def expect_service(self, service: ObjectKey) -> None:
        """Look at this service from now on."""
        self._pods_of.setdefault(service, (set(), set()))
        self._judge_endpoints_of(service)

    def expect(self, pod: ObjectKey, wanted: Published) -> None:
        """Say how a pod should be published from now on. Its service must be expected."""
        self._expected[pod] = wanted
        ready, not_ready = self._pods_of[wanted.service]
        (not_ready if wanted.ready else ready).discard(pod.name)
        (ready if wanted.ready else not_ready).add(pod.name)
        self._judge_pod(pod)
        self._judge_endpoints_of(wanted.service)

    def expected(self, pod: ObjectKey) -> Published:
        """Return how a pod should be published."""
        return self._expected[pod]

    # ---------------------------------------------------------------------------------------- what is

    def slice_event(self, kind: EventType, item: ObservedSlice) -> Iterator[ObjectKey]:
        """Take in an event of a slice; return the pods that it published otherwise than before."""
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
        """Take in an event of an Endpoints."""
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

    # ------------------------------------------------------------------------------------- the verdict

    def is_pod_right(self, pod: ObjectKey) -> bool:
        """Return whether the slices publish a pod as expected, once."""
        return pod not in self._wrong_pods

    def are_slices_right(self) -> bool:
        """Return whether all slices are as they should be."""
        return not self._wrong_pods and not self._wrong_slices

    def are_endpoints_right(self) -> bool:
        """Return whether all Endpoints are as they should be; always, where they are not judged."""
        return not self.judge_endpoints or not self._wrong_endpoints

    def is_empty(self) -> bool:
        """Return whether nothing is published at all, no empty object either."""
        return not self._slices and not self._endpoints

    def complaint(self) -> str:
        """Say what is not right, for a message."""
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
