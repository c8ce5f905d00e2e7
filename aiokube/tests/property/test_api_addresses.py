"""Addresses compared with the standard library, for inputs on which both must agree."""

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from aiokube.api.addresses import canonical_ip, ip_family


def expected(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


GROUPS = st.lists(st.sampled_from([0, 0, 0, 1, 0xFF, 0xFFFF]), min_size=8, max_size=8)


@given(st.ip_addresses())
def test_addresses_print_as_in_the_standard_library(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert canonical_ip(str(address)) == expected(address)
    assert canonical_ip(address.exploded) == expected(address)
    assert ip_family(str(address)) == ("IPv4" if "." in expected(address) else "IPv6")


@given(GROUPS)
def test_the_longest_run_of_zeros_is_compressed(groups: list[int]) -> None:
    text = ":".join(f"{group:04X}" for group in groups)
    assert canonical_ip(text) == expected(ipaddress.IPv6Address(text))


@given(st.text(alphabet="0123456789abcdef:./% g", max_size=20))
def test_addresses_valid_for_the_standard_library_are_accepted_and_parsing_is_idempotent(text: str) -> None:
    canonical = canonical_ip(text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        pass
    else:
        if "%" not in text:
            assert canonical == expected(address)
    if canonical is None:
        assert ip_family(text) is None
    else:
        assert canonical_ip(canonical) == canonical
        assert ip_family(canonical) == ip_family(text)
