"""Parsing of permission errors and missing APIs, to suggest what to grant."""

import re

import msgspec

_REFUSAL = re.compile(
    r'(?:User "(?P<user>[^"]*)" )?cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_NO_SUCH_API = ("could not find the requested resource", "page not found")


class MissingRight(msgspec.Struct, frozen=True):
    """A missing permission, in RBAC terms."""

    user: str
    verb: str
    resource: str
    """The plural, with an optional subresource after a slash."""
    group: str
    """``""`` for the core group."""
    namespace: str
    """``""`` for a cluster-wide request."""

    @property
    def what(self) -> str:
        """``endpointslices.discovery.k8s.io``, as ``kubectl auth can-i`` accepts it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def missing_right(text: str) -> MissingRight | None:
    """Return the missing permission of an RBAC refusal, None for other text."""
    found = _REFUSAL.search(text)
    if found is None:
        return None
    return MissingRight(
        found["user"] or "", found["verb"], found["resource"], found["group"] or "", found["namespace"] or ""
    )


def advice(text: str) -> str:
    """Return a short remedy for a failure; ``""`` if none is known.

    Watching needs list and watch, so both are named for either.
    """
    right = missing_right(text)
    if right is not None:
        verbs = "list and watch" if right.verb in ("list", "watch") else right.verb
        whom = f" to {right.user}" if right.user else ""
        return f"grant {verbs} on {right.what}{whom}: a role, and a binding to that user"
    if any(words in text for words in _NO_SUCH_API):
        return "the server does not serve that API: enable its group and version there (--runtime-config)"
    return ""


def with_hint(text: str) -> str:
    """Return the text followed by a hint on how to fix it, if one is known."""
    words = advice(text)
    return f"{text} ({words})" if words else text
