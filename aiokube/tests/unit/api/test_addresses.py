"""Behaviour 0.4: lenient parsing and canonical printing of addresses."""

import pytest

from aiokube.api.addresses import canonical_ip, ip_family, rejected_range


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("01.2.3.4", "1.2.3.4"),
        ("010.000.0000000000.255", "10.0.0.255"),
        ("255.255.255.255", "255.255.255.255"),
        ("fd08::5678:0000:0000:9abc:def0", "fd08::5678:0:0:9abc:def0"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"),
        ("2001:0:0:1:0:0:1:1", "2001::1:0:0:1:1"),  # the first of two equal runs
        ("1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0"),  # a single zero group is not shortened
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
        ("::", "::"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("0:0:0:0:0:0:0:0", "::"),
        ("00001::", "1::"),  # zeros before the four digits of a group are tolerated too
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::ffff:01.2.3.4", "1.2.3.4"),
        ("::FFFF:102:304", "1.2.3.4"),
        ("::1.2.3.4", "::102:304"),
        ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ("2000::5", "2000::5"),
    ],
)
def test_addresses_print_as_in_kubernetes(text: str, expected: str) -> None:
    assert canonical_ip(text) == expected
    assert canonical_ip(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.",
        ".1.2.3",
        "1.2.3.256",
        "1.2.3.1000",
        "1.2.3.-4",
        "1.2.3.+4",
        "1.2.3.0x4",
        "1.2.3.4/24",
        " 1.2.3.4",
        "1.2.3.4\n",
        "1.2.3.\u0664",  # a digit, but not ASCII
        ":",
        ":::",
        ":1::2",
        "1::2:",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4::5:6:7:8",  # the gap must stand for at least one group
        "12345::",
        "g::",
        "fe80::1%eth0",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1.2.3.4::1",
        "1:1.2.3.4::1",  # only the end may be IPv4
        "::1.2.3.4:5",
        "::1.2.3.400",
        "name",
    ],
)
def test_an_invalid_address_returns_none(text: str) -> None:
    assert canonical_ip(text) is None
    assert ip_family(text) is None


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("10.0.0.1", "IPv4"),
        ("010.0.0.1", "IPv4"),
        ("::ffff:1.2.3.4", "IPv4"),
        ("::1.2.3.4", "IPv6"),
        ("FD00::1", "IPv6"),
    ],
)
def test_a_mapped_address_counts_as_ipv4(text: str, family: str) -> None:
    assert ip_family(text) == family


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("127.255.0.1", "loopback"),
        ("::1", "loopback"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("fe90::1", "link-local"),
        ("febf::1", "link-local"),
        ("224.0.0.1", "link-local multicast"),
        ("ff02::1", "link-local multicast"),
        ("ff12::1", "link-local multicast"),
        ("10.0.0.1", None),
        ("169.253.1.1", None),
        ("224.0.1.1", None),
        ("239.1.1.1", None),
        ("255.255.255.255", None),
        ("0.0.0.1", None),
        ("240.0.0.1", None),
        ("fec0::1", None),
        ("fe8::1", None),
        ("ff2::1", None),
        ("ff01::1", None),
        ("ff05::1", None),
        ("fd00::1", None),
        ("::2", None),
        ("64:ff9b::1", None),
    ],
)
def test_address_ranges_that_the_api_server_rejects_in_endpoints(address: str, expected: str | None) -> None:
    """The responses of kube-apiserver 1.36.3, for Endpoints and EndpointSlices alike (0.9)."""
    assert rejected_range(address) == expected
