"""All services of a cluster with their live endpoints, for a proxy on a node."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec

from aiokube.api.addresses import Family
from aiokube.api.core import NODES, Node
from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock, SystemClock
from aiokube.discovery.cache import CacheStatistics, EndpointSliceCache
from aiokube.discovery.changes import EndpointChanges, ServiceEndpoints
from aiokube.discovery.cursor import Cursor
from aiokube.discovery.endpoint import Location, ServicePortName
from aiokube.discovery.health import local_ready_counts
from aiokube.discovery.informer_group import ChangeSignal, Cluster, InformerGroup
from aiokube.discovery.live import FAMILIES
from aiokube.discovery.service import PROXIED_SERVICES, PROXY_NAME_LABEL, ProxiedService
from aiokube.discovery.service_cache import ServiceCursor, ServicePortCache
from aiokube.discovery.service_ports import ServicePortView
from aiokube.discovery.slice_parser import service_of
from aiokube.runtime.informer import Informer, InformerStatistics
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import ReflectorSettings

if TYPE_CHECKING:
    from aiokube.client.rest import Client

log = logging.getLogger(__name__)


class ServiceMapChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes in a service map since a reader's last read."""

    updated: frozenset[ObjectKey] = frozenset()
    """Services to process again: their ports differ, or one of their slices was written (C-48, C-70)."""
    endpoints: Mapping[Family, EndpointChanges] = {}
    """The added, removed and changed endpoints of each family; also of services that do not exist (C-15)."""
    location: bool = False
    """Whether the node's zone has changed: then every service must be processed again (C-9)."""

    def __bool__(self) -> bool:
        """Return whether there are changes to process."""
        return bool(self.updated or self.location)


class ServiceMapStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a service map's watches and caches."""

    informers: tuple[InformerStatistics, ...]
    caches: tuple[CacheStatistics, ...]
    service_ports: int


def watch_services(
    cluster: Cluster,
    *,
    node_name: str = "",
    families: Sequence[Family] = FAMILIES,
    timeout_seconds: float = 30.0,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    settings: ReflectorSettings | None = None,
) -> "ServiceMap":
    """Watch all services of a cluster and their endpoints, as seen from a node.

    For example::

        async with watch_services(client, node_name="node-1") as services:
            async for changes in services.changes():
                for name, endpoints in services.snapshot("IPv4").items():
                    ...

    There are two watches, and a third for the node if it is named. Entering returns after the initial sync,
    and raises like :func:`aiokube.discovery.live.watch_service`.
    """
    return ServiceMap(
        cluster,
        node_name=node_name,
        families=families,
        timeout_seconds=timeout_seconds,
        clock=clock or SystemClock(),
        rng=rng or random.SystemRandom(),
        settings=settings,
    )


