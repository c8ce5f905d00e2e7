"""Service discovery: the endpoints of services, merged from their slices and selected as a proxy does.

For authors of load balancers, proxies, DNS servers and meshes. The entry points, from high to low level:

* :func:`watch_service`: the live endpoints of one service port, in three lines.
* :func:`watch_pods`: the same for the pods that match a label selector, with their labels.
* :class:`ServiceView`, :class:`PodView`: both for programs with threads.
* :func:`watch_services`: all services of a cluster as seen from a node, live.
* :class:`EndpointSliceCache`, :class:`ServicePortCache`, :func:`select`: the underlying rules, for slices
  from any source. No I/O, no clock, no tasks.

The rules are those of kube-proxy (v1.36); ``docs/guide/consuming-endpoints.md`` summarises them.
"""

from aiokube.discovery.background import ForkedError
from aiokube.discovery.blocking import PodView, ServiceView
from aiokube.discovery.cache import CacheStatistics, EndpointSliceCache
from aiokube.discovery.changes import EndpointChanges, PortChanges, ServiceEndpoints
from aiokube.discovery.cursor import Cursor
from aiokube.discovery.endpoint import NOWHERE, EndpointView, FrozenLabels, Location, PortKey, ServicePortName
from aiokube.discovery.health import (
    HealthAnswer,
    HealthChecks,
    ProxyHealth,
    is_leaving,
    local_ready_counts,
)
from aiokube.discovery.live import LiveService, watch_service
from aiokube.discovery.live_view import LiveView, StaleViewError
from aiokube.discovery.pods import LivePods, watch_pods
from aiokube.discovery.selection import CLUSTER_POLICY, Selection, TrafficPolicy, select
from aiokube.discovery.service import PROXIED_SERVICES, PortOfService, ProxiedService
from aiokube.discovery.service_cache import ServiceCursor, ServicePortCache
from aiokube.discovery.service_map import (
    MapCursor,
    ServiceMap,
    ServiceMapChanges,
    ServiceMapStatistics,
    watch_services,
)
from aiokube.discovery.service_ports import ServicePortView, service_ports
from aiokube.discovery.slice_parser import SliceView, read_slice, why_ignored

__all__ = [
    "watch_service",
    "LiveService",
    "watch_pods",
    "LivePods",
    "LiveView",
    "StaleViewError",
    "ServiceView",
    "PodView",
    "ForkedError",
    "watch_services",
    "ServiceMap",
    "ServiceMapChanges",
    "ServiceMapStatistics",
    "MapCursor",
    "EndpointSliceCache",
    "CacheStatistics",
    "Cursor",
    "EndpointChanges",
    "PortChanges",
    "ServiceEndpoints",
    "EndpointView",
    "FrozenLabels",
    "ServicePortName",
    "PortKey",
    "Location",
    "NOWHERE",
    "select",
    "Selection",
    "TrafficPolicy",
    "CLUSTER_POLICY",
    "read_slice",
    "SliceView",
    "why_ignored",
    "ServicePortCache",
    "ServiceCursor",
    "ServicePortView",
    "service_ports",
    "ProxiedService",
    "PortOfService",
    "PROXIED_SERVICES",
    "HealthChecks",
    "HealthAnswer",
    "ProxyHealth",
    "is_leaving",
    "local_ready_counts",
]
