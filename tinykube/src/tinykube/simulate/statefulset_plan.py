"""Decide which pod of a StatefulSet is created or deleted next. Pure."""

import re
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aiokube.api.apps import StatefulSet, StatefulSetStatus, Template
from tinykube.simulate.pods import (
    SimulatedPod,
    available_in,
    is_finished,
    is_ready,
    is_terminating,
    pod_of_template,
)

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NUMBER = re.compile(r"(.*)-([0-9]+)")


class NewPod(msgspec.Struct, frozen=True):
    """A pod to create, with its revision."""

    ordinal: int
    revision: str


class StatefulSetPlan(msgspec.Struct, frozen=True):
    """The writes, in order. ``requeue_after_seconds`` is the time until the next pod becomes available."""

    create: tuple[NewPod, ...] = ()
    delete: tuple[SimulatedPod, ...] = ()
    status: StatefulSetStatus = StatefulSetStatus()
    requeue_after_seconds: float | None = None


def ordinal_of(stateful_set: str, pod: str) -> int | None:
    """Return the ordinal in a pod's name, or None if it is not a pod name of this StatefulSet."""
    found = _NUMBER.fullmatch(pod)
    return int(found[2]) if found is not None and found[1] == stateful_set else None


def plan_stateful_set(
    item: StatefulSet,
    pods: Sequence[SimulatedPod],
    now: datetime,
    *,
    update: str,
    current: str,
    deleting: Container[str] = (),
    min_ready_seconds: float | None = None,
) -> StatefulSetPlan:
    """Return the next step and the current status.

    ``pods`` are the StatefulSet's own; ``update`` is the revision name of the current template, ``current``
    that of the previous one until all pods have been updated. ``OrderedReady`` waits until all earlier pods
    are available; an update replaces pods one by one, from the highest ordinal down to the partition.
    """
    spec = item.spec
    wait = spec.min_ready_seconds if min_ready_seconds is None else min_ready_seconds
    numbered = {
        number: pod
        for pod in pods
        if (number := ordinal_of(item.metadata.name, pod.metadata.name)) is not None
    }
    left = {number: available_in(pod, wait, now) for number, pod in numbered.items()}
    available = {
        number for number, seconds in left.items() if seconds is not None and seconds <= 0
        and not _is_deleting(numbered[number], deleting)
    }  # fmt: skip
    create: tuple[NewPod, ...] = ()
    delete: tuple[SimulatedPod, ...] = ()
    if item.metadata.deletion_timestamp is None:
        create, delete = _step(item, numbered, available, deleting, update, current)
    status = _status(item, numbered, available, deleting, update, current)
    waits = [seconds for seconds in left.values() if seconds is not None and seconds > 0]
    return StatefulSetPlan(create, delete, status, min(waits, default=None))


def _is_deleting(pod: SimulatedPod, deleting: Container[str]) -> bool:
    return is_terminating(pod) or pod.metadata.uid in deleting


def _step(
    item: StatefulSet,
    pods: dict[int, SimulatedPod],
    available: Container[int],
    deleting: Container[str],
    update: str,
    current: str,
) -> tuple[tuple[NewPod, ...], tuple[SimulatedPod, ...]]:
    spec = item.spec
    first = spec.ordinals.start if spec.ordinals is not None else 0
    wanted = range(first, first + spec.replicas)
    ordered = spec.pod_management_policy != "Parallel"
    rolling = spec.update_strategy.rolling_update
    partition = rolling.partition if rolling is not None else 0
    keeps_old = spec.update_strategy.type == "RollingUpdate"
    create: list[NewPod] = []
    delete: list[SimulatedPod] = []
    for number in wanted:
        pod = pods.get(number)
        if pod is None:
            old = keeps_old and number - first < partition
            create.append(NewPod(number, current if old else update))
        elif _is_deleting(pod, deleting):
            pass
        elif is_finished(pod):
            delete.append(pod)
        elif number in available:
            continue
        if ordered:
            return tuple(create), tuple(delete)
    condemned = [pods[number] for number in sorted(pods, reverse=True) if number not in wanted]
    if condemned and ordered:
        gone = [pod for pod in condemned if _is_deleting(pod, deleting)]
        return tuple(create), (*delete, *([] if gone else condemned[:1]))
    delete += [pod for pod in condemned if not _is_deleting(pod, deleting)]
    if spec.update_strategy.type != "RollingUpdate" or condemned:
        return tuple(create), tuple(delete)
    for number in reversed(wanted[partition:] if partition else wanted):
        pod = pods.get(number)
        if pod is None or _is_deleting(pod, deleting) or pod in delete:
            break
        if revision_of(pod) != update:
            delete.append(pod)
            break
        if number not in available:
            break
    return tuple(create), tuple(delete)


def revision_of(pod: SimulatedPod) -> str:
    """Return the revision label of a pod."""
    return (pod.metadata.labels or {}).get(REVISION_LABEL, "")


def _status(
    item: StatefulSet,
    pods: dict[int, SimulatedPod],
    available: Sequence[int] | set[int],
    deleting: Container[str],
    update: str,
    current: str,
) -> StatefulSetStatus:
    there = [pod for pod in pods.values() if not is_finished(pod)]
    staying = [pod for pod in there if not _is_deleting(pod, deleting)]
    updated = sum(revision_of(pod) == update for pod in staying)
    ready = sum(map(is_ready, staying))
    done = updated == len(there) == ready == item.spec.replicas
    return StatefulSetStatus(
        observed_generation=item.metadata.generation or 0,
        replicas=len(there),
        ready_replicas=ready,
        available_replicas=len(available),
        current_replicas=updated if done else sum(revision_of(pod) == current for pod in staying),
        updated_replicas=updated,
        current_revision=update if done else current,
        update_revision=update,
    )


def pod_document(
    item: StatefulSet, new: NewPod, template: Template, owner: dict[str, object]
) -> dict[str, Any]:
    """Return the JSON of a pod: its name is its host name, its subdomain the StatefulSet's service."""
    name = f"{item.metadata.name}-{new.ordinal}"
    labels = {REVISION_LABEL: new.revision, POD_NAME_LABEL: name, POD_INDEX_LABEL: str(new.ordinal)}
    document = pod_of_template(template, name, owner, labels)
    spec = document["spec"]
    spec["hostname"] = name
    if item.spec.service_name:
        spec["subdomain"] = item.spec.service_name
    claims = [
        (claim.get("metadata") or {}).get("name", "") for claim in item.spec.volume_claim_templates or ()
    ]
    if claims:
        others = [each for each in spec.get("volumes") or [] if each.get("name") not in claims]
        spec["volumes"] = [
            *others,
            *({"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in claims),
        ]
    return document
