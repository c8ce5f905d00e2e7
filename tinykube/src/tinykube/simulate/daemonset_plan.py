"""Decide on which nodes a DaemonSet creates and deletes pods. Pure."""

from collections.abc import Container, Sequence
from datetime import datetime

import msgspec

from aiokube.api.apps import DaemonSet, DaemonSetStatus
from tinykube.simulate.int_or_percent import scaled_value
from tinykube.simulate.nodes import SimulatedNode
from tinykube.simulate.pods import (
    PodSpec,
    SimulatedPod,
    Toleration,
    available_in,
    is_finished,
    is_ready,
    is_terminating,
)
from tinykube.simulate.scheduler_plan import unfit

REVISION_LABEL = "controller-revision-hash"
TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
)
"""Tolerations that every DaemonSet pod gets in addition to those of its template."""


class DaemonSetPlan(msgspec.Struct, frozen=True):
    """The writes, in order. ``requeue_after_seconds`` is the time until the next pod becomes available."""

    create: tuple[str, ...] = ()
    """Names of the nodes that need a pod."""
    delete: tuple[SimulatedPod, ...] = ()
    status: DaemonSetStatus = DaemonSetStatus()
    requeue_after_seconds: float | None = None


class _Place(msgspec.Struct, frozen=True):
    """One node, and its pods that are not being deleted."""

    node: str
    old: tuple[SimulatedPod, ...]
    new: tuple[SimulatedPod, ...]
    busy: bool
    """Whether a pod on the node is still terminating."""
    old_available: bool
    new_available: bool


def plan_daemon_set(
    item: DaemonSet,
    nodes: Sequence[SimulatedNode],
    pods: Sequence[SimulatedPod],
    now: datetime,
    *,
    hashed: str,
    deleting: Container[str] = (),
    min_ready_seconds: float | None = None,
) -> DaemonSetPlan:
    """Return the next writes and the current status.

    ``pods`` are the DaemonSet's own; ``hashed`` is the revision label of the current template. Each eligible
    node gets one pod. A rolling update replaces pods node by node within ``maxUnavailable`` (default 1) or
    ``maxSurge``.
    """
    wait = item.spec.min_ready_seconds if min_ready_seconds is None else min_ready_seconds
    left = {pod.metadata.uid: available_in(pod, wait, now) for pod in pods}
    spec = msgspec.convert(item.spec.template.get("spec") or {}, PodSpec)
    spec = msgspec.structs.replace(spec, tolerations=(*(spec.tolerations or ()), *TOLERATIONS))
    suiting = {
        node.metadata.name
        for node in nodes
        if not node.is_real and node.metadata.deletion_timestamp is None and unfit(spec, node) is None
    }
    places = [
        _place(name, [pod for pod in pods if pod.spec.node_name == name], hashed, left, deleting)
        for name in sorted(suiting)
    ]
    create: list[str] = []
    delete: list[SimulatedPod] = []
    if item.metadata.deletion_timestamp is None:
        delete = [
            pod
            for pod in pods
            if not _is_deleting(pod, deleting) and (is_finished(pod) or pod.spec.node_name not in suiting)
        ]
        create = [place.node for place in places if not (place.old or place.new or place.busy)]
        delete += [pod for place in places for pod in (*place.old[1:], *place.new[1:])]
        if item.spec.update_strategy.type == "RollingUpdate":
            more, less = _update(item, places)
            create += more
            delete += less
    waits = [seconds for seconds in left.values() if seconds is not None and seconds > 0]
    status = _status(item, places, pods, suiting)
    return DaemonSetPlan(tuple(create), tuple(delete), status, min(waits, default=None))


def _is_deleting(pod: SimulatedPod, deleting: Container[str]) -> bool:
    return is_terminating(pod) or pod.metadata.uid in deleting


def _place(
    node: str,
    pods: Sequence[SimulatedPod],
    hashed: str,
    left: dict[str, float | None],
    deleting: Container[str],
) -> _Place:
    def is_available(pod: SimulatedPod) -> bool:
        seconds = left[pod.metadata.uid]
        return seconds is not None and seconds <= 0

    staying = [pod for pod in pods if not _is_deleting(pod, deleting) and not is_finished(pod)]
    # Keep the first: an available pod, else the oldest.
    staying.sort(
        key=lambda pod: (not is_available(pod), pod.metadata.creation_timestamp or "", pod.metadata.name)
    )
    old = tuple(pod for pod in staying if (pod.metadata.labels or {}).get(REVISION_LABEL) != hashed)
    new = tuple(pod for pod in staying if pod not in old)
    return _Place(
        node,
        old,
        new,
        len(staying) < len(pods),
        any(map(is_available, old)),
        any(map(is_available, new)),
    )


def _update(item: DaemonSet, places: Sequence[_Place]) -> tuple[list[str], list[SimulatedPod]]:
    """Return the nodes that need a pod of the current template, and the old pods to delete."""
    rolling = item.spec.update_strategy.rolling_update
    surge = scaled_value(rolling.max_surge if rolling is not None else None, 0, len(places), round_up=True)
    allowed = scaled_value(
        rolling.max_unavailable if rolling is not None else None, 1, len(places), round_up=True
    )
    create: list[str] = []
    delete: list[SimulatedPod] = []
    if surge:
        room = surge - sum(bool(place.old and place.new) for place in places)
        for place in places:
            if not place.old:
                continue
            if place.new_available or not (place.new or place.old_available):
                delete.append(place.old[0])
            elif not place.new and not place.busy and room > 0:
                create.append(place.node)
                room -= 1
        return create, delete
    room = allowed - sum(not (place.old_available or place.new_available) for place in places)
    for place in places:
        if not place.old:
            continue
        if place.new or not place.old_available:
            delete.append(place.old[0])
        elif room > 0:
            delete.append(place.old[0])
            room -= 1
    return create, delete


def _status(
    item: DaemonSet, places: Sequence[_Place], pods: Sequence[SimulatedPod], suiting: Container[str]
) -> DaemonSetStatus:
    available = sum(place.old_available or place.new_available for place in places)
    ready = sum(any(map(is_ready, (*place.old, *place.new))) for place in places)
    return DaemonSetStatus(
        observed_generation=item.metadata.generation or 0,
        desired_number_scheduled=len(places),
        current_number_scheduled=sum(bool(place.old or place.new) for place in places),
        number_misscheduled=sum(pod.spec.node_name not in suiting and not is_finished(pod) for pod in pods),
        number_ready=ready,
        updated_number_scheduled=sum(bool(place.new) for place in places),
        number_available=available,
        number_unavailable=len(places) - available,
    )
