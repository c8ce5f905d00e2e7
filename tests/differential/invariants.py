"""Rules that hold in any cluster whose controllers are at rest, independent of another cluster."""

from collections.abc import Iterable

from aiokube.api import discovery, endpoints
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import EndpointAddress, Endpoints
from aiokube.api.meta import ObjectKey, key_of
from endpointd.controllers.canonical import hash_of_subset, sort_ports_core, sort_ports_discovery
from tests.differential.normalise import HAND_MADE, Snapshot

_PORT_ORDER = "the ports are not in canonical order (S-31.2)"
_SUBSET_ORDER = "the subsets are not in canonical order (E-31)"
_SUBSET_PORT_ORDER = "the ports of a subset are not in canonical order (E-31)"
_ORDERS = (_PORT_ORDER, _SUBSET_ORDER, _SUBSET_PORT_ORDER)
"""Before 1.35 upstream orders by another hash."""


def broken_rules(snapshot: Snapshot, *, max_endpoints_per_slice: int) -> list[str]:
    """Return the violations in objects with the controllers' labels, one line each.

    Manually edited objects are wrong until they are repaired: call this after the repair delay.
    """
    wrong: list[str] = []
    for kind, item, _ in _published(snapshot):
        found = (
            _of_slice(item, max_endpoints_per_slice)
            if isinstance(item, EndpointSlice)
            else _of_endpoints(item)
        )
        wrong += [
            f"{kind} {item.metadata.key}: {what}"
            for what in found
            if not (snapshot.is_old and what in _ORDERS)
        ]
    return wrong


def careless_about(snapshot: Snapshot) -> list[str]:
    """Return oddities that upstream may leave by rule but endpointd must not, one line each.

    The headless label must state whether the published service is headless (S-60, E-19b); a slice with the controller's
    label must be owned by the service of its name (S-51).
    """
    services = {
        key_of(service): service
        for service in snapshot.services
        if service.selector is not None and not service.is_external_name and not service.terminating
    }
    wrong: list[str] = []
    for kind, item, name in _published(snapshot):
        service = services.get(ObjectKey(item.metadata.namespace, name))
        if service is None or item.metadata.deletion_timestamp is not None:
            continue
        where = f"{kind} {item.metadata.key}"
        if (endpoints.HEADLESS_LABEL in (item.metadata.labels or {})) != service.is_headless:
            wrong.append(f"{where}: the headless label contradicts the service (S-60, E-19b)")
        owners = [owner.uid for owner in item.metadata.owner_references or ()]
        if kind == "slice" and owners != [service.metadata.uid]:
            wrong.append(f"{where}: its service does not own it (S-51)")
    return wrong


def _published(snapshot: Snapshot) -> Iterable[tuple[str, EndpointSlice | Endpoints, str]]:
    for slice_ in snapshot.slices:
        labels = slice_.metadata.labels or {}
        if labels.get(discovery.MANAGED_BY_LABEL) == discovery.MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
            yield "slice", slice_, labels.get(discovery.SERVICE_NAME_LABEL, "")
    for item in snapshot.endpoints:
        if (item.metadata.labels or {}).get(endpoints.MANAGED_BY_LABEL) == endpoints.MANAGED_BY_US:
            yield "endpoints", item, item.metadata.name


def _of_slice(slice_: EndpointSlice, max_endpoints: int) -> Iterable[str]:
    members = slice_.endpoints or ()
    if len(members) > max_endpoints:
        yield f"{len(members)} endpoints, more than {max_endpoints} (S-42)"
    identities = [(endpoint.target_ref, endpoint.addresses) for endpoint in members]
    if len(set(identities)) != len(identities):
        yield "an endpoint is listed twice (S-40)"
    if tuple(slice_.ports or ()) != sort_ports_discovery(slice_.ports):
        yield _PORT_ORDER
    service = (slice_.metadata.labels or {}).get(discovery.SERVICE_NAME_LABEL, "")
    name = slice_.metadata.name
    if not name.startswith((f"{service}-", HAND_MADE)):
        yield f"the name does not begin with that of its service, {service} (S-61)"


def _of_endpoints(item: Endpoints) -> Iterable[str]:
    hashes = [hash_of_subset(subset) for subset in item.subsets or ()]
    if hashes != sorted(hashes):
        yield _SUBSET_ORDER
    for subset in item.subsets or ():
        if tuple(subset.ports or ()) != sort_ports_core(subset.ports):
            yield _SUBSET_PORT_ORDER
        for addresses in (subset.addresses or (), subset.not_ready_addresses or ()):
            order = [_address_order(address) for address in addresses]
            if order != sorted(order):
                yield "the addresses of a subset are not in canonical order (E-31)"


def _address_order(address: EndpointAddress) -> tuple[bytes, bool, str]:
    reference = address.target_ref
    return address.ip.encode(), reference is not None, (reference.uid or "") if reference else ""
