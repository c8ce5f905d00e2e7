"""Field sets in the encoding of ``fieldsV1``, so that stored sets can be combined without decoding.

A set is a plain dict of path elements (``f:spec``, ``k:{"port":80}``, ``v:x``). The value of an element has
the fields below it, and whether the element itself is a member. ``{}`` is a member with no fields below;
otherwise ``"."`` marks a member. At the root, ``{}`` is the empty set.

Sets are never modified, and share subtrees freely.
"""

from collections.abc import Iterator
from typing import Any

FieldSet = dict[str, Any]
Path = tuple[str, ...]

SELF = "."
MEMBER: FieldSet = {}
"""The value of a member with no fields below. Shared: it must not be modified."""


def is_member(below: FieldSet | None) -> bool:
    """Return whether an element with this value is a member (None: it is absent)."""
    return below is not None and (not below or SELF in below)


def with_self(below: FieldSet | None) -> FieldSet:
    """Return the value of an element that becomes a member, keeping the fields below it."""
    return below if below and SELF in below else {SELF: MEMBER, **below} if below else MEMBER


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the union of two sets."""
    if not one or not other:
        return one or other
    joined = dict(one)
    for element, below in other.items():
        mine = joined.get(element)
        joined[element] = below if mine is None else _union_below(mine, below)
    return joined


def _union_below(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one or not other:
        return with_self(one or other)
    return union(one, other)


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of ``one`` that are not in ``other``; descendants of removed members are kept."""
    return _without(one, other, recursive=False)


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return ``one`` without the members of ``other`` and all their descendants."""
    return _without(one, other, recursive=True)


def _without(one: FieldSet, other: FieldSet, *, recursive: bool) -> FieldSet:
    if not other:
        return one
    left: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            left[element] = below
        elif element != SELF:
            rest = _without_below(below, theirs, recursive=recursive)
            if rest is not None:
                left[element] = rest
    return left


def _without_below(below: FieldSet, theirs: FieldSet, *, recursive: bool) -> FieldSet | None:
    """Return the remaining value of an element that is in both, or None."""
    is_taken = is_member(theirs)
    if is_taken and recursive:
        return None
    stays = is_member(below) and not is_taken
    rest = _without(below, theirs, recursive=recursive)
    if SELF in rest and (not stays or len(rest) == 1):
        rest = {element: part for element, part in rest.items() if element != SELF}
    if not rest:
        return MEMBER if stays else None
    return with_self(rest) if stays else rest


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the intersection of two sets."""
    common: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None or element == SELF:
            continue
        deeper = intersection(below, theirs) if below and theirs else {}
        if is_member(below) and is_member(theirs):
            common[element] = with_self(deeper)
        elif deeper:
            common[element] = deeper
    return common


def has(fields: FieldSet, path: Path) -> bool:
    """Return whether a path is a member."""
    below: FieldSet | None = fields
    for element in path:
        below = below.get(element) if below else None
        if below is None:
            return False
    return bool(path) and is_member(below)


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield all members: at each level first the members, then the fields below."""
    from tinykube.server.fields.elements import element_order

    elements = sorted((element for element in fields if element != SELF), key=element_order)
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from paths(fields[element], (*prefix, element))


def from_paths(*given: Path) -> FieldSet:
    """Return the set of some paths."""
    made: FieldSet = {}
    for path in given:
        single: FieldSet = MEMBER
        for element in reversed(path):
            single = {element: single}
        made = union(made, single)
    return made
