"""Compare the subsets of an Endpoints and truncate them to the address limit: pure functions (E-19a, 1.5)."""

from math import ceil

import msgspec

from aiokube.api.endpoints import EndpointAddress, EndpointSubset

MAX_ADDRESSES = 1000
"""The maximum number of addresses in an Endpoints, ready or not, counted once per subset (E-40)."""


def without_versions(subsets: tuple[EndpointSubset, ...] | None) -> tuple[EndpointSubset, ...]:
    """Return the subsets in comparable form: without reference versions, and with empty lists as None (E-19a).

    Unchanged parts are reused, not copied.
    """
    return tuple(
        EndpointSubset(
            addresses=_addresses_without_versions(subset.addresses),
            not_ready_addresses=_addresses_without_versions(subset.not_ready_addresses),
            ports=subset.ports or None,
        )
        for subset in subsets or ()
    )


def _addresses_without_versions(
    addresses: tuple[EndpointAddress, ...] | None,
) -> tuple[EndpointAddress, ...] | None:
    if not addresses:
        return None
    if all(
        address.target_ref is None or address.target_ref.resource_version is None for address in addresses
    ):
        return addresses
    return tuple(map(_address_without_version, addresses))


def _address_without_version(address: EndpointAddress) -> EndpointAddress:
    if address.target_ref is None:
        return address
    reference = msgspec.structs.replace(address.target_ref, resource_version=None)
    return msgspec.structs.replace(address, target_ref=reference)


def counts_that_fit(
    ready: list[int], not_ready: list[int], limit: int = MAX_ADDRESSES
) -> tuple[list[int], list[int]]:
    """Return how many addresses each subset keeps, in the subsets' order (E-40).

    All ready addresses precede all others. Within each kind every subset keeps its proportional share,
    rounded up, until the limit is used up.
    """
    total_ready, total_not_ready = sum(ready), sum(not_ready)
    if total_ready + total_not_ready <= limit:
        return ready, not_ready
    if total_ready > limit:
        return _shares(ready, total_ready, limit), [0] * len(not_ready)
    return ready, _shares(not_ready, total_not_ready, limit - total_ready)


def _shares(counts: list[int], total: int, budget: int) -> list[int]:
    left = budget
    kept = []
    for count in counts:
        # In floating point and in this order, as upstream: the last digit decides the rounding.
        share = min(ceil(count / total * budget), left, count)
        left -= share
        kept.append(share)
    return kept


def truncate(
    subsets: tuple[EndpointSubset, ...], limit: int = MAX_ADDRESSES
) -> tuple[tuple[EndpointSubset, ...], bool]:
    """Return the subsets truncated to the limit, and whether anything was removed (E-40).

    Empty subsets are dropped. (Upstream keeps them, the API server rejects them, and upstream cannot write at
    all, E-41.)
    """
    ready = [len(subset.addresses or ()) for subset in subsets]
    not_ready = [len(subset.not_ready_addresses or ()) for subset in subsets]
    if sum(ready) + sum(not_ready) <= limit:
        return subsets, False
    kept_ready, kept_not_ready = counts_that_fit(ready, not_ready, limit)
    kept = (
        EndpointSubset(
            addresses=(subset.addresses or ())[:first] or None,
            not_ready_addresses=(subset.not_ready_addresses or ())[:second] or None,
            ports=subset.ports,
        )
        for subset, first, second in zip(subsets, kept_ready, kept_not_ready, strict=True)
    )
    return tuple(subset for subset in kept if subset.addresses or subset.not_ready_addresses), True
