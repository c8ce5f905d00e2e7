"""Selection of the endpoints of a service port, by the rules of kube-proxy. Without I/O.

Each list is chosen and falls back independently: ready endpoints, else draining ones. Hints narrow only the
cluster list, and only if every ready endpoint has one (C-57 to C-63).
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from aiokube.discovery.endpoint import NOWHERE, EndpointView, Location

Topology = Literal["none", "same-node", "same-zone"]
Verdict = Literal["forward", "drop", "reject"]


class TrafficPolicy(msgspec.Struct, frozen=True, gc=False):
    """The traffic policies of a service port."""

    internal_local: bool = False
    """``internalTrafficPolicy: Local``: traffic from this node goes to endpoints on this node."""
    external_local: bool = False
    """``externalTrafficPolicy: Local``, on a service type to which it applies (C-66)."""
    externally_accessible: bool = False
    """Whether the port is reachable by anything but the cluster IP (C-57a)."""

    @property
    def uses_cluster(self) -> bool:
        """Whether any traffic may go to all endpoints of the cluster (C-57b)."""
        return not self.internal_local or self.externally_accessible

    @property
    def uses_local(self) -> bool:
        """Whether any traffic is restricted to this node's endpoints (C-57c)."""
        return self.internal_local or (self.external_local and self.externally_accessible)


CLUSTER_POLICY = TrafficPolicy()


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The selected endpoints by purpose. A list that does not apply is None, not empty (C-57d)."""

    policy: TrafficPolicy
    cluster: tuple[EndpointView, ...] | None
    """For traffic with policy Cluster, and for traffic from pods to external addresses."""
    local: tuple[EndpointView, ...] | None
    """For traffic with policy Local."""
    all_reachable: tuple[EndpointView, ...]
    """The union of both lists, in order."""
    has_any: bool
    """Whether there is an endpoint anywhere, even if it is unreachable from here (C-63b)."""
    topology: Topology = "none"
    """How hints narrowed the cluster list."""
    hints_ignored: tuple[str, ...] = ()
    """Why hints were not followed, node before zone: all reasons of C-58. Empty if no endpoint has hints."""
    cluster_is_draining: bool = False
    """Whether the cluster list is the fallback of draining endpoints."""
    local_is_draining: bool = False
    """Whether the local list is the fallback of draining endpoints."""

    @property
    def internal(self) -> tuple[EndpointView, ...]:
        """The endpoints for traffic from this node to the cluster IP."""
        return (self.local if self.policy.internal_local else self.cluster) or ()

    @property
    def external(self) -> tuple[EndpointView, ...]:
        """The endpoints for external traffic; empty if the port is not externally accessible."""
        if not self.policy.externally_accessible:
            return ()
        return (self.local if self.policy.external_local else self.cluster) or ()

    def verdict(self, *, external: bool = False) -> Verdict:
        """Return the fate of a new connection (C-63d).

        ``reject`` if there is no endpoint anywhere, ``drop`` if this traffic must not use the existing ones.
        """
        if not self.has_any:
            return "reject"
        return "forward" if (self.external if external else self.internal) else "drop"


def select(
    endpoints: Sequence[EndpointView],
    policy: TrafficPolicy = CLUSTER_POLICY,
    location: Location = NOWHERE,
) -> Selection:
    """Select among all endpoints of one service port; lists keep the order of the input (C-63c).

    The service's ``trafficDistribution`` and annotations have no effect here: the control plane has
    translated them into hints (C-59).
    """
    ready = [endpoint for endpoint in endpoints if endpoint.ready]
    # Used if no endpoint is ready.
    draining = [endpoint for endpoint in endpoints if endpoint.terminating and endpoint.serving]
    cluster: tuple[EndpointView, ...] | None = None
    local: tuple[EndpointView, ...] | None = None
    topology: Topology = "none"
    ignored: tuple[str, ...] = ()
    if policy.uses_cluster:
        topology, ignored = topology_of(ready, location)
        cluster = tuple(_near(ready, topology, location) or draining)
    if policy.uses_local:
        here = [endpoint for endpoint in ready if endpoint.is_local_to(location)]
        local = tuple(here or [endpoint for endpoint in draining if endpoint.is_local_to(location)])
    return Selection(
        policy=policy,
        cluster=cluster,
        local=local,
        all_reachable=_union(cluster, local),
        has_any=bool(cluster) or (policy.uses_local and bool(ready or draining)),
        topology=topology,
        hints_ignored=ignored,
        cluster_is_draining=bool(cluster) and not ready,
        local_is_draining=bool(local) and not any(each.ready for each in local or ()),
    )


def topology_of(ready: Sequence[EndpointView], location: Location) -> tuple[Topology, tuple[str, ...]]:
    """Decide which hints to follow (C-57), and report why others are not.

    All ready endpoints must have a hint and one must name this node, or else this zone; node and zone hints
    are not mixed.
    """
    reasons: list[str] = []
    if any(endpoint.node_hints for endpoint in ready):
        if not all(endpoint.node_hints for endpoint in ready):
            reasons.append("a ready endpoint has no node hint")
        elif location.node_name and any(location.node_name in endpoint.node_hints for endpoint in ready):
            return "same-node", ()
        else:
            reasons.append(f"no endpoint is hinted for node {location.node_name or '(unknown)'}")
    if any(endpoint.zone_hints for endpoint in ready):
        if not all(endpoint.zone_hints for endpoint in ready):
            reasons.append("a ready endpoint has no zone hint")
        elif not location.zone:
            reasons.append("the zone of this node is unknown")
        elif any(location.zone in endpoint.zone_hints for endpoint in ready):
            return "same-zone", tuple(reasons)
        else:
            reasons.append(f"no endpoint is hinted for zone {location.zone}")
    return "none", tuple(reasons)


def _near(ready: list[EndpointView], topology: Topology, location: Location) -> list[EndpointView]:
    if topology == "same-node":
        return [endpoint for endpoint in ready if location.node_name in endpoint.node_hints]
    if topology == "same-zone":
        return [endpoint for endpoint in ready if location.zone in endpoint.zone_hints]
    return ready


def _union(
    cluster: tuple[EndpointView, ...] | None, local: tuple[EndpointView, ...] | None
) -> tuple[EndpointView, ...]:
    if not local:
        return cluster or ()
    if not cluster:
        return local
    found = {endpoint.address: endpoint for endpoint in (*cluster, *local)}
    if len(found) == len(cluster):
        return cluster
    return tuple([found[address] for address in sorted(found)])
