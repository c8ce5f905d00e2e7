"""YAML as a server reads it: the values of YAML 1.1 as Go's library has them, turned into what JSON can say.

``yes`` and ``y`` are true and ``0777`` is 511; dates, times of day and ``=`` are strings; ``1e3`` is a number; keys become strings.
Only the first document of a stream is read. A key that is given twice is told.
"""

import base64
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from endpointd.apiserver.schema.depth import MAX_DEPTH

_MAX_VALUES_FROM_ALIASES = 100_000
"""How many values a body may have for each that is written out: aliases of aliases grow without end."""

_MAX_WRITTEN_VALUES = 250_000
"""How many values a body may write out: about four seconds of work. What fits into an object has fewer."""

_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlProblemError(ValueError):
    """A body that is no YAML, or holds what JSON cannot say."""


class _BodyLoader(_Loader):  # type: ignore[misc] # the C loader has no types
    """A loader with resolvers of its own; it never makes objects of classes."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's way to be told
        first: [
            (tag, form)
            for tag, form in resolvers
            if tag
            not in (
                "tag:yaml.org,2002:timestamp",
                "tag:yaml.org,2002:value",
                "tag:yaml.org,2002:int",
                "tag:yaml.org,2002:float",
            )
        ]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }


_BodyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(
        r"[-+]?(?:0b[0-1_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$",
    ),
    list("-+0123456789"),
)
_BodyLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_BodyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def decode_yaml(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the value of the first document, and the duplicates: ``line 3: key "a" already set in map``.

    Raises YamlProblemError, in one line, with the place.
    """
    loader: Any = None
    try:
        _check_size(body)
        loader = _BodyLoader(body)
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None, ()
        builder = _Builder(loader, len(body) + _MAX_VALUES_FROM_ALIASES)
        value = builder.build(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlProblemError(f"yaml: {where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise YamlProblemError(f"yaml: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise YamlProblemError("yaml: exceeded max depth") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not builder.duplicates:
        return value, ()
    return value, ("yaml: unmarshal errors:\n  " + "\n  ".join(builder.duplicates),)


def _check_size(body: bytes) -> None:
    """Raise YamlProblemError for what is nested too deeply (the C library would end the process over it), or too much."""
    loader = _BodyLoader(body)
    depth = values = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.NodeEvent):
                values += 1
                if values > _MAX_WRITTEN_VALUES:
                    raise YamlProblemError(
                        f"yaml: document has more than {_MAX_WRITTEN_VALUES} values: send it as JSON, or make it smaller"
                    )
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise YamlProblemError("yaml: exceeded max depth")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentEndEvent):
                return
    finally:
        loader.dispose()


class _Builder:
    """Makes JSON values of nodes; each is made anew, so that nothing is shared between places."""

    def __init__(self, loader: Any, limit: int) -> None:
        self._loader = loader
        self._left = limit
        self._above: set[int] = set()
        self.duplicates: list[str] = []

    def build(self, node: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise YamlProblemError("yaml: document contains excessive aliasing")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._above:
            raise YamlProblemError("yaml: an anchor contains itself")
        self._above.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self.build(item) for item in node.value]
        else:
            value = self._mapping(node)
        self._above.discard(id(node))
        return value

    def _mapping(self, node: Any) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merges: list[dict[str, Any]] = []
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merges.append(self._merged(value_node))
                continue
            key = _key_text(self.build(key_node))
            if key in own and len(self.duplicates) < 100:
                line = key_node.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{key}" already set in map')
            own[key] = self.build(value_node)
        if not merges:
            return own
        merges.reverse()  # of several, the first one counts
        return {**_joined(merges), **own}

    def _merged(self, node: Any) -> dict[str, Any]:
        value = self.build(node)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise YamlProblemError("yaml: map merge requires map or sequence of maps as the value")
        return _joined(reversed(parts))

    def _scalar(self, node: Any) -> Any:
        if node.tag == "tag:yaml.org,2002:int":
            return _integer(node.value)
        if node.tag == "tag:yaml.org,2002:binary":
            return base64.b64decode(node.value).decode("utf-8", "replace")
        if node.tag.startswith("tag:yaml.org,2002:"):
            kind = node.tag.rpartition(":")[2]
            if kind == "bool":
                return node.value.lower() in ("y", "yes", "true", "on")
            if kind in ("null", "float"):
                value = self._loader.construct_object(node)
                if isinstance(value, float) and not math.isfinite(value):
                    raise YamlProblemError(f"json: unsupported value: {node.value}")
                return value
        return node.value


def _joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for part in parts:
        joined.update(part)
    return joined


_LONGEST_INTEGER = 80
"""Characters of the longest number that can have 64 bits: in binary, with a sign and underscores."""


def _integer(text: str) -> float | str:
    """Return the number. As in Go, one of more than 64 bits is a float if it is written in decimal, else a text."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    try:
        if len(digits) <= _LONGEST_INTEGER:
            base = 8 if len(digits) > 1 and digits.startswith("0") else 10
            value = sign * int(digits, 0 if digits.startswith(("0x", "0b", "0o")) else base)
            if -(2**63) <= value < 2**64:
                return value
        number = sign * float(digits)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return f"{key:g}"
    if isinstance(key, int):
        return str(key)
    raise YamlProblemError("yaml: a key of a map is neither text nor a number")
