"""Why the embedded server answers kubectl otherwise than the real one, wherever it does: the keys that steps name.

Each key stands in docs/reference/kubectl.md, which has the whole of the reason.
"""

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "authorization": "whoever has the token may do everything: one rule for all, where RBAC has many",
    "descriptions": "the types of fields are told, and no descriptions of them",
    "field order": "after a create, the resource version stands after the managed fields",
    "json patch text": "a JSON patch that does not fit is refused with the reason, which the real server keeps to itself",
    "kinds": "the server has no such kind",
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
