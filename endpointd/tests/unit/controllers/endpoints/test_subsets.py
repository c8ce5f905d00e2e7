"""Comparing stored subsets (E-19a) and cutting them to size (E-40, E-41)."""

import msgspec
import pytest

from aiokube.api.endpoints import EndpointAddress, EndpointPort, EndpointSubset
from aiokube.api.meta import ObjectReference
from endpointd.controllers.endpoints.subsets import counts_that_fit, truncate, without_versions

PORT = EndpointPort(port=80, protocol="TCP")


@pytest.mark.parametrize(
    ("ready", "not_ready", "kept_ready", "kept_not_ready"),
    [
        ([], [], [], []),
        ([100, 100], [100, 200], [100, 100], [100, 200]),
        ([400], [600], [400], [600]),
        ([90, 110, 50, 10, 20], [101, 200, 200, 201, 298], [90, 110, 50, 10, 20], [73, 144, 144, 145, 214]),
        ([205, 400, 402, 400, 693], [100, 200, 200, 200, 300], [98, 191, 192, 191, 328], [0, 0, 0, 0, 0]),
        ([1001], [0], [1000], [0]),
        ([997], [4], [997], [3]),
        ([1000], [10], [1000], [0]),
        ([1001], [5], [1000], [0]),
    ],
)
def test_every_subset_keeps_its_share_with_ready_addresses_first(
    ready: list[int], not_ready: list[int], kept_ready: list[int], kept_not_ready: list[int]
) -> None:
    """E-40."""
    assert counts_that_fit(ready, not_ready) == (kept_ready, kept_not_ready)


def addresses(count: int, network: int = 0) -> tuple[EndpointAddress, ...]:
    return tuple(EndpointAddress(f"10.{network}.{number // 256}.{number % 256}") for number in range(count))


def test_subsets_within_the_limit_are_unchanged() -> None:
    """E-40."""
    subsets = (EndpointSubset(addresses(999), addresses(1, 1), (PORT,)),)
    assert truncate(subsets) == (subsets, False)
    assert truncate(()) == ((), False)


def test_the_first_addresses_in_order_are_kept() -> None:
    """E-40."""
    subsets = (EndpointSubset(addresses(1001), None, (PORT,)),)
    assert truncate(subsets) == ((EndpointSubset(addresses(1001)[:1000], None, (PORT,)),), True)
    mixed = (EndpointSubset(addresses(997), addresses(4, 1), (PORT,)),)
    assert truncate(mixed) == ((EndpointSubset(addresses(997), addresses(4, 1)[:3], (PORT,)),), True)


def test_an_emptied_list_is_absent() -> None:
    """E-40."""
    subsets = (EndpointSubset(addresses(1000), addresses(10, 1), (PORT,)),)
    assert truncate(subsets) == ((EndpointSubset(addresses(1000), None, (PORT,)),), True)


def test_an_emptied_subset_is_dropped_to_keep_the_rest_writable() -> None:
    """E-41."""
    subsets = (
        EndpointSubset(addresses(1000), None, (PORT,)),
        EndpointSubset(None, addresses(5, 1), (EndpointPort(port=81),)),
    )
    kept, over_capacity = truncate(subsets)
    assert kept == subsets[:1]
    assert over_capacity


def address(ip: str, resource_version: str | None) -> EndpointAddress:
    reference = ObjectReference("Pod", "ns", "p", "u", resource_version=resource_version)
    return EndpointAddress(ip, target_ref=reference)


BASE = (EndpointSubset((address("1.1.1.1", "1"),), (address("2.2.2.2", "1"),), (PORT,)),)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ((), False),
        ((msgspec.structs.replace(BASE[0], addresses=(address("1.1.1.2", "1"),)),), False),
        ((msgspec.structs.replace(BASE[0], not_ready_addresses=(address("2.2.2.3", "1"),)),), False),
        ((msgspec.structs.replace(BASE[0], addresses=(address("1.1.1.1", "2"),)),), True),
        ((msgspec.structs.replace(BASE[0], addresses=(address("1.1.1.1", None),)),), True),
        ((msgspec.structs.replace(BASE[0], ports=(EndpointPort(port=81),)),), False),
    ],
)
def test_subset_comparison_ignores_the_versions_of_references(
    changed: tuple[EndpointSubset, ...], same: bool
) -> None:
    """E-19a."""
    assert (without_versions(BASE) == without_versions(changed)) is same


def test_an_empty_list_compares_as_an_absent_one() -> None:
    """E-19a."""
    assert without_versions(None) == without_versions(())
    assert without_versions((EndpointSubset((), (), ()),)) == (EndpointSubset(None, None, None),)


def test_addresses_without_versions_are_not_copied() -> None:
    plain = (EndpointAddress("1.1.1.1"), address("1.1.1.2", None))
    (subset,) = without_versions((EndpointSubset(plain, None, None),))
    assert subset.addresses is plain
