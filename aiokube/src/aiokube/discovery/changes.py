"""What is new since a reader last read, as values; and the endpoints of one service port as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from aiokube.api.addresses import Family
from aiokube.api.meta import ObjectKey
from aiokube.discovery.endpoint import NOWHERE, EndpointView, Location, ServicePortName
from aiokube.discovery.selection import CLUSTER_POLICY, Selection, TrafficPolicy, select


class PortChanges(msgspec.Struct, frozen=True):
    """How the endpoints of one service port differ from before, each in the order of their addresses."""

    added: tuple[EndpointView, ...] = ()
    removed: tuple[EndpointView, ...] = ()
    changed: tuple[tuple[EndpointView, EndpointView], ...] = ()
    """Endpoints of the same address, before and now."""

    def __bool__(self) -> bool:
        """Return whether there is any difference."""
        return bool(self.added or self.removed or self.changed)


class EndpointChanges(msgspec.Struct, frozen=True):
    """What happened in a cache between two reads of one cursor.

    States in between are not told of (C-19): what came and went again is in none of :attr:`ports`.
    """

    services: frozenset[ObjectKey] = frozenset()
    """Services of which any slice was written: also where that made no difference (C-24)."""
    ports: Mapping[ServicePortName, PortChanges] = {}
    """The differences, for those service ports that have any."""
    trigger_times: Mapping[ObjectKey, tuple[datetime, ...]] = {}
    """When what led to the changes happened, as the slices say (C-52 to C-54): now minus this is the time that it took
    to get here. Times come in the order in which they arrived, one for each write."""
    udp_flows_may_be_stale: bool = False
    """Whether one of the services has, or had, endpoints on a UDP port: connection tracking may still know
    endpoints that are gone (C-56)."""
    events: int = 0
    """How many events brought anything new (C-51)."""

    def __bool__(self) -> bool:
        """Return whether any slice was written."""
        return bool(self.services)


def difference(
    before: Mapping[str, EndpointView | None], now: Mapping[str, EndpointView | None]
) -> PortChanges:
    """Compare the endpoints of the same addresses, before and now; None stands for none."""
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
    """The endpoints of one service port in one family, at one moment, with what decides which of them are used.

    A value: it stays as it is, may be shared with threads, and is equal to another that tells the same.
    """

    name: ServicePortName
    family: Family
    endpoints: tuple[EndpointView, ...] = ()
    """All of them, ready or not, in order (C-39)."""
    policy: TrafficPolicy = CLUSTER_POLICY
    location: Location = NOWHERE
    problem: str = ""
    """Why there can be no endpoints, in a sentence: the service is not there, or has no such port. Else ``""``."""
    _selection: Selection | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def usable(self) -> tuple[EndpointView, ...]:
        """Those to send new connections to that come from within the cluster: ``select().internal``."""
        return self.select().internal

    @property
    def ready(self) -> tuple[EndpointView, ...]:
        """All that are ready, wherever they stand."""
        return tuple([endpoint for endpoint in self.endpoints if endpoint.ready])

    def select(self) -> Selection:
        """Return which endpoints are used for what, by the rules of kube-proxy. Computed once: O(endpoints)."""
        if self._selection is None:
            object.__setattr__(self, "_selection", select(self.endpoints, self.policy, self.location))
        assert self._selection is not None  # noqa: S101 - set above
        return self._selection

    def changes_since(self, earlier: "ServiceEndpoints") -> PortChanges:
        """Compare all endpoints with those of an earlier moment. Costs O(endpoints of both)."""
        if self.endpoints is earlier.endpoints:
            return PortChanges()
        before: dict[str, EndpointView | None] = {each.address: each for each in earlier.endpoints}
        now: dict[str, EndpointView | None] = {each.address: each for each in self.endpoints}
        addresses = dict.fromkeys((*before, *now))
        return difference(
            {address: before.get(address) for address in addresses},
            {address: now.get(address) for address in addresses},
        )