class ServiceMap:
    """All service ports with their live endpoints; see :func:`watch_services`.

    It sees the same as kube-proxy: services with a cluster IP that are not assigned to another proxy, and
    slices that do not belong to headless services (consumer rules C-1 to C-10). Endpoints are joined to
    service ports by name and protocol (C-27). Nothing is returned before the first sync (C-8): reading
    before entering raises RuntimeError.

    Between two awaits nothing changes; batches and relists become visible as a whole. Services, slices and
    the node are three watches, so they may be from slightly different moments. A slice's change costs
    O(entries of that slice); :meth:`get` costs O(endpoints of one service port).
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        node_name: str,
        families: Sequence[Family],
        timeout_seconds: float,
        clock: Clock,
        rng: random.Random,
        settings: ReflectorSettings | None,
    ) -> None:
        self._cluster = cluster
        self._node_name = node_name
        self._timeout_seconds = timeout_seconds
        self._clock, self._rng, self._settings = clock, rng, settings
        self._watching = InformerGroup(clock)
        self._changed = ChangeSignal()
        self._location = Location(node_name)
        started = clock.wall()
        self._endpoints = {each: EndpointSliceCache(each, started=started) for each in families}
        self._ports = {each: ServicePortCache(each) for each in families}
        self._informers: list[Informer[Any]] = []
        self._is_over = False

    async def __aenter__(self) -> Self:
        if self._informers:
            raise RuntimeError("this service map was used before: create another one")
        client = await self._watching.client(self._cluster)
        self._informers = self._watch(client)
        for informer in self._informers:
            informer.store.subscribe(lambda _old, _new: self._changed.notify())
        await self._watching.open(self._informers, self._timeout_seconds)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_over = True
        self._changed.notify()
        await self._watching.close()

    # -------------------------------------------------------------------------------------------------
    # reading

    @property
    def location(self) -> Location:
        """The node, and the zone from its label; no zone while the node is unknown (C-10)."""
        return self._location

    def port(self, name: ServicePortName, family: Family = "IPv4") -> ServicePortView | None:
        """Return a service port, None if it is not proxied."""
        return self._known(family).get(name)

    def get(self, name: ServicePortName, family: Family = "IPv4") -> ServiceEndpoints | None:
        """Return the endpoints (possibly none) of a service port, None if it is not proxied."""
        port = self._known(family).get(name)
        if port is None:
            return None
        return self._endpoints[family].service_endpoints(name, port.policy, self._location)

    def snapshot(self, family: Family = "IPv4") -> dict[ServicePortName, ServiceEndpoints]:
        """Return all service ports with their endpoints. Costs O(service ports)."""
        cache = self._endpoints[family]
        return {
            name: cache.service_endpoints(name, port.policy, self._location)
            for name, port in self._known(family).snapshot().items()
        }

    def health_check_ports(self, family: Family = "IPv4") -> dict[ObjectKey, int]:
        """Return the health check node port of each service that has one (C-71)."""
        return self._known(family).health_check_ports()

    def local_ready_counts(self, family: Family = "IPv4") -> dict[ObjectKey, int]:
        """Count the ready endpoints on this node of each service that has any (C-71a)."""
        self._check_entered()
        return local_ready_counts(self._endpoints[family].snapshot(), self._location)

    def problems(self) -> dict[ObjectKey, tuple[str, ...]]:
        """Return the problems of each slice with unusable entries."""
        return {key: texts for cache in self._endpoints.values() for key, texts in cache.problems().items()}

    def statistics(self) -> ServiceMapStatistics:
        """Return a snapshot of the map's statistics."""
        return ServiceMapStatistics(
            informers=tuple(informer.statistics() for informer in self._informers),
            caches=tuple(cache.statistics() for cache in self._endpoints.values()),
            service_ports=sum(len(cache.snapshot()) for cache in self._ports.values()),
        )

    # -------------------------------------------------------------------------------------------------
    # changes

    def cursor(self) -> "MapCursor":
        """Return a cursor for a new reader, before the present state."""
        return MapCursor(
            {family: cache.cursor() for family, cache in self._ports.items()},
            {family: cache.cursor() for family, cache in self._endpoints.items()},
            self._location,
        )

    def changes_since(self, cursor: "MapCursor") -> ServiceMapChanges:
        """Return the changes since ``cursor``, and advance it. Costs O(changes).

        Raises ValueError for a cursor of another map.
        """
        self._check_entered()
        services = [self._ports[family].updated_since(each) for family, each in cursor.ports.items()]
        endpoints = {
            family: self._endpoints[family].changes_since(each) for family, each in cursor.endpoints.items()
        }
        location_before, cursor.location = cursor.location, self._location
        return ServiceMapChanges(
            updated=frozenset().union(*services, *(each.services for each in endpoints.values())),
            endpoints=endpoints,
            location=location_before != self._location,
        )

    def changes(self) -> AsyncIterator[ServiceMapChanges]:
        """Yield the complete state, then the changes since the previous item, for each reader separately.

        Changes that happen while a reader is busy are combined (C-19). The iteration ends with the ``async
        with`` block.
        """
        return _Changes(self, self._changed.listen())

    @property
    def is_over(self) -> bool:
        """Whether the block was left: the map no longer changes."""
        return self._is_over

    # -----------------------------------------------------------------------------------------------
    # internals

    def _check_entered(self) -> None:
        """Raise RuntimeError before the first sync (C-8): unknown is not the same as empty."""
        if not self._informers:
            raise RuntimeError("nothing is known about the services yet: enter the map with async with")

    def _known(self, family: Family) -> ServicePortCache:
        self._check_entered()
        return self._ports[family]

    def _watch(self, client: "Client") -> list[Informer[Any]]:
        clock, rng, settings = self._clock, self._rng, self._settings
        reachability = Reachability(clock=clock, rng=rng)
        services: Informer[ProxiedService] = Informer(
            client.source(
                PROXIED_SERVICES, label_selector=f"!{PROXY_NAME_LABEL}", field_selector="spec.clusterIP!=None"
            ),
            name="services",
            clock=clock,
            rng=rng,
            settings=settings,
            reachability=reachability,
        )
        for ports in self._ports.values():
            services.store.subscribe(ports.handle)
        slices: Informer[EndpointSlice] = Informer(
            client.source(ENDPOINT_SLICES, label_selector=f"!{HEADLESS_LABEL}"),
            name="endpointslices",
            clock=clock,
            rng=rng,
            settings=settings,
            reachability=reachability,
        )
        slices.store.subscribe(self._on_slice)
        if not self._node_name:
            return [services, slices]
        nodes: Informer[Node] = Informer(
            client.source(NODES, field_selector=f"metadata.name={self._node_name}"),
            name=f"node {self._node_name}",
            clock=clock,
            rng=rng,
            settings=settings,
            reachability=reachability,
        )
        nodes.store.subscribe(self._on_node)
        return [services, slices, nodes]

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if new is not None and service_of(new) is None:
            log.warning("ignored a slice without a service label: slice=%s", new.metadata.key)
        for cache in self._endpoints.values():
            cache.handle(old, new)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        node = new if new is not None else old
        if node is not None and node.metadata.name == self._node_name:
            self._location = Location(self._node_name, new.zone if new is not None else "")


class MapCursor:
    """The position of one reader of a service map. It needs no cleanup."""

    __slots__ = ("endpoints", "location", "ports")

    def __init__(
        self, ports: dict[Family, ServiceCursor], endpoints: dict[Family, Cursor], location: Location
    ) -> None:
        self.ports = ports
        self.endpoints = endpoints
        self.location = location


class _Changes(AsyncIterator[ServiceMapChanges]):
    """The iterator of one reader."""

    def __init__(self, services: ServiceMap, changed: asyncio.Event) -> None:
        self._services = services
        self._changed = changed
        self._cursor = services.cursor()
        self._is_first = True

    async def __anext__(self) -> ServiceMapChanges:
        while not self._services.is_over:
            self._changed.clear()
            changes = self._services.changes_since(self._cursor)
            if changes or self._is_first:
                self._is_first = False
                return changes
            await self._changed.wait()
        raise StopAsyncIteration
