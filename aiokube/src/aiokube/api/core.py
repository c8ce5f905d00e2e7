"""Pods, Services and Nodes: narrow projections, for reading only.

A projection has only the dozen fields that affect published endpoints, so a cached pod takes about a
kilobyte, and an update that changes no such field needs no further work. The complete types are in
:mod:`aiokube.api.kinds`.
"""

import sys
from typing import Any, NamedTuple, TypeVar

import msgspec

from aiokube.api.interning import InternPool
from aiokube.api.meta import NarrowMeta
from aiokube.api.quantity import milli_value
from aiokube.api.resource import Resource

ZONE_LABEL = "topology.kubernetes.io/zone"
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
TOPOLOGY_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
TOPOLOGY_AWARE_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
HEADLESS = "None"

Labels = dict[str, str]

_V = TypeVar("_V")
_EMPTY_LABELS: Labels = {}
# More than the number of workloads in one page of a list; values in use stay in the pool.
_shared_values: InternPool[Any, Any] = InternPool(8192)
_shared_labels: InternPool[frozenset[tuple[str, str]], Labels] = InternPool(8192)


def _share(value: _V) -> _V:
    return _shared_values.of(value, value)  # type: ignore[no-any-return]


def _share_labels(labels: Labels | None) -> Labels:
    if not labels:
        return _EMPTY_LABELS
    return _shared_labels.of(frozenset(labels.items()), labels)


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """The JSON form of a part of an object: every field may be absent or null."""


class _MetaWire(_Wire):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


_NO_META = _MetaWire()


def _narrow_meta(meta: _MetaWire) -> NarrowMeta:
    return NarrowMeta(
        name=meta.name or "",
        namespace=sys.intern(meta.namespace) if meta.namespace else "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
    )


class _ConditionWire(_Wire):
    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None


def _condition(conditions: tuple[_ConditionWire, ...] | None, kind: str) -> _ConditionWire | None:
    """Return the first condition of a type, which is the one that counts (behaviour 0.4)."""
    for condition in conditions or ():
        if condition.type == kind:
            return condition
    return None


# --------------------------------------------------------------------------------------------------- Pod


class NamedPort(NamedTuple):
    """A container port that a service can refer to by name."""

    name: str
    protocol: str
    number: int


class Pod(msgspec.Struct, frozen=True, gc=False):
    """The fields that determine whether, where and how a pod is published.

    ``named_ports`` lists the ports of the containers in order, then those of the sidecars (restartable init
    containers), so the first match is the right one (behaviour 0.4). ``ready_since`` is the last transition
    of the Ready condition in RFC 3339, of any status.
    """

    metadata: NarrowMeta
    labels: Labels
    phase: str | None
    ready: bool
    ready_since: str | None
    terminating: bool
    pod_ip: str | None
    pod_ips: tuple[str, ...]
    node_name: str
    hostname: str
    subdomain: str
    named_ports: tuple[NamedPort, ...]

    def differs_from(self, other: "Pod") -> bool:
        """Return whether any field except the resource version differs."""
        return (
            self.ready is not other.ready
            or self.terminating is not other.terminating
            or self.pod_ips != other.pod_ips
            or self.phase != other.phase
            or self.ready_since != other.ready_since
            or self.labels != other.labels
            or self.node_name != other.node_name
            or self.pod_ip != other.pod_ip
            or self.hostname != other.hostname
            or self.subdomain != other.subdomain
            or self.named_ports != other.named_ports
            or self.metadata.uid != other.metadata.uid
        )


class _ContainerPortWire(_Wire):
    name: str | None = None
    container_port: int = 0
    protocol: str | None = None


class _ContainerWire(_Wire):
    ports: tuple[_ContainerPortWire, ...] | None = None
    restart_policy: str | None = None


class _PodSpecWire(_Wire):
    node_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    containers: tuple[_ContainerWire, ...] | None = None
    init_containers: tuple[_ContainerWire, ...] | None = None


class _PodIPWire(_Wire):
    ip: str | None = None


class _PodStatusWire(_Wire):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: tuple[_PodIPWire, ...] | None = msgspec.field(default=None, name="podIPs")
    conditions: tuple[_ConditionWire, ...] | None = None


class PodWire(_Wire):
    """The JSON form of the pod fields that are read."""

    metadata: _MetaWire | None = None
    spec: _PodSpecWire | None = None
    status: _PodStatusWire | None = None


_NO_POD_SPEC = _PodSpecWire()
_NO_POD_STATUS = _PodStatusWire()


def _named_ports(spec: _PodSpecWire) -> tuple[NamedPort, ...]:
    found = [
        NamedPort(port.name, port.protocol or "TCP", port.container_port)
        for container in spec.containers or ()
        for port in container.ports or ()
        if port.name
    ]
    found += [
        NamedPort(port.name, port.protocol or "TCP", port.container_port)
        for container in spec.init_containers or ()
        if container.restart_policy == "Always"
        for port in container.ports or ()
        if port.name
    ]
    return _share(tuple(found)) if found else ()


def project_pod(wire: PodWire) -> Pod:
    """Reduce a pod to the fields that determine whether, where and how it is published."""
    meta = wire.metadata or _NO_META
    spec = wire.spec or _NO_POD_SPEC
    status = wire.status or _NO_POD_STATUS
    ready = _condition(status.conditions, "Ready")
    return Pod(
        metadata=_narrow_meta(meta),
        labels=_share_labels(meta.labels),
        phase=sys.intern(status.phase) if status.phase else None,
        ready=ready is not None and ready.status == "True",
        ready_since=ready.last_transition_time if ready is not None else None,
        terminating=meta.deletion_timestamp is not None,
        pod_ip=status.pod_ip or None,
        pod_ips=tuple(entry.ip or "" for entry in status.pod_ips or ()),
        node_name=sys.intern(spec.node_name) if spec.node_name else "",
        hostname=spec.hostname or "",
        subdomain=spec.subdomain or "",
        named_ports=_named_ports(spec),
    )


