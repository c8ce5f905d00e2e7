"""Services as a proxy sees them: a read-only projection."""

from collections.abc import Mapping

import msgspec

from aiokube.api.core import HEADLESS
from aiokube.api.meta import NarrowMeta, ObjectMeta
from aiokube.api.resource import Resource

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, CLUSTER_IP = "ExternalName", "LoadBalancer", "NodePort", "ClusterIP"


class PortOfService(msgspec.Struct, frozen=True, gc=False):
    """One entry of a service's ``spec.ports``. ``node_port`` is 0 without one."""

    name: str
    protocol: str
    port: int
    node_port: int = 0


class ProxiedService(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a service that matter to a proxy. Read-only: most of the object is omitted."""

    metadata: NarrowMeta
    proxy_name: str | None = None
    """The label that assigns the service to another proxy; None if absent. Any value counts (C-1)."""
    type: str = CLUSTER_IP
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    ip_families: tuple[str, ...] = ()
    ports: tuple[PortOfService, ...] = ()
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    """The addresses in the status that belong to this service: entries with ``ipMode: Proxy``, or with only a
    host name, belong to the load balancer (C-67)."""
    source_ranges: tuple[str, ...] = ()
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    affinity_seconds: int | None = None
    """How long a client stays with its endpoint (``sessionAffinity: ClientIP``, C-72); None without affinity.
    """
    health_check_node_port: int = 0

    @property
    def is_headless(self) -> bool:
        """Whether it has no cluster IP, by choice or because none is allocated yet."""
        return self.cluster_ip in (HEADLESS, "")

    @property
    def is_external_name(self) -> bool:
        """Whether it is a DNS alias; its other fields do not matter then."""
        return self.type == EXTERNAL_NAME


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """The JSON form of a part of an object: every field may be absent or null."""


class _PortWire(_Wire):
    name: str | None = None
    protocol: str | None = None
    port: int = 0
    node_port: int | None = None


class _ClientIPWire(_Wire):
    timeout_seconds: int | None = None


class _AffinityWire(_Wire):
    client_ip: _ClientIPWire | None = msgspec.field(default=None, name="clientIP")


class _SpecWire(_Wire):
    type: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    cluster_ips: tuple[str, ...] | None = msgspec.field(default=None, name="clusterIPs")
    ip_families: tuple[str, ...] | None = None
    ports: tuple[_PortWire, ...] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(default=None, name="externalIPs")
    load_balancer_source_ranges: tuple[str, ...] | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    session_affinity: str | None = None
    session_affinity_config: _AffinityWire | None = None
    health_check_node_port: int | None = None


class _IngressWire(_Wire):
    ip: str | None = None
    ip_mode: str | None = None


class _LoadBalancerWire(_Wire):
    ingress: tuple[_IngressWire, ...] | None = None


class _StatusWire(_Wire):
    load_balancer: _LoadBalancerWire | None = None


class ServiceWire(_Wire):
    """The JSON form of the service fields that are read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


_NO_SPEC = _SpecWire()
_NO_LABELS: Mapping[str, str] = {}
DEFAULT_AFFINITY_SECONDS = 10_800


def project_service(wire: ServiceWire) -> ProxiedService:
    """Reduce a service to the fields that determine where its traffic goes."""
    meta, spec = wire.metadata, wire.spec or _NO_SPEC
    status = wire.status.load_balancer if wire.status is not None else None
    return ProxiedService(
        metadata=NarrowMeta(meta.name, meta.namespace, meta.uid, meta.resource_version),
        proxy_name=(meta.labels or _NO_LABELS).get(PROXY_NAME_LABEL),
        type=spec.type or CLUSTER_IP,
        cluster_ip=spec.cluster_ip or "",
        cluster_ips=spec.cluster_ips or (),
        ip_families=spec.ip_families or (),
        ports=tuple(
            PortOfService(port.name or "", port.protocol or "TCP", port.port, port.node_port or 0)
            for port in spec.ports or ()
        ),
        external_ips=spec.external_ips or (),
        load_balancer_ips=tuple(
            entry.ip
            for entry in (status.ingress if status is not None else None) or ()
            if entry.ip and entry.ip_mode in (None, "VIP")
        ),
        source_ranges=tuple(text.strip() for text in spec.load_balancer_source_ranges or ()),
        internal_traffic_policy=spec.internal_traffic_policy or "Cluster",
        external_traffic_policy=spec.external_traffic_policy or "Cluster",
        affinity_seconds=_affinity_seconds(spec),
        health_check_node_port=spec.health_check_node_port or 0,
    )


def _affinity_seconds(spec: _SpecWire) -> int | None:
    if spec.session_affinity != "ClientIP":
        return None
    config = spec.session_affinity_config
    client_ip = config.client_ip if config is not None else None
    seconds = client_ip.timeout_seconds if client_ip is not None else None
    return seconds if seconds is not None else DEFAULT_AFFINITY_SECONDS


PROXIED_SERVICES: Resource[ProxiedService] = Resource(
    group="", version="v1", plural="services", kind="Service", wire=ServiceWire, project=project_service
)
