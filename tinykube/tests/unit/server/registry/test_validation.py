"""Validation of strings, numbers and addresses."""

import pytest

from tinykube.server.registry import validation
from tinykube.server.registry.ips import (
    address_errors,
    address_warnings,
    canonical_address_errors,
    endpoint_address_errors,
    family_of,
    is_dual_stack,
    network_errors,
    parse_sloppy,
)
from tinykube.server.registry.names import dns_label_problem, dns_subdomain_problem


@pytest.mark.parametrize("name", ["a", "a-b", "1", "a" * 63])
def test_valid_dns_labels_are_accepted(name: str) -> None:
    assert dns_label_problem(name) == ""
    assert validation.dns_label_problems(name) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "a lowercase RFC 1123 label"),
        ("A", "a lowercase RFC 1123 label"),
        ("-a", "a lowercase RFC 1123 label"),
        ("a.b", "must not contain dots"),
        ("a" * 64, "must be no more than 63 characters"),
    ],
)
def test_invalid_dns_labels_are_rejected(name: str, problem: str) -> None:
    assert dns_label_problem(name).startswith(problem)
    assert validation.dns_label_problems(name)[0].startswith(problem)


def test_dns_subdomains_may_contain_dots() -> None:
    assert dns_subdomain_problem("a.b-c.1") == ""
    assert dns_subdomain_problem("a..b").startswith("a lowercase RFC 1123 subdomain")
    assert dns_subdomain_problem("a" * 254) == "must be no more than 253 characters"


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("a", []),
        ("example.com/a_B.c", []),
        ("", ["name part must be non-empty", "name part must consist"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/a", ["prefix part a lowercase"]),
        ("a/b/c", ["a valid label key must"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("x" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_qualified_names_are_validated(key: str, problems: list[str]) -> None:
    found = validation.qualified_name_problems(key)
    assert len(found) == len(problems)
    assert all(one.startswith(start) for one, start in zip(found, problems, strict=True))


@pytest.mark.parametrize(
    ("name", "count"),
    [("http", 0), ("a-1", 0), ("1", 1), ("A", 2), ("a--b", 1), ("-a", 1), ("a" * 16, 1), ("", 2)],
)
def test_port_names_are_validated(name: str, count: int) -> None:
    assert len(validation.port_name_problems(name)) == count


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), ("25%", 25), ("101%", 101), ("x", 0), ("5", 5), ("", 0), ("%", 0)]
)
def test_int_or_percent_values_are_parsed(value: int | str, number: int) -> None:
    assert validation.int_or_percent_value(value) == number


def test_percentages_above_100_are_rejected() -> None:
    assert validation.at_most_all("f", "100%") == []
    assert [str(one) for one in validation.at_most_all("f", "101%")] == [
        'f: Invalid value: "101%": must not be greater than 100%'
    ]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "None"),
        ("10.0.0.0/8", "None"),
        ("10.0.0", "None"),
        ("", "None"),
    ],
)
def test_legacy_address_fields_accept_leading_zeros(text: str, parsed: str) -> None:
    assert str(parse_sloppy(text)) == parsed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
    ],
)
def test_non_canonical_addresses_are_rejected_unless_unchanged(value: str, text: str) -> None:
    assert [str(one) for one in address_errors("f", value)] == [f'f: Invalid value: "{value}": {text}']
    assert address_errors("f", value, (value,)) == []


def test_new_address_fields_require_the_canonical_form() -> None:
    assert canonical_address_errors("f", "fd00::1") == []
    (error,) = canonical_address_errors("f", "FD00:0::1")
    assert error.message == 'Invalid value: "FD00:0::1": must be in canonical form ("fd00::1")'


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "127.0.0.1", "::1", "169.254.3.4", "fe80::1", "224.0.0.9", "ff02::1"]
)
def test_special_addresses_are_rejected_as_endpoints(address: str) -> None:
    assert len(endpoint_address_errors("f", address)) == 1


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "224.0.1.1", "255.255.255.255"])
def test_other_addresses_are_accepted_as_endpoints(address: str) -> None:
    assert endpoint_address_errors("f", address) == []


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ("10.0.0.0/8", ""),
        ("fd00::/8", ""),
        ("10.0.0.0", "must be a valid CIDR value"),
        ("10.0.0.0/33", "must be a valid CIDR value"),
        ("x/8", "must be a valid CIDR value"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
    ],
)
def test_networks_are_validated(network: str, problem: str) -> None:
    errors = network_errors("f", network)
    assert len(errors) == bool(problem)
    assert all(problem in error.message for error in errors)


def test_warnings_suggest_the_canonical_address() -> None:
    assert address_warnings("f", "10.0.0.1") == []
    assert address_warnings("f", "010.0.0.1") == [
        'f: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"'
    ]
    assert address_warnings("f", "FD00::1") == [
        'f: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
    ]


def test_ip_families_are_detected() -> None:
    assert [family_of(one) for one in ("10.0.0.1", "fd00::1", "::ffff:1.2.3.4", "x")] == [
        "IPv4",
        "IPv6",
        "IPv4",
        None,
    ]
    assert is_dual_stack(["10.0.0.1", "fd00::1"])
    assert not is_dual_stack(["10.0.0.1", "10.0.0.2"])
