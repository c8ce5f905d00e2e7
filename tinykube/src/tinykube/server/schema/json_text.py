"""JSON as a server reads it: what is wrong is told in the words of Go's decoder, and a key given twice is seen."""

import json
from typing import Any

import msgspec

from tinykube.server.schema.depth import is_text_too_deep
from tinykube.server.schema.go_json import syntax_error

MAX_PROBLEMS = 100
"""How many duplicates are told; a body could hold a million."""


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
        _walk(json.loads(body, object_pairs_hook=_Pairs), "", problems)
    except (ValueError, RecursionError):
        return ()  # the value has been read all the same: only this telling has found its limits
    return tuple(problems)


class _Pairs:
    """An object with all its members, repeated ones too."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _walk(value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", problems)
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        told: set[str] = set()
        for name, item in value.pairs:
            member = f"{path}.{name}" if path else name
            if name in seen and name not in told and len(problems) < MAX_PROBLEMS:
                told.add(name)
                problems.append(f'duplicate field "{member}"')
            seen.add(name)
            _walk(item, member, problems)
