"""The simulation's type of a pod, and predicates on it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from aiokube.api.meta import ObjectMeta, OwnerReference
from aiokube.api.resource import Resource
from aiokube.api.times import parse_time


class Probe(msgspec.Struct, frozen=True, rename="camel"):
    """The timing and thresholds of a probe; its action is irrelevant here."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container or init container. An init container with ``restart_policy`` Always is a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None


class Toleration(msgspec.Struct, frozen=True, rename="camel"):
    """A toleration of a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ReadinessGate(msgspec.Struct, frozen=True, rename="camel"):
    """A condition set by another controller; the pod is not ready without it."""

    condition_type: str = ""


class NodeRequirement(msgspec.Struct, frozen=True, rename="camel"):
    """A requirement on a node's labels or name."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel"):
    """Requirements that must all match."""

    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeRequirement, ...] | None = None


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """Required node affinity; preferred terms are not read."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's affinity that is read."""

    node_affinity: NodeAffinity | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod's spec that the simulation reads."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    host_network: bool = False
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    readiness_gates: tuple[ReadinessGate, ...] | None = None


class PodCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One condition of a pod's status."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a container that waits for its start or restart."""

    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a running container."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a terminated container."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of a container; exactly one field is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str = ""
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodAddress(msgspec.Struct, frozen=True, rename="camel"):
    """An address of a pod or its host."""

    ip: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod: the fields that a kubelet writes."""

    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    host_ips: tuple[PodAddress, ...] | None = msgspec.field(default=None, name="hostIPs")
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: tuple[PodAddress, ...] | None = msgspec.field(default=None, name="podIPs")
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class SimulatedPod(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod that the simulation reads."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


SIMULATED_PODS: Resource[SimulatedPod] = Resource(
    group="", version="v1", plural="pods", kind="Pod", wire=SimulatedPod
)

FINISHED_PHASES = ("Succeeded", "Failed")


def is_terminating(pod: SimulatedPod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_finished(pod: SimulatedPod) -> bool:
    """Return whether all containers have terminated permanently."""
    return pod.status.phase in FINISHED_PHASES


def condition_of(pod: SimulatedPod, kind: str) -> PodCondition | None:
    """Return a condition by its type."""
    for condition in pod.status.conditions or ():
        if condition.type == kind:
            return condition
    return None


def is_ready(pod: SimulatedPod) -> bool:
    """Return whether the condition Ready is true."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.status == "True"


def available_in(pod: SimulatedPod, min_ready_seconds: float, now: datetime) -> float | None:
    """Return the seconds until a pod counts as available: 0 or less if it does now, None if it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.status != "True":
        return None
    if not min_ready_seconds:
        return 0.0
    since = parse_time(condition.last_transition_time)
    return 0.0 if since is None else min_ready_seconds - (now - since).total_seconds()


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the controlling owner reference, if any."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def deletion_order(pod: SimulatedPod) -> tuple[Any, ...]:
    """Return a sort key that puts the pods to delete first at the start.

    Unscheduled before scheduled, pending before running, not ready before ready, ready for a shorter time,
    more restarts, younger.
    """
    ready = condition_of(pod, "Ready")
    ready_since = (ready.last_transition_time or "") if ready is not None and ready.status == "True" else ""
    restarts = max((status.restart_count for status in pod.status.container_statuses or ()), default=0)
    return (
        bool(pod.spec.node_name),
        {"Pending": 0, "Running": 2}.get(pod.status.phase, 1),
        is_ready(pod),
        _Descending(ready_since),
        -restarts,
        _Descending(pod.metadata.creation_timestamp or ""),
        pod.metadata.name,
    )


class _Descending(msgspec.Struct, frozen=True):
    """A text that sorts in descending order."""

    text: str

    def __lt__(self, other: "_Descending") -> bool:
        return other.text < self.text


def pod_of_template(
    template: Mapping[str, Any], name: str, owner: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return the JSON of a pod with an owner and additional labels; the template is not modified."""
    metadata = template.get("metadata") or {}
    meta = {
        "name": name,
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": [dict(owner)],
        **({"finalizers": metadata["finalizers"]} if metadata.get("finalizers") else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": dict(template.get("spec") or {}),
    }
