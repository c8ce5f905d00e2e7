"""Where one reader of a cache stands."""

from datetime import datetime

import msgspec

from endpointd.api.meta import ObjectKey
from endpointd.consumer.endpoint import EndpointView, PortKey


class Seen(msgspec.Struct, frozen=True):
    """What a reader has to be told: for what was touched, how it was when the reader last looked."""

    services: dict[ObjectKey, bool]
    """The services of which a slice was written, and whether they had endpoints on a UDP port."""
    before: dict[ObjectKey, dict[PortKey, dict[str, EndpointView | None]]]
    times: dict[ObjectKey, list[datetime]]
    events: int


class Look:
    """How far one reader has come: made by :meth:`EndpointSliceCache.look`, moved by ``changes_since``.

    It remembers what was touched since: at most the endpoints that the reader saw and those that are there now,
    and one trigger time for each write; so look every now and then. The cache lets go of it with its last reference.
    """

    __slots__ = ("__weakref__", "_before", "_events", "_services", "_times")

    def __init__(self) -> None:
        self._services: dict[ObjectKey, bool] = {}
        self._before: dict[ObjectKey, dict[PortKey, dict[str, EndpointView | None]]] = {}
        self._times: dict[ObjectKey, list[datetime]] = {}
        self._events = 0

    def event(self, service: ObjectKey, time: datetime | None, *, removed: bool) -> None:
        """Take in that a slice was written. A slice that goes takes all times of its service with it (C-54)."""
        self._events += 1
        if removed:
            self._times.pop(service, None)
        elif time is not None:
            self._times.setdefault(service, []).append(time)

    def touch(self, service: ObjectKey, *, had_udp: bool) -> None:
        """Take in that slices of a service are about to be read; the first time since the last look counts."""
        self._services.setdefault(service, had_udp)

    def note(
        self, service: ObjectKey, port: PortKey, address: str, *, before: EndpointView | None, is_gone: bool
    ) -> None:
        """Take in that an address is another now, and what it was; the first time counts."""
        addresses = self._before.setdefault(service, {}).setdefault(port, {})
        if addresses.setdefault(address, before) is None and is_gone:
            del addresses[address]  # it came and went: nobody has to know

    def take(self) -> Seen:
        """Return all that, and begin anew."""
        seen = Seen(self._services, self._before, self._times, self._events)
        self._services, self._before, self._times, self._events = {}, {}, {}, 0
        return seen
