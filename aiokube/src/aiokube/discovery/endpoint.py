"""One endpoint, the service port that it belongs to, and the location of the reader."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from aiokube.api.core import NamedPort
from aiokube.api.meta import ObjectKey, ObjectReference

NO_HINTS: frozenset[str] = frozenset()


class FrozenLabels(Mapping[str, str]):
    """An immutable, hashable mapping of a few labels."""

    __slots__ = ("_pairs",)

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._pairs = tuple(sorted((labels or {}).items()))

    def __getitem__(self, key: str) -> str:
        for name, value in self._pairs:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenLabels):
            return self._pairs == other._pairs
        return Mapping.__eq__(self, other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"FrozenLabels({dict(self._pairs)})"


NO_LABELS = FrozenLabels()


class PortKey(NamedTuple):
    """The name and protocol that identify a port in services and slices, never its number (C-27)."""

    name: str
    protocol: str = "TCP"


class ServicePortName(NamedTuple):
    """One port of one service: the unit of all load balancing (C-26). An unnamed port is ``""``."""

    namespace: str
    service: str
    port: str = ""
    protocol: str = "TCP"

    @property
    def service_key(self) -> ObjectKey:
        """The service of the port."""
        return ObjectKey(self.namespace, self.service)

    @property
    def port_key(self) -> PortKey:
        """The port without its service."""
        return PortKey(self.port, self.protocol)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.service}:{self.port or '(unnamed)'}/{self.protocol}"


class Location(msgspec.Struct, frozen=True, gc=False):
    """The reader's location; ``""`` is unknown: then no endpoint is local, and no zone matches (C-10)."""

    node_name: str = ""
    zone: str = ""


NOWHERE = Location()


class EndpointView(msgspec.Struct, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True):
    """One endpoint of one service port, from its slice.

    The three conditions have a proxy's defaults: unset ready and serving are true, unset terminating is
    false. ``zone`` is the endpoint's zone and affects nothing; ``zone_hints`` are the zones whose clients
    should use it (C-42, C-46). Equality compares all fields.
    """

    ip: str
    """The canonical address: two spellings of one address are one endpoint (C-33)."""
    port: int
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    node_name: str = ""
    zone_hints: frozenset[str] = NO_HINTS
    node_hints: frozenset[str] = NO_HINTS
    zone: str = ""
    hostname: str = ""
    target_ref: ObjectReference | None = None
    app_protocol: str = ""
    labels: FrozenLabels = NO_LABELS
    """The requested labels of the pod; empty for endpoints of slices, which carry none."""
    annotations: FrozenLabels = NO_LABELS
    """The requested annotations of the pod; empty for endpoints of slices."""
    ports: tuple[NamedPort, ...] = ()
    """All named ports of the pod's containers; empty for endpoints of slices."""
    since: datetime | None = None
    """The last transition of the pod's Ready condition; None for endpoints of slices."""

    @property
    def address(self) -> str:
        """``ip:port``, IPv6 in brackets: the identity of the endpoint in its service port (C-34)."""
        return address_of(self.ip, self.port)

    @property
    def is_draining(self) -> bool:
        """Whether it is terminating and still serving: the fallback if no endpoint is ready (C-61)."""
        return self.serving and self.terminating

    def is_local_to(self, location: Location) -> bool:
        """Return whether the endpoint is on the reader's node; False if either node is unknown."""
        return bool(self.node_name) and self.node_name == location.node_name


def address_of(ip: str, port: int) -> str:
    """Return ``ip:port``, IPv6 in brackets."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def in_order(endpoints: dict[str, EndpointView]) -> tuple[EndpointView, ...]:
    """Return endpoints sorted by the text of the address: 10.0.1.10:80 precedes 10.0.1.1:80 (C-39)."""
    return tuple([endpoints[address] for address in sorted(endpoints)])


def preferred(held: EndpointView | None, candidate: EndpointView) -> EndpointView:
    """Choose among two endpoints with one address: the non-terminating one, or else the later (C-35).

    Fields are never mixed: the chosen endpoint supplies all of them (C-36).
    """
    return candidate if held is None or not candidate.terminating else held
