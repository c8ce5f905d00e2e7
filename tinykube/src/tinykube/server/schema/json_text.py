"""Decode JSON with the error messages of Go's decoder, and detect duplicate keys."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from tinykube.server.schema.depth import is_text_too_deep
from tinykube.server.schema.go_json import syntax_error

MAX_PROBLEMS = 100
"""The maximum number of reported duplicates; a body could hold a million."""


_ORDERED_BYTES = 16 * 1024
"""Of larger bodies the duplicates come before the unknown fields: telling their order would take memory."""


class SyntaxProblemError(ValueError):
    """A malformed body; the text is that of Go's decoder."""


def decode_json(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a JSON text, and its duplicates: ``duplicate field "data.a"``; the last value wins.

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
    # If re-encoding gives the same text, no member was lost. Texts with other escapes take the slow path.
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
        return ()  # decoding has succeeded; only the search for duplicates has hit its limits
    return tuple(problems)


class _Pairs:
    """An object with all its members, including duplicates."""

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
        reported: set[str] = set()
        for name, item in value.pairs:
            member = f"{path}.{name}" if path else name
            if name in seen and name not in reported and len(problems) < MAX_PROBLEMS:
                reported.add(name)
                problems.append(_duplicate(member, order))
            seen.add(name)
            if order is not None:
                order.append(member)
            _walk(item, member, problems, order)
