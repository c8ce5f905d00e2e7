"""What an apply makes of a document, before it is decided what has to go; and the taking out of fields."""

from typing import Any

from tinykube.server.fields.nodes import MISSING, ListNode, MapNode, Node
from tinykube.server.fields.sets import SELF, FieldSet, is_member


def merged(node: Node, live: Any, applied: Any) -> Any:
    """Return the live value with the applied one merged in; MISSING where nothing is left.

    Neither is changed; the result shares parts with both. Raises EntryError for an entry without a key.
    """
    if not (_content(live) or _content(applied)) or node.is_atomic:
        return live if applied is MISSING else applied
    if node.is_untyped and not (isinstance(live, dict) and isinstance(applied, dict)):
        # A null says nothing against an object, as among the types that are known to be objects.
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
    """Merge entry by entry, in an order that keeps the applied one's and, where that has no say, the live one's."""
    mine, theirs = [node.element(one) for one in live], [node.element(one) for one in applied]
    # Of an entry that is there several times nobody can say which is meant: none is merged with.
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
                at += 1  # its turn comes where the applied list has it
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
    """Return a value without some of its fields; None where nothing is left of it. It is not changed itself."""
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
    """Return a set to which each field that a type names belongs itself where anything below it does."""
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
    """Return a set as the types own it: what is below an atomic part stands for the part as a whole."""
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
    """Tell whether nothing below a part is owned by itself."""
    if isinstance(node, MapNode):
        return node.is_atomic and not node.is_undescribed
    return node.is_atomic and isinstance(node, ListNode)
