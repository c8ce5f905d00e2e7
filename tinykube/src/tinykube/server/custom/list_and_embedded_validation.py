"""Validation beyond value schemas: lists of type set and map, and embedded API objects."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tinykube.server.custom.names import dns1035_problem
from tinykube.server.custom.structural_schema import (
    Schema,
    additional_schema,
    is_embedded,
    item_schema,
    properties,
)
from tinykube.server.errors import FieldError, duplicate, invalid_value, required
from tinykube.server.json_access import raw_json
from tinykube.server.objects import JsonObject
from tinykube.server.registry.metadata_validation import metadata_errors
from tinykube.server.schema.conform import conform
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import object_type
from tinykube.server.schema.model import ObjectRef

_OBJECT_META = ObjectRef("meta_v1", "ObjectMeta")


def list_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """Return the duplicates in lists of type set and map."""
    errors: list[FieldError] = []
    if schema is None:
        return errors
    if isinstance(value, dict):
        named, free = properties(schema), additional_schema(schema)
        for name, member in value.items():
            if free is not None:
                errors += list_errors(member, free, f"{path}[{name}]")
            if name in named:
                errors += list_errors(member, named[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            errors += _twice(path, value, value)
        elif kind == "map":
            errors += _map_errors(path, value, schema.get("x-kubernetes-list-map-keys") or ())
        items = item_schema(schema)
        for index, item in enumerate(value):
            errors += list_errors(item, items, f"{path}[{index}]")
    return errors


def _map_errors(path: str, value: list[Any], keys: Iterable[str]) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            detail = "must be an object for an array of list-type map"
            return [invalid_value(f"{path}[{index}]", item, detail)]
    shown = [{key: item[key] for key in sorted(keys) if key in (item or {})} for item in value]
    return _twice(path, value, shown)


def _twice(path: str, value: list[Any], keys: list[Any]) -> list[FieldError]:
    """Return an error for each duplicated value, at its second occurrence only."""
    seen: dict[str, int] = {}
    errors = []
    for index, key in enumerate(keys):
        text = json.dumps(key, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            shown = raw_json(dict(sorted(key.items()))) if isinstance(key, dict) else key
            errors.append(duplicate(f"{path}[{index}]", shown))
    return errors


def conform_embedded(value: Any, schema: Schema | None, path: str, unknown: list[str]) -> None:
    """Conform the metadata of embedded objects, in place; append the removed paths to ``unknown``.

    Raises ConformError.
    """
    if schema is None:
        return
    if isinstance(value, dict):
        if is_embedded(schema) and isinstance(value.get("metadata"), dict):
            unknown += conform_metadata(value["metadata"], f"{path}.metadata")
        named, free = properties(schema), additional_schema(schema)
        for name, member in value.items():
            where = f"{path}.{name}" if path else name
            conform_embedded(member, named.get(name, free), where, unknown)
    elif isinstance(value, list):
        items = item_schema(schema)
        for index, item in enumerate(value):
            conform_embedded(item, items, f"{path}[{index}]", unknown)


def conform_metadata(metadata: JsonObject, path: str) -> list[str]:
    """Conform metadata, in place; return the paths of unknown fields. Raises ConformError."""
    unknown = conform(object_type(_OBJECT_META), metadata)
    return [f"{path}.{text.removeprefix('unknown field ').strip(chr(34))}" for text in unknown]


def embedded_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """Return the errors of embedded API objects."""
    errors: list[FieldError] = []
    if schema is None:
        return errors
    if isinstance(value, dict):
        if is_embedded(schema):
            errors += _embedded_errors(value, path)
        named, free = properties(schema), additional_schema(schema)
        for name, member in value.items():
            if name in named:
                errors += embedded_errors(member, named[name], f"{path}.{name}" if path else name)
            elif free is not None:
                errors += embedded_errors(member, free, f"{path}[{name}]")
    elif isinstance(value, list):
        items = item_schema(schema)
        for index, item in enumerate(value):
            errors += embedded_errors(item, items, f"{path}[{index}]")
    return errors


def _embedded_errors(value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        if name not in value:
            continue
        text = value[name]
        if not isinstance(text, str):
            errors.append(invalid_value(f"{path}.{name}", text, "must be a string"))
        elif not text:
            errors.append(invalid_value(f"{path}.{name}", text, "must not be empty"))
        elif name == "apiVersion" and text.count("/") > 1:
            errors.append(invalid_value(f"{path}.{name}", text, f"unexpected GroupVersion string: {text}"))
        elif name == "kind" and (problem := dns1035_problem(text.lower())):
            detail = f"may have mixed case, but should otherwise match: {problem}"
            errors.append(invalid_value(f"{path}.{name}", text, detail))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        shown = {**metadata, "name": metadata.get("name") or "fakename"}
        found = metadata_errors(shown, namespaced=bool(shown.get("namespace")), name_problem=_segment_problem)
        errors += [
            FieldError(error.reason, f"{path}.{error.field}" if path else error.field, error.message)
            for error in found
        ]
    elif metadata is not None:
        errors.append(invalid_value(f"{path}.metadata", metadata, "must be an object"))
    return errors


def _segment_problem(name: str) -> str:
    if name in (".", ".."):
        return f"may not be '{name}'"
    for character in "/%":
        if character in name:
            return f"may not contain '{character}'"
    return ""


__all__ = [
    "ConformError",
    "conform_embedded",
    "conform_metadata",
    "embedded_errors",
    "list_errors",
]
