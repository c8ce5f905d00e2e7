"""Allocation and release of numbers."""

import ipaddress
import random

import pytest

from tinykube.server.registry.allocator import Allocator, address_allocator, port_allocator, static_band


def test_an_allocated_number_is_not_available_until_released() -> None:
    pool = Allocator(10, 12, dynamic_from=10)
    assert pool.allocate(11)
    assert not pool.allocate(11)
    pool.release(11)
    assert pool.allocate(11)


def test_numbers_outside_the_range_cannot_be_allocated() -> None:
    pool = Allocator(10, 12, dynamic_from=10)
    assert not pool.allocate(9)
    assert not pool.allocate(13)
    assert 9 not in pool
    assert 12 in pool


def test_releasing_an_unallocated_number_does_nothing() -> None:
    pool = Allocator(10, 12, dynamic_from=10)
    pool.release(11)
    pool.release(99)
    assert {pool.allocate_next(random.Random(1)) for _ in range(3)} == {10, 11, 12}


@pytest.mark.parametrize("seed", range(20))
def test_dynamic_allocation_uses_the_upper_band_first(seed: int) -> None:
    rng = random.Random(seed)
    pool = Allocator(0, 9, dynamic_from=6)
    drawn = [pool.allocate_next(rng) for _ in range(10)]
    assert {*drawn[:4]} == {6, 7, 8, 9}
    assert {*drawn[4:]} == {0, 1, 2, 3, 4, 5}
    assert pool.allocate_next(rng) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_last_free_number_is_found_from_any_starting_point(seed: int) -> None:
    pool = Allocator(0, 99, dynamic_from=0)
    for number in range(100):
        if number != 42:
            pool.allocate(number)
    assert pool.allocate_next(random.Random(seed)) == 42


@pytest.mark.parametrize(
    ("size", "kept"), [(15, 0), (16, 16), (256, 16), (4096, 256), (65_536, 256), (2**64, 256)]
)
def test_the_static_band_grows_with_the_range_up_to_a_limit(size: int, kept: int) -> None:
    assert static_band(size, step=16, most=256) == kept


def test_ipv4_network_and_broadcast_addresses_are_not_allocated() -> None:
    pool = address_allocator(ipaddress.ip_network("10.0.0.0/30"))
    base = int(ipaddress.ip_address("10.0.0.0"))
    assert [base + offset in pool for offset in range(4)] == [False, True, True, False]


def test_the_last_address_of_an_ipv6_network_is_allocated() -> None:
    pool = address_allocator(ipaddress.ip_network("fd00::/126"))
    base = int(ipaddress.ip_address("fd00::"))
    assert [base + offset in pool for offset in range(4)] == [False, True, True, True]


def test_dynamic_node_ports_are_above_the_static_band() -> None:
    rng = random.Random(3)
    pool = port_allocator(30_000, 32_767)
    assert min(pool.allocate_next(rng) or 0 for _ in range(500)) >= 30_086