# ----------------------------------------------------------------------------------------------- Service


class ServicePort(msgspec.Struct, frozen=True, gc=False):
    """A port of a service; ``target_port`` is a number, or the name of a container port."""

    name: str
    protocol: str
    port: int
    target_port: int | str
    app_protocol: str | None = None


class Service(msgspec.Struct, frozen=True, gc=False):
    """The fields of a service that determine its endpoints; ``selector`` is None for a selectorless service."""

    metadata: NarrowMeta
    labels: Labels
    creation_timestamp: str | None
    terminating: bool
    selector: Labels | None
    type: str
    cluster_ip: str
    ip_families: tuple[str, ...]
    ports: tuple[ServicePort, ...]
    publish_not_ready_addresses: bool
    traffic_distribution: str | None
    topology_mode: str | None

    @property
    def is_external_name(self) -> bool:
        """Return whether the service is a DNS alias, which has no endpoints (E-11, S-11)."""
        return self.type == "ExternalName"

    @property
    def is_headless(self) -> bool:
        """Return whether clients resolve the pods directly: clusterIP ``None`` or empty (E-20, S-60)."""
        return self.cluster_ip in (HEADLESS, "")

    def differs_from(self, other: "Service") -> bool:
        """Return whether any field except the resource version differs."""
        return (
            msgspec.structs.replace(
                self,
                metadata=msgspec.structs.replace(
                    self.metadata, resource_version=other.metadata.resource_version
                ),
            )
            != other
        )


class _ServicePortWire(_Wire):
    name: str | None = None
    protocol: str | None = None
    port: int = 0
    target_port: int | str | None = None
    app_protocol: str | None = None


class _ServiceSpecWire(_Wire):
    selector: dict[str, str] | None = None
    type: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    ip_families: tuple[str, ...] | None = None
    ports: tuple[_ServicePortWire, ...] | None = None
    publish_not_ready_addresses: bool | None = None
    traffic_distribution: str | None = None


class ServiceWire(_Wire):
    """The JSON form of the service fields that are read."""

    metadata: _MetaWire | None = None
    spec: _ServiceSpecWire | None = None


_NO_SERVICE_SPEC = _ServiceSpecWire()


def _topology_mode(annotations: dict[str, str] | None) -> str | None:
    """Return the effective mode: the deprecated annotation takes precedence if present (S-80)."""
    if not annotations:
        return None
    if TOPOLOGY_AWARE_HINTS_ANNOTATION in annotations:
        return annotations[TOPOLOGY_AWARE_HINTS_ANNOTATION]
    return annotations.get(TOPOLOGY_MODE_ANNOTATION)


def project_service(wire: ServiceWire) -> Service:
    """Reduce a service to the fields that determine its endpoints."""
    meta = wire.metadata or _NO_META
    spec = wire.spec or _NO_SERVICE_SPEC
    return Service(
        metadata=_narrow_meta(meta),
        labels=_share_labels(meta.labels),
        creation_timestamp=meta.creation_timestamp,
        terminating=meta.deletion_timestamp is not None,
        # A real API server never stores {}; if a server sends it, it counts as no selector (0.3).
        selector=spec.selector or None,
        type=spec.type or "ClusterIP",
        cluster_ip=spec.cluster_ip or "",
        ip_families=spec.ip_families or (),
        ports=tuple(
            ServicePort(
                name=port.name or "",
                protocol=port.protocol or "TCP",
                port=port.port,
                target_port=port.port if port.target_port in (None, 0, "") else port.target_port,
                app_protocol=port.app_protocol,
            )
            for port in spec.ports or ()
        ),
        publish_not_ready_addresses=bool(spec.publish_not_ready_addresses),
        traffic_distribution=spec.traffic_distribution,
        topology_mode=_topology_mode(meta.annotations),
    )


# -------------------------------------------------------------------------------------------------- Node


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node's zone and its share of the zone's CPU, for topology hints (S-90)."""

    metadata: NarrowMeta
    zone: str
    ready: bool
    control_plane: bool
    allocatable_cpu_milli: int


class _NodeStatusWire(_Wire):
    conditions: tuple[_ConditionWire, ...] | None = None
    allocatable: dict[str, str] | None = None


class NodeWire(_Wire):
    """The JSON form of the node fields that are read."""

    metadata: _MetaWire | None = None
    status: _NodeStatusWire | None = None


_NO_NODE_STATUS = _NodeStatusWire()


def project_node(wire: NodeWire) -> Node:
    """Reduce a node to its zone, readiness and CPU."""
    meta = wire.metadata or _NO_META
    status = wire.status or _NO_NODE_STATUS
    labels = meta.labels or _EMPTY_LABELS
    ready = _condition(status.conditions, "Ready")
    cpu = (status.allocatable or {}).get("cpu")
    return Node(
        metadata=_narrow_meta(meta),
        zone=sys.intern(labels.get(ZONE_LABEL, "")),
        ready=ready is not None and ready.status == "True",
        control_plane=any(label in labels for label in CONTROL_PLANE_LABELS),
        allocatable_cpu_milli=milli_value(cpu) if cpu else 0,
    )


PODS: Resource[Pod] = Resource(
    group="", version="v1", plural="pods", kind="Pod", wire=PodWire, project=project_pod
)
SERVICES: Resource[Service] = Resource(
    group="", version="v1", plural="services", kind="Service", wire=ServiceWire, project=project_service
)
NODES: Resource[Node] = Resource(
    group="", version="v1", plural="nodes", kind="Node", wire=NodeWire, project=project_node, namespaced=False
)
