"""Parsing and printing of IP addresses (behaviour 0.4).

Parsing is lenient, because old clusters store addresses with leading zeros, which are decimal there;
printing is canonical, because clients compare strings. Both match Kubernetes. ``ipaddress`` does not: it
refuses leading zeros and prints IPv4-mapped addresses as IPv6.
"""

import re
from functools import lru_cache
from typing import Literal

Family = Literal["IPv4", "IPv6"]

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_is_canonical_ipv4 = re.compile(rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}").fullmatch
_DIGITS = frozenset("0123456789")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
_GROUPS = 8


def canonical_ip(text: str) -> str | None:
    """Return an address in its canonical form, None if the text is not an address.

    IPv4 loses leading zeros (which are decimal, never octal). IPv6 is lower-case, and its longest run of two
    or more zero groups (the first of equals) becomes ``::``. An IPv4-mapped address (``::ffff:1.2.3.4``)
    becomes IPv4. Text with a zone (``%eth0``), a prefix length or surrounding spaces is not an address.
    """
    if _is_canonical_ipv4(text) is not None:
        return text
    return _parse_and_print(text)


def ip_family(text: str) -> Family | None:
    """Return the family of an address, None if the text is not an address. IPv4-mapped counts as IPv4."""
    if _is_canonical_ipv4(text) is not None:
        return "IPv4"
    canonical = _parse_and_print(text)
    if canonical is None:
        return None
    return "IPv6" if ":" in canonical else "IPv4"


def rejected_range(canonical: str) -> str | None:
    """Return the range because of which the API server refuses an endpoint address, None if it accepts it.

    The rule is the server's, for Endpoints and EndpointSlices alike: unspecified, loopback, link-local and
    link-local multicast addresses are refused.
    """
    if canonical.startswith(_SUSPECT):
        return _rejected_range(canonical)
    return None


_SUSPECT = ("127.", "169.254.", "224.0.0.", "0.0.0.0", "::", "fe", "ff")  # noqa: S104 - compared, never bound


def _rejected_range(canonical: str) -> str | None:
    if canonical in ("0.0.0.0", "::"):  # noqa: S104
        return "unspecified"
    if canonical.startswith("127.") or canonical == "::1":
        return "loopback"
    if canonical.startswith("169.254."):
        return "link-local"
    if canonical.startswith("224.0.0."):
        return "link-local multicast"
    group = canonical.partition(":")[0]
    if len(group) == 4 and group[:2] == "fe" and group[2] in "89ab":
        return "link-local"
    if len(group) == 4 and group[:2] == "ff" and group[3] == "2":
        return "link-local multicast"
    return None


@lru_cache(maxsize=8192)
def _parse_and_print(text: str) -> str | None:
    for character in text:
        if character == ".":
            ipv4 = _parse_ipv4(text)
            return None if ipv4 is None else _print_ipv4(ipv4)
        if character == ":":
            packed = _parse_ipv6(text)
            if packed is None:
                return None
            if packed.startswith(_MAPPED_PREFIX):
                return _print_ipv4(packed[12:])
            return _print_ipv6(packed)
    return None


def _parse_ipv4(text: str) -> bytes | None:
    parts = text.split(".")
    if len(parts) != 4:
        return None
    octets = []
    for part in parts:
        if not part or not _DIGITS.issuperset(part):
            return None
        significant = part.lstrip("0") or "0"
        if len(significant) > 3 or (octet := int(significant)) > 255:
            return None
        octets.append(octet)
    return bytes(octets)


def _parse_ipv6(text: str) -> bytes | None:
    head_text, ellipsis, tail_text = text.partition("::")
    head = _parse_groups(head_text, may_end_in_ipv4=not ellipsis)
    if head is None:
        return None
    if not ellipsis:
        return head if len(head) == 2 * _GROUPS else None
    tail = _parse_groups(tail_text, may_end_in_ipv4=True)
    if tail is None:
        return None
    missing = 2 * _GROUPS - len(head) - len(tail)
    return head + bytes(missing) + tail if missing >= 2 else None


def _parse_groups(text: str, *, may_end_in_ipv4: bool) -> bytes | None:
    """Return the bytes of ``a:b:c``, or of ``a:b:1.2.3.4`` if the address may end in IPv4 notation."""
    if not text:
        return b""
    packed = bytearray()
    groups = text.split(":")
    last = len(groups) - 1
    for position, group in enumerate(groups):
        if position == last and may_end_in_ipv4 and "." in group:
            ipv4 = _parse_ipv4(group)
            if ipv4 is None:
                return None
            packed += ipv4
            break
        if not group or not _HEX_DIGITS.issuperset(group):
            return None
        significant = group.lstrip("0") or "0"
        if len(significant) > 4:
            return None
        packed += int(significant, 16).to_bytes(2, "big")
    return bytes(packed)


def _print_ipv4(packed: bytes) -> str:
    return ".".join(map(str, packed))


def _print_ipv6(packed: bytes) -> str:
    groups = [int.from_bytes(packed[at : at + 2], "big") for at in range(0, 2 * _GROUPS, 2)]
    run_start, run_length = 0, 1
    start = 0
    while start < _GROUPS:
        end = start
        while end < _GROUPS and groups[end] == 0:
            end += 1
        if end - start > run_length:
            run_start, run_length = start, end - start
        start = max(end, start + 1)
    if run_length < 2:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:run_start])
    tail = ":".join(f"{group:x}" for group in groups[run_start + run_length :])
    return f"{head}::{tail}"
