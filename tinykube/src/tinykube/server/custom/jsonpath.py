r"""JSONPath as far as columns and selectable fields use it: members, indexes, ``[*]``, slices, filters, ``..``.

``.spec.replicas``, ``.status.conditions[?(@.type=="Ready")].status``, ``.metadata.annotations['example\.com/a']``.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

MAX_PATH_CHARACTERS = 1024
MAX_VISITED_VALUES = 2_000
"""What one evaluation may look at. ``..*`` several times over visits a document's values to the power of its steps."""


class _Visits:
    """Counts the values that an evaluation looks at."""

    def __init__(self) -> None:
        self.left = MAX_VISITED_VALUES

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyVisitsError


class _TooManyVisitsError(Exception):
    """An evaluation has looked at too many values."""


Step = Callable[[Any, _Visits], Iterable[Any]]

_NAME = re.compile(r"(?:[^\s.\[\]\\]|\\.)+")
_QUOTED = re.compile(r"\[\s*(['\"])(.*?)(?<!\\)\1\s*\]")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_SLICE = re.compile(r"\[\s*(-?\d*)\s*:\s*(-?\d*)\s*\]")
_ANY = re.compile(r"\[\s*\*\s*\]|\.\*|(?<=^)\*")
_FILTER = re.compile(r"\[\?\((.*?)\)\]")
_COMPARISON = re.compile(r"@(.*?)(==|!=|<=|>=|<|>)(.+)")
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
    """One path, parsed once. ``find`` never fails: what is not there is not found.

    Raises JsonPathError for a path that cannot be parsed, or is longer than ``MAX_PATH_CHARACTERS``.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATH_CHARACTERS:
            raise JsonPathError(
                f"the path has {len(text)} characters: at most {MAX_PATH_CHARACTERS} are read"
            )
        self._steps = _parsed(text)

    def find(self, document: Any) -> list[Any]:
        """Return all that the path leads to, in order, each object and list once.

        Empty if that takes a look at more than ``MAX_VISITED_VALUES`` values.
        """
        try:
            return self.find_within(document, _Visits())
        except _TooManyVisitsError:
            return []

    def find_within(self, document: Any, visits: _Visits) -> list[Any]:
        """Return the same as :meth:`find`, as part of another evaluation. Raises _TooManyVisitsError."""
        found = [document]
        for step in self._steps:
            results: list[Any] = []
            seen: set[int] = set()
            for value in found:
                if step is _below:
                    _descend(value, visits, seen, results)
                    continue
                for result in step(value, visits):
                    visits.count()
                    if _is_first(result, seen):
                        results.append(result)
            found = results
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
        steps.append(_where(found[1].strip()))
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
    return lambda value, visits: (value[name],) if isinstance(value, dict) and name in value else ()


def _at(index: int) -> Step:
    def step(value: Any, visits: _Visits) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _part(begin: str, end: str) -> Step:
    wanted = slice(int(begin) if begin else None, int(end) if end else None)
    return lambda value, visits: value[wanted] if isinstance(value, list) else ()


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _all(value: Any, visits: _Visits) -> Iterable[Any]:
    return _inner(value)


def _below(value: Any, visits: _Visits) -> Iterable[Any]:
    """Mark the step ``..``: it is evaluated by :func:`_descend`, which has to know what this step has seen."""
    return ()


def _descend(value: Any, visits: _Visits, seen: set[int], results: list[Any]) -> None:
    """Add a value and all below it, from the top down; what was seen in this step was added with all below it.

    Without recursion, as values may be deep.
    """
    waiting = [value]
    while waiting:
        visits.count()
        value = waiting.pop()
        if _is_first(value, seen):
            results.append(value)
            waiting.extend(reversed(list(_inner(value))))


def _is_first(value: Any, seen: set[int]) -> bool:
    """Return whether an object or list was not seen yet, and note it; of other values each counts."""
    if isinstance(value, dict | list):
        if id(value) in seen:
            return False
        seen.add(id(value))
    return True


def _where(condition: str) -> Step:
    compared = _COMPARISON.fullmatch(condition)
    if compared is None:
        path = JsonPath(condition.removeprefix("@"))
        return lambda value, visits: _filtered(value, visits, lambda item: path.find_within(item, visits))
    path, operator, wanted = JsonPath(compared[1].strip()), compared[2], _literal(compared[3].strip())

    def holds(found: Sequence[Any]) -> bool:
        try:
            return bool(found) and _COMPARE[operator](found[0], wanted)
        except TypeError:
            return False

    return lambda value, visits: _filtered(value, visits, lambda item: holds(path.find_within(item, visits)))


def _filtered(value: Any, visits: _Visits, holds: Callable[[Any], object]) -> Iterable[Any]:
    for item in _inner(value):
        visits.count()
        if holds(item):
            yield item


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _plain(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JsonPathError(f"{text!r} is no value to compare with") from None
