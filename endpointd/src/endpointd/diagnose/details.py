"""Decode the parts of a pod that explain its state: conditions, container states, readiness gates and ports."""

from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from aiokube.api.core import Pod, PodWire, project_pod
from aiokube.api.meta import NarrowMeta
from aiokube.api.resource import Resource


class _Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A part of a pod in JSON: every field may be absent or null."""


class Condition(_Wire, frozen=True):
    """One condition of a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerPort(_Wire, frozen=True):
    """One port that a container names."""

    name: str | None = None
    container_port: int = 0
    protocol: str | None = None


class Container(_Wire, frozen=True):
    """The spec of one container."""

    name: str | None = None
    image: str | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    readiness_probe: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None


class StateReason(_Wire, frozen=True):
    """The reason that a container waits or has terminated."""

    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None


class ContainerState(_Wire, frozen=True):
    """The state of a container: exactly one field is set."""

    waiting: StateReason | None = None
    running: dict[str, Any] | None = None
    terminated: StateReason | None = None


class ContainerStatus(_Wire, frozen=True):
    """The status of one container."""

    name: str | None = None
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class ReadinessGate(_Wire, frozen=True):
    """A condition that another controller must set before the pod is ready."""

    condition_type: str | None = None


class _Owner(_Wire, frozen=True):
    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


class _Meta(_Wire, frozen=True):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _Spec(_Wire, frozen=True):
    node_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    readiness_gates: tuple[ReadinessGate, ...] | None = None
    host_network: bool | None = None


class _PodIP(_Wire, frozen=True):
    ip: str | None = None


class _Status(_Wire, frozen=True):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: tuple[_PodIP, ...] | None = msgspec.field(default=None, name="podIPs")
    reason: str | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class PodDetailsWire(_Wire, frozen=True):
    """The explanatory parts of a pod in JSON, including every field of :class:`~aiokube.api.core.PodWire`."""

    metadata: _Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class PodDetails(msgspec.Struct, frozen=True, gc=False):
    """The details that explain a pod's state, next to the projection that determines it."""

    metadata: NarrowMeta
    deleted_at: str | None
    """The time of the delete request: the deletion timestamp minus the grace period, in RFC 3339."""
    owner: str
    """``ReplicaSet web-5d6f``, or ``""`` without a controller."""
    containers: tuple[Container, ...]
    sidecars: tuple[Container, ...]
    gates: tuple[str, ...]
    reason: str
    message: str
    conditions: dict[str, Condition]
    statuses: tuple[ContainerStatus, ...]
    init_statuses: tuple[ContainerStatus, ...]


_NO_META, _NO_SPEC, _NO_STATUS = _Meta(), _Spec(), _Status()


def project_details(wire: PodDetailsWire) -> PodDetails:
    """Return the explanatory details of a pod."""
    meta, spec, status = wire.metadata or _NO_META, wire.spec or _NO_SPEC, wire.status or _NO_STATUS
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    conditions: dict[str, Condition] = {}
    for condition in status.conditions or ():
        conditions.setdefault(condition.type or "", condition)  # the first of a type counts (0.4)
    return PodDetails(
        metadata=NarrowMeta(
            name=meta.name or "",
            namespace=meta.namespace or "",
            uid=meta.uid or "",
            resource_version=meta.resource_version or "",
        ),
        deleted_at=_requested_at(meta.deletion_timestamp, meta.deletion_grace_period_seconds),
        owner=f"{owner.kind} {owner.name}" if owner is not None else "",
        containers=spec.containers or (),
        sidecars=tuple(one for one in spec.init_containers or () if one.restart_policy == "Always"),
        gates=tuple(gate.condition_type or "" for gate in spec.readiness_gates or ()),
        reason=status.reason or "",
        message=status.message or "",
        conditions=conditions,
        statuses=status.container_statuses or (),
        init_statuses=status.init_container_statuses or (),
    )


def _requested_at(deletion_timestamp: str | None, grace_seconds: int | None) -> str | None:
    if not deletion_timestamp or not grace_seconds:
        return deletion_timestamp
    try:
        return (datetime.fromisoformat(deletion_timestamp) - timedelta(seconds=grace_seconds)).isoformat()
    except (ValueError, OverflowError):
        return deletion_timestamp


class PodWithDetails(msgspec.Struct, frozen=True, gc=False):
    """A pod as the controllers see it, with its details; read and decoded once."""

    pod: Pod
    details: PodDetails

    @property
    def metadata(self) -> NarrowMeta:
        """The pod's identity and version."""
        return self.pod.metadata


def _project(wire: PodDetailsWire) -> PodWithDetails:
    return PodWithDetails(project_pod(cast("PodWire", wire)), project_details(wire))


PODS_WITH_DETAILS: Resource[PodWithDetails] = Resource(
    group="", version="v1", plural="pods", kind="Pod", wire=PodDetailsWire, project=_project
)

__all__ = ["PODS_WITH_DETAILS", "Condition", "Container", "PodDetails", "PodWithDetails", "project_details"]
