r"""The JSONPath subset for columns and selectable fields: members, indexes, ``[*]``, slices, filters, ``..``.

``.spec.replicas``, ``.status.conditions[?(@.type=="Ready")].status``,
``.metadata.annotations['example\.com/a']``.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

MAX_PATH_CHARACTERS = 1024
MAX_VISITED_VALUES = 2_000
"""The maximum number of values that one evaluation visits. Repeated ``..*`` is exponential in the number of steps."""


class _Visits:
    """Counts the values that an evaluation visits."""

    def __init__(self) -> None:
        self.left = MAX_VISITED_VALUES

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyVisitsError


class _TooManyVisitsError(Exception):
    """An evaluation has visited too many values."""


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
    """An invalid path; the text names the position."""


class JsonPath:
    """A parsed path. ``find`` never fails: missing values are skipped.

    Raises JsonPathError for an invalid path, or one longer than ``MAX_PATH_CHARACTERS``.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATH_CHARACTERS:
            raise JsonPathError(
                f"the path has {len(text)} characters: at most {MAX_PATH_CHARACTERS} are read"
            )
        self._steps = _parsed(text)

    def find(self, document: Any) -> list[Any]:
        """Return all matches in order, each object and list once.

        Empty if the evaluation visits more than ``MAX_VISITED_VALUES`` values.
        """
        try:
            return self.find_within(document, _Visits())
        except _TooManyVisitsError:
            return []

    def find_within(self, document: Any, visits: _Visits) -> list[Any]:
        """Evaluate like :meth:`find`, as part of another evaluation. Raises _TooManyVisitsError."""
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
        """Return the first match, or ``None``."""
        found = self.find(document)
        return found[0] if found else None


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath:
    """Parse a path; results are cached. Raises JsonPathError."""
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
            raise JsonPathError(f"{text!r} is invalid from {text[at:]!r} on")
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
    """Mark the step ``..``, which :func:`_descend` evaluates with the values that the step has visited."""
    return ()


def _descend(value: Any, visits: _Visits, seen: set[int], results: list[Any]) -> None:
    """Append a value and its descendants in preorder; visited values were appended with their descendants.

    Iterative, because values may be deep.
    """
    waiting = [value]
    while waiting:
        visits.count()
        value = waiting.pop()
        if _is_first(value, seen):
            results.append(value)
            waiting.extend(reversed(list(_inner(value))))


def _is_first(value: Any, seen: set[int]) -> bool:
    """Return whether an object or list is new, and record it; scalars always count."""
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
        raise JsonPathError(f"{text!r} is not a value to compare with") from None
