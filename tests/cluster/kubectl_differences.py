"""Why the embedded server answers kubectl otherwise than the real one, wherever it does: the keys that steps name.

Each key stands in docs/reference/kubectl.md, which has the whole of the reason.
"""

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "authorization": "whoever has the token may do everything: one rule for all, where RBAC has many",
    "descriptions": "the types of fields are told, and no descriptions of them",
    "json patch text": "a JSON patch that does not fit is refused with the reason, which the real server keeps to itself",
    "kinds": "the server has no such kind",
    "kubelet": "there is no node to ask: pods have no logs, and nothing can be run in them",
    "patch text": "a refused patch is told by the object that it makes, with the order of its fields as it is kept",
    "selector text": "a label selector that cannot be read is refused with words of our own",
    "server address": "clients on other machines are not told of another address",
    "service cidrs": "the ranges of service addresses are not told as objects",
    "service account tokens": "there are no tokens of service accounts",
    "uid": "users have no uid",
    "version": "the version says whose server it is",
}
