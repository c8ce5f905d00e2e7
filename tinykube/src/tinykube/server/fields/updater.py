"""Who owns what after a write, and what an apply makes of an object. Pure: no clock, no storage.

Of the server's own kinds, entries made in another version than the request's are not kept, as on a real server: events alone
have two, and a real server cannot turn the one into the other here either. Of custom resources they are: their versions
differ by name alone, but each may own its parts in another way.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tinykube.server.fields.compare import Comparison, compare
from tinykube.server.fields.managers import Managed, ManagerId, Owned
from tinykube.server.fields.merge import merged, reconciled, with_named, without
from tinykube.server.fields.nodes import MapNode, field_set
from tinykube.server.fields.sets import (
    FieldSet,
    difference,
    from_paths,
    intersection,
    recursive_difference,
    union,
)
from tinykube.server.fields.validate import problem_text, problems
from tinykube.server.objects import JsonObject

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


class NotTypedError(ValueError):
    """An object cannot be read by its types, in the version it is written in or in one that a manager's entry is in."""


class Version(msgspec.Struct, frozen=True):
    """A version of a kind: how its parts are owned, and what the request's subresource does not write (``reset``)."""

    api_version: str
    node: MapNode
    reset: FieldSet


Others = Callable[[str], Version | None]
"""Returns another version of a kind by its ``apiVersion``; None where the kind has no such version."""


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


def standing(version: Version, others: Others | None, managed: Managed, live: JsonObject) -> Managed:
    """Return the entries that a write begins with; the very ones given where all stand as they are.

    Without ``others`` those made in another version go. With them (custom resources) they stay, and all are brought to
    what the types say today: a list may have become one with a single owner since. Raises NotTypedError where a version
    is gone, or cannot hold the object: the real server then can neither tell who owns what.
    """
    if others is None:
        return in_version(version, managed)
    readable = {version.api_version: version}
    stand: Managed = {}
    for who, owned in managed.items():
        known = readable.get(owned.api_version)
        if known is None:
            known = readable[owned.api_version] = _readable(others, owned.api_version, live)
        fields = reconciled(known.node, owned.fields)
        stand[who] = owned if fields == owned.fields else owned.with_fields(fields)
    return managed if all(stand[who] is owned for who, owned in managed.items()) else stand


def _readable(others: Others, api_version: str, document: JsonObject) -> Version:
    """Return a version that a document can be read in. Raises NotTypedError."""
    known = others(api_version)
    if known is None:
        raise NotTypedError(f"request to convert CR to an invalid group/version: {api_version}")
    found = problems(known.node, document)
    if found:
        raise NotTypedError(problem_text(found))
    return known


class _Comparisons:
    """What one step changes, in each version that a manager's entry is in; each compared once."""

    def __init__(self, version: Version, others: Others | None, old: JsonObject, new: JsonObject) -> None:
        self.own = _compared(version, old, new)
        self._known = {version.api_version: self.own}
        self._others = others
        self._step = old, new

    def of(self, api_version: str) -> Comparison:
        """Return what has changed for the entries in a version. Raises NotTypedError."""
        known = self._known.get(api_version)
        if known is None:
            known = self._known[api_version] = self._in_other(api_version)
        return known

    def _in_other(self, api_version: str) -> Comparison:
        if self._others is None:
            raise NotTypedError(f"nothing is known of {api_version}")
        old, new = self._step
        try:
            return _compared(_readable(self._others, api_version, new), old, new)
        except NotTypedError as error:
            raise NotTypedError(f"failed to convert new object: {error}") from None


def _compared(version: Version, old: JsonObject, new: JsonObject) -> Comparison:
    return compare(version.node, old, new).without(version.reset)


def after_update(
    version: Version,
    managed: Managed,
    who: ManagerId,
    old: JsonObject,
    new: JsonObject,
    now: str,
    others: Others | None = None,
) -> Managed:
    """Return who owns what after a write that is no apply: what it changed is the writer's, and nobody else's.

    The very entries given where nothing has changed. Raises EntryError and NotTypedError.
    """
    managed = standing(version, others, managed, old)
    steps = _Comparisons(version, others, old, new)
    changes = steps.own
    if changes.is_same and (others is None or old == new):
        return managed
    kept, _ = _after(managed, None, steps)
    gained = difference(union(changes.modified, changes.added), STRIPPED)
    if gained:
        before = kept.get(who)
        fields = gained if before is None else union(gained, before.fields)
        kept[who] = Owned(fields, version.api_version, now)
    return kept


