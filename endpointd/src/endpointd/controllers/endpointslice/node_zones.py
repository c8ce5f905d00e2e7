"""The zone of every node, including recently deleted ones (S-31.4).

A pod is not published unless its Node exists. A Node object may disappear while its pods keep serving: a
client deletes it and the kubelet registers it again, or a server that lost data answers a list. Withdrawing
all its pods immediately would cause an outage, so a missing Node counts as present for a grace period.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from aiokube.api.core import Node, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock

MISSING_NODE_GRACE_SECONDS = 60.0
"""The time that kube-controller-manager's pod garbage collector takes to delete the pods of a missing Node.

It checks every 20 s, and waits another 40 s before it treats a Node as deleted. Until then no controller has
concluded that the pods are lost; afterwards their deletion withdraws them anyway. A restarted kubelet
registers its Node again within seconds, and an incomplete list is corrected by the next one.
"""


class NodeLister(Protocol):
    """A lister of nodes."""

    def get(self, key: ObjectKey, /) -> Node | None:
        """Return one node."""
        ...


class _MissingNode(msgspec.Struct, frozen=True, gc=False):
    zone: str
    until: float


class NodeZones:
    """The zones of nodes by name. Call :meth:`node_changed` after each change of the store of nodes.

    A missing node keeps its zone until :meth:`expire` is called after its grace period: only these two calls
    change the results of :meth:`zone_of`.
    """

    def __init__(self, nodes: NodeLister, clock: Clock, grace_seconds: float) -> None:
        self._nodes = nodes
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._missing: dict[str, _MissingNode] = {}  # in the order of expiry

    def zone_of(self, name: str) -> str | None:
        """Return the zone of a node: ``""`` if it has no zone, None if the node does not exist."""
        node = self._nodes.get(ObjectKey("", name))
        if node is not None:
            return node.zone
        missing = self._missing.get(name)
        return missing.zone if missing is not None else None

    def node_changed(self, old: Node | None, new: Node | None) -> bool:
        """Apply a change of a node; return whether its zone has changed."""
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
        """Count a missing node as present for the grace period, from now on."""
        if self._grace_seconds > 0:
            self._missing[name] = _MissingNode(zone, self._clock.monotonic() + self._grace_seconds)

    def keep_published(
        self,
        node_names: Iterable[str],
        slices: Callable[[], Iterable[EndpointSlice]],
        owner_of: Callable[[EndpointSlice], Service | None],
    ) -> None:
        """After a start, keep the missing nodes among these that have published endpoints (:func:`published_zones`).

        Costs O(nodes), plus O(endpoints) if any node is missing.
        """
        missing = {name for name in node_names if self._nodes.get(ObjectKey("", name)) is None}
        if missing:
            for name, zone in published_zones(slices(), owner_of, missing.__contains__).items():
                self.keep(name, zone)

    def expire(self) -> list[str]:
        """Remove the nodes whose grace period has expired, and return their names."""
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
        """Return the seconds until the next expiry: None if no node is missing, 0 if one is due."""
        first = next(iter(self._missing.values()), None)
        return max(first.until - self._clock.monotonic(), 0.0) if first is not None else None


def published_zones(
    slices: Iterable[EndpointSlice],
    owner_of: Callable[[EndpointSlice], Service | None],
    is_missing: Callable[[str], bool],
) -> dict[str, str]:
    """Return the zones of missing nodes according to the published endpoints of their pods. O(endpoints).

    After a start, no other information about them exists: a pod is published only while its Node exists, unless
    its service publishes not-ready addresses. ``owner_of`` returns the service of a slice that we manage, or
    None.
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
