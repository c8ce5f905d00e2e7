"""Validation of strings and numbers in specs, with kube-apiserver's messages."""

import re
from collections.abc import Iterable

from tinykube.server.errors import FieldError, invalid_value, not_supported, required
from tinykube.server.registry.names import dns_subdomain_problem

PROTOCOLS = ("SCTP", "TCP", "UDP")

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_PERCENT = re.compile(r"[0-9]+%")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_ENVIRONMENT_NAME = re.compile(r"[ -<>-~]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST_PART = 63
_LONGEST_SUBDOMAIN = 253
_LONGEST_PORT_NAME = 15
_LARGEST_PORT = 65535

_NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_DNS_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def _longest(limit: int, unit: str = "bytes") -> str:
    return f"must be no more than {limit} {unit}"


def qualified_name_problems(value: str) -> list[str]:
    """Return the problems of a label key or another qualified name."""
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_NAME_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        elif len(parts[0]) > _LONGEST_SUBDOMAIN:
            problems.append(f"prefix part {_longest(_LONGEST_SUBDOMAIN)}")
        elif problem := dns_subdomain_problem(parts[0]):
            problems.append(f"prefix part {problem}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > _LONGEST_PART:
        problems.append(f"name part {_longest(_LONGEST_PART)}")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_NAME_TEXT}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Return the problems of a label value."""
    problems = [_longest(_LONGEST_PART)] if len(value) > _LONGEST_PART else []
    if value and not _NAME.fullmatch(value):
        problems.append(_LABEL_VALUE_TEXT)
    return problems


def dns_label_problems(value: str) -> list[str]:
    """Return the problems of a DNS label."""
    problems = [_longest(_LONGEST_PART, "characters")] if len(value) > _LONGEST_PART else []
    if not _LABEL.fullmatch(value):
        problems.append("must not contain dots" if _SUBDOMAIN.fullmatch(value) else _DNS_LABEL_TEXT)
    return problems


def port_number_problems(port: int) -> list[str]:
    """Return the problems of a port number."""
    return [] if 1 <= port <= _LARGEST_PORT else [f"must be between 1 and {_LARGEST_PORT}, inclusive"]


def port_name_problems(name: str) -> list[str]:
    """Return the problems of a container port's name."""
    problems = [_longest(_LONGEST_PORT_NAME, "characters")] if len(name) > _LONGEST_PORT_NAME else []
    if not _PORT_NAME.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def config_key_problems(key: str) -> list[str]:
    """Return the problems of a key of a ConfigMap or Secret."""
    problems = [_longest(_LONGEST_SUBDOMAIN, "characters")] if len(key) > _LONGEST_SUBDOMAIN else []
    if not _CONFIG_KEY.fullmatch(key):
        problems.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def environment_name_problems(name: str) -> list[str]:
    """Return the problems of an environment variable's name."""
    if _ENVIRONMENT_NAME.fullmatch(name):
        return []
    if not name:
        return ["environment variable name must be non-empty"]
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def header_name_problems(name: str) -> list[str]:
    """Return the problems of an HTTP header's name."""
    if _HEADER.fullmatch(name):
        return []
    return [
        (
            "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
            "validation is '[-A-Za-z0-9]+')"
        )
    ]


def percent_problems(value: str) -> list[str]:
    """Return the problems of a percentage."""
    if _PERCENT.fullmatch(value):
        return []
    return [
        (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
            "for validation is '[0-9]+%')"
        )
    ]


def each(field: str, value: object, problems: Iterable[str]) -> list[FieldError]:
    """Return one field error per problem."""
    return [invalid_value(field, value, problem) for problem in problems]


def dns_label(field: str, value: str) -> list[FieldError]:
    """Check a DNS label."""
    return each(field, value, dns_label_problems(value))


def dns_subdomain(field: str, value: str) -> list[FieldError]:
    """Check a DNS subdomain."""
    problem = dns_subdomain_problem(value)
    return [invalid_value(field, value, problem)] if problem else []


def qualified_name(field: str, value: str) -> list[FieldError]:
    """Check a qualified name."""
    return each(field, value, qualified_name_problems(value))


def labels(field: str, values: dict[str, str] | None) -> list[FieldError]:
    """Check the keys and values of labels; all errors have the map's path."""
    errors = []
    for key in sorted(values or {}):
        value = (values or {})[key]
        errors += each(field, key, qualified_name_problems(key)) + each(
            field, value, label_value_problems(value)
        )
    return errors


def port_number(field: str, port: int) -> list[FieldError]:
    """Check a port."""
    return each(field, port, port_number_problems(port))


def port_number_or_name(field: str, port: int | str) -> list[FieldError]:
    """Check a port number or name."""
    if isinstance(port, str):
        return each(field, port, port_name_problems(port))
    return port_number(field, port)


def protocol(field: str, value: str) -> list[FieldError]:
    """Check a transport protocol."""
    if not value:
        return [required(field)]
    return [] if value in PROTOCOLS else [not_supported(field, value, PROTOCOLS)]


def nonnegative(field: str, value: int) -> list[FieldError]:
    """Check that a count is not negative."""
    return [] if value >= 0 else [invalid_value(field, value, "must be greater than or equal to 0")]


def immutable(field: str, value: object, old: object, shown: object = None) -> list[FieldError]:
    """Check that a field has not changed; ``shown`` replaces the value in the error."""
    if value == old:
        return []
    return [invalid_value(field, value if shown is None else shown, "field is immutable")]


def int_or_percent(field: str, value: int | str) -> list[FieldError]:
    """Check a count that may be a percentage."""
    if isinstance(value, str):
        return each(field, value, percent_problems(value))
    return nonnegative(field, value)


def int_or_percent_value(value: int | str) -> int:
    """Return the number of a count or percentage; 0 for invalid text."""
    if isinstance(value, str):
        number = value.removesuffix("%")
        return int(number) if number.isdecimal() else 0
    return value


def at_most_all(field: str, value: int | str) -> list[FieldError]:
    """Check that a percentage is not more than 100."""
    if isinstance(value, str) and int_or_percent_value(value) > 100:
        return [invalid_value(field, value, "must not be greater than 100%")]
    return []
