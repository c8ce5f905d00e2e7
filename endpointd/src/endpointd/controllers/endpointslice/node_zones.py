"""The zone of every node, including nodes that disappeared a short time ago (S-31.4).

A pod whose Node does not exist is not published. A Node object may disappear while its pods serve as before: somebody
deletes it and the kubelet registers it again, or a server with a part of its data answers a list. Withdrawing all of
its pods at once would turn that into an outage, so a missing Node counts as present for a grace period.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from aiokube.api.core import Node, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock

MISSING_NODE_GRACE_SECONDS = 60.0
"""As long as kube-controller-manager's pod garbage collector takes to delete the pods of a missing Node.

It looks every 20 s, and waits another 40 s before it takes a Node for gone. Until then nobody has concluded that the
pods are gone; afterwards their deletion withdraws them in any case. A kubelet that is restarted registers its Node again
within seconds, and a lossy list is repaired by the next one.
"""


class NodeLister(Protocol):
    """The nodes there are."""

    def get(self, key: ObjectKey, /) -> Node | None:
        """Return one node."""
        ...


class _MissingNode(msgspec.Struct, frozen=True, gc=False):
    zone: str
    until: float


class NodeZones:
    """The zones of nodes by name. Feed :meth:`node_changed` from the store of nodes, after the store has changed.

    A missing node keeps its zone until :meth:`expire` is called after its grace period: what is derived from
    :meth:`zone_of` changes only by these two calls.
    """

    def __init__(self, nodes: NodeLister, clock: Clock, grace_seconds: float) -> None:
        self._nodes = nodes
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._missing: dict[str, _MissingNode] = {}  # in the order of their ends

    def zone_of(self, name: str) -> str | None:
        """Return the zone of a node: ``""`` where it has none, None where there is no such node."""
        node = self._nodes.get(ObjectKey("", name))
        if node is not None:
            return node.zone
        missing = self._missing.get(name)
        return missing.zone if missing is not None else None

    def node_changed(self, old: Node | None, new: Node | None) -> bool:
        """Take in a change of a node; return whether its zone is another one than before."""
        node = new if new is not None else old
        if node is None:
            return False
        missing = self._missing.pop(node.metadata.name, None)
        if new is None:
            if self._grace_seconds <= 0:
                return True
            self.keep(node.metadata.name, node.zone)
            return False
        if old is not None:
            return old.zone != new.zone
        return missing is None or missing.zone != new.zone

    def keep(self, name: str, zone: str) -> None:
        """Have a missing node count as present from now on, for the grace period."""
        if self._grace_seconds > 0:
            self._missing[name] = _MissingNode(zone, self._clock.monotonic() + self._grace_seconds)

    def keep_published(
        self,
        node_names: Iterable[str],
        slices: Callable[[], Iterable[EndpointSlice]],
        owner_of: Callable[[EndpointSlice], Service | None],
    ) -> None:
        """After a start, keep those of these nodes that are missing and have endpoints published (:func:`published_zones`).

        Costs O(nodes), and O(endpoints) if any is missing.
        """
        missing = {name for name in node_names if self._nodes.get(ObjectKey("", name)) is None}
        if missing:
            for name, zone in published_zones(slices(), owner_of, missing.__contains__).items():
                self.keep(name, zone)

    def expire(self) -> list[str]:
        """Forget the nodes whose grace period has ended, and return their names."""
        now = self._clock.monotonic()
        expired: list[str] = []
        for name, missing in self._missing.items():
            if missing.until > now:
                break
            expired.append(name)
        for name in expired:
            del self._missing[name]
        return expired

    def seconds_until_expiry(self) -> float | None:
        """Return when :meth:`expire` will find something, None if no node is missing; 0 where it would now."""
        first = next(iter(self._missing.values()), None)
        return max(first.until - self._clock.monotonic(), 0.0) if first is not None else None


def published_zones(
    slices: Iterable[EndpointSlice],
    owner_of: Callable[[EndpointSlice], Service | None],
    is_missing: Callable[[str], bool],
) -> dict[str, str]:
    """Return the zones of missing nodes, as far as endpoints published for their pods tell them: O(endpoints).

    This is what is known of them after a start: a pod is published only while its Node is there, except for a service
    that publishes addresses that are not ready. ``owner_of`` returns the service whose slice it is, None for the
    slices of others.
    """
    found: dict[str, str] = {}
    for endpoint_slice in slices:
        owner = owner_of(endpoint_slice)
        if owner is None or owner.publish_not_ready_addresses:
            continue
        for endpoint in endpoint_slice.endpoints or ():
            name = endpoint.node_name
            if name and is_missing(name):
                zone = endpoint.zone or ""
                found[name] = min(found.get(name, zone), zone)
    return found