def _after(
    managed: Managed, applying: ManagerId | None, steps: _Comparisons
) -> tuple[Managed, dict[ManagerId, FieldSet]]:
    """Return what the others are left with, and what of theirs has been changed."""
    conflicts: dict[ManagerId, FieldSet] = {}
    left: Managed = {}
    changed: dict[str, FieldSet] = {}
    for who, owned in managed.items():
        if who == applying:
            left[who] = owned
            continue
        changes = steps.of(owned.api_version)
        theirs = changed.get(owned.api_version)
        if theirs is None:
            theirs = changed[owned.api_version] = union(changes.modified, changes.added)
        fields = owned.fields
        clash = intersection(fields, theirs)
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
    others: Others | None = None,
) -> tuple[JsonObject | None, Managed]:
    """Return what an apply makes of an object (None: it is as it is), and who owns what then.

    Raises ConflictsError where it would change what others own and is not to force it, EntryError, and NotTypedError.
    """
    node = version.node
    managed = standing(version, others, managed, live)
    new = merged(node, live, applied)
    last = managed.get(who)
    fields = recursive_difference(field_set(node, applied), version.reset)
    managed = {**managed, who: Owned(fields, version.api_version, None if last is None else last.time)}
    if last is not None and last.fields:
        new = _pruned(version, others, new, managed, last)
    left, conflicts = _after(managed, who, _Comparisons(version, others, live, new))
    if conflicts and not force:
        raise ConflictsError(conflicts)
    is_changed = live != new
    stripped = difference(fields, STRIPPED)
    if stripped:
        left[who] = Owned(stripped, version.api_version, now if is_changed else left[who].time)
    else:
        left.pop(who, None)
    return (new if is_changed else None), left


def _pruned(
    version: Version, others: Others | None, new: JsonObject, managed: Managed, last: Owned
) -> JsonObject:
    """Take out what the manager has owned and does not apply any more, unless somebody else owns it."""

    def readable(api_version: str, document: JsonObject, why: str = "") -> MapNode:
        if others is None:
            return version.node
        try:
            return _readable(others, api_version, document).node
        except NotTypedError as error:
            raise NotTypedError(f"failed to prune fields: {why}{error}") from None

    # A real server takes the object from version to version, and each time looks whether it fits.
    own, first = version.api_version, last.api_version
    node = version.node
    if first != own:
        node = readable(first, new, "failed to convert merged object to last applied version: ")
    before = with_named(node, last.fields)
    pruned: Any = without(node, new, before) or {}
    owned: dict[str, FieldSet] = {}
    for one in managed.values():
        owned[one.api_version] = union(owned.get(one.api_version, {}), one.fields)
    pruned = _added_back(node, new, pruned, owned.pop(first, {}))
    for api_version, fields in owned.items():
        why = f"failed add back owned items: failed to convert merged object at version {api_version}: "
        pruned = _added_back(readable(api_version, new, why), new, pruned, fields)
    if owned:
        readable(
            first,
            pruned,
            "failed add back dangling items: failed to convert pruned object to last applied version: ",
        )
    everything = with_named(node, field_set(node, new))
    # What hangs below something that was kept, and was never this manager's, stays.
    gone = difference(everything, with_named(node, field_set(node, pruned)))
    result: JsonObject = without(node, new, intersection(gone, before)) or {}
    if first != own:
        readable(own, result)
    return result


def _added_back(node: MapNode, new: JsonObject, pruned: JsonObject, owned: FieldSet) -> JsonObject:
    """Return what was pruned with what somebody owns, in the words of one version."""
    everything = with_named(node, field_set(node, new))
    kept = union(with_named(node, field_set(node, pruned)), with_named(node, owned))
    left: JsonObject = without(node, new, difference(everything, kept)) or {}
    return left
