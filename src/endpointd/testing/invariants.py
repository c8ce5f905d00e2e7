"""What holds in any cluster whose controllers have come to rest, whatever another cluster says."""

from collections.abc import Iterable

from endpointd.api import discovery, endpoints
from endpointd.api.canonical import hash_of_subset, sort_ports_core, sort_ports_discovery
from endpointd.api.discovery import EndpointSlice
from endpointd.api.endpoints import EndpointAddress, Endpoints
from endpointd.testing.normalise import Snapshot


def broken_rules(snapshot: Snapshot, *, max_endpoints_per_slice: int) -> list[str]:
    """Return, one line each, what is wrong with the objects under the controllers' labels.

    Objects that somebody has edited are wrong until they are mended: ask when that has had its time.
    """
    wrong: list[str] = []
    for slice_ in snapshot.slices:
        if (slice_.metadata.labels or {}).get(
            discovery.MANAGED_BY_LABEL
        ) == discovery.MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
            wrong += [
                f"slice {slice_.metadata.key}: {what}" for what in _of_slice(slice_, max_endpoints_per_slice)
            ]
    for item in snapshot.endpoints:
        if (item.metadata.labels or {}).get(endpoints.MANAGED_BY_LABEL) == endpoints.MANAGED_BY_US:
            wrong += [f"endpoints {item.metadata.key}: {what}" for what in _of_endpoints(item)]
    return wrong


def _of_slice(slice_: EndpointSlice, max_endpoints: int) -> Iterable[str]:
    members = slice_.endpoints or ()
    if len(members) > max_endpoints:
        yield f"{len(members)} endpoints, more than {max_endpoints} (S-42)"
    identities = [(endpoint.target_ref, endpoint.addresses) for endpoint in members]
    if len(set(identities)) != len(identities):
        yield "one endpoint stands in it twice (S-40)"
    if tuple(slice_.ports or ()) != sort_ports_discovery(slice_.ports):
        yield "the ports are not in canonical order (S-31.2)"
    service = (slice_.metadata.labels or {}).get(discovery.SERVICE_NAME_LABEL, "")
    if slice_.metadata.generate_name and not slice_.metadata.name.startswith(f"{service}-"):
        yield f"the name does not begin with that of its service, {service} (S-61)"


def _of_endpoints(item: Endpoints) -> Iterable[str]:
    hashes = [hash_of_subset(subset) for subset in item.subsets or ()]
    if hashes != sorted(hashes):
        yield "the subsets are not in canonical order (E-31)"
    for subset in item.subsets or ():
        if tuple(subset.ports or ()) != sort_ports_core(subset.ports):
            yield "the ports of a subset are not in canonical order (E-31)"
        for addresses in (subset.addresses or (), subset.not_ready_addresses or ()):
            order = [_address_order(address) for address in addresses]
            if order != sorted(order):
                yield "the addresses of a subset are not in canonical order (E-31)"


def _address_order(address: EndpointAddress) -> tuple[bytes, bool, str]:
    reference = address.target_ref
    return address.ip.encode(), reference is not None, (reference.uid or "") if reference else ""
