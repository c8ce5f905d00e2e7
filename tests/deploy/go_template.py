"""The part of Helm's templates that deploy/chart uses, and no more: what is not known here raises, so the chart stays within it.

Actions: ``if`` / ``else`` / ``with`` / ``define`` / ``end``, ``include``, comments, ``{{-`` and ``-}}``; paths from the dot; texts, whole
numbers, parentheses, pipes; the functions of :data:`FUNCTIONS`. tests/deploy/test_chart.py holds it against Helm itself where
there is one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(\|)|([()])|(-?\d+)|(\.[\w.]*)|(\w+))')

Node = str | tuple[str, Any, list[Any], list[Any]]


class TemplateError(Exception):
    """Something that is not part of the subset, or does not fit together."""


def _to_yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=False, sort_keys=True, width=10_000)
    return text.removesuffix("...\n").rstrip("\n")


def _indent(width: int, text: str) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))


def is_true(value: Any) -> bool:
    """Tell what Go's templates take for true: what is not empty, not zero, not missing."""
    return bool(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quote": lambda value: json.dumps(str(value)),
    "printf": lambda form, *values: form % values,
    "default": lambda other, value: value if is_true(value) else other,
    "int": int,
    "eq": lambda one, other: one == other,
    "gt": lambda one, other: one > other,
    "not": lambda value: not is_true(value),
    "and": lambda *values: next((value for value in values if not is_true(value)), values[-1]),
    "toYaml": _to_yaml,
    "nindent": lambda width, text: "\n" + _indent(width, text),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
}


class Chart:
    """A chart, rendered as ``helm template`` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chart: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text())
        self.values: dict[str, Any] = yaml.safe_load((folder / "values.yaml").read_text())
        self.used: set[str] = set()
        """The paths that templates have asked for."""
        self._defined: dict[str, list[Node]] = {}
        for path in sorted((folder / "templates").glob("*.tpl")):
            self._run(parse(path.read_text()), {})

    def render(self, release: str, namespace: str, values: dict[str, Any] | None = None) -> dict[str, str]:
        """Return the text of each template, by the name of its file."""
        about = {"Name": "name", "Version": "version", "AppVersion": "appVersion"}
        dot = {
            "Values": merged(self.values, values or {}),
            "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
            "Chart": {name: self.chart[key] for name, key in about.items()},
        }
        folder = self.folder / "templates"
        paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".yaml", ".txt")]
        return {path.name: self._run(parse(path.read_text()), dot) for path in paths}

    def documents(
        self, release: str, namespace: str, values: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the objects, as they would be applied."""
        texts = self.render(release, namespace, values)
        return [
            document
            for name, text in texts.items()
            if name.endswith(".yaml")
            for document in yaml.safe_load_all(text)
            if document
        ]

    # ------------------------------------------------------------------------------------------ running

    def _run(self, nodes: Sequence[Node], dot: Any) -> str:
        return "".join(node if isinstance(node, str) else self._act(node, dot) for node in nodes)

    def _act(self, node: tuple[str, Any, list[Any], list[Any]], dot: Any) -> str:
        what, tokens, body, otherwise = node
        if what == "define":
            self._defined[json.loads(tokens[0])] = body
            return ""
        value = self._pipeline(list(tokens), dot)
        if what == "print":
            return _printed(value)
        if not is_true(value):
            return self._run(otherwise, dot)
        return self._run(body, value if what == "with" else dot)

    def _pipeline(self, tokens: list[str], dot: Any) -> Any:
        stages: list[list[str]] = [[]]
        depth = 0
        for token in tokens:
            depth += (token == "(") - (token == ")")
            if token == "|" and not depth:
                stages.append([])
            else:
                stages[-1].append(token)
        value: Any = None
        for number, stage in enumerate(stages):
            value = self._command(stage, dot, [value] if number else [])
        return value

    def _command(self, tokens: list[str], dot: Any, last: list[Any]) -> Any:
        head, rest = tokens[0], tokens[1:]
        if head == ".Files.Get":
            return (self.folder / self._operands(rest, dot)[0]).read_text()
        if not head[0].isalpha():
            (value,) = self._operands(tokens, dot)
            return value
        arguments = [*self._operands(rest, dot), *last]
        if head == "include":
            name, context = arguments
            if name not in self._defined:
                raise TemplateError(f"no template is defined as {name!r}")
            return self._run(self._defined[name], context)
        if head not in FUNCTIONS:
            raise TemplateError(f"the function {head!r} is not part of the subset")
        return FUNCTIONS[head](*arguments)

    def _operands(self, tokens: list[str], dot: Any) -> list[Any]:
        found: list[Any] = []
        while tokens:
            token, tokens = tokens[0], tokens[1:]
            if token == "(":
                end = _closing(tokens)
                found.append(self._pipeline(tokens[:end], dot))
                tokens = tokens[end + 1 :]
            elif token[0] == ".":
                found.append(self._path(token, dot))
            elif token[0] == '"':
                found.append(json.loads(token))
            else:
                found.append(int(token))
        return found

    def _path(self, path: str, dot: Any) -> Any:
        self.used.add(path)
        value = dot
        for name in path.split("."):
            if name:
                if not isinstance(value, dict):
                    raise TemplateError(f"{path}: nothing is known by {name!r} here")
                value = value.get(name)
        return value


def _printed(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _closing(tokens: list[str]) -> int:
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if depth < 0:
            return number
    raise TemplateError("a parenthesis is not closed")


def parse(text: str) -> list[Node]:
    """Return the nodes of a template."""
    pieces: list[str | list[str]] = []
    position = 0
    trims = False
    for action in _ACTION.finditer(text):
        literal = text[position : action.start()]
        literal = literal.lstrip() if trims else literal
        pieces.append(literal.rstrip() if action[1] else literal)
        if not action[2].startswith("/*"):
            pieces.append(_tokens(action[2]))
        position, trims = action.end(), bool(action[3])
    pieces.append(text[position:].lstrip() if trims else text[position:])
    nodes, rest = _block(pieces)
    if rest:
        raise TemplateError("an end too many")
    return nodes


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise TemplateError(f"{text[position:]!r} is not part of the subset")
        found.append(token[0].strip())
        position = token.end()
    return found


def _block(pieces: list[str | list[str]]) -> tuple[list[Node], list[str | list[str]]]:
    """Return the nodes up to an ``end`` or ``else``, and what is left, beginning with that."""
    nodes: list[Node] = []
    while pieces:
        piece, pieces = pieces[0], pieces[1:]
        if isinstance(piece, str):
            nodes.append(piece)
        elif piece[0] in ("end", "else"):
            if len(piece) > 1:
                raise TemplateError("else if is not part of the subset")
            return nodes, [piece, *pieces]
        elif piece[0] in ("if", "with", "define"):
            body, pieces = _block(pieces)
            otherwise: list[Node] = []
            if pieces and pieces[0] == ["else"]:
                otherwise, pieces = _block(pieces[1:])
            if not pieces:
                raise TemplateError(f"{piece} has no end")
            pieces = pieces[1:]
            nodes.append((piece[0], piece[1:], body, otherwise))
        else:
            nodes.append(("print", piece, [], []))
    return nodes, []


def merged(default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return values with others over them, as Helm does: mappings are merged, anything else is replaced."""
    both = dict(default)
    for key, value in given.items():
        before = both.get(key)
        both[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return both
