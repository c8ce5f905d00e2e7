"""YAML as kubectl and kube-apiserver read it: the values of Go's YAML library, as JSON.

``y`` and ``yes`` are true, ``0777`` is 511, ``1_000.5`` is a number; dates, times of day and ``=`` are
strings; keys are strings; ``.inf`` is refused because JSON cannot represent it. Depth, size and alias
expansion are bounded for any input, and no code here recurses over the input.
"""

import base64
import binascii
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NO_JSON = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{f"{sign}.{word}": math.inf for sign in ("", "+") for word in ("inf", "Inf", "INF")},
    **{f"-.{word}": -math.inf for word in ("inf", "Inf", "INF")},
}
_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (2, 16, 8, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_INTEGER = 70
"""Length of the longest 64-bit number: in binary, with a sign and a prefix."""

_TAG = "tag:yaml.org,2002:"
_MERGE = object()
_UNSET = object()


class YamlError(ValueError):
    """Invalid YAML, exceeded limits, or a value that JSON cannot represent; one line that quotes no value."""

    def __init__(self, problem: str, line: int | None = None, *, context: str = "") -> None:
        self.reason = problem
        """The problem without the parser's context."""
        self.problem = f"{context} {problem}" if context else problem
        self.line = line
        super().__init__(self.problem if line is None else f"line {line}: {self.problem}")


class Limits(msgspec.Struct, frozen=True):
    """Limits on the size and complexity of a document."""

    max_bytes: int = 128 * 1024 * 1024
    max_depth: int = 300
    max_written_values: int = 20_000_000
    max_values_from_aliases: int = 100_000
    """Values that aliases may add to the literal ones; nested aliases grow exponentially."""


DEFAULT_LIMITS = Limits()


class Document(msgspec.Struct, frozen=True):
    """One document of a stream."""

    line: int
    value: Any
    duplicates: tuple[tuple[int, str], ...] = ()
    """Duplicate keys of a mapping, with the line of the second; the last value wins. At most 100."""
    key_lines: dict[str, int] = {}
    """The line of each key of the top-level mapping."""


def read_documents(text: bytes | str, limits: Limits = DEFAULT_LIMITS) -> Iterator[Document]:
    """Read the documents of a stream one by one; the value of an empty document is None.

    Raises :class:`YamlError` if the next document is invalid.
    """
    if len(text) > limits.max_bytes:
        raise YamlError(f"this is larger than {limits.max_bytes} bytes")
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_event():
            if isinstance(loader.get_event(), yaml.DocumentStartEvent):
                yield _DocumentReader(limits).document(loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        if error.problem is None:
            raise YamlError(error.context or "it cannot be read", line) from None
        raise YamlError(error.problem, line, context=error.context or "") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(str(error).splitlines()[0]) from None
    finally:
        if loader is not None:
            loader.dispose()


def read_document(text: bytes | str, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Read the first document of a stream, None if it is empty. Raises :class:`YamlError`."""
    documents = read_documents(text, limits)
    try:
        return next(documents, Document(1, None))
    finally:
        documents.close()  # type: ignore[attr-defined] # it is a generator


class _Frame:
    """A collection under construction."""

    __slots__ = ("anchor", "count", "depth", "key", "line", "own", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.count = 1
        self.depth = 1
        self.key: Any = _UNSET
        self.line = 0
        self.own: dict[str, int] = {}
        """The lines of the literal keys, without merged ones."""


class _Anchored(msgspec.Struct, frozen=True):
    """The value of an anchor, with its number of values and its depth."""

    value: Any
    count: int
    depth: int


class _DocumentReader:
    """Builds one document from parser events."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._written = 0
        self._from_aliases = 0
        self._anchors: dict[str, _Anchored | None] = {}
        """None while the value of the anchor is being read."""
        self._duplicates: list[tuple[int, str]] = []
        self._key_lines: dict[str, int] = {}

    def document(self, loader: Any) -> Document:
        """Return the document whose start event has been consumed."""
        stack: list[_Frame] = []
        line = 0
        while True:
            event = loader.get_event()
            at = event.start_mark.line + 1
            line = line or at
            if isinstance(event, yaml.CollectionEndEvent):
                frame = stack.pop()
                done = _Anchored(frame.value, frame.count, frame.depth)
                if frame.anchor is not None:
                    self._anchors[frame.anchor] = done
                self._key_lines = frame.own
            elif isinstance(event, yaml.CollectionStartEvent):
                self._count_written(at)
                if len(stack) >= self._limits.max_depth:
                    raise YamlError("exceeded max depth", at)
                if stack and isinstance(stack[-1].value, dict) and stack[-1].key is _UNSET:
                    raise YamlError("a key must be a string", at)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                stack.append(_Frame({} if is_mapping else [], event.anchor))
                if event.anchor is not None:
                    self._anchors[event.anchor] = None
                continue
            elif isinstance(event, yaml.AliasEvent):
                done = self._aliased(event.anchor, at, len(stack))
            else:
                self._count_written(at)
                is_key = bool(stack) and isinstance(stack[-1].value, dict) and stack[-1].key is _UNSET
                done = _Anchored(_scalar(event, at, is_key=is_key), 1, 0)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (
                        _Anchored(event.value, 1, 0) if done.value is _MERGE else done
                    )
            if not stack:
                return Document(line, done.value, tuple(self._duplicates), self._key_lines)
            self._add(stack[-1], done, at)

    def _count_written(self, line: int) -> None:
        self._written += 1
        if self._written > self._limits.max_written_values:
            raise YamlError(f"there are more than {self._limits.max_written_values} values", line)

    def _aliased(self, anchor: str | None, line: int, depth: int) -> _Anchored:
        if anchor is None or anchor not in self._anchors:
            raise YamlError("found undefined alias", line)
        found = self._anchors[anchor]
        if found is None:
            raise YamlError("an anchor contains itself", line)
        self._from_aliases += found.count
        if self._from_aliases > self._limits.max_values_from_aliases:
            raise YamlError("document contains excessive aliasing", line)
        if depth + found.depth > self._limits.max_depth:
            raise YamlError("exceeded max depth", line)
        return _Anchored(_copied(found.value), found.count, found.depth)

    def _add(self, frame: _Frame, done: _Anchored, line: int) -> None:
        frame.count += done.count
        frame.depth = max(frame.depth, done.depth + 1)
        if isinstance(frame.value, list):
            frame.value.append(done.value)
        elif frame.key is _UNSET:
            frame.key = _MERGE if done.value is _MERGE else _key_text(done.value, line)
            frame.line = line
        else:
            key, frame.key = frame.key, _UNSET
            if key is _MERGE:
                _merge(frame.value, done.value, line)
                return
            if key in frame.own and len(self._duplicates) < 100:
                self._duplicates.append((frame.line, key))
            frame.own[key] = frame.line
            frame.value[key] = done.value


def _merge(into: dict[str, Any], value: Any, line: int) -> None:
    """Merge like Go's library: in place, so that a later key wins; in a list, the first mapping wins."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise YamlError("map merge requires map or sequence of maps as the value", line)
    for part in reversed(parts):
        into.update(part)


def _copied(value: Any) -> Any:
    """Copy a value, so that two places never share it; the depth is within the limit."""
    if isinstance(value, dict):
        made = {}
        for key, item in value.items():
            made[key] = _copied(item) if isinstance(item, dict | list) else item
        return made
    if isinstance(value, list):
        items = []
        for item in value:
            items.append(_copied(item) if isinstance(item, dict | list) else item)  # noqa: PERF401 - one frame a level
        return items
    return value


def _key_text(key: Any, line: int) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        special = {math.inf: ".inf", -math.inf: "-.inf"}.get(key, ".nan" if math.isnan(key) else "")
        return special or repr(key).removesuffix(".0")
    raise YamlError("a key must be a string", line)


def _scalar(event: Any, line: int, *, is_key: bool) -> Any:
    text, tag = event.value, event.tag
    if tag is None or tag == "!":
        if tag == "!" or not event.implicit[0]:
            return text
        value = _MERGE if is_key and text == "<<" else _plain(text)
    elif tag == f"{_TAG}binary":
        try:
            return base64.b64decode(text).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise YamlError("!!binary value contains invalid base64 data", line) from None
    elif tag == f"{_TAG}merge":
        value = _MERGE if is_key else text
    elif tag in _CHECKS:
        value = _plain(text)
        if tag == f"{_TAG}float" and type(value) is int:
            value = float(value)
        if not isinstance(value, _CHECKS[tag]) or (tag == f"{_TAG}int" and isinstance(value, bool)):
            raise YamlError(f"a value is not the !!{tag.removeprefix(_TAG)} that it is marked as", line)
    else:
        return text
    if isinstance(value, float) and not math.isfinite(value) and not is_key:
        raise YamlError(f"json: unsupported value: {text}", line)
    return value


_CHECKS: dict[str, Any] = {
    f"{_TAG}int": int,
    f"{_TAG}float": float,
    f"{_TAG}bool": bool,
    f"{_TAG}null": type(None),
}


def _plain(text: str) -> Any:
    """Return the value of an untagged plain scalar."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NO_JSON:
        return _NO_JSON[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer is not None and len(digits) <= _LONGEST_INTEGER:
        for base, found in zip(_BASES, integer.groups()[1:], strict=True):
            if found is not None:
                value = int(found, base) * (-1 if integer[1] == "-" else 1)
                if -(2**63) <= value < 2**64:
                    return value
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return number if math.isfinite(number) else text
    return text
