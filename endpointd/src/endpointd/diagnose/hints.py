"""Explain why endpoints have topology hints or lack them. Pure."""

from collections.abc import Iterator, Sequence

from aiokube.api.core import Service
from aiokube.api.discovery import MANAGED_BY_ENDPOINTSLICE_CONTROLLER, Endpoint
from aiokube.api.meta import key_of
from endpointd.controllers.endpointslice.distribution import topology_aware, traffic_distribution
from endpointd.controllers.endpointslice.topology import NO_ZONE_ON_ENDPOINT, Refusal, allocate
from endpointd.diagnose.changes import managed_by, zone_ratios
from endpointd.diagnose.reasons import Reason
from endpointd.diagnose.snapshot import ClusterIndex


def hint_reasons(index: ClusterIndex, service: Service, endpoints: Sequence[Endpoint]) -> Iterator[Reason]:
    """Yield the reasons about one pod's hints; nothing if hints are neither requested nor present."""
    hinted = [endpoint for endpoint in endpoints if endpoint.hints is not None]
    if topology_aware(service):
        if hinted:
            zones = sorted(
                {zone.name for one in hinted for zone in (one.hints and one.hints.for_zones) or ()}
            )
            yield Reason(
                "HintsOn",
                "note",
                f"topology-aware hints assign it to consumers in {', '.join(zones) or 'no zone'} (topology-mode: Auto)",
            )
            return
        if any(one.conditions.ready is not False for one in endpoints):
            why = _refusal(index, service)
        else:
            why = "it is not ready, and only ready endpoints get hints"
        yield Reason("HintsOff", "note", f"topology-aware hints are requested, but not assigned: {why}")
        return
    distribution = traffic_distribution(service)
    if distribution is not None and hinted:
        yield Reason(
            "HintsOn",
            "note",
            f"its hint is its own zone or node (trafficDistribution: {service.traffic_distribution})",
        )
    elif distribution is not None and any(one.conditions.ready is not False for one in endpoints):
        yield Reason(
            "HintsOff",
            "note",
            f"trafficDistribution {service.traffic_distribution} is set, but its node has no zone (or is unknown), so "
            "it has no hint; consumers use hints only if all endpoints have them",
            "label the node topology.kubernetes.io/zone",
        )


def _refusal(index: ClusterIndex, service: Service) -> str:
    """Return why no endpoint of the service has hints: the first failing rule over all published endpoints (S-93, S-97)."""
    ratios = zone_ratios(index)
    for family in ("IPv4", "IPv6"):
        ready = [
            endpoint
            for endpoint_slice in index.slices_by_service.get(key_of(service), ())
            if endpoint_slice.address_type == family
            and managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.conditions.ready is not False
        ]
        if not ready:
            continue
        outcome = allocate(ratios, len(ready))
        if isinstance(outcome, Refusal):
            return outcome.message
        if not all(endpoint.zone for endpoint in ready):
            return NO_ZONE_ON_ENDPOINT.message
    return "all conditions for hints are met: the controller is behind or not running"
