"""Who owns what after a write, and what an apply makes of an object. Pure: no clock, no storage.

Entries made in another version than the request's are not kept, as on a real server: of the kinds there are, events alone
have two, and a real server cannot turn the one into the other here either.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from endpointd.apiserver.fields.compare import Comparison, compare
from endpointd.apiserver.fields.managers import Managed, ManagerId, Owned
from endpointd.apiserver.fields.merge import merged, reconciled, with_named, without
from endpointd.apiserver.fields.nodes import MapNode, field_set
from endpointd.apiserver.fields.sets import (
    FieldSet,
    difference,
    from_paths,
    intersection,
    recursive_difference,
    union,
)
from endpointd.apiserver.objects import JsonObject

STRIPPED: FieldSet = from_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
"""What nobody owns: the server's own, and what names the object."""


class ConflictsError(Exception):
    """An apply would change what others own. ``conflicts``: these fields, by owner."""

    def __init__(self, conflicts: Mapping[ManagerId, FieldSet]) -> None:
        super().__init__("conflicts with other managers")
        self.conflicts = conflicts


class Version(msgspec.Struct, frozen=True):
    """A version of a kind: how its parts are owned, and what the request's door does not write (``reset``)."""

    api_version: str
    node: MapNode
    reset: FieldSet


def in_version(version: Version, managed: Managed) -> Managed:
    """Return the entries that were made in a version; the very ones given where all were."""
    if all(owned.api_version == version.api_version for owned in managed.values()):
        return managed
    return {who: owned for who, owned in managed.items() if owned.api_version == version.api_version}


def owned_by_types(version: Version, managed: Managed) -> Managed:
    """Return entries that clients may have written, as the types have it: no part of what is owned as a whole."""
    return {
        who: owned.with_fields(reconciled(version.node, owned.fields))
        for who, owned in in_version(version, managed).items()
    }


def _compared(version: Version, old: JsonObject, new: JsonObject) -> Comparison:
    return compare(version.node, old, new).without(version.reset)


def after_update(
    version: Version, managed: Managed, who: ManagerId, old: JsonObject, new: JsonObject, now: str
) -> Managed:
    """Return who owns what after a write that is no apply: what it changed is the writer's, and nobody else's.

    The very entries given where nothing has changed.
    """
    managed = in_version(version, managed)
    changes = _compared(version, old, new)
    if changes.is_same:
        return managed
    kept, _ = _after(managed, None, changes)
    gained = difference(union(changes.modified, changes.added), STRIPPED)
    if gained:
        before = kept.get(who)
        fields = gained if before is None else union(gained, before.fields)
        kept[who] = Owned(fields, version.api_version, now)
    return kept


def _after(
    managed: Managed, applying: ManagerId | None, changes: Comparison
) -> tuple[Managed, dict[ManagerId, FieldSet]]:
    """Return what the others are left with, and what of theirs has been changed."""
    changed = union(changes.modified, changes.added)
    conflicts: dict[ManagerId, FieldSet] = {}
    left: Managed = {}
    for who, owned in managed.items():
        if who == applying:
            left[who] = owned
            continue
        fields = owned.fields
        clash = intersection(fields, changed)
        if clash:
            conflicts[who] = clash
            fields = difference(fields, clash)
        fields = difference(fields, changes.removed)
        if fields:
            left[who] = owned.with_fields(fields)
    return left, conflicts


def after_apply(
    version: Version,
    managed: Managed,
    who: ManagerId,
    live: JsonObject,
    applied: JsonObject,
    now: str,
    *,
    force: bool,
) -> tuple[JsonObject | None, Managed]:
    """Return what an apply makes of an object (None: it is as it is), and who owns what then.

    Raises ConflictsError where it would change what others own and is not to force it.
    """
    node = version.node
    managed = in_version(version, managed)
    new = merged(node, live, applied)
    last = managed.get(who)
    fields = recursive_difference(field_set(node, applied), version.reset)
    managed = {**managed, who: Owned(fields, version.api_version, None if last is None else last.time)}
    if last is not None and last.fields:
        new = _pruned(node, new, managed, last)
    left, conflicts = _after(managed, who, _compared(version, live, new))
    if conflicts and not force:
        raise ConflictsError(conflicts)
    is_changed = live != new
    stripped = difference(fields, STRIPPED)
    if stripped:
        left[who] = Owned(stripped, version.api_version, now if is_changed else left[who].time)
    else:
        left.pop(who, None)
    return (new if is_changed else None), left


def _pruned(node: MapNode, new: JsonObject, managed: Managed, last: Owned) -> JsonObject:
    """Take out what the manager has owned and does not apply any more, unless somebody else owns it."""
    before = with_named(node, last.fields)
    pruned: Any = without(node, new, before) or {}
    owned: FieldSet = {}
    for one in managed.values():
        owned = union(owned, one.fields)
    everything = with_named(node, field_set(node, new))
    kept = union(with_named(node, field_set(node, pruned)), with_named(node, owned))
    pruned = without(node, new, difference(everything, kept)) or {}
    # What hangs below something that was kept, and was never this manager's, stays.
    gone = difference(everything, with_named(node, field_set(node, pruned)))
    result: JsonObject = without(node, new, intersection(gone, before)) or {}
    return result
