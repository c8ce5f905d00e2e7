"""Read the file of ``--config``, which holds the flags' values, and report every mistake with line and path."""

import difflib
from pathlib import Path
from typing import Any

import click

from aiokube.yaml_reader import Document, Limits, YamlError, read_document
from endpointd.cli.options import BY_KEY, Kind, Setting

API_VERSION = "endpointd.dev/v1alpha1"
KIND = "EndpointdConfiguration"

_LIMITS = Limits(max_bytes=1024 * 1024)
_HEADER = {"apiVersion": API_VERSION, "kind": KIND}
_WORDS: dict[Kind, str] = {
    "string": "a string",
    "duration": "a duration, such as 15s or 1m30s",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "list": "a list of strings",
}


class ConfigFileError(Exception):
    """The file is unusable. Each line of the text names file and line, the problem and the fix."""


def read_config_file(path: Path) -> dict[str, Any]:
    """Return the file's values by the names of :data:`endpointd.cli.options.SETTINGS`; validated, not converted.

    Reports all unknown keys, values of a wrong type or out of range, and wrong headers together. Raises
    :class:`ConfigFileError`.
    """
    document = _parse(path)
    problems = [(line, f"{key} is set twice") for line, key in document.duplicates]
    values: dict[str, Any] = {}
    for key, value in document.value.items():
        line = document.key_lines.get(key, document.line)
        setting = BY_KEY.get(key)
        if key in _HEADER:
            if value != _HEADER[key]:
                problems.append((line, f"{key} must be {_HEADER[key]}, not {_shown(value)}"))
        elif setting is None:
            problems.append((line, f"unknown field {key}{_nearest(key)}"))
        else:
            problem = _problem(setting, value)
            if problem:
                problems.append((line, f"{key}: {problem}"))
            values[setting.name] = str(value) if setting.kind == "duration" else value
    missing = (key for key in _HEADER if key not in document.value)
    problems += [(1, f"{key} is missing: it must be {_HEADER[key]}") for key in missing]
    if problems:
        raise ConfigFileError("\n".join(f"{path}:{line}: {text}" for line, text in sorted(problems)))
    return values


def _parse(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMITS.max_bytes + 1)
    except OSError as error:
        raise ConfigFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        document = read_document(content, _LIMITS)
    except YamlError as error:
        line = "" if error.line is None else f":{error.line}"
        raise ConfigFileError(f"{path}{line}: {error.problem}") from error
    if not isinstance(document.value, dict):
        raise ConfigFileError(
            f"{path}:1: the file must be a mapping that starts with apiVersion: {API_VERSION}, kind: {KIND}"
        )
    return document


def _problem(setting: Setting, value: Any) -> str:
    """Return the problem that the flag would report for this value, or ``""``."""
    if setting.kind == "list" and isinstance(value, list):
        for number, item in enumerate(value):
            if not isinstance(item, str):
                return f"[{number}] must be a string, not {_shown(item)}"
    if not _is_of(setting.kind, value):
        return f"must be {_WORDS[setting.kind]}, not {_shown(value)}"
    option = setting.option()
    context = click.Context(click.Command("run"))
    try:
        option.process_value(context, value)
    except click.BadParameter as error:
        return error.message
    return ""


def _is_of(kind: Kind, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "duration":
            return isinstance(value, str) or (value == 0 and not isinstance(value, bool))
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def _nearest(key: str) -> str:
    """Return a hint with the most similar key; also matches flag spellings."""
    known = [*BY_KEY, *_HEADER]
    by_letters = {name.lower(): name for name in known}
    plain = key.lower().replace("-", "").replace("_", "")
    near = difflib.get_close_matches(plain, by_letters, n=1, cutoff=0.6)
    return f" (did you mean {by_letters[near[0]]}?)" if near else ""
