"""Decide which pods a ReplicaSet adopts, releases, creates and deletes. Pure."""

from collections.abc import Container, Sequence
from datetime import datetime

import msgspec

from aiokube.api.apps import ReplicaSet, ReplicaSetStatus
from aiokube.api.selectors import matches, selector_of
from tinykube.simulate.pods import (
    SimulatedPod,
    available_in,
    controller_of,
    deletion_order,
    is_finished,
    is_terminating,
)


class ReplicaSetPlan(msgspec.Struct, frozen=True):
    """The writes, in order. ``requeue_after_seconds`` is the time until the next pod becomes available."""

    adopt: tuple[SimulatedPod, ...] = ()
    release: tuple[SimulatedPod, ...] = ()
    create: int = 0
    delete: tuple[SimulatedPod, ...] = ()
    status: ReplicaSetStatus = ReplicaSetStatus()
    requeue_after_seconds: float | None = None


def plan_replica_set(
    replica_set: ReplicaSet,
    pods: Sequence[SimulatedPod],
    now: datetime,
    *,
    deleting: Container[str] = (),
    min_ready_seconds: float | None = None,
) -> ReplicaSetPlan:
    """Return the next writes and the current status.

    ``pods`` are the ReplicaSet's own and those of its namespace without a controller; ``deleting`` holds the
    uids of pods whose deletion the server has accepted. Terminated and terminating pods do not count and are
    replaced.
    """
    selector = selector_of(replica_set.spec.selector)
    ours: list[SimulatedPod] = []
    adopt: list[SimulatedPod] = []
    release: list[SimulatedPod] = []
    deleted = replica_set.metadata.deletion_timestamp is not None
    for pod in pods:
        owner = controller_of(pod.metadata)
        fits = selector.matches(pod.metadata.labels or {})
        active = not is_terminating(pod) and not is_finished(pod) and pod.metadata.uid not in deleting
        if owner is None:
            if fits and active and not deleted:
                adopt.append(pod)
                ours.append(pod)
        elif owner.uid == replica_set.metadata.uid:
            if not fits:
                release.append(pod)
            elif active:
                ours.append(pod)
    missing = 0 if deleted else replica_set.spec.replicas - len(ours)
    doomed = sorted(ours, key=deletion_order)[:-missing] if missing < 0 else []
    status, next_change = _status(replica_set, ours, now, min_ready_seconds)
    return ReplicaSetPlan(
        adopt=tuple(adopt),
        release=tuple(release),
        create=max(missing, 0),
        delete=tuple(doomed),
        status=status,
        requeue_after_seconds=next_change,
    )


def _status(
    replica_set: ReplicaSet, pods: Sequence[SimulatedPod], now: datetime, min_ready_seconds: float | None
) -> tuple[ReplicaSetStatus, float | None]:
    wait = replica_set.spec.min_ready_seconds if min_ready_seconds is None else min_ready_seconds
    template_labels = (replica_set.spec.template.get("metadata") or {}).get("labels") or {}
    times = [left for pod in pods if (left := available_in(pod, wait, now)) is not None]
    status = ReplicaSetStatus(
        observed_generation=replica_set.metadata.generation or 0,
        replicas=len(pods),
        fully_labeled_replicas=sum(matches(template_labels, pod.metadata.labels or {}) for pod in pods),
        ready_replicas=len(times),
        available_replicas=sum(left <= 0 for left in times),
    )
    return status, min((left for left in times if left > 0), default=None)
