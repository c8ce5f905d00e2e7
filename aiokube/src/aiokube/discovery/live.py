"""The endpoints of one service port, live: three lines for an asyncio program."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from aiokube.api.addresses import Family
from aiokube.api.discovery import ENDPOINT_SLICES, SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock, SystemClock
from aiokube.discovery.cache import EndpointSliceCache
from aiokube.discovery.changes import ServiceEndpoints
from aiokube.discovery.endpoint import NOWHERE, Location, ServicePortName
from aiokube.discovery.informer_group import ChangeSignal, Cluster, InformerGroup
from aiokube.discovery.selection import CLUSTER_POLICY
from aiokube.discovery.service import PROXIED_SERVICES, PortOfService, ProxiedService
from aiokube.discovery.service_ports import service_ports
from aiokube.runtime.informer import Informer, InformerStatistics
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
    clock: Clock | None = None,
    rng: random.Random | None = None,
    settings: ReflectorSettings | None = None,
) -> "LiveService":
    """Watch the endpoints of one port of one service.

    All it takes is::

        async with watch_service(client, "shop/web", port="http") as live:
            async for endpoints in live:
                balancer.use([endpoint.address for endpoint in endpoints.usable])

    ``cluster`` is a client (which stays open), the path of a kubeconfig, or None for the cluster that kubectl would
    take. ``service`` is ``namespace/name``. ``port`` is the name of a port of the service, its number (the service's
    own, not the pods'), or nothing where the service has only one. ``family`` is the service's first one where none
    is given. ``location`` decides which endpoints are local, and which hints are followed. Headless services work, too.

    Raises ValueError where ``service`` is no ``namespace/name``. Entering raises ConfigError where no cluster is known,
    and NotSyncedError, with the cause, where it has not answered after ``timeout_seconds``. A service that is not
    there is no error: it may come. :attr:`ServiceEndpoints.problem` says so meanwhile.
    """
    key = ObjectKey.parse(service) if isinstance(service, str) else service
    if not key.namespace or not key.name or "/" in key.namespace:
        raise ValueError(f"service must be 'namespace/name', as in 'shop/web', not {str(service)!r}")
    return LiveService(
        cluster,
        key,
        port=port,
        protocol=protocol,
        family=family,
        location=location,
        timeout_seconds=timeout_seconds,
        clock=clock or SystemClock(),
        rng=rng or random.SystemRandom(),
        settings=settings,
    )


class LiveService:
    """The endpoints of one service port, kept up to date inside of ``async with``. Made by :func:`watch_service`.

    It promises:

    * **True.** Every :attr:`current` is what the slices of the service were at one moment of the server's history
      (:attr:`resource_version`), and moments never go back, through broken connections and relists. Of a batch or
      a relist nobody sees a part. The service is watched beside the slices: what it says of the port may be of
      another moment than the endpoints.
    * **Eventually.** While the server can be reached it is as old as the network; while it cannot, it stays as it was.
    * **Iterating** gives the state at once, then each time it differs from what was given last. Who is slow misses
      states in between, never the last one; nothing is queued. Any number may iterate, each for itself. It ends, as a
      loop does, with the ``async with``.
    * **Ends.** Cancelling is safe anywhere. Leaving stops both watches.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: ObjectKey,
        *,
        port: str | int | None,
        protocol: str,
        family: Family | None,
        location: Location,
        timeout_seconds: float,
        clock: Clock,
        rng: random.Random,
        settings: ReflectorSettings | None,
    ) -> None:
        self._cluster = cluster
        self._key = service
        self._port = port
        self._protocol = protocol
        self._family = family
        self._location = location
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._watching = InformerGroup(clock)
        self._changed = ChangeSignal()
        self._caches = {each: EndpointSliceCache(each) for each in FAMILIES}
        self._services: Informer[ProxiedService] | None = None
        self._slices: Informer[EndpointSlice] | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        if self._slices is not None:
            raise RuntimeError(f"the watch of {self._key} has been used already: make another one")
        self._services, self._slices = self._informers(await self._watching.client(self._cluster))
        for cache in self._caches.values():
            self._slices.store.subscribe(cache.handle)
        self._slices.store.subscribe(lambda _old, _new: self._changed.notify())
        self._services.store.subscribe(lambda _old, _new: self._changed.notify())
        await self._watching.open([self._services, self._slices], self._timeout_seconds)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_over = True
        self._changed.notify()
        await self._watching.close()

    def __aiter__(self) -> AsyncIterator[ServiceEndpoints]:
        return _States(self, self._changed.listen())

    @property
    def current(self) -> ServiceEndpoints:
        """What it is now: complete from the moment of entering on, and the last known after leaving.

        Raises RuntimeError before: nothing is known yet, which is not the same as no endpoints (C-88).
        """
        if self._services is None:
            raise RuntimeError(f"nothing is known of {self._key} yet: enter the watch first, with async with")
        service = self._services.store.get(self._key)
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
        )  # headless: nobody routes, everybody is meant
        return self._caches[family].service_endpoints(name, policy, self._location)

    @property
    def resource_version(self) -> str:
        """The moment of the server's history that the endpoints are of; ``""`` before the first."""
        return self._slices.store.resource_version if self._slices is not None else ""

    @property
    def is_over(self) -> bool:
        """Whether it has been left: nothing changes any more."""
        return self._is_over

    def problems(self) -> dict[ObjectKey, tuple[str, ...]]:
        """Return for each slice with entries that could not be used what is wrong with them."""
        return {key: texts for cache in self._caches.values() for key, texts in cache.problems().items()}

    def statistics(self) -> tuple[InformerStatistics, ...]:
        """Return how the watches are: that of the service, and that of its slices."""
        informers = (self._services, self._slices)
        return tuple(informer.statistics() for informer in informers if informer is not None)

    def _informers(self, client: "Client") -> tuple[Informer[ProxiedService], Informer[EndpointSlice]]:
        namespace, name = self._key
        services = client.source(
            PROXIED_SERVICES, namespace=namespace, field_selector=f"metadata.name={name}"
        )
        slices = client.source(
            ENDPOINT_SLICES, namespace=namespace, label_selector=f"{SERVICE_NAME_LABEL}={name}"
        )
        clock, rng, settings = self._clock, self._rng, self._settings
        reachability = Reachability(clock=clock, rng=rng)
        return (
            Informer(
                services,
                name=f"service {self._key}",
                clock=clock,
                rng=rng,
                settings=settings,
                reachability=reachability,
            ),
            Informer(
                slices,
                name=f"slices of {self._key}",
                clock=clock,
                rng=rng,
                settings=settings,
                reachability=reachability,
            ),
        )


