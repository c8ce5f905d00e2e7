"""Repacking: the cases of upstream's own test of it (behaviour 5.2), and the rules E-30 and E-31."""

import pytest

from aiokube.api.endpoints import EndpointAddress, EndpointPort, EndpointSubset
from aiokube.api.meta import ObjectReference
from endpointd.controllers.canonical import hash_of_subset
from endpointd.controllers.repack import repack

Subset = EndpointSubset
P111, P222, P333 = EndpointPort(port=111), EndpointPort(port=222), EndpointPort(port=333)


def at(ip: str, uid: str | None = None, name: str | None = None) -> EndpointAddress:
    reference = None if uid is None and name is None else ObjectReference(name=name, uid=uid)
    return EndpointAddress(ip, target_ref=reference)


A, B, C = at("1.2.3.4"), at("1.2.3.5"), at("1.2.3.6")
A_UID1, A_UID2 = at("1.2.3.4", "uid-1"), at("1.2.3.4", "uid-2")

CASES: dict[str, tuple[tuple[EndpointSubset, ...], tuple[EndpointSubset, ...]]] = {
    "nothing": ((), ()),
    "an empty subset": ((Subset((), (), ()),), ()),
    "ports without addresses": ((Subset(None, None, (P111,)),), ()),
    "an address without ports, ready": ((Subset((A,), None, ()),), (Subset((A,), None, None),)),
    "an address without ports, not ready": ((Subset((), (A,), ()),), (Subset(None, (A,), None),)),
    "one address, one port": ((Subset((A,), None, (P111,)),), (Subset((A,), None, (P111,)),)),
    "one IPv6 address": (
        (Subset((at("beef::1"),), None, (P111,)),),
        (Subset((at("beef::1"),), None, (P111,)),),
    ),
    "one not ready": ((Subset(None, (A,), (P111,)),), (Subset(None, (A,), (P111,)),)),
    "one with a uid": ((Subset((A_UID1,), None, (P111,)),), (Subset((A_UID1,), None, (P111,)),)),
    "one with an empty uid": (
        (Subset((at("1.2.3.4", ""),), None, (P111,)),),
        (Subset((at("1.2.3.4", ""),), None, (P111,)),),
    ),
    "two addresses": ((Subset((B, A), None, (P111,)),), (Subset((A, B), None, (P111,)),)),
    "one ready, one not": ((Subset((A,), (B,), (P111,)),), (Subset((A,), (B,), (P111,)),)),
    "the same address in both lists": ((Subset((A,), (A,), (P111,)),), (Subset(None, (A,), (P111,)),)),
    "two ports": ((Subset((A,), None, (P222, P111)),), (Subset((A,), None, (P111, P222)),)),
    "duplicate addresses": ((Subset((A, A), None, (P111,)),), (Subset((A,), None, (P111,)),)),
    "duplicate IPv6 addresses": (
        (Subset((at("beef::1"), at("beef::1")), None, (P111,)),),
        (Subset((at("beef::1"),), None, (P111,)),),
    ),
    "duplicates under other names keep the first": (
        (Subset((at("1.2.3.4", name="one"), at("1.2.3.4", name="two")), None, (P111,)),),
        (Subset((at("1.2.3.4", name="one"),), None, (P111,)),),
    ),
    "duplicates in both lists keep the first content, not ready": (
        (Subset((at("1.2.3.4", name="one"),), (at("1.2.3.4", name="two"),), (P111,)),),
        (Subset(None, (at("1.2.3.4", name="one"),), (P111,)),),
    ),
    "duplicate ports": ((Subset((A,), None, (P111, P111)),), (Subset((A,), None, (P111,)),)),
    "two subsets, same address and port": (
        (Subset((A,), None, (P111,)), Subset((A,), None, (P111,))),
        (Subset((A,), None, (P111,)),),
    ),
    "two subsets, same address and port, mixed readiness": (
        (Subset(None, (A,), (P111,)), Subset((A,), None, (P111,))),
        (Subset(None, (A,), (P111,)),),
    ),
    "two subsets, same address, other ports": (
        (Subset((A,), None, (P333,)), Subset((A,), None, (P222,))),
        (Subset((A,), None, (P222, P333)),),
    ),
    "two subsets, same address and uid, other ports": (
        (Subset((A_UID1,), None, (P111,)), Subset((A_UID1,), None, (P222,))),
        (Subset((A_UID1,), None, (P111, P222)),),
    ),
    "two addresses, same port, two subsets": (
        (Subset((A,), None, (P111,)), Subset((B,), None, (P111,))),
        (Subset((A, B), None, (P111,)),),
    ),
    "one address, two uids": (
        (Subset((A_UID2,), None, (P111,)), Subset((A_UID1,), None, (P111,))),
        (Subset((A_UID1, A_UID2), None, (P111,)),),
    ),
    "with and without uid": (
        (Subset((A_UID1,), None, (P111,)), Subset((A,), None, (P111,))),
        (Subset((A, A_UID1), None, (P111,)),),
    ),
    "wrong order": (
        (Subset((C, A_UID2, B, A, A_UID1), None, (P111,)),),
        (Subset((A, A_UID1, A_UID2, B, C), None, (P111,)),),
    ),
    "wrong order, mixed readiness": (
        (Subset((C, A_UID2), (B, A, A_UID1), (P111,)),),
        (Subset((A_UID2, C), (A, A_UID1, B), (P111,)),),
    ),
    "two addresses, two ports": (
        (Subset((A,), None, (P111,)), Subset((B,), None, (P222,))),
        (Subset((A,), None, (P111,)), Subset((B,), None, (P222,))),
    ),
    "four subsets, jumbled": (
        (
            Subset((B,), None, (P222,)),
            Subset((A,), None, (P111,)),
            Subset((C,), None, (P111,)),
            Subset((B,), None, (P333,)),
        ),
        (Subset((A, C), None, (P111,)), Subset((B,), None, (P222, P333))),
    ),
    "four subsets, jumbled, mixed readiness": (
        (
            Subset(None, (B,), (P222,)),
            Subset((A,), None, (P111,)),
            Subset(None, (C,), (P111,)),
            Subset(None, (B,), (P333,)),
        ),
        (Subset((A,), (C,), (P111,)), Subset(None, (B,), (P222, P333))),
    ),
    "ready under one port and not under another": (
        (Subset((A_UID1,), None, (P111,)), Subset(None, (A_UID1,), (P222,))),
        (Subset((A_UID1,), None, (P111,)), Subset(None, (A_UID1,), (P222,))),
    ),
    "no port, merged with a real one": (
        (Subset((A,), None, None), Subset((A,), None, (P111,))),
        (Subset((A,), None, (P111,)),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_subsets_are_repacked_to_the_fewest_possible(name: str) -> None:
    given, expected = CASES[name]
    # Several subsets are ordered by a hash, which the tests of the canonical order pin.
    assert sorted(map(repr, repack(given))) == sorted(map(repr, expected))


@pytest.mark.parametrize("name", CASES)
def test_repacking_is_idempotent(name: str) -> None:
    once = repack(CASES[name][0])
    assert repack(once) == once


def test_an_empty_list_of_subsets_equals_none() -> None:
    assert repack(None) == ()


def test_addresses_are_ordered_as_text_not_as_numbers() -> None:
    """E-31."""
    (subset,) = repack((Subset((at("10.0.0.9"), at("10.0.0.10")), None, (P111,)),))
    assert [address.ip for address in subset.addresses or ()] == ["10.0.0.10", "10.0.0.9"]


def test_addresses_with_one_ip_are_ordered_by_uid_not_by_name() -> None:
    """E-31."""
    first, second = at("10.0.0.1", "a", "z"), at("10.0.0.1", "b", "y")
    assert repack((Subset((second, first), None, (P111,)),)) == (Subset((first, second), None, (P111,)),)


def test_several_subsets_are_ordered_by_their_hash() -> None:
    """E-31."""
    given = (Subset((B,), None, (P222,)), Subset((A,), None, (P111,)), Subset((C,), None, (P333,)))
    ordered = repack(given)
    assert ordered == repack(given[::-1])
    hashes = [hash_of_subset(subset) for subset in ordered]
    assert hashes == sorted(hashes)
    assert len(set(hashes)) == 3


def test_empty_and_default_port_fields_are_equal() -> None:
    given = (
        Subset((A,), None, (EndpointPort(name="", port=111, protocol=""),)),
        Subset((B,), None, (P111,)),
    )
    assert repack(given) == (Subset((A, B), None, (P111,)),)


def test_a_port_without_a_number_is_ignored() -> None:
    """E-30."""
    assert repack((Subset((A,), None, (EndpointPort(name="x", port=0),)),)) == (Subset((A,), None, None),)


def test_equal_ports_with_an_app_protocol_are_one_port_in_any_number_of_subsets() -> None:
    h2c = EndpointPort(port=111, app_protocol="h2c")
    assert repack((Subset((A,), None, (h2c,)), Subset((B,), None, (h2c,)))) == (Subset((A, B), None, (h2c,)),)
    assert len(repack((Subset((A,), None, (h2c,)), Subset((B,), None, (P111,))))) == 2
