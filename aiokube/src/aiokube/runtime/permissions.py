"""What the API server says of missing rights and missing APIs, read, so that what to grant can be told with it."""

import re

import msgspec

_REFUSAL = re.compile(
    r'(?:User "(?P<user>[^"]*)" )?cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_NO_SUCH_API = ("could not find the requested resource", "page not found")


class MissingRight(msgspec.Struct, frozen=True):
    """One right that somebody lacks, as RBAC words it."""

    user: str
    verb: str
    resource: str
    """The plural, with a subresource behind a slash."""
    group: str
    """``""`` for the core group."""
    namespace: str
    """``""`` where it is asked for the whole cluster."""

    @property
    def what(self) -> str:
        """``endpointslices.discovery.k8s.io``, as ``kubectl auth can-i`` takes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def missing_right(text: str) -> MissingRight | None:
    """Return the right that a refusal names; None where the text is no refusal of RBAC's."""
    found = _REFUSAL.search(text)
    if found is None:
        return None
    return MissingRight(
        found["user"] or "", found["verb"], found["resource"], found["group"] or "", found["namespace"] or ""
    )


def advice(text: str) -> str:
    """Return what to do about a failure in a few words; ``""`` where that is not known.

    Whoever watches needs list and watch, so both are named for either.
    """
    right = missing_right(text)
    if right is not None:
        verbs = "list and watch" if right.verb in ("list", "watch") else right.verb
        whom = f" to {right.user}" if right.user else ""
        return f"grant {verbs} on {right.what}{whom}: a role, and a binding to that user"
    if any(words in text for words in _NO_SUCH_API):
        return "the server does not serve that API: switch its group and version on there (--runtime-config)"
    return ""


def with_hint(text: str) -> str:
    """Return the text followed by a hint on how to fix it, if one is known."""
    words = advice(text)
    return f"{text} ({words})" if words else text
