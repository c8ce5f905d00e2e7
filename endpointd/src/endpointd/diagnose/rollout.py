"""Compute the cost of a rolling update for EndpointSlices and Endpoints: writes, bytes and time. Pure.

The plans are the controllers' own; only time is simulated: each step takes as long as a pod takes to become
ready.
"""

import zlib
from collections.abc import Iterable, Sequence

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from endpointd.controllers.endpoints.plan import Create, Update
from endpointd.controllers.endpoints.state import ServiceState as EndpointsState
from endpointd.controllers.endpointslice.desired import ZoneOf
from endpointd.controllers.endpointslice.state import ServiceState as SliceState
from endpointd.diagnose.offline import stable_name


class RolloutSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a rolling update and its consumers. Durations are in seconds."""

    surge: str = "25%"
    unavailable: str = "25%"
    ready_after_seconds: float = 10.0
    """From a pod's start until it is ready, plus or minus a quarter; deterministic per pod."""
    stop_seconds: float = 5.0
    """From a pod's deletion until it has stopped, plus or minus a quarter."""
    consumers: int = 100
    """The number of nodes that watch the slices or the Endpoints."""
    max_endpoints_per_slice: int = 100
    batch_seconds: float = 0.0
    """The value of --endpointslice-updates-batch-period: changes within it are written together.

    Changes within :data:`SYNC_SECONDS` are always written together: a write takes that long, and changes that
    arrive during it go into the next.
    """


SYNC_SECONDS = 0.02
_SPREAD = 0.25


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """The cost of one of the two APIs over the whole update."""

    writes: int
    bytes_written: int
    """The sum of the objects' JSON sizes."""
    bytes_to_each_consumer: int
    bytes_to_all_consumers: int
    largest_object_bytes: int


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """One moment of the update."""

    at_seconds: float
    ready: int
    not_ready: int
    terminating: int
    slice_writes: int
    """So far."""
    slice_bytes: int
    endpoints_bytes: int


class Rollout(msgspec.Struct, frozen=True, rename="camel"):
    """A rolling update from its first pod to its last."""

    pods: int
    seconds: float
    slices: Cost
    endpoints: Cost
    steps: tuple[Step, ...]
    lowest_ready: int


