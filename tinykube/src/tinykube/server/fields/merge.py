"""Merge an applied document before pruning, and remove fields."""

from typing import Any

from tinykube.server.fields.nodes import MISSING, ListNode, MapNode, Node
from tinykube.server.fields.sets import SELF, FieldSet, is_member


def merged(node: Node, live: Any, applied: Any) -> Any:
    """Return the live value with the applied one merged in; MISSING if nothing is left.

    Neither is modified; the result shares subtrees with both. Raises EntryError for an entry without a key.
    """
    if not (_content(live) or _content(applied)) or node.is_atomic:
        return live if applied is MISSING else applied
    if node.is_untyped and not (isinstance(live, dict) and isinstance(applied, dict)):
        # null does not replace an object, as for typed objects.
        return live if applied is MISSING or (applied is None and isinstance(live, dict)) else applied
    if isinstance(node, MapNode):
        return _merged_map(node, _content(live) or {}, _content(applied) or {})
    if isinstance(node, ListNode):
        return _merged_list(node, _content(live) or [], _content(applied) or [])
    return live if applied is MISSING else applied


def _content(value: Any) -> Any:
    return None if value is MISSING else value


def _merged_map(node: MapNode, live: dict[str, Any], applied: dict[str, Any]) -> Any:
    if not applied:
        return live
    out: dict[str, Any] = {}
    for name, value in live.items():
        theirs = applied.get(name, MISSING)
        if theirs is MISSING:
            out[name] = value
            continue
        known = node.item(name)
        result = merged(known[1], value, theirs) if known else theirs
        if result is not MISSING:
            out[name] = result
    out.update((name, value) for name, value in applied.items() if name not in live)
    return out or MISSING


def _merged_list(node: ListNode, live: list[Any], applied: list[Any]) -> Any:
    """Merge by entry. The order follows the applied list and, for other entries, the live list."""
    mine, theirs = [node.element(one) for one in live], [node.element(one) for one in applied]
    # Duplicate entries are ambiguous: they are not merged.
    found: dict[str, Any] = {}
    for element, entry in zip(mine, live, strict=True):
        found[element] = None if element in found else entry
    given = dict(zip(theirs, applied, strict=True))
    shared = iter([element for element in theirs if element in found])
    awaited = next(shared, None)
    done: set[str] = set()
    out: list[Any] = []

    def put(element: str, before: Any, after: Any) -> None:
        result = merged(node.entry, before, after)
        if result is not MISSING:
            out.append(result)

    at, to = 0, 0
    while at < len(mine) or to < len(theirs):
        if at < len(mine) and to < len(theirs):
            element = mine[at]
            if element == theirs[to]:
                done.add(element)
                put(element, found.get(element, MISSING), given[element])
                at, to, awaited = at + 1, to + 1, next(shared, None)
                continue
            if element in given and awaited is not None and awaited != element:
                at += 1  # it is placed where the applied list has it
                continue
        if at < len(mine):
            element = mine[at]
            if element not in given:
                put(element, live[at], MISSING)
                at += 1
                continue
            if element in done:
                at += 1
        if to < len(theirs):
            element = theirs[to]
            done.add(element)
            put(element, found.get(element, MISSING), given[element])
            to += 1
            if awaited == element:
                awaited = next(shared, None)
    return out or MISSING


def without(node: Node, value: Any, fields: FieldSet) -> Any:
    """Return a copy of a value without some of its fields; None if nothing is left."""
    if isinstance(node, MapNode):
        if node.is_untyped and not isinstance(value, dict):
            return None if isinstance(value, list) else value
        if not value or node.is_atomic:
            return None
        left: dict[str, Any] = {}
        for name, inner in value.items():
            known = node.item(name)
            below = fields.get("f:" + name)
            if is_member(below):
                continue
            left[name] = without(known[1], inner, below) if below and known else inner
        return left or None
    if isinstance(node, ListNode):
        if not value or node.is_atomic:
            return None
        kept: list[Any] = []
        for entry in value:
            below = fields.get(node.element(entry))
            if is_member(below):
                continue
            kept.append(without(node.entry, entry, below) if below else entry)
        return kept or None
    return value


def with_named(node: Node | None, fields: FieldSet) -> FieldSet:
    """Return a set in which each named field with members below it is itself a member."""
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF or not below:
            out[element] = below
            continue
        inner = with_named(None if node is None else node.inner(element), below)
        if node is not None and node.names(element) and SELF not in inner:
            inner = {SELF: {}, **inner}
        out[element] = inner
    return out


def reconciled(node: Node, fields: FieldSet) -> FieldSet:
    """Return a set adapted to the types: members below an atomic field are replaced by the field."""
    out: FieldSet = {}
    for element, below in fields.items():
        inner = None if element == SELF else node.inner(element)
        if inner is not None and below and _is_closed(inner):
            below = {}
        elif inner is not None and below:
            below = reconciled(inner, below)
        out[element] = below
    return out


def _is_closed(node: Node) -> bool:
    """Return whether nothing below a field can be owned separately."""
    if isinstance(node, MapNode):
        return node.is_atomic and not node.is_undescribed
    return node.is_atomic and isinstance(node, ListNode)
