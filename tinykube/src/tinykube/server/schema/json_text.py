"""JSON as a server reads it: what is wrong is told in the words of Go's decoder, and a key given twice is seen."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from tinykube.server.schema.depth import is_text_too_deep
from tinykube.server.schema.go_json import syntax_error

MAX_PROBLEMS = 100
"""How many duplicates are told; a body could hold a million."""


_ORDERED_BYTES = 16 * 1024
"""Of larger bodies the duplicates come before the unknown fields: telling their order would take memory."""


class SyntaxProblemError(ValueError):
    """A body that cannot be read; the text is that of Go's decoder."""


def decode_json(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a JSON text, and its duplicates: ``duplicate field "data.a"``; the last one counts.

    Raises SyntaxProblemError.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SyntaxProblemError(syntax_error(body) or str(error)) from None
    except RecursionError:
        raise SyntaxProblemError("exceeded max depth") from None
    if is_text_too_deep(body, value):
        raise SyntaxProblemError("exceeded max depth")
    # What is written again the same has lost no member. (Most bodies are; those with other escapes are looked at.)
    if msgspec.json.format(body, indent=-1) == msgspec.json.encode(value):
        return value, ()
    return value, _duplicates(body)


def _duplicates(body: bytes) -> tuple[str, ...]:
    found = False

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        members = dict(pairs)
        found = found or len(members) != len(pairs)
        return members

    try:
        json.loads(body, object_pairs_hook=look)
        if not found:
            return ()
        problems: list[str] = []
        seen: list[str] | None = [] if len(body) <= _ORDERED_BYTES else None
        _walk(json.loads(body, object_pairs_hook=_Pairs), "", problems, seen)
    except (ValueError, RecursionError):
        return ()  # the value has been read all the same: only this telling has found its limits
    return tuple(problems)


class _Pairs:
    """An object with all its members, repeated ones too."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def in_document_order(problems: Sequence[str]) -> Sequence[str]:
    """Return duplicate and unknown fields in the order in which a reader of the document meets them.

    The duplicates know what precedes them, unless the body was large; then they come first.
    """
    order = next((one.order for one in problems if isinstance(one, DuplicateField)), None)
    if order is None:
        return problems
    places = {path: place for place, path in reversed(list(enumerate(order)))}

    def place(problem: str) -> int:
        if isinstance(problem, DuplicateField):
            return problem.place
        return places.get(problem.removeprefix('unknown field "').removesuffix('"'), len(places))

    return sorted(problems, key=place)


class DuplicateField(str):
    """The text of a problem, and where in the document it is."""

    __slots__ = ("order", "place")

    order: list[str] | None
    """All members of the document, in order."""
    place: int
    """The position there of the second one."""


def _duplicate(member: str, order: list[str] | None) -> DuplicateField:
    problem = DuplicateField(f'duplicate field "{member}"')
    problem.order, problem.place = order, len(order or ())
    return problem


def _walk(value: Any, path: str, problems: list[str], order: list[str] | None) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", problems, order)
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        told: set[str] = set()
        for name, item in value.pairs:
            member = f"{path}.{name}" if path else name
            if name in seen and name not in told and len(problems) < MAX_PROBLEMS:
                told.add(name)
                problems.append(_duplicate(member, order))
            seen.add(name)
            if order is not None:
                order.append(member)
            _walk(item, member, problems, order)
