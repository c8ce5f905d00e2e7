"""Health checks of external load balancers: local endpoints of a service, and the state of the proxy.

Without I/O: responses are values, for any HTTP server.
"""

from collections.abc import Iterable, Mapping

import msgspec

from aiokube.api.addresses import Family
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import EndpointView, Location, ServicePortName

TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"

_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
_WEIGHT_HEADER = "X-Load-Balancing-Endpoint-Weight"
_OK, _UNAVAILABLE = 200, 503


class HealthAnswer(msgspec.Struct, frozen=True):
    """The response to any GET on a health check node port."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _ServiceBody(msgspec.Struct, frozen=True):
    namespace: str
    name: str


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    service: _ServiceBody
    local_endpoints: int
    service_proxy_healthy: bool


def local_ready_counts(
    endpoints: Mapping[ServicePortName, Iterable[EndpointView]], location: Location
) -> dict[ObjectKey, int]:
    """Count for each service the distinct IPs of ready endpoints on this node, over all ports (C-71a).

    Services without any are omitted. Draining endpoints do not count, although they may still receive
    traffic, so that the load balancer moves to other nodes.
    """
    ips: dict[ObjectKey, set[str]] = {}
    for name, views in endpoints.items():
        for view in views:
            if view.ready and view.is_local_to(location):
                ips.setdefault(name.service_key, set()).add(view.ip)
    return {service: len(found) for service, found in ips.items()}


class HealthChecks:
    """The services with a health check node port, and their endpoint counts on this node (C-71a to C-71c)."""

    def __init__(self) -> None:
        self._ports: dict[ObjectKey, int] = {}
        self._counts: dict[ObjectKey, int] = {}

    @property
    def ports(self) -> dict[ObjectKey, int]:
        """The port to listen on for each service."""
        return dict(self._ports)

    def sync_services(self, ports: Mapping[ObjectKey, int]) -> None:
        """Set the services and their ports. The count of a new port is 0 until the next counts."""
        self._counts = {
            service: count
            for service, count in self._counts.items()
            if service in ports and ports[service] == self._ports.get(service)
        }
        self._ports = dict(ports)

    def sync_counts(self, counts: Mapping[ObjectKey, int]) -> None:
        """Set the counts: missing ones are 0, and those of services without a port are dropped (C-71c)."""
        self._counts = {service: counts.get(service, 0) for service in self._ports}

    def answer(self, service: ObjectKey, *, proxy_is_healthy: bool) -> HealthAnswer | None:
        """Return the response on the service's port for any path; None if it has no port.

        200 if there is an endpoint and the proxy is healthy, else 503; both contain the count (C-71b).
        """
        if service not in self._ports:
            return None
        count = self._counts.get(service, 0)
        body = _Body(_ServiceBody(service.namespace, service.name), count, proxy_is_healthy)
        return HealthAnswer(
            status=_OK if count and proxy_is_healthy else _UNAVAILABLE,
            headers={**_HEADERS, _WEIGHT_HEADER: str(count)},
            body=msgspec.json.encode(body),
        )


class ProxyHealth:
    """Tracks whether a proxy keeps up: every change must be applied within ``timeout_seconds``.

    A family does not count until it has been applied once, because it is still starting. Times are seconds
    of any one monotonic clock.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._in_force: set[Family] = set()
        self._waiting_since: dict[Family, float] = {}

    def noticed(self, family: Family, now: float) -> None:
        """Record a change that must be applied; the oldest one counts."""
        self._waiting_since.setdefault(family, now)

    def in_force(self, family: Family) -> None:
        """Record that all changes have been applied."""
        self._waiting_since.pop(family, None)
        self._in_force.add(family)

    def is_live(self, now: float) -> bool:
        """Return whether the proxy keeps up, for ``/livez``."""
        return all(
            now - since < self._timeout_seconds
            for family, since in self._waiting_since.items()
            if family in self._in_force
        )

    def is_healthy(self, now: float, *, node_is_leaving: bool) -> bool:
        """Return whether new connections should be sent here, for ``/healthz`` (C-71d)."""
        return self.is_live(now) and not node_is_leaving


def is_leaving(taint_keys: Iterable[str], deletion_timestamp: str | None) -> bool:
    """Return whether a node is being removed: it is being deleted, or tainted by the autoscaler (C-71d)."""
    return deletion_timestamp is not None or TO_BE_DELETED_TAINT in taint_keys
