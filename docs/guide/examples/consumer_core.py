"""Select endpoints without a cluster, from slices of any origin. No I/O, no clock, no tasks."""

from collections.abc import Iterable

from aiokube.api.discovery import EndpointSlice
from aiokube.discovery import (
    EndpointChanges,
    EndpointSliceCache,
    Location,
    ServicePortName,
    TrafficPolicy,
    select,
)

HTTP = ServicePortName("shop", "web", "http", "TCP")


def usable(slices: Iterable[EndpointSlice], location: Location) -> list[str]:
    """Return the destinations on a node for shop/web, whose internal traffic policy is Local."""
    cache = EndpointSliceCache("IPv4")
    for endpoint_slice in slices:
        cache.update(endpoint_slice)
    chosen = select(cache.endpoints(HTTP), TrafficPolicy(internal_local=True), location)
    return [endpoint.address for endpoint in chosen.internal]


def replay(cache: EndpointSliceCache, writes: Iterable[EndpointSlice]) -> Iterable[EndpointChanges]:
    """Yield the changes after every write; less frequent reads return their sum."""
    cursor = cache.cursor(replay=False)
    for endpoint_slice in writes:
        cache.update(endpoint_slice)
        yield cache.changes_since(cursor)
