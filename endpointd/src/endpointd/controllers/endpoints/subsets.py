"""What the subsets of an Endpoints say, and how many of their addresses fit: pure functions (E-19a, 1.5)."""

from math import ceil

import msgspec

from aiokube.api.endpoints import EndpointAddress, EndpointSubset

MAX_ADDRESSES = 1000
"""How many addresses an Endpoints holds at most, ready or not, counted once for each subset (E-40)."""


def without_versions(subsets: tuple[EndpointSubset, ...] | None) -> tuple[EndpointSubset, ...]:
    """Return the subsets as they compare: without the resource versions of references, empty lists as None (E-19a).

    What needs no change is kept, not copied.
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
    """Return how many addresses each subset keeps, given how many it has, in the subsets' order (E-40).

    All that are ready come before any that is not. Within each kind every subset keeps its share, rounded up,
    until the limit is used up.
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
        # In floating point and in this order, as upstream: the last digit decides what rounds up.
        share = min(ceil(count / total * budget), left, count)
        left -= share
        kept.append(share)
    return kept


def truncate(
    subsets: tuple[EndpointSubset, ...], limit: int = MAX_ADDRESSES
) -> tuple[tuple[EndpointSubset, ...], bool]:
    """Return what fits of the subsets, and whether anything had to go (E-40).

    A subset of which nothing is left is left out. (Upstream leaves it in, which the API server refuses, so that it
    cannot write at all, E-41.)
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
