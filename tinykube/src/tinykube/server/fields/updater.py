"""Compute field ownership after a write, and the result of an apply. Pure: no clock, no storage.

For built-in kinds, entries of another version than the request's are dropped, as on kube-apiserver: only
events have two versions, and kube-apiserver cannot convert between them here, either. For custom resources
they are kept: versions differ only by name, but each may have its own schema.
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
"""Fields without an owner: those that the server sets, and those that identify the object."""


class ConflictsError(Exception):
    """An apply would change fields of other managers. ``conflicts``: these fields by manager."""

    def __init__(self, conflicts: Mapping[ManagerId, FieldSet]) -> None:
        super().__init__("conflicts with other managers")
        self.conflicts = conflicts


class NotTypedError(ValueError):
    """An object does not fit its types in the written version, or in the version of a manager's entry."""


class Version(msgspec.Struct, frozen=True):
    """A version of a kind: its types, and the fields that the request's subresource cannot write (``reset``)."""

    api_version: str
    node: MapNode
    reset: FieldSet


Others = Callable[[str], Version | None]
"""Returns another version of a kind by its ``apiVersion``; None if it does not exist."""


def in_version(version: Version, managed: Managed) -> Managed:
    """Return the entries of one version; the identical dict if all are."""
    if all(owned.api_version == version.api_version for owned in managed.values()):
        return managed
    return {who: owned for who, owned in managed.items() if owned.api_version == version.api_version}


def owned_by_types(version: Version, managed: Managed) -> Managed:
    """Adapt entries that clients may have written to the types: atomic fields are owned as a whole."""
    return {
        who: owned.with_fields(reconciled(version.node, owned.fields))
        for who, owned in in_version(version, managed).items()
    }


def standing(version: Version, others: Others | None, managed: Managed, live: JsonObject) -> Managed:
    """Return the entries at the start of a write; the identical dict if they are unchanged.

    Without ``others``, entries of another version are dropped. With ``others`` (custom resources) they are
    kept, and adapted to the current types: a list may have become atomic. Raises NotTypedError if a version
    no longer exists or cannot represent the object: kube-apiserver cannot compute ownership then, either.
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
    """Return a version that can represent a document. Raises NotTypedError."""
    known = others(api_version)
    if known is None:
        raise NotTypedError(f"request to convert CR to an invalid group/version: {api_version}")
    found = problems(known.node, document)
    if found:
        raise NotTypedError(problem_text(found))
    return known


class _Comparisons:
    """The changes of one write in each version of the managers' entries, computed once per version."""

    def __init__(self, version: Version, others: Others | None, old: JsonObject, new: JsonObject) -> None:
        self.own = _compared(version, old, new)
        self._known = {version.api_version: self.own}
        self._others = others
        self._step = old, new

    def of(self, api_version: str) -> Comparison:
        """Return the changes in a version. Raises NotTypedError."""
        known = self._known.get(api_version)
        if known is None:
            known = self._known[api_version] = self._in_other(api_version)
        return known

    def _in_other(self, api_version: str) -> Comparison:
        if self._others is None:
            raise NotTypedError(f"unknown version {api_version}")
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
    """Return ownership after a non-apply write: the writer becomes the only owner of changed fields.

    Returns the identical dict if nothing has changed. Raises EntryError and NotTypedError.
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
    """Return the remaining fields of the other managers, and their changed fields."""
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
    """Return the result of an apply (None: the object is unchanged), and the ownership after it.

    Raises ConflictsError if it would change fields of other managers and ``force`` is not set, EntryError,
    and NotTypedError.
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
    """Remove fields that the manager no longer applies, unless another manager owns them."""

    def readable(api_version: str, document: JsonObject, why: str = "") -> MapNode:
        if others is None:
            return version.node
        try:
            return _readable(others, api_version, document).node
        except NotTypedError as error:
            raise NotTypedError(f"failed to prune fields: {why}{error}") from None

    # kube-apiserver converts the object between versions, and checks each time whether it fits.
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
    # Descendants of kept fields that never belonged to this manager are kept.
    gone = difference(everything, with_named(node, field_set(node, pruned)))
    result: JsonObject = without(node, new, intersection(gone, before)) or {}
    if first != own:
        readable(own, result)
    return result


def _added_back(node: MapNode, new: JsonObject, pruned: JsonObject, owned: FieldSet) -> JsonObject:
    """Return the pruned document with fields of other managers restored, in terms of one version."""
    everything = with_named(node, field_set(node, new))
    kept = union(with_named(node, field_set(node, pruned)), with_named(node, owned))
    left: JsonObject = without(node, new, difference(everything, kept)) or {}
    return left
