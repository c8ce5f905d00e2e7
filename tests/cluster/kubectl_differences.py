"""The reasons for every difference between the embedded and the real server's answers to kubectl, by the keys in steps.

docs/reference/kubectl.md describes each key in full.
"""

import re
from collections.abc import Callable, Mapping

REASONS: Mapping[str, str] = {
    "authorization": "any holder of the token has all permissions: one rule instead of RBAC",
    "descriptions": "descriptions of types and fields are worded differently",
    "field order": "after a create, the resource version follows the managed fields",
    "json patch text": "a JSON patch that does not fit is refused with the reason, which the real server keeps to itself",
    "kinds": "some kinds are missing, others are stored without effect: two columns, no descriptions",
    "kubelet": "there is no node to ask: pods have no logs, nothing can be run in them or resized",
    "merge key": "a strategic patch without the key of its items is the client's mistake: 422, no internal error",
    "patch text": "a rejected patch is reported with the resulting object, whose fields keep their order",
    "pod difference": "immutable pod fields are reported by their API names, as YAML",
    "selector text": "an invalid label selector is rejected with another message",
    "server address": "no address for clients on other machines is published",
    "service cidrs": "the ranges of service addresses are not told as objects",
    "uid": "users have no uid",
    "version": "the version says whose server it is",
}

_FIELD = re.compile(r" *\S+\t<.*>.*")
_ENUM = re.compile(r" +enum: .*")


def without_descriptions(explained: str) -> str:
    """Return ``kubectl explain`` output without descriptions: the kind, and fields with types, enums and required markers."""
    kept: list[str] = []
    section = ""
    for line in explained.splitlines():
        if line and not line.startswith(" "):
            section = line
        elif section == "DESCRIPTION:" or (
            section == "FIELDS:" and not _FIELD.fullmatch(line) and not _ENUM.fullmatch(line)
        ):
            continue
        kept.append(line)
    return "\n".join(kept)


ALIKE: Mapping[str, Callable[[str], str]] = {"descriptions": without_descriptions}
"""The part of both outputs that must be equal despite the difference, where one can be extracted."""
