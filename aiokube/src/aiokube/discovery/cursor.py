"""The position of one reader in a cache."""

from datetime import datetime

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import EndpointView, PortKey


class Seen(msgspec.Struct, frozen=True):
    """The changes since a reader last read: for each item touched, its state at that time."""

    services: dict[ObjectKey, bool]
    """The services with a written slice, and whether they had endpoints on a UDP port."""
    before: dict[ObjectKey, dict[PortKey, dict[str, EndpointView | None]]]
    times: dict[ObjectKey, list[datetime]]
    events: int


class Cursor:
    """The position of one reader: created by :meth:`EndpointSliceCache.cursor`, advanced by ``changes_since``.

    It records the changes since the last read: at most the endpoints that the reader saw and those present now,
    and one trigger time for each write. Read regularly to bound it. The cache holds only a weak reference.
    """

    __slots__ = ("__weakref__", "_before", "_events", "_services", "_times")

    def __init__(self) -> None:
        self._services: dict[ObjectKey, bool] = {}
        self._before: dict[ObjectKey, dict[PortKey, dict[str, EndpointView | None]]] = {}
        self._times: dict[ObjectKey, list[datetime]] = {}
        self._events = 0

    def event(self, service: ObjectKey, time: datetime | None, *, removed: bool) -> None:
        """Record a write of a slice. A removed slice discards all times of its service (C-54)."""
        self._events += 1
        if removed:
            self._times.pop(service, None)
        elif time is not None:
            self._times.setdefault(service, []).append(time)

    def touch(self, service: ObjectKey, *, had_udp: bool) -> None:
        """Record that slices of a service are about to be parsed; only the first time since the last read counts."""
        self._services.setdefault(service, had_udp)

    def note(
        self, service: ObjectKey, port: PortKey, address: str, *, before: EndpointView | None, is_gone: bool
    ) -> None:
        """Record that an address changed, and its previous state; only the first time counts."""
        addresses = self._before.setdefault(service, {}).setdefault(port, {})
        if addresses.setdefault(address, before) is None and is_gone:
            del addresses[address]  # added and removed between two reads: no change

    def take(self) -> Seen:
        """Return the recorded changes and reset."""
        seen = Seen(self._services, self._before, self._times, self._events)
        self._services, self._before, self._times, self._events = {}, {}, {}, 0
        return seen
