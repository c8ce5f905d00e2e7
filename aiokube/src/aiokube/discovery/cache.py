"""The slices of any number of services in one family, and the changes since a reader's last read."""

import weakref
from datetime import datetime

import msgspec

from aiokube.api.addresses import Family
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.api.meta import ObjectKey
from aiokube.api.times import parse_time
from aiokube.discovery.changes import EndpointChanges, PortChanges, ServiceEndpoints, difference
from aiokube.discovery.cursor import Cursor
from aiokube.discovery.endpoint import (
    NOWHERE,
    EndpointView,
    Location,
    PortKey,
    ServicePortName,
)
from aiokube.discovery.endpoint_merge import MergedService
from aiokube.discovery.selection import CLUSTER_POLICY, TrafficPolicy
from aiokube.discovery.slice_parser import read_slice, service_of, why_ignored

_NONE: dict[str, EndpointSlice] = {}


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a cache's state; the counters count from its creation."""

    family: Family
    services: int
    slices: int
    events: int
    """Slices that were received and accepted, whether they contained news or not (C-51)."""
    changes: int
    """Accepted slices that contained news."""
    slices_read: int
    """Slices that were parsed: each slice once for all its changes between two reads."""
    addresses_compared: int
    """The cost of parsing: proportional to the changed slices, not to the unchanged ones."""


