"""The slices of any number of services in one family, and what has changed since a reader last read."""

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
    """How a cache is, at one moment; the counters run from its making."""

    family: Family
    services: int
    slices: int
    events: int
    """Slices that were told of and taken, whether they brought anything new or not (C-51)."""
    changes: int
    """Of these, the ones that did."""
    slices_read: int
    """How often a slice was read: once for each that changed between two readings, however often it did."""
    addresses_compared: int
    """What that cost: grows with the slices that change, not with those that stay."""


class EndpointSliceCache:
    """What kube-proxy's slice cache does, for one address family: slices in, endpoints of service ports out.

    It promises:

    * **Merging.** The endpoints of a service port are those of all slices that name the service by label, whoever
      wrote them, each address once (C-11, C-26 to C-39). The result depends on the slices alone, never on the order
      in which they came. A slice that names another service now, or none, has left the one before (C-16 is mended).
    * **Cost.** Telling of a slice costs a lookup. The slice is read when somebody asks next: that costs what the
      slice holds, neither what its service holds nor what others do. In between, only its last state counts (C-19).
    * **Snapshots.** What is returned are values; nothing that happens later changes them.
    * **Any number of readers.** Each has its own :class:`Cursor`, and receives every difference since it last read.

    Not thread-safe: one event loop, or a lock of yours. Dual-stack is two caches (C-14). It never raises for what a
    slice says: what cannot be used is left out, and told by :meth:`problems`.
    """

    def __init__(self, family: Family = "IPv4", *, started: datetime | None = None) -> None:
        """Make an empty cache. Trigger times up to ``started`` are of before our time, and left out (C-52)."""
        self.family: Family = family
        self._started = started
        # The newest state of every slice: where it is filed, and (after reading) what was read.
        self._filed: dict[ObjectKey, ObjectKey] = {}
        self._slices: dict[ObjectKey, dict[str, EndpointSlice]] = {}
        # Services, and their slices by name, that were told of and not yet read; None for those that are gone.
        self._pending: dict[ObjectKey, dict[str, EndpointSlice | None]] = {}
        self._merged: dict[ObjectKey, MergedService] = {}
        self._problems: dict[ObjectKey, tuple[str, ...]] = {}
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._events = 0
        self._changes = 0
        self._read = 0
        self._compared = 0

    # --------------------------------------------------------------------------------------------- telling

    def update(self, endpoint_slice: EndpointSlice) -> bool:
        """Take in that a slice is there or is another now; tell whether that is news (C-22, C-25).

        The same slice again is none, any other write of it is (C-23). A slice that this cache does not take
        (:func:`why_ignored`) is none either, unless it was another before: then it has left.
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
        """Take in that a slice is gone, whatever its last state was; tell whether it was known."""
        key = endpoint_slice.metadata.key
        filed = self._filed.pop(key, None)
        if why_ignored(endpoint_slice, self.family) is None:
            self._events += 1
        return filed is not None and self._note(filed, key.name, None)

    def handle(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Take in a change of a store: what :meth:`aiokube.runtime.store.Store.subscribe` calls (C-7)."""
        if new is not None:
            self.update(new)
        elif old is not None:
            self.remove(old)

    # --------------------------------------------------------------------------------------------- reading

    def endpoints(self, name: ServicePortName) -> tuple[EndpointView, ...]:
        """Return all endpoints of a service port, ready or not, in order; nothing where there is no such port."""
        self._settle(name.service_key)
        merged = self._merged.get(name.service_key)
        return merged.endpoints(name.port_key) if merged is not None else ()

    def service_endpoints(
        self, name: ServicePortName, policy: TrafficPolicy = CLUSTER_POLICY, location: Location = NOWHERE
    ) -> ServiceEndpoints:
        """Return the same as a value that can say which of them to use."""
        return ServiceEndpoints(name, self.family, self.endpoints(name), policy, location)

    def ports_of(self, service: ObjectKey) -> list[ServicePortName]:
        """Return the ports of a service that have endpoints, in order of their names (C-30)."""
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
        """Return the services that any slice names, in order, whether they exist or not (C-15)."""
        self._settle()
        return sorted(self._merged)

    def problems(self) -> dict[ObjectKey, tuple[str, ...]]:
        """Return for each slice with entries that could not be used what is wrong with them."""
        self._settle()
        return dict(self._problems)

    def statistics(self) -> CacheStatistics:
        """Return how the cache is."""
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

    # --------------------------------------------------------------------------------------------- looking

    def cursor(self, *, replay: bool = True) -> Cursor:
        """Return a cursor for a new reader. With ``replay`` it starts before the present state, else after it."""
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
        """Return the changes since ``cursor`` was made or last passed here, and advance it.

        Costs what has changed, whatever there is. Given again at once, there is nothing (C-50). A cursor that is
        not used any more needs no farewell; raises ValueError for one of another cache.
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

    # ----------------------------------------------------------------------------------------- the insides

    def _note(self, service: ObjectKey, name: str, endpoint_slice: EndpointSlice | None) -> bool:
        """Put aside what a slice is now, unless that is known."""
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
        """Read what was put aside, of one service or of all."""
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
