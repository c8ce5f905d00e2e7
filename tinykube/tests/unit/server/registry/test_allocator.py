"""Numbers that are taken, drawn and given back."""

import ipaddress
import random

import pytest

from tinykube.server.registry.allocator import Pool, address_pool, band, port_pool


def test_what_is_taken_is_not_taken_twice_until_it_is_given_back() -> None:
    pool = Pool(10, 12, drawn_from=10)
    assert pool.take(11)
    assert not pool.take(11)
    pool.give_back(11)
    assert pool.take(11)


def test_numbers_beyond_the_range_cannot_be_taken() -> None:
    pool = Pool(10, 12, drawn_from=10)
    assert not pool.take(9)
    assert not pool.take(13)
    assert 9 not in pool
    assert 12 in pool


def test_giving_back_what_nobody_holds_does_nothing() -> None:
    pool = Pool(10, 12, drawn_from=10)
    pool.give_back(11)
    pool.give_back(99)
    assert {pool.draw(random.Random(1)) for _ in range(3)} == {10, 11, 12}


@pytest.mark.parametrize("seed", range(20))
def test_draws_come_from_the_upper_band_until_it_is_full(seed: int) -> None:
    rng = random.Random(seed)
    pool = Pool(0, 9, drawn_from=6)
    drawn = [pool.draw(rng) for _ in range(10)]
    assert {*drawn[:4]} == {6, 7, 8, 9}
    assert {*drawn[4:]} == {0, 1, 2, 3, 4, 5}
    assert pool.draw(rng) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_last_free_number_is_found_wherever_the_search_begins(seed: int) -> None:
    pool = Pool(0, 99, drawn_from=0)
    for number in range(100):
        if number != 42:
            pool.take(number)
    assert pool.draw(random.Random(seed)) == 42


@pytest.mark.parametrize(
    ("size", "kept"), [(15, 0), (16, 16), (256, 16), (4096, 256), (65_536, 256), (2**64, 256)]
)
def test_how_many_addresses_are_kept_for_those_who_choose(size: int, kept: int) -> None:
    assert band(size, step=16, most=256) == kept


def test_a_network_gives_neither_its_own_address_nor_its_broadcast_address() -> None:
    pool = address_pool(ipaddress.ip_network("10.0.0.0/30"))
    base = int(ipaddress.ip_address("10.0.0.0"))
    assert [base + offset in pool for offset in range(4)] == [False, True, True, False]


def test_an_ipv6_network_gives_its_last_address() -> None:
    pool = address_pool(ipaddress.ip_network("fd00::/126"))
    base = int(ipaddress.ip_address("fd00::"))
    assert [base + offset in pool for offset in range(4)] == [False, True, True, True]


def test_node_ports_are_drawn_above_the_86_that_are_kept() -> None:
    rng = random.Random(3)
    pool = port_pool(30_000, 32_767)
    assert min(pool.draw(rng) or 0 for _ in range(500)) >= 30_086
