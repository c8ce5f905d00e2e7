"""The reasons for every difference between the embedded and the real server's answers to kubectl, by the keys in steps.

docs/reference/kubectl.md describes each key in full.
"""

import re
from collections.abc import Callable, Mapping

REASONS: Mapping[str, str] = {
    "authorization": "whoever has the token may do everything: one rule for all, where RBAC has many",
    "descriptions": "what types and fields are for is told in words of our own",
    "field order": "after a create, the resource version stands after the managed fields",
    "json patch text": "a JSON patch that does not fit is refused with the reason, which the real server keeps to itself",
    "kinds": "some kinds are missing, others are stored without effect: two columns, no descriptions",
    "kubelet": "there is no node to ask: pods have no logs, nothing can be run in them or resized",
    "merge key": "a strategic patch without the key of its items is the client's mistake: 422, no internal error",
    "patch text": "a refused patch is told by the object that it makes, with the order of its fields as it is kept",
    "pod difference": "what may not change of a pod is told in the fields of the API, as YAML",
    "selector text": "a label selector that cannot be read is refused with words of our own",
    "server address": "clients on other machines are not told of another address",
    "service cidrs": "the ranges of service addresses are not told as objects",
    "service account tokens": "there are no tokens of service accounts",
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
