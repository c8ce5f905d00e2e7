"""The service ports of many services in one family, and the changes since a reader's last read."""

import weakref

from aiokube.api.addresses import Family
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import ServicePortName
from aiokube.discovery.service import ProxiedService
from aiokube.discovery.service_ports import ServicePortView, health_check_ports, service_ports

Ports = dict[ServicePortName, ServicePortView]


class ServiceCursor:
    """The position of one reader of service ports, with the previous state of changed services."""

    __slots__ = ("__weakref__", "_before")

    def __init__(self) -> None:
        self._before: dict[ObjectKey, Ports] = {}

    def __bool__(self) -> bool:
        """Return whether there are changes."""
        return bool(self._before)

    def note(self, service: ObjectKey, before: Ports, now: Ports) -> None:
        """Record new ports of a service; if they equal the ports at the last read, drop the change (C-69)."""
        if self._before.setdefault(service, before) == now:
            del self._before[service]

    def take(self) -> frozenset[ObjectKey]:
        """Return the changed services, and reset."""
        services, self._before = frozenset(self._before), {}
        return services


class ServicePortCache:
    """Like kube-proxy's service tracker, for one IP family: services in, service ports out.

    Services with the label ``service.kubernetes.io/service-proxy-name`` belong to the proxy it names: adding
    the label removes a service, removing the label adds it (C-1 to C-4). Only the fields of
    :class:`ServicePortView` count as changes, and a change that is reverted before a read is invisible to
    that reader (C-69).

    Any number of readers, each with its own cursor. Returned values are immutable. Not thread-safe.
    """

    def __init__(self, family: Family = "IPv4") -> None:
        self.family: Family = family
        self._ports: dict[ObjectKey, Ports] = {}
        self._cursors: weakref.WeakSet[ServiceCursor] = weakref.WeakSet()

    def update(self, service: ProxiedService) -> bool:
        """Record a new or changed service; return whether any reader has a change to read."""
        ports = {} if service.proxy_name is not None else service_ports(service, self.family)
        return self._put(service.metadata.key, ports)

    def remove(self, service: ProxiedService) -> bool:
        """Record a deleted service; return whether any reader has a change to read."""
        return self._put(service.metadata.key, {})

    def handle(self, old: ProxiedService | None, new: ProxiedService | None) -> None:
        """Apply a change of a store."""
        if new is not None:
            self.update(new)
        elif old is not None:
            self.remove(old)

    def get(self, name: ServicePortName) -> ServicePortView | None:
        """Return a service port, None if it is unknown."""
        return self._ports.get(name.service_key, {}).get(name)

    def snapshot(self) -> Ports:
        """Return all service ports. Costs O(service ports)."""
        return {name: port for ports in self._ports.values() for name, port in ports.items()}

    def health_check_ports(self) -> dict[ObjectKey, int]:
        """Return the health check node port of each service that has one."""
        return health_check_ports(self.snapshot())

    def cursor(self, *, replay: bool = True) -> ServiceCursor:
        """Return a cursor for a new reader, before the present state (``replay``) or after it."""
        cursor = ServiceCursor()
        if replay:
            for service, ports in self._ports.items():
                cursor.note(service, {}, ports)
        self._cursors.add(cursor)
        return cursor

    def updated_since(self, cursor: ServiceCursor) -> frozenset[ObjectKey]:
        """Return the services whose ports differ from those at ``cursor``, and advance it (C-70).

        Raises ValueError for a cursor of another cache.
        """
        if cursor not in self._cursors:
            raise ValueError("this cursor belongs to another cache: create one with cursor()")
        return cursor.take()

    def _put(self, service: ObjectKey, ports: Ports) -> bool:
        known = self._ports.get(service, {})
        if known != ports:
            for cursor in self._cursors:
                cursor.note(service, known, ports)
            if ports:
                self._ports[service] = ports
            else:
                del self._ports[service]
        return any(self._cursors)
