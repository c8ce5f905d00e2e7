"""Plan the deletion of a namespace: the objects to delete next, and its status conditions."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from aiokube.api.times import format_time
from tinykube.server.lifecycle.ownership import OwnershipInfo
from tinykube.server.objects import GroupResource, JsonObject

PODS = GroupResource("", "pods")

_OK = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Conditions of kube-controller-manager: reason and message without problems (status ``False``)."""


class NamespacePlan(msgspec.Struct, frozen=True):
    """The next step of a namespace's deletion."""

    to_delete: tuple[OwnershipInfo, ...]
    is_empty: bool


def plan_namespace(content: Sequence[OwnershipInfo]) -> NamespacePlan:
    """Return the objects to delete now: first the pods, then, once they are removed, everything else (as since 1.33)."""
    pods = [info for info in content if info.key.resource == PODS]
    batch = pods or content
    return NamespacePlan(tuple(info for info in batch if not info.is_deleting), not content)


def with_conditions(
    status: JsonObject, content: Sequence[OwnershipInfo], failures: Sequence[str], now: datetime
) -> JsonObject:
    """Return the status of a namespace with conditions that describe the remaining content.

    Unchanged conditions are kept; transition times change only with the status.
    """
    wanted = {name: ("False", *told) for name, told in _OK.items()}
    if failures:
        listed = ", ".join(sorted(failures))
        message = f"Failed to delete all resource types, {len(failures)} remaining: {listed}"
        wanted["NamespaceDeletionContentFailure"] = ("True", "ContentDeletionFailed", message)
    if content:
        kinds = Counter(f"{info.key.resource.plural}.{info.key.resource.group}" for info in content)
        listed = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(kinds.items()))
        message = f"Some resources are remaining: {listed}"
        wanted["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", message)
    finalizers = Counter(name for info in content for name in info.finalizers)
    if finalizers:
        listed = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        wanted["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", message)
    moment = format_time(now)
    conditions = {each.get("type", ""): dict(each) for each in status.get("conditions") or ()}
    for name, (state, reason, message) in wanted.items():
        old = conditions.get(name)
        since = old["lastTransitionTime"] if old is not None and old.get("status") == state else moment
        conditions[name] = {
            "type": name,
            "status": state,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
    return {**status, "conditions": list(conditions.values())}
