"""Validation of IP addresses in specs, and warnings about them."""

import ipaddress
from functools import lru_cache
from typing import Literal, NamedTuple

from tinykube.server.errors import FieldError, invalid_value

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Family = Literal["IPv4", "IPv6"]


_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def parse_sloppy(text: str) -> Address | None:
    """Parse an address, accepting leading zeros in IPv4 (from old clients); return None if it is invalid.

    IPv4-mapped IPv6 addresses are converted to IPv4.
    """
    if "%" in text or "/" in text:
        return None
    if ":" not in text:
        text = ".".join(part.lstrip("0") or "0" if part.isdecimal() else part for part in text.split("."))
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _parse_strict(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def family_of(text: str) -> Family | None:
    """Return the family of an address, or None."""
    return _validated(text).family


def _is_mapped(address: Address | None) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


class _Validated(NamedTuple):
    """The result of validating one address."""

    family: Family | None
    canonical: str
    problem: str
    elsewhere: tuple[str, ...]
    """Why it cannot be the address of an endpoint."""
    warning: str


@lru_cache(maxsize=16_384)  # the addresses of a slice are validated on each of its updates
def _validated(value: str) -> _Validated:
    address = parse_sloppy(value)
    if address is None:
        problem = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return _Validated(None, "", problem, ("must be a valid IP address",), "")
    strict = _parse_strict(value)
    problem = warning = ""
    if strict is None or _is_mapped(strict):
        problem = "must not have leading 0s" if strict is None else "must not be an IPv4-mapped IPv6 address"
        warning = f'non-standard IP address "{value}" is invalid: use "{address}"'
    elif strict.version == 6 and str(strict) != value:
        warning = f'IPv6 address "{value}" should be in RFC 5952 canonical format ("{strict}")'
    elsewhere = []
    if address.is_unspecified:
        elsewhere.append(f"may not be unspecified ({value})")
    if address.is_loopback:
        elsewhere.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        elsewhere.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        elsewhere.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    family: Family = "IPv4" if address.version == 4 else "IPv6"
    return _Validated(family, str(address), problem, tuple(elsewhere), warning)


def address_errors(field: str, value: str, known: tuple[str, ...] = ()) -> list[FieldError]:
    """Return the errors of an address under the rules before strict validation; ``known`` values always pass."""
    problem = _validated(value).problem
    return [invalid_value(field, value, problem)] if problem and value not in known else []


def canonical_address_errors(field: str, value: str) -> list[FieldError]:
    """Return the errors of an address that must be in canonical form."""
    judged = _validated(value)
    if judged.problem:
        return [invalid_value(field, value, judged.problem)]
    if judged.canonical != value:
        return [invalid_value(field, value, f'must be in canonical form ("{judged.canonical}")')]
    return []


def endpoint_address_errors(field: str, value: str) -> list[FieldError]:
    """Return the errors of an endpoint address: it must not be unspecified, loopback or link-local."""
    return [invalid_value(field, value, problem) for problem in _validated(value).elsewhere]


def network_errors(field: str, value: str, known: tuple[str, ...] = ()) -> list[FieldError]:
    """Return the errors of a CIDR under the rules before strict validation."""
    if value in known:
        return []
    wrong = invalid_value(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    host, slash, length = value.partition("/")
    address = parse_sloppy(host)
    if not slash or address is None or not length.isdecimal():
        return [wrong]
    longest = 32 if ":" not in host else 128
    if int(length) > longest:
        return [wrong]
    strict = _parse_strict(host)
    if strict is None or (length != "0" and length.startswith("0")):
        return [invalid_value(field, value, "must not have leading 0s in IP or prefix length")]
    if _is_mapped(strict):
        return [invalid_value(field, value, "must not have an IPv4-mapped IPv6 address")]
    if int(strict) & ((1 << (longest - int(length))) - 1):
        return [invalid_value(field, value, "must not have bits set beyond the prefix length")]
    return []


def address_warnings(field: str, value: str) -> list[str]:
    """Return the warning for a valid address that is not in canonical form."""
    warning = _validated(value).warning
    return [f"{field}: {warning}"] if warning else []


def is_dual_stack(values: list[str]) -> bool:
    """Return whether addresses are of both families."""
    return {family_of(value) for value in values} >= {"IPv4", "IPv6"}
