"""Compare two documents: removed, modified and added fields as sets."""

from typing import Any

import msgspec

from tinykube.server.fields.nodes import MISSING, ListNode, MapNode, Node
from tinykube.server.fields.sets import MEMBER, SELF, FieldSet, difference, recursive_difference
from tinykube.server.objects import JsonObject


class Comparison(msgspec.Struct):
    """The removed, modified and added fields."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def is_same(self) -> bool:
        """Whether the two documents are equal."""
        return not (self.removed or self.modified or self.added)

    def without(self, fields: FieldSet) -> "Comparison":
        """Return the comparison without some fields and their descendants."""
        if not fields:
            return self
        return Comparison(
            recursive_difference(self.removed, fields),
            recursive_difference(self.modified, fields),
            recursive_difference(self.added, fields),
        )

    def taken_from(self, fields: FieldSet) -> FieldSet:
        """Return a set without the fields that this comparison found changed."""
        for changed in (self.modified, self.added, self.removed):
            fields = difference(fields, changed)
        return fields


def compare(node: Node, old: Any, new: Any) -> Comparison:
    """Compare two documents of a kind. Raises EntryError for a list entry without a key."""
    found = Comparison({}, {}, {})
    if old != new:
        _descend(node, old, new, found)
    return found


def _descend(node: Node, old: Any, new: Any, found: Comparison) -> None:
    """Compare two different values that can be descended into; add the differences to ``found``, which must be empty."""
    if isinstance(node, MapNode):
        before, after = old or {}, new or {}
        for name, value in after.items():
            known = node.item(name)
            if known is not None:
                _part(known[0], known[1], before.get(name, MISSING), value, found)
        for name, value in before.items():
            if name not in after:
                known = node.item(name)
                if known is not None:
                    _part(known[0], known[1], value, MISSING, found)
    elif isinstance(node, ListNode):
        _entries(node, old, new, found)


def _part(element: str, node: Node, old: Any, new: Any, found: Comparison) -> None:
    if old is MISSING:
        found.added[element] = everything(node, new)
    elif new is MISSING:
        found.removed[element] = everything(node, old)
    elif old != new:
        if not (old or new):
            found.modified[element] = MEMBER
            return
        if node.is_atomic_for(old) or node.is_atomic_for(new):
            _whole(element, node, old, new, found)
            return
        below = Comparison({}, {}, {})
        _descend(node, old, new, below)
        if below.removed:
            found.removed[element] = below.removed
        if below.modified:
            found.modified[element] = below.modified
        if below.added:
            found.added[element] = below.added


def _whole(element: str, node: Node, old: Any, new: Any, found: Comparison) -> None:
    """Compare two different values of which one is atomic; if the type is unknown, the other may be an object."""
    if node.is_untyped and not node.is_atomic:
        one, other = isinstance(old, dict) and old, isinstance(new, dict) and new
        if one:
            found.removed[element] = _members(node, one)
        if other:
            found.added[element] = _members(node, other)
        if (one and new is None) or (other and old is None):
            return
    found.modified[element] = MEMBER


def _members(node: Node, value: JsonObject) -> FieldSet:
    return {name: below for name, below in everything(node, value).items() if name != SELF}


def _entries(node: ListNode, old: Any, new: Any, found: Comparison) -> None:
    before, after = node.grouped(old), node.grouped(new)
    for element in (*before, *(one for one in after if one not in before)):
        mine, theirs = before.get(element, ()), after.get(element, ())
        if len(mine) <= 1 and len(theirs) <= 1:
            _part(element, node.entry, mine[0] if mine else MISSING, theirs[0] if theirs else MISSING, found)
        elif len(mine) > 1 and len(theirs) > 1:
            if mine != theirs:
                found.modified[element] = MEMBER
        elif len(mine) > 1:
            # A duplicate entry has no fields.
            if theirs:
                found.added[element] = everything(node.entry, theirs[0])
            found.removed[element] = MEMBER
        else:
            if mine:
                found.removed[element] = everything(node.entry, mine[0])
            found.added[element] = MEMBER


def everything(node: Node, value: Any) -> FieldSet:
    """Return the fields below the element of an added or removed value."""
    if not value or node.is_atomic_for(value):
        return MEMBER
    found: FieldSet = {SELF: MEMBER}
    if isinstance(node, MapNode):
        fields, free = node.fields, node.value
        for name, inner in value.items():
            known = fields.get(name)
            if known is not None:
                found[known[0]] = MEMBER if known[1].is_atomic else everything(known[1], inner)
            elif free is not None:
                found["f:" + name] = MEMBER if free.is_atomic else everything(free, inner)
    elif isinstance(node, ListNode):
        for element, entries in node.grouped(value).items():
            found[element] = everything(node.entry, entries[0]) if len(entries) == 1 else MEMBER
    return found if len(found) > 1 else MEMBER
