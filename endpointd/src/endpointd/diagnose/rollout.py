"""What a rolling update costs: slice writes, bytes to every node, and time, EndpointSlices against Endpoints. Pure.

The plans are the controllers' own; only time is made up: each step takes as long as a pod takes to become ready.
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
    """How a rolling update goes on, and who listens. Durations are in seconds."""

    surge: str = "25%"
    unavailable: str = "25%"
    ready_after_seconds: float = 10.0
    """From a pod's start until it is ready, give or take a quarter: always the same for the same pod."""
    stop_seconds: float = 5.0
    """From a pod's deletion until it is gone, give or take a quarter."""
    consumers: int = 100
    """Nodes that watch the slices, or the Endpoints."""
    max_endpoints_per_slice: int = 100
    batch_seconds: float = 0.0
    """What --endpointslice-updates-batch-period would be: changes within it are written once.

    Changes within :data:`SYNC_SECONDS` always are: a write takes that long, and what changes meanwhile goes with the next.
    """


SYNC_SECONDS = 0.02
_SPREAD = 0.25


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """What one of the two APIs costs, over the whole update."""

    writes: int
    bytes_written: int
    """Sum of the objects' sizes, as JSON."""
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


def share(text: str, total: int, *, up: bool) -> int:
    """Return a number or a percentage of ``total``, rounded as Deployments do: surge up, unavailable down.

    Raises ``ValueError`` for what is neither.
    """
    number = text.removesuffix("%")
    if not number.isdigit():
        raise ValueError(f"{text!r} is neither a number nor a percentage")
    if number == text:
        return int(text)
    return -(-int(number) * total // 100) if up else int(number) * total // 100


class _Sizes:
    """Keeps one object after another, and counts."""

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

    def __init__(self, service: Service, pods: Sequence[Pod], zone_of: ZoneOf, most: int) -> None:
        self._most = most
        self._slices = SliceState.build(service, zone_of, pods, ())
        self._endpoints = EndpointsState(service, pods)
        self._stored: Endpoints | None = None
        self._names = 0
        self.slices = _Sizes()
        self.endpoints = _Sizes()
        self.write()
        self.slices, self.endpoints = _Sizes(), _Sizes()  # what stood before the update is not its cost

    def change(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        if pod is not None:
            self._slices.set_pod(pod.metadata.name, new)
            self._endpoints.pod_changed(old, new)

    def write(self) -> None:
        for _, plan in self._slices.plan(self._most, None).families:
            for endpoint_slice in plan.create:
                self._names += 1
                name = stable_name(endpoint_slice.metadata.generate_name or "", str(self._names))
                metadata = msgspec.structs.replace(
                    endpoint_slice.metadata, name=name, uid=name, resource_version="1"
                )
                self._see(name, msgspec.structs.replace(endpoint_slice, metadata=metadata))
            for endpoint_slice in plan.update:
                self._see(endpoint_slice.metadata.name, endpoint_slice)
            for endpoint_slice in plan.delete:
                self._slices.observe(endpoint_slice.metadata.name, None)
                self.slices.count(None)
        due = self._endpoints.plan(self._stored, None)
        if isinstance(due, Create | Update):
            self._stored = due.body
            self.endpoints.count(due.body)

    def _see(self, name: str, endpoint_slice: EndpointSlice) -> None:
        self._slices.observe(name, endpoint_slice)
        self.slices.count(endpoint_slice)


class _Life(msgspec.Struct):
    """What happens to one pod of the update, and when."""

    at: float
    old: Pod | None
    new: Pod | None


def simulate_rollout(
    service: Service, pods: Iterable[Pod], zone_of: ZoneOf, settings: RolloutSettings
) -> Rollout:
    """Replace every pod of a service by another, as a Deployment does, and count what is written and sent.

    Raises ``ValueError`` where neither surge nor unavailable allows a step.
    """
    before = sorted(pods, key=lambda pod: pod.metadata.name)
    total = len(before)
    surge = share(settings.surge, total, up=True)
    unavailable = share(settings.unavailable, total, up=False)
    if total and not surge and not unavailable:
        raise ValueError("with neither surge nor unavailable pods no step can be taken: allow one of them")
    cluster = _Cluster(service, before, zone_of, settings.max_endpoints_per_slice)
    old, fresh = list(before), [_successor(pod, number) for number, pod in enumerate(before)]
    coming: list[_Life] = []
    ready_new = terminating = not_ready = started = 0
    clock = 0.0
    steps: list[Step] = []
    lowest = total

    def note() -> None:
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

    note()
    while old or coming or started < total:
        # Start what may be started: at most the wanted number and the surge are alive together.
        while started < total and len(old) + started < total + surge:
            pod = fresh[started]
            waiting = msgspec.structs.replace(pod, ready=False)
            cluster.change(None, waiting)
            not_ready += 1
            started += 1
            coming.append(_Life(clock + _spread(settings.ready_after_seconds, pod), waiting, pod))
        # Take away what may be taken away: at most ``unavailable`` fewer than wanted are ready.
        while old and len(old) + ready_new > total - unavailable and len(old) + started > total - unavailable:
            if started < total and len(old) + ready_new - 1 < total - unavailable:
                break
            leaving = old.pop()
            going = msgspec.structs.replace(leaving, terminating=True)
            cluster.change(leaving, going)
            terminating += 1
            coming.append(_Life(clock + _spread(settings.stop_seconds, leaving), going, None))
        cluster.write()
        note()
        if not coming:
            break
        clock = min(life.at for life in coming)
        window = clock + max(settings.batch_seconds, SYNC_SECONDS)
        due = [life for life in coming if life.at <= window]
        clock = max(life.at for life in due)
        coming = [life for life in coming if life.at > clock]
        for life in due:
            cluster.change(life.old, life.new)
            if life.new is None:
                terminating -= 1
            else:
                not_ready -= 1
                ready_new += 1
        cluster.write()
        note()
    return Rollout(
        pods=total,
        seconds=clock,
        slices=cluster.slices.cost(settings.consumers),
        endpoints=cluster.endpoints.cost(settings.consumers),
        steps=tuple(steps),
        lowest_ready=lowest,
    )


def _spread(seconds: float, pod: Pod) -> float:
    part = zlib.crc32(pod.metadata.name.encode()) / 2**32
    return seconds * (1 - _SPREAD + 2 * _SPREAD * part)


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