def int_or_percent(text: str, total: int, *, up: bool) -> int:
    """Return a number or a percentage of ``total``, rounded as Deployments do: surge up, unavailable down.

    Raises ``ValueError`` for any other text.
    """
    number = text.removesuffix("%")
    if not number.isdigit():
        raise ValueError(f"{text!r} is neither a number nor a percentage")
    if number == text:
        return int(text)
    return -(-int(number) * total // 100) if up else int(number) * total // 100


class _Sizes:
    """Counts the writes and bytes of one kind of object."""

    def __init__(self) -> None:
        self.writes = 0
        self.written = 0
        self.largest = 0

    def count(self, item: EndpointSlice | Endpoints | None) -> None:
        self.writes += 1
        size = len(msgspec.json.encode(item)) if item is not None else 0
        self.written += size
        self.largest = max(self.largest, size)

    def cost(self, consumers: int) -> Cost:
        return Cost(self.writes, self.written, self.written, self.written * consumers, self.largest)


class _Cluster:
    """The slices and the Endpoints of one service, written as the controllers would."""

    def __init__(
        self, service: Service, pods: Sequence[Pod], zone_of: ZoneOf, max_endpoints_per_slice: int
    ) -> None:
        self._max_endpoints_per_slice = max_endpoints_per_slice
        self._slices = SliceState.build(service, zone_of, pods, ())
        self._endpoints = EndpointsState(service, pods)
        self._stored: Endpoints | None = None
        self._names = 0
        self.slices = _Sizes()
        self.endpoints = _Sizes()
        self.write()
        self.slices, self.endpoints = _Sizes(), _Sizes()  # the initial objects are not a cost of the update

    def change(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        if pod is not None:
            self._slices.set_pod(pod.metadata.name, new)
            self._endpoints.pod_changed(old, new)

    def write(self) -> None:
        for _, plan in self._slices.plan(self._max_endpoints_per_slice, None).address_type_plans:
            for endpoint_slice in plan.create:
                self._names += 1
                name = stable_name(endpoint_slice.metadata.generate_name or "", str(self._names))
                metadata = msgspec.structs.replace(
                    endpoint_slice.metadata, name=name, uid=name, resource_version="1"
                )
                self._observe(name, msgspec.structs.replace(endpoint_slice, metadata=metadata))
            for endpoint_slice in plan.update:
                self._observe(endpoint_slice.metadata.name, endpoint_slice)
            for endpoint_slice in plan.delete:
                self._slices.observe(endpoint_slice.metadata.name, None)
                self.slices.count(None)
        due = self._endpoints.plan(self._stored, None)
        if isinstance(due, Create | Update):
            self._stored = due.body
            self.endpoints.count(due.body)

    def _observe(self, name: str, endpoint_slice: EndpointSlice) -> None:
        self._slices.observe(name, endpoint_slice)
        self.slices.count(endpoint_slice)


class _PodChange(msgspec.Struct):
    """A scheduled change of one pod."""

    at: float
    old: Pod | None
    new: Pod | None


def simulate_rollout(
    service: Service, pods: Iterable[Pod], zone_of: ZoneOf, settings: RolloutSettings
) -> Rollout:
    """Replace every pod of a service as a Deployment does, and count writes and bytes.

    Raises ``ValueError`` if neither surge nor unavailable allows a step.
    """
    before = sorted(pods, key=lambda pod: pod.metadata.name)
    total = len(before)
    surge = int_or_percent(settings.surge, total, up=True)
    unavailable = int_or_percent(settings.unavailable, total, up=False)
    if total and not surge and not unavailable:
        raise ValueError("surge and unavailable are both 0, so no pod can be replaced: allow one of them")
    cluster = _Cluster(service, before, zone_of, settings.max_endpoints_per_slice)
    old, new_pods = list(before), [_successor(pod, number) for number, pod in enumerate(before)]
    pending: list[_PodChange] = []
    ready_new = terminating = not_ready = started = 0
    clock = 0.0
    steps: list[Step] = []
    lowest = total

    def record_step() -> None:
        nonlocal lowest
        ready = len(old) + ready_new
        lowest = min(lowest, ready)
        steps.append(
            Step(
                clock,
                ready,
                not_ready,
                terminating,
                cluster.slices.writes,
                cluster.slices.written,
                cluster.endpoints.written,
            )
        )

    record_step()
    while old or pending or started < total:
        # Start new pods: at most the desired number plus the surge exist at a time.
        while started < total and len(old) + started < total + surge:
            pod = new_pods[started]
            waiting = msgspec.structs.replace(pod, ready=False)
            cluster.change(None, waiting)
            not_ready += 1
            started += 1
            pending.append(_PodChange(clock + _spread(settings.ready_after_seconds, pod), waiting, pod))
        # Delete old pods: at most ``unavailable`` fewer than desired are ready.
        while old and len(old) + ready_new > total - unavailable and len(old) + started > total - unavailable:
            if started < total and len(old) + ready_new - 1 < total - unavailable:
                break
            deleted_pod = old.pop()
            terminating_pod = msgspec.structs.replace(deleted_pod, terminating=True)
            cluster.change(deleted_pod, terminating_pod)
            terminating += 1
            pending.append(
                _PodChange(clock + _spread(settings.stop_seconds, deleted_pod), terminating_pod, None)
            )
        cluster.write()
        record_step()
        if not pending:
            break
        clock = min(pod_change.at for pod_change in pending)
        window = clock + max(settings.batch_seconds, SYNC_SECONDS)
        due = [pod_change for pod_change in pending if pod_change.at <= window]
        clock = max(pod_change.at for pod_change in due)
        pending = [pod_change for pod_change in pending if pod_change.at > clock]
        for pod_change in due:
            cluster.change(pod_change.old, pod_change.new)
            if pod_change.new is None:
                terminating -= 1
            else:
                not_ready -= 1
                ready_new += 1
        cluster.write()
        record_step()
    return Rollout(
        pods=total,
        seconds=clock,
        slices=cluster.slices.cost(settings.consumers),
        endpoints=cluster.endpoints.cost(settings.consumers),
        steps=tuple(steps),
        lowest_ready=lowest,
    )


def _spread(seconds: float, pod: Pod) -> float:
    fraction = zlib.crc32(pod.metadata.name.encode()) / 2**32
    return seconds * (1 - _SPREAD + 2 * _SPREAD * fraction)


def _successor(pod: Pod, number: int) -> Pod:
    name = stable_name(f"{pod.metadata.name.rpartition('-')[0] or pod.metadata.name}-", "next", str(number))
    host, low = divmod(number + 1, 250)
    addresses = tuple(
        f"fd00:10:245::{number + 1:x}" if ":" in address else f"10.245.{host}.{low + 1}"
        for address in pod.pod_ips
    )
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"pod-{name}")
    return msgspec.structs.replace(
        pod,
        metadata=metadata,
        pod_ips=addresses,
        pod_ip=addresses[0] if addresses else None,
        ready=True,
        terminating=False,
    )
