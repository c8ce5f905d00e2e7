r"""JSONPath as far as columns and selectable fields use it: members, indexes, ``[*]``, slices, filters, ``..``.

``.spec.replicas``, ``.status.conditions[?(@.type=="Ready")].status``, ``.metadata.annotations['example\.com/a']``.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_NAME = re.compile(r"(?:[^\s.\[\]\\]|\\.)+")
_QUOTED = re.compile(r"\[\s*(['\"])(.*?)(?<!\\)\1\s*\]")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_SLICE = re.compile(r"\[\s*(-?\d*)\s*:\s*(-?\d*)\s*\]")
_ANY = re.compile(r"\[\s*\*\s*\]|\.\*|(?<=^)\*")
_FILTER = re.compile(r"\[\?\(\s*(.*?)\s*\)\]")
_COMPARISON = re.compile(r"@(.*?)\s*(==|!=|<=|>=|<|>)\s*(.+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


class JsonPathError(ValueError):
    """A path that cannot be read; the text says where."""


class JsonPath:
    """One path, read once. ``find`` never fails: what is not there is not found."""

    def __init__(self, text: str) -> None:
        self._steps = _parsed(text)

    def find(self, document: Any) -> list[Any]:
        """Return all that the path leads to, in order."""
        found = [document]
        for step in self._steps:
            found = [result for value in found for result in step(value)]
        return found

    def first(self, document: Any) -> Any:
        """Return the first that the path leads to, ``None`` where there is nothing."""
        found = self.find(document)
        return found[0] if found else None


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath:
    """Return the path of a text, read once for all. Raises JsonPathError."""
    return JsonPath(text)


def _parsed(text: str) -> Sequence[Step]:
    steps: list[Step] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        if text.startswith("..", at):
            steps.append(_below)
            at += 1 if text[at + 2 : at + 3] not in ("", "[") else 2
            continue
        if text == ".":
            break
        at = _one_step(text, at, steps)
    return tuple(steps)


def _one_step(text: str, at: int, steps: list[Step]) -> int:
    if found := _ANY.match(text, at):
        steps.append(_all)
    elif found := _QUOTED.match(text, at):
        steps.append(_member(_plain(found[2])))
    elif found := _INDEX.match(text, at):
        steps.append(_at(int(found[1])))
    elif found := _SLICE.match(text, at):
        steps.append(_part(found[1], found[2]))
    elif found := _FILTER.match(text, at):
        steps.append(_where(found[1]))
    else:
        start = at + 1 if text[at] == "." else at
        found = _NAME.match(text, start)
        if found is None:
            raise JsonPathError(f"{text!r} cannot be read from {text[at:]!r} on")
        steps.append(_member(_plain(found[0])))
    return found.end()


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _member(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _at(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _part(begin: str, end: str) -> Step:
    wanted = slice(int(begin) if begin else None, int(end) if end else None)
    return lambda value: value[wanted] if isinstance(value, list) else ()


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _below(value: Any) -> Iterable[Any]:
    yield value
    for inner in _all(value):
        yield from _below(inner)


def _where(condition: str) -> Step:
    compared = _COMPARISON.fullmatch(condition)
    if compared is None:
        path = JsonPath(condition.removeprefix("@"))
        return lambda value: [item for item in _all(value) if path.find(item)]
    path, operator, wanted = JsonPath(compared[1]), compared[2], _literal(compared[3])

    def holds(item: Any) -> bool:
        for found in path.find(item):
            try:
                return _COMPARE[operator](found, wanted)
            except TypeError:
                return False
        return False

    return lambda value: [item for item in _all(value) if holds(item)]


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _plain(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JsonPathError(f"{text!r} is no value to compare with") from None