class EndpointSliceCache:
    """Like kube-proxy's slice cache, for one IP family: slices in, endpoints of service ports out.

    Guarantees:

    * **Merging.** The endpoints of a service port are those of all slices with the service's label, from any
      writer, each address once (C-11, C-26 to C-39). The result depends only on the slices, never on their
      order of arrival. A slice whose label changes or disappears leaves its previous service (which fixes
      C-16).
    * **Cost.** Receiving a slice costs a lookup. It is parsed at the next read, which costs O(entries of the
      slice), independent of its service and of others. Only the last state between two reads counts (C-19).
    * **Snapshots.** Returned values never change.
    * **Any number of readers.** Each has its own :class:`Cursor`, and receives every difference since its
      last read.

    Not thread-safe: use it within one event loop, or with a lock. Dual-stack needs two caches (C-14). It
    never raises because of a slice's content: unusable entries are skipped, and reported by
    :meth:`problems`.
    """

    def __init__(self, family: Family = "IPv4", *, started: datetime | None = None) -> None:
        """Create an empty cache. Trigger times up to ``started`` are older than us, and ignored (C-52)."""
        self.family: Family = family
        self._started = started
        # The newest state of every slice: the service it belongs to, and (after parsing) the slice.
        self._filed: dict[ObjectKey, ObjectKey] = {}
        self._slices: dict[ObjectKey, dict[str, EndpointSlice]] = {}
        # Unparsed slices by service and name; None for deleted slices.
        self._pending: dict[ObjectKey, dict[str, EndpointSlice | None]] = {}
        self._merged: dict[ObjectKey, MergedService] = {}
        self._problems: dict[ObjectKey, tuple[str, ...]] = {}
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._events = 0
        self._changes = 0
        self._read = 0
        self._compared = 0

    # -------------------------------------------------------------------------------------------------
    # updates

    def update(self, endpoint_slice: EndpointSlice) -> bool:
        """Record a new or changed slice; return whether it is news (C-22, C-25).

        The same state again is not news, any other write is (C-23). A slice that this cache ignores
        (:func:`why_ignored`) is not news, unless it was accepted before: then it is removed.
        """
        key = endpoint_slice.metadata.key
        service = service_of(endpoint_slice) if endpoint_slice.address_type == self.family else None
        filed = self._filed.get(key)
        if filed is not None and filed != service:
            self._note(filed, key.name, None)
            del self._filed[key]
            if service is None:
                return True
        if service is None:
            return False
        self._events += 1
        self._filed[key] = service
        return self._note(service, key.name, endpoint_slice)

    def remove(self, endpoint_slice: EndpointSlice) -> bool:
        """Record a deleted slice, with any last state; return whether it was known."""
        key = endpoint_slice.metadata.key
        filed = self._filed.pop(key, None)
        if why_ignored(endpoint_slice, self.family) is None:
            self._events += 1
        return filed is not None and self._note(filed, key.name, None)

    def handle(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Apply a change of a store: a handler for :meth:`aiokube.runtime.store.Store.subscribe` (C-7)."""
        if new is not None:
            self.update(new)
        elif old is not None:
            self.remove(old)

    # -------------------------------------------------------------------------------------------------
    # reading

    def endpoints(self, name: ServicePortName) -> tuple[EndpointView, ...]:
        """Return all endpoints of a service port, ready or not, in order; empty for an unknown port."""
        self._settle(name.service_key)
        merged = self._merged.get(name.service_key)
        return merged.endpoints(name.port_key) if merged is not None else ()

    def service_endpoints(
        self, name: ServicePortName, policy: TrafficPolicy = CLUSTER_POLICY, location: Location = NOWHERE
    ) -> ServiceEndpoints:
        """Return the same endpoints as a value with the selection rules."""
        return ServiceEndpoints(name, self.family, self.endpoints(name), policy, location)

    def ports_of(self, service: ObjectKey) -> list[ServicePortName]:
        """Return the ports of a service that have endpoints, sorted by name (C-30)."""
        self._settle(service)
        merged = self._merged.get(service)
        return sorted(_name(service, port) for port in merged.ports()) if merged is not None else []

    def snapshot(self) -> dict[ServicePortName, tuple[EndpointView, ...]]:
        """Return the endpoints of every service port that has any. Costs O(service ports)."""
        self._settle()
        return {
            _name(service, port): merged.endpoints(port)
            for service, merged in self._merged.items()
            for port in merged.ports()
        }

    def services(self) -> list[ObjectKey]:
        """Return the services that slices name, sorted, whether they exist or not (C-15)."""
        self._settle()
        return sorted(self._merged)

    def problems(self) -> dict[ObjectKey, tuple[str, ...]]:
        """Return the problems of each slice with unusable entries."""
        self._settle()
        return dict(self._problems)

    def statistics(self) -> CacheStatistics:
        """Return a snapshot of the cache's statistics."""
        self._settle()
        return CacheStatistics(
            family=self.family,
            services=len(self._merged),
            slices=len(self._filed),
            events=self._events,
            changes=self._changes,
            slices_read=self._read,
            addresses_compared=self._compared,
        )

    # -------------------------------------------------------------------------------------------------
    # changes

    def cursor(self, *, replay: bool = True) -> Cursor:
        """Return a cursor for a new reader, before the present state (``replay``) or after it."""
        self._settle()
        cursor = Cursor()
        if replay:
            for service, merged in self._merged.items():
                cursor.touch(service, had_udp=False)
                for port in merged.ports():
                    for address in merged.addresses(port):
                        cursor.note(service, port, address, before=None, is_gone=False)
        self._cursors.add(cursor)
        return cursor

    def changes_since(self, cursor: Cursor) -> EndpointChanges:
        """Return the changes since ``cursor`` was created or last read, and advance it.

        Costs O(changes). A second call right away returns no changes (C-50). Cursors need no cleanup. Raises
        ValueError for a cursor of another cache.
        """
        if cursor not in self._cursors:
            raise ValueError("this cursor belongs to another cache: create one with cursor()")
        self._settle()
        seen = cursor.take()
        ports: dict[ServicePortName, PortChanges] = {}
        udp = False
        for service, had_udp in seen.services.items():
            merged = self._merged.get(service)
            udp = udp or had_udp or (merged is not None and merged.has_udp())
            for port, before in seen.before.get(service, {}).items():
                now = {
                    address: merged.find(port, address) if merged is not None else None for address in before
                }
                changes = difference(before, now)
                if changes:
                    ports[_name(service, port)] = changes
        return EndpointChanges(
            services=frozenset(seen.services),
            ports=ports,
            trigger_times={service: tuple(times) for service, times in seen.times.items()},
            udp_flows_may_be_stale=udp,
            events=seen.events,
        )

    # -------------------------------------------------------------------------------------------------
    # internals

    def _note(self, service: ObjectKey, name: str, endpoint_slice: EndpointSlice | None) -> bool:
        """Record the new state of a slice, unless it is the known one."""
        pending = self._pending.get(service)
        if pending is not None and name in pending:
            known = pending[name]
        else:
            known = self._slices.get(service, _NONE).get(name)
        if known is endpoint_slice or known == endpoint_slice:
            return False
        self._changes += 1
        if pending is None:
            pending = self._pending[service] = {}
        pending[name] = endpoint_slice
        time = self._trigger_time(endpoint_slice)
        for cursor in self._cursors:
            cursor.event(service, time, removed=endpoint_slice is None)
        return True

    def _trigger_time(self, endpoint_slice: EndpointSlice | None) -> datetime | None:
        if endpoint_slice is None or not endpoint_slice.metadata.annotations:
            return None
        time = parse_time(endpoint_slice.metadata.annotations.get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION, ""))
        return time if time is not None and (self._started is None or time > self._started) else None

    def _settle(self, service: ObjectKey | None = None) -> None:
        """Parse the pending slices of one service, or of all."""
        if not self._pending:
            return
        if service is None:
            waiting, self._pending = self._pending, {}
        else:
            endpoint_slices = self._pending.pop(service, None)
            if endpoint_slices is None:
                return
            waiting = {service: endpoint_slices}
        for each, endpoint_slices in waiting.items():
            self._settle_one(each, endpoint_slices)

    def _settle_one(self, service: ObjectKey, endpoint_slices: dict[str, EndpointSlice | None]) -> None:
        merged = self._merged.get(service)
        if merged is None:
            merged = self._merged[service] = MergedService()
        slices = self._slices.setdefault(service, {})
        cursors = list(self._cursors)
        for cursor in cursors:
            cursor.touch(service, had_udp=merged.has_udp())
        compared = merged.compared
        for name, endpoint_slice in endpoint_slices.items():
            key = ObjectKey(service.namespace, name)
            self._problems.pop(key, None)
            view = None
            if endpoint_slice is None:
                slices.pop(name, None)
            else:
                slices[name] = endpoint_slice
                view = read_slice(endpoint_slice)
                self._read += 1
                if view.problems:
                    self._problems[key] = view.problems
            for port, address, before in merged.put(name, view):
                is_gone = merged.find(port, address) is None
                for cursor in cursors:
                    cursor.note(service, port, address, before=before, is_gone=is_gone)
        self._compared += merged.compared - compared
        if not slices:
            del self._slices[service], self._merged[service]


def _name(service: ObjectKey, port: PortKey) -> ServicePortName:
    return ServicePortName(service.namespace, service.name, port.name, port.protocol)
