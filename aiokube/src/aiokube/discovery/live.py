"""The live endpoints of one service port, in three lines of an asyncio program."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiokube.api.addresses import Family
from aiokube.api.discovery import ENDPOINT_SLICES, SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock, SystemClock
from aiokube.discovery.cache import EndpointSliceCache
from aiokube.discovery.changes import ServiceEndpoints
from aiokube.discovery.endpoint import NOWHERE, Location, ServicePortName
from aiokube.discovery.informer_group import Cluster
from aiokube.discovery.live_view import LiveView, ViewSettings
from aiokube.discovery.selection import CLUSTER_POLICY
from aiokube.discovery.service import PROXIED_SERVICES, PortOfService, ProxiedService
from aiokube.discovery.service_ports import service_ports
from aiokube.runtime.informer import Informer
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import ReflectorSettings

if TYPE_CHECKING:
    from aiokube.client.rest import Client

FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


def watch_service(
    cluster: Cluster,
    service: str | ObjectKey,
    *,
    port: str | int | None = None,
    protocol: str = "TCP",
    family: Family | None = None,
    location: Location = NOWHERE,
    timeout_seconds: float = 30.0,
    stale_after: float | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    settings: ReflectorSettings | None = None,
) -> "LiveService":
    """Watch the endpoints of one port of one service.

    For example::

        async with watch_service(client, "shop/web", port="http") as live:
            async for endpoints in live:
                balancer.use([endpoint.address for endpoint in endpoints.usable])

    ``cluster`` is a client (which stays open), the path of a kubeconfig, or None for kubectl's default
    cluster. ``service`` is ``namespace/name``. ``port`` is the name or number of a port of the service (not
    of its pods), and may be omitted if the service has only one. ``family`` defaults to the service's first
    one. ``location`` determines which endpoints are local, and which hints apply. Headless services work,
    too.

    If the view has not been confirmed as current for ``stale_after`` seconds, :meth:`LiveView.check` fails.

    Raises ValueError if ``service`` is not ``namespace/name``. Entering raises ConfigError if no cluster is
    configured, and NotSyncedError, with the cause, if there was no response within ``timeout_seconds``. A
    missing service is not an error, because it may be created later; until then
    :attr:`ServiceEndpoints.problem` reports it.
    """
    key = ObjectKey.parse(service) if isinstance(service, str) else service
    if not key.namespace or not key.name or "/" in key.namespace:
        raise ValueError(f"service must be 'namespace/name', as in 'shop/web', not {str(service)!r}")
    view_settings = ViewSettings(
        cluster=cluster,
        timeout_seconds=timeout_seconds,
        stale_after=stale_after,
        clock=clock or SystemClock(),
        rng=rng or random.SystemRandom(),
        reflector=settings,
    )
    return LiveService(key, view_settings, port=port, protocol=protocol, family=family, location=location)


class LiveService(LiveView):
    """The live endpoints of one service port; :class:`LiveView` states the guarantees.

    The endpoints are those of :attr:`resource_version`. The service has a separate watch, so the port may be
    from a different moment than the endpoints.
    """

    def __init__(
        self,
        service: ObjectKey,
        settings: ViewSettings,
        *,
        port: str | int | None,
        protocol: str,
        family: Family | None,
        location: Location,
    ) -> None:
        super().__init__(f"service {service}", settings)
        self._key = service
        self._port = port
        self._protocol = protocol
        self._family = family
        self._location = location
        self._caches = {each: EndpointSliceCache(each) for each in FAMILIES}
        self._services: Informer[ProxiedService] | None = None
        self._slices: Informer[EndpointSlice] | None = None

    @property
    def resource_version(self) -> str:
        """The resource version of the endpoints; ``""`` before the first state."""
        return self._slices.store.resource_version if self._slices is not None else ""

    def problems(self) -> dict[ObjectKey, tuple[str, ...]]:
        """Return the unusable entries of each slice, one sentence per entry."""
        return {key: texts for cache in self._caches.values() for key, texts in cache.problems().items()}

    def _make_informers(self, client: "Client") -> Sequence[Informer[Any]]:
        namespace, name = self._key
        services = client.source(
            PROXIED_SERVICES, namespace=namespace, field_selector=f"metadata.name={name}"
        )
        slices = client.source(
            ENDPOINT_SLICES, namespace=namespace, label_selector=f"{SERVICE_NAME_LABEL}={name}"
        )
        reachability = Reachability(clock=self._settings.clock, rng=self._settings.rng)
        self._services = self._informer(services, f"service {self._key}", reachability)
        self._slices = self._informer(slices, f"slices of {self._key}", reachability)
        for cache in self._caches.values():
            self._slices.store.subscribe(cache.handle)
        return self._services, self._slices

    def _compute(self) -> ServiceEndpoints:
        service = self._services.store.get(self._key) if self._services is not None else None
        family = self._family or _first_family(service)
        port, problem = _port_of(service, self._key, self._port, self._protocol)
        if port is None:
            name = ServicePortName(
                *self._key, self._port if isinstance(self._port, str) else "", self._protocol
            )
            return ServiceEndpoints(name, family, location=self._location, problem=problem)
        name = ServicePortName(*self._key, port.name, port.protocol)
        view = service_ports(service, family).get(name) if service is not None else None
        policy = (
            view.policy if view is not None else CLUSTER_POLICY
        )  # headless: no proxy selects, so all endpoints count
        return self._caches[family].service_endpoints(name, policy, self._location)


def _first_family(service: ProxiedService | None) -> Family:
    if service is None:
        return "IPv4"
    if service.ip_families and service.ip_families[0] in FAMILIES:
        return service.ip_families[0]
    return "IPv6" if ":" in service.cluster_ip else "IPv4"


def _port_of(
    service: ProxiedService | None, key: ObjectKey, wanted: str | int | None, protocol: str
) -> tuple[PortOfService | None, str]:
    """Return the requested port, or the reason why it does not exist."""
    if service is None:
        return None, f"there is no service {key}"
    if service.is_external_name:
        return None, f"service {key} is an ExternalName: it is an alias of a DNS name, without endpoints"
    ports = [port for port in service.ports if port.protocol == protocol]
    there = ", ".join(f"{port.name or '(unnamed)'} {port.port}/{port.protocol}" for port in service.ports)
    if wanted is None:
        if len(ports) == 1:
            return ports[0], ""
        if ports:
            return None, f"service {key} has several {protocol} ports, choose one of them: {there}"
        return None, f"service {key} has no {protocol} port; it has: {there or 'none'}"
    for port in ports:
        if wanted == (port.port if isinstance(wanted, int) else port.name):
            return port, ""
    return None, f"service {key} has no {protocol} port {wanted!r}; it has: {there or 'none'}"
