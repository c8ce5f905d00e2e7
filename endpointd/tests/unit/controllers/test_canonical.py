"""The vectors of behaviour 0.5, which pin every byte of the rendering."""

import hashlib

import pytest

from aiokube.api import discovery, endpoints
from aiokube.api.meta import ObjectReference
from endpointd.controllers import canonical
from endpointd.controllers.fnv import fnv1a_128

core = endpoints.EndpointPort
sliced = discovery.EndpointPort


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (core(port=8080, protocol="TCP"), "b09ff368df0fc81442c7b7a3ab2dbca5"),
        (core(port=8080, protocol="UDP"), "59aa40b466adb81c6e00232f1f0ba361"),
        (
            core(name="http", port=8080, protocol="TCP", app_protocol="h2c"),
            "f3cb29a9a36c4c00aaef7ec08dee7635",
        ),
        (core(port=111), "043501a17d568eb5bb2b9ac8b3953b2d"),
        (core(port=222), "5af2526ca9ba75d6ba771b164cc66ddc"),
        (core(port=333), "f26257f7f492d21e7c46f9786c6296af"),
    ],
)
def test_a_core_port_hashes_as_in_kubernetes(port: endpoints.EndpointPort, expected: str) -> None:
    assert canonical.hash_of_core_port(port) == expected


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (sliced("http", "TCP", 80), "b6c4d325122a5ba6f795b0bbffcebb6f"),
        (sliced("tcp-example", "TCP", 80), "7747f7334f288246a55897e5321c7a61"),
        (sliced("udp-example", "UDP", 161), "0cea804f06c1fb6ee6f7136d767d33fb"),
        (sliced("sctp-example", "SCTP", 3456), "9919d8d3b73a0c9609b7c32e1b82e989"),
    ],
)
def test_a_discovery_port_hashes_as_in_kubernetes(port: discovery.EndpointPort, expected: str) -> None:
    assert canonical.hash_of_discovery_port(port) == expected


def test_absent_and_empty_port_names_hash_alike_in_core_but_not_in_discovery() -> None:
    assert canonical.hash_of_core_port(core(port=1)) == canonical.hash_of_core_port(core(name="", port=1))
    assert canonical.hash_of_discovery_port(sliced(port=1)) != canonical.hash_of_discovery_port(
        sliced(name="", port=1)
    )


def test_core_ports_are_ordered_by_hash_not_by_name_or_number() -> None:
    tcp, udp = core(port=8080, protocol="TCP"), core(port=8080, protocol="UDP")
    assert canonical.sort_ports_core((tcp, udp)) == (udp, tcp)
    first, second = core("port-1337", 1337, "TCP"), core("port-1338", 1338, "TCP")
    assert canonical.sort_ports_core((second, first)) == (first, second)
    zero, one = core("port0", 8080, "TCP"), core("port1", 8088, "TCP")
    assert canonical.sort_ports_core((zero, one)) == (one, zero)
    assert canonical.sort_ports_core(None) == ()


def test_slice_ports_are_sorted_by_hash() -> None:
    """S-31."""
    tcp, udp, sctp = (
        sliced("tcp-example", "TCP", 80),
        sliced("udp-example", "UDP", 161),
        sliced("sctp-example", "SCTP", 3456),
    )
    assert canonical.sort_ports_discovery((tcp, udp, sctp)) == (udp, tcp, sctp)
    assert canonical.sort_ports_discovery(None) == ()


def test_equal_port_lists_share_one_sorted_tuple() -> None:
    def build() -> tuple[discovery.EndpointPort, ...]:
        return (sliced("a", "TCP", 1), sliced("b", "TCP", 2))

    assert canonical.sort_ports_discovery(build()) is canonical.sort_ports_discovery(build())


def test_the_key_of_a_port_list_is_the_hash_of_its_canonical_order() -> None:
    """S-30."""
    https, http = sliced("https", "TCP", 443), sliced("http", "TCP", 80)
    assert canonical.port_list_key((https, http)) == "c82e3286db58c28adf997223e60089d3"
    assert canonical.port_list_key((http, https)) == "c82e3286db58c28adf997223e60089d3"


def test_an_empty_port_list_and_no_ports_have_the_same_key() -> None:
    """S-30."""
    assert canonical.port_list_key(()) == "b823fa277840572f948b7ebdb09f7a1d"
    assert canonical.port_list_key(None) == "b823fa277840572f948b7ebdb09f7a1d"


ADDRESS = endpoints.EndpointAddress(
    "1.2.3.4", node_name="node-1", target_ref=ObjectReference("Pod", "ns", "p", "u1")
)


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        (
            endpoints.EndpointSubset((ADDRESS,), None, (core("a", 80, "TCP"),)),
            "7d6ddfb2a899a1a81ad1b3dd084bc012",
        ),
        (
            endpoints.EndpointSubset((ADDRESS,), (), (core("a", 80, "TCP"),)),
            "7d6ddfb2a899a1a81ad1b3dd084bc012",
        ),
        (endpoints.EndpointSubset(None, (ADDRESS,), None), "56cbf9d0c93758b90c82fe37ddd99904"),
    ],
)
def test_a_subset_hashes_as_in_kubernetes_and_empty_lists_count_as_absent(
    subset: endpoints.EndpointSubset, expected: str
) -> None:
    assert canonical.hash_of_subset(subset) == expected


def test_subsets_are_ordered_by_their_hash() -> None:
    """E-31."""
    first = endpoints.EndpointSubset(None, (ADDRESS,), None)
    second = endpoints.EndpointSubset((ADDRESS,), None, (core("a", 80, "TCP"),))
    assert canonical.sort_subsets((second, first)) == (first, second)
    assert canonical.sort_subsets((first, second)) == (first, second)


def test_ordering_one_subset_never_hashes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(subset: endpoints.EndpointSubset) -> str:
        raise AssertionError("hashed")

    monkeypatch.setattr(canonical, "hash_of_subset", refuse)
    only = (endpoints.EndpointSubset((ADDRESS,)),)
    assert canonical.sort_subsets(only) is only
    assert canonical.sort_subsets(()) == ()


def reference_fnv(data: bytes) -> int:
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in data:
        value = ((value ^ byte) * 0x0000000001000000000000000000013B) % 2**128
    return value


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 1000, 4095, 4096, 4097, 20_000])
def test_fnv_agrees_with_its_definition_at_every_size(size: int) -> None:
    data = b"".join(hashlib.sha256(bytes([index % 251])).digest() for index in range(size // 32 + 1))[:size]
    assert fnv1a_128(data) == reference_fnv(data)