class _States(AsyncIterator[ServiceEndpoints]):
    """One who iterates: gives what is, unless it is what was given last."""

    def __init__(self, live: LiveService, changed: asyncio.Event) -> None:
        self._live = live
        self._changed = changed
        self._last: ServiceEndpoints | None = None

    async def __anext__(self) -> ServiceEndpoints:
        while not self._live.is_over:
            self._changed.clear()
            current = self._live.current
            if current != self._last:
                self._last = current
                return current
            await self._changed.wait()
        raise StopAsyncIteration


def _first_family(service: ProxiedService | None) -> Family:
    if service is None:
        return "IPv4"
    if service.ip_families and service.ip_families[0] in FAMILIES:
        return service.ip_families[0]
    return "IPv6" if ":" in service.cluster_ip else "IPv4"


def _port_of(
    service: ProxiedService | None, key: ObjectKey, wanted: str | int | None, protocol: str
) -> tuple[PortOfService | None, str]:
    """Find the port that is meant, or say why there is none."""
    if service is None:
        return None, f"there is no service {key}"
    if service.is_external_name:
        return None, f"service {key} is an ExternalName: it stands for a DNS name, and has no endpoints"
    ports = [port for port in service.ports if port.protocol == protocol]
    there = ", ".join(f"{port.name or '(unnamed)'} {port.port}/{port.protocol}" for port in service.ports)
    if wanted is None:
        if len(ports) == 1:
            return ports[0], ""
        if ports:
            return None, f"service {key} has several {protocol} ports, so say which: {there}"
        return None, f"service {key} has no {protocol} port; it has: {there or 'none at all'}"
    for port in ports:
        if wanted == (port.port if isinstance(wanted, int) else port.name):
            return port, ""
    return None, f"service {key} has no {protocol} port {wanted!r}; it has: {there or 'none at all'}"
