"""Services as a proxy sees them: a narrow projection, for reading only."""

from collections.abc import Mapping

import msgspec

from aiokube.api.core import HEADLESS
from aiokube.api.meta import NarrowMeta, ObjectMeta
from aiokube.api.resource import Resource

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, CLUSTER_IP = "ExternalName", "LoadBalancer", "NodePort", "ClusterIP"


class PortOfService(msgspec.Struct, frozen=True, gc=False):
    """One entry of a service's ``spec.ports``. ``node_port`` is 0 where there is none."""

    name: str
    protocol: str
    port: int
    node_port: int = 0


class ProxiedService(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a service says to those who carry its traffic. Never write one back: most of the object is left out."""

    metadata: NarrowMeta
    proxy_name: str | None = None
    """The label that hands the service to another proxy; None where it is absent. Any value counts (C-1)."""
    type: str = CLUSTER_IP
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    ip_families: tuple[str, ...] = ()
    ports: tuple[PortOfService, ...] = ()
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    """Those of the status that are addresses of this service: entries with ``ipMode: Proxy``, or with a host name
    alone, are somebody else's (C-67)."""
    source_ranges: tuple[str, ...] = ()
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    affinity_seconds: int | None = None
    """How long a client stays with its endpoint (``sessionAffinity: ClientIP``, C-72); None where it does not."""
    health_check_node_port: int = 0

    @property
    def is_headless(self) -> bool:
        """Return whether it has no cluster IP by choice, or none yet."""
        return self.cluster_ip in (HEADLESS, "")

    @property
    def is_external_name(self) -> bool:
        """Return whether it is a DNS alias, whatever else it says."""
        return self.type == EXTERNAL_NAME


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """How a part of an object stands in JSON: every field may be absent or null."""


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
    """A service in JSON, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


_NO_SPEC = _SpecWire()
_NO_LABELS: Mapping[str, str] = {}
DEFAULT_AFFINITY_SECONDS = 10_800


def project_service(wire: ServiceWire) -> ProxiedService:
    """Keep of a service what decides where its traffic goes."""
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
