"""Who owns what after a write, and what an apply makes of an object. Pure: no clock, no storage.

Documents come as ``Versions``: an object in the version of the request, which can be had in the others that entries were
made in.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from endpointd.apiserver.fields.compare import Comparison, compare
from endpointd.apiserver.fields.managers import APPLY, Managed, ManagerId, Owned
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

Convert = Callable[[JsonObject, str], JsonObject | None]
"""Shows a document in another version; None where there is no such version."""

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


class Versions(msgspec.Struct, frozen=True):
    """The version of a request, the others that there are, and how to come from one to another."""

    own: Version
    others: Mapping[str, Version] = {}
    convert: Convert = lambda document, api_version: None

    def get(self, api_version: str) -> Version | None:
        """Return a version, None where there is no such."""
        return self.own if api_version == self.own.api_version else self.others.get(api_version)

    def shown(self, document: JsonObject, api_version: str) -> JsonObject:
        """Return a document of the request's version in another one, which is known."""
        return (
            document
            if api_version == self.own.api_version
            else self.convert(document, api_version) or document
        )

    def compared(self, old: JsonObject, new: JsonObject, api_version: str) -> Comparison | None:
        """Compare two documents in a version, blind for what the request's door does not write."""
        version = self.get(api_version)
        if version is None:
            return None
        found = compare(version.node, self.shown(old, api_version), self.shown(new, api_version))
        return found.without(version.reset)


def owned_by_types(versions: Versions, managed: Managed) -> Managed:
    """Return entries that clients may have written, as the types have it: no part of what is owned as a whole."""
    fitting: Managed = {}
    for who, owned in managed.items():
        version = versions.get(owned.api_version)
        if version is not None:
            fitting[who] = owned.with_fields(reconciled(version.node, owned.fields))
    return fitting


def after_update(
    versions: Versions, managed: Managed, who: ManagerId, old: JsonObject, new: JsonObject, now: str
) -> Managed:
    """Return who owns what after a write that is no apply: what it changed is the writer's, and nobody else's.

    The very entries given where nothing has changed.
    """
    changes = versions.compared(old, new, versions.own.api_version)
    if changes is None or changes.is_same:
        return managed
    kept, _ = _after(versions, managed, None, old, new, changes)
    gained = difference(union(changes.modified, changes.added), STRIPPED)
    if gained:
        before = kept.get(who)
        fields = gained if before is None else union(gained, before.fields)
        kept[who] = Owned(fields, versions.own.api_version, now)
    return kept


def _after(
    versions: Versions,
    managed: Managed,
    applying: ManagerId | None,
    old: JsonObject,
    new: JsonObject,
    changes: Comparison,
) -> tuple[Managed, dict[ManagerId, FieldSet]]:
    """Return what the others are left with, and what of theirs has been changed."""
    by_version: dict[str, Comparison | None] = {versions.own.api_version: changes}
    changed: dict[str, FieldSet] = {}
    conflicts: dict[ManagerId, FieldSet] = {}
    left: Managed = {}
    for who, owned in managed.items():
        if who == applying:
            left[who] = owned
            continue
        version = owned.api_version
        if version not in by_version:
            by_version[version] = versions.compared(old, new, version)
        found = by_version[version]
        if found is None:
            continue  # written in a version that is no more
        if version not in changed:
            changed[version] = union(found.modified, found.added)
        fields = owned.fields
        clash = intersection(fields, changed[version])
        if clash:
            conflicts[who] = clash
            fields = difference(fields, clash)
        if found.removed:
            fields = difference(fields, found.removed)
        if fields:
            left[who] = owned.with_fields(fields)
    return left, conflicts


def after_apply(
    versions: Versions,
    managed: Managed,
    who: ManagerId,
    live: JsonObject,
    applied: JsonObject,
    now: str,
    *,
    force: bool,
) -> tuple[JsonObject | None, Managed]:
    """Return what an apply makes of an object (None: it is as it is), and who owns what then.

    Raises ConflictsError where it would change what others own and is not to force it; EntryError, ValueError for
    documents that do not fit their type.
    """
    own = versions.own
    new = merged(own.node, live, applied)
    last = managed.get(who)
    fields = recursive_difference(field_set(own.node, applied), own.reset)
    managed = {
        **managed,
        who: Owned(fields, own.api_version, None if last is None else last.time),
    }
    if last is not None and last.fields:
        new = _pruned(versions, new, managed, last)
    changes = versions.compared(live, new, own.api_version) or Comparison({}, {}, {})
    left, conflicts = _after(versions, managed, who, live, new, changes)
    if conflicts and not force:
        raise ConflictsError(conflicts)
    is_changed = live != new
    stripped = difference(fields, STRIPPED)
    if stripped:
        time = now if is_changed else left[who].time
        left[who] = Owned(stripped, own.api_version, time)
    else:
        left.pop(who, None)
    return (new if is_changed else None), left


def _pruned(versions: Versions, new: JsonObject, managed: Managed, last: Owned) -> JsonObject:
    """Take out what the manager has owned and does not apply any more, unless somebody else owns it."""
    version = versions.get(last.api_version)
    if version is None:
        return new
    node = version.node
    shown = versions.shown(new, last.api_version)
    before = with_named(node, last.fields)
    pruned: Any = without(node, shown, before) or {}
    owned: FieldSet = {}
    for one in managed.values():
        # Entries in another version of the same kind are compared by the names that both have.
        owned = union(owned, one.fields)
    everything = with_named(node, field_set(node, shown))
    kept = union(with_named(node, field_set(node, pruned)), with_named(node, owned))
    pruned = without(node, shown, difference(everything, kept)) or {}
    # What hangs below something that was kept, and was never this manager's, stays.
    gone = difference(everything, with_named(node, field_set(node, pruned)))
    result: JsonObject = without(node, shown, intersection(gone, before)) or {}
    return result if last.api_version == versions.own.api_version else new


__all__ = [
    "APPLY",
    "STRIPPED",
    "ConflictsError",
    "Convert",
    "Version",
    "Versions",
    "after_apply",
    "after_update",
    "owned_by_types",
]
