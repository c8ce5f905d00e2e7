"""The changes between two reads, and the endpoints of one service port, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from aiokube.api.addresses import Family
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import NOWHERE, EndpointView, Location, ServicePortName
from aiokube.discovery.selection import CLUSTER_POLICY, Selection, TrafficPolicy, select


class PortChanges(msgspec.Struct, frozen=True):
    """The difference between two states of a service port's endpoints, each sorted by address."""

    added: tuple[EndpointView, ...] = ()
    removed: tuple[EndpointView, ...] = ()
    changed: tuple[tuple[EndpointView, EndpointView], ...] = ()
    """Endpoints with the same address, before and after."""

    def __bool__(self) -> bool:
        """Return whether there is any difference."""
        return bool(self.added or self.removed or self.changed)


class EndpointChanges(msgspec.Struct, frozen=True):
    """The changes in a cache between two reads of one cursor.

    Intermediate states are omitted (C-19): an endpoint that was added and removed is not in :attr:`ports`.
    """

    services: frozenset[ObjectKey] = frozenset()
    """Services with at least one written slice, even if that made no difference (C-24)."""
    ports: Mapping[ServicePortName, PortChanges] = {}
    """The differences, for service ports that have any."""
    trigger_times: Mapping[ObjectKey, tuple[datetime, ...]] = {}
    """The times of the causes of the changes, from the slices' annotations (C-52 to C-54): now minus this is
    the propagation delay. In the order of arrival, one per write."""
    udp_flows_may_be_stale: bool = False
    """Whether one of the services has, or had, endpoints on a UDP port: connection tracking may still refer
    to deleted endpoints (C-56)."""
    events: int = 0
    """The number of events with news (C-51)."""

    def __bool__(self) -> bool:
        """Return whether any slice was written."""
        return bool(self.services)


def difference(
    before: Mapping[str, EndpointView | None], now: Mapping[str, EndpointView | None]
) -> PortChanges:
    """Compare the endpoints of the same addresses, before and after; None means absent."""
    added: list[EndpointView] = []
    removed: list[EndpointView] = []
    changed: list[tuple[EndpointView, EndpointView]] = []
    for address in sorted(before):
        was, has = before[address], now[address]
        if was is None:
            if has is not None:
                added.append(has)
        elif has is None:
            removed.append(was)
        elif was != has:
            changed.append((was, has))
    return PortChanges(tuple(added), tuple(removed), tuple(changed))


@dataclass(frozen=True, slots=True)
class ServiceEndpoints:
    """The endpoints of one service port in one family at one moment, with the selection policy.

    An immutable value: it can be shared between threads, and equal content compares equal.
    """

    name: ServicePortName
    family: Family
    endpoints: tuple[EndpointView, ...] = ()
    """All endpoints, ready or not, in order (C-39)."""
    policy: TrafficPolicy = CLUSTER_POLICY
    location: Location = NOWHERE
    problem: str = ""
    """Why there are no endpoints, in a sentence: no such service, or no such port. Else ``""``."""
    _selection: Selection | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def usable(self) -> tuple[EndpointView, ...]:
        """The endpoints for new connections from within the cluster: ``select().internal``."""
        return self.select().internal

    @property
    def ready(self) -> tuple[EndpointView, ...]:
        """All ready endpoints, at any location."""
        return tuple([endpoint for endpoint in self.endpoints if endpoint.ready])

    def select(self) -> Selection:
        """Select endpoints by the rules of kube-proxy. Computed once: O(endpoints)."""
        if self._selection is None:
            object.__setattr__(self, "_selection", select(self.endpoints, self.policy, self.location))
        assert self._selection is not None  # noqa: S101 - set above
        return self._selection

    def changes_since(self, earlier: "ServiceEndpoints") -> PortChanges:
        """Compare all endpoints with those of an earlier state. Costs O(endpoints of both)."""
        if self.endpoints is earlier.endpoints:
            return PortChanges()
        before: dict[str, EndpointView | None] = {each.address: each for each in earlier.endpoints}
        now: dict[str, EndpointView | None] = {each.address: each for each in self.endpoints}
        addresses = dict.fromkeys((*before, *now))
        return difference(
            {address: before.get(address) for address in addresses},
            {address: now.get(address) for address in addresses},
        )
