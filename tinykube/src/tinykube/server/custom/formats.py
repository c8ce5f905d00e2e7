"""String and number formats as kube-apiserver validates them; unknown formats cause a warning and are not validated."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DURATION = re.compile(r"[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
_LONG_DURATION = re.compile(
    r"\s*[-+]?\d+(\.\d+)?\s*(d|day|days|h|hour|hours|m|min|mins|minute|minutes|s|sec|secs|second|seconds|ms|milli|millis"
    r"|millisecond|milliseconds|us|µs|micro|micros|microsecond|microseconds|ns|nano|nanos|nanosecond|nanoseconds"
    r"|w|week|weeks|hr|hrs|wk|wks|dy|dys|msec)\s*"
)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})")
_EMAIL = re.compile(r"(.*<)?[^\s@<>]+@[^\s@<>]+>?")
_HOST = re.compile(r"[^\W_]([-\w]{0,61}[^\W_])?(\.[^\W_]([-\w]{0,61}[^\W_])?)*\.?")


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE if "0-9a-f" in pattern else 0)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str = _HEX) -> Callable[[str], bool]:
    return _matches(_UUID % (version, variant))


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and _is_date(found[1])


def _is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None or _LONG_DURATION.fullmatch(text) is not None


def _address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return "%" not in text and ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        return "/" in text and ipaddress.ip_network(text, strict=False) is not None
    except ValueError:
        return False


def _is_mac(text: str) -> bool:
    return re.fullmatch(r"([0-9a-fA-F]{2}([:-])([0-9a-fA-F]{2}\2){4,18}[0-9a-fA-F]{2})", text) is not None


def _is_base64(text: str) -> bool:
    try:
        return base64.b64encode(binascii.a2b_base64(text.encode("ascii"), strict_mode=True)).decode() == text
    except (binascii.Error, UnicodeEncodeError):
        return False


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_host(text: str) -> bool:
    return len(text) <= 255 and _HOST.fullmatch(text) is not None


def _digits(text: str) -> str:
    return text.replace("-", "").replace(" ", "")


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    values = [10 if one == "X" else int(one) for one in digits]
    return sum((10 - place) * value for place, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(one) * (3 if place % 2 else 1) for place, one in enumerate(digits)) % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if not 13 <= len(digits) <= 19:
        return False
    doubled = (int(one) * (2 if place % 2 else 1) for place, one in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_TEXTS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_host,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _uuid(_HEX),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*((0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*(,\s*|\)$)){3}"),
    "byte": _is_base64,
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_time,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "k8slongname": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None
    ),
}
_NUMBERS: Mapping[str, tuple[str, ...]] = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_known(format_name: str, type_name: str) -> bool:
    """Return whether values of a type are validated against a format."""
    if type_name in ("", "string"):
        return format_name.replace("-", "") in _TEXTS
    return format_name in _NUMBERS.get(type_name, ())


def text_matches(format_name: str, text: str) -> bool:
    """Return whether a text has a format; unknown formats match every text."""
    check = _TEXTS.get(format_name.replace("-", ""))
    return check is None or check(text)
