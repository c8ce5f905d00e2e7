"""Repack Endpoints subsets into their canonical form: pure functions (behaviour 1.3).

The Endpoints controller compares stored objects in this form, and mirroring reads hand-written ones through
it.
"""

from collections.abc import Iterable

from aiokube.api.endpoints import EndpointAddress, EndpointPort, EndpointSubset
from endpointd.controllers.canonical import sort_ports_core, sort_subsets

AddressKey = tuple[str, str]
"""The identity of an address: its IP and the uid of its target (``""`` if unknown)."""


def address_key(address: EndpointAddress) -> AddressKey:
    """Return the identity of an address within a service (E-30.2)."""
    target = address.target_ref
    return (address.ip, (target.uid or "") if target is not None else "")


def address_order(address: EndpointAddress) -> tuple[str, bool, str, str]:
    """Return the sort key of addresses (E-31): IP as text, unreferenced first, uid; name breaks ties."""
    target = address.target_ref
    if target is None:
        return (address.ip, False, "", "")
    return (address.ip, True, target.uid or "", target.name or "")


def repack(subsets: Iterable[EndpointSubset] | None) -> tuple[EndpointSubset, ...]:
    """Return the same endpoints in the fewest subsets, in canonical order (E-30, E-31).

    Duplicate addresses are merged: the first content wins, and not ready beats ready for each port. Ports
    served by exactly the same addresses share a subset; subsets without addresses are dropped. Empty lists
    become None. A subset without ports stays separate unless real ports have exactly the same addresses.

    Ports with an ``appProtocol`` are equal if their values are. (Upstream compares pointers, so it keeps
    equal ports of different subsets apart, E-30.3; the endpoints are the same.)
    """
    contents: dict[AddressKey, EndpointAddress] = {}
    readiness: dict[EndpointPort | None, dict[AddressKey, bool]] = {}
    for subset in subsets or ():
        for port in _distinct_ports(subset):
            offered_by = readiness.setdefault(port, {})
            for address in subset.addresses or ():
                key = address_key(address)
                contents.setdefault(key, address)
                offered_by.setdefault(key, True)
            for address in subset.not_ready_addresses or ():
                key = address_key(address)
                contents.setdefault(key, address)
                offered_by[key] = False
    ports_of: dict[frozenset[tuple[AddressKey, bool]], list[EndpointPort]] = {}
    for port, offered_by in readiness.items():
        if offered_by:
            ports = ports_of.setdefault(frozenset(offered_by.items()), [])
            if port is not None:
                ports.append(port)
    return sort_subsets(
        tuple(
            EndpointSubset(
                addresses=_ordered(contents[key] for key, is_ready in offered_by if is_ready),
                not_ready_addresses=_ordered(contents[key] for key, is_ready in offered_by if not is_ready),
                ports=sort_ports_core(tuple(ports)) or None,
            )
            for offered_by, ports in ports_of.items()
        )
    )


def _distinct_ports(subset: EndpointSubset) -> Iterable[EndpointPort | None]:
    """Return each port once, in one spelling; None represents a subset without ports."""
    if not subset.ports:
        return (None,)
    return dict.fromkeys(
        EndpointPort(port.name or None, port.port, port.protocol or None, port.app_protocol)
        if (port.port or 0) > 0
        else None
        for port in subset.ports
    )


def _ordered(addresses: Iterable[EndpointAddress]) -> tuple[EndpointAddress, ...] | None:
    return tuple(sorted(addresses, key=address_order)) or None
