"""Validation of names, with kube-apiserver's messages."""

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_PATTERN = re.compile(_LABEL)
_SUBDOMAIN_PATTERN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


def dns_label_problem(name: str) -> str:
    """Return the problem of a DNS label (RFC 1123), or ``""``."""
    if len(name) > _LONGEST_LABEL:
        return f"must be no more than {_LONGEST_LABEL} characters"
    if not _LABEL_PATTERN.fullmatch(name):
        if _SUBDOMAIN_PATTERN.fullmatch(name):
            return "must not contain dots"
        return (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        )
    return ""


def dns_subdomain_problem(name: str) -> str:
    """Return the problem of a DNS subdomain (RFC 1123), or ``""``."""
    if len(name) > _LONGEST_SUBDOMAIN:
        return f"must be no more than {_LONGEST_SUBDOMAIN} characters"
    if not _SUBDOMAIN_PATTERN.fullmatch(name):
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    return ""
