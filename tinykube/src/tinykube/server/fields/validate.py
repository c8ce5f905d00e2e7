"""Validate an applied document against its type, with kube-apiserver's messages."""

from typing import Any

from tinykube.server.fields.elements import format_element
from tinykube.server.fields.nodes import EntryError, ListNode, MapNode, Node, ScalarNode

_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


class _Found(list[str]):
    """The problems found. ``allows_duplicates``: duplicate list entries are allowed."""

    allows_duplicates = False


def problems(node: Node, document: Any, *, twice: bool = False) -> list[str]:
    """Return the problems of a document to apply: unknown fields, wrong types, missing keys, duplicate entries.

    ``twice``: duplicate entries are allowed, as in stored objects.
    """
    found = _Found()
    found.allows_duplicates = twice
    _check(node, document, "", found)
    return found


def problem_text(found: list[str]) -> str:
    """Format problems as one text."""
    return found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {one}" for one in found)])


def _with_path(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _check(node: Node, value: Any, path: str, found: _Found) -> None:
    if value is None:
        return
    if isinstance(node, ScalarNode):
        text = _scalar_problem(node.kind, value)
        if text:
            found.append(_with_path(path, text))
    elif node.is_untyped and not isinstance(value, dict):
        return
    elif isinstance(node, MapNode):
        if not isinstance(value, dict):
            found.append(_with_path(path, f"expected map, got {_held(value)}"))
            return
        for name, inner in value.items():
            known = node.item(name)
            if known is None:
                found.append(f"{path}.{name}: field not declared in schema")
                return
            _check(known[1], inner, f"{path}.{name}", found)
    elif isinstance(node, ListNode):
        if not isinstance(value, list):
            found.append(_with_path(path, f"expected list, got {_held(value)}"))
            return
        _check_entries(node, value, path, found)


def _check_entries(node: ListNode, entries: list[Any], path: str, found: _Found) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if node.is_atomic:
            step = f"[{index}]"
        else:
            try:
                element = node.element(entry)
            except EntryError as error:
                found.append(_with_path(path, f"element {index}: {error}"))
                return
            step = format_element(element)
            if element in seen and not found.allows_duplicates:
                found.append(_with_path(path, f"duplicate entries for key {step}"))
            seen.add(element)
        _check(node.entry, entry, path + step, found)


def _scalar_problem(kind: str, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got {_held(value)}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got {_held(value)}"
    return ""


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "map[string]interface {}")


def _held(value: Any) -> str:
    return f"&{{{_shown(value)}}}"


def _shown(value: Any) -> str:
    """Format a value as Go prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_shown(item)}" for name, item in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_shown, value)) + "]"
    return "<nil>" if value is None else str(value)


def _go_value(value: Any) -> str:
    """Format a value in Go syntax."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}":{_go_value(item)}' for name, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_value, value)) + "}"
    if isinstance(value, str):
        return f'"{value}"'
    return _shown(value)
