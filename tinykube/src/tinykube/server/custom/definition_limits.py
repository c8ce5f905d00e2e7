"""Size limits of definitions, specific to this server: the schema is processed by every request for its objects."""

from collections.abc import Iterator

from tinykube.server.custom.structural_schema import Schema
from tinykube.server.errors import FieldError, invalid_value, too_many
from tinykube.server.json_access import get_list, get_object
from tinykube.server.objects import JsonObject

MAX_VERSIONS = 100
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_NODES = 30_000
MAX_PATTERNS = 500
"""Distinct patterns: each is compiled, and definitions repeat the same few."""
MAX_LIST_KEYS = 32

_OF_ONE = ("items", "additionalProperties", "not")
_OF_SEVERAL = ("allOf", "anyOf", "oneOf")


def limit_errors(definition: JsonObject) -> list[FieldError]:
    """Return the exceeded limits of a definition. Iterative, so that any definition can be checked."""
    field = "spec.versions"
    versions = get_list(get_object(definition, "spec"), "versions")
    if len(versions) > MAX_VERSIONS:
        return [too_many(field, len(versions), MAX_VERSIONS)]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        schema = get_object(version, "schema").get("openAPIV3Schema")
        if isinstance(schema, dict):
            errors += _schema_errors(f"{field}[{index}].schema.openAPIV3Schema", schema)
    return errors


def is_schema_too_deep(schema: Schema) -> bool:
    """Return whether the schema's nesting exceeds the limit."""
    return len(list(_levels(schema))) > MAX_SCHEMA_DEPTH


def _schema_errors(field: str, schema: Schema) -> list[FieldError]:
    count = 0
    patterns: set[str] = set()
    for depth, level in enumerate(_levels(schema), 1):
        if depth > MAX_SCHEMA_DEPTH:
            detail = f"schemas are nested more than {MAX_SCHEMA_DEPTH} levels deep"
            return [invalid_value(field, "", detail)]
        count += len(level)
        for node in level:
            if isinstance(node.get("pattern"), str):
                patterns.add(node["pattern"])
            keys = node.get("x-kubernetes-list-map-keys")
            if isinstance(keys, list) and len(keys) > MAX_LIST_KEYS:
                return [too_many(f"{field}.x-kubernetes-list-map-keys", len(keys), MAX_LIST_KEYS)]
    if count > MAX_SCHEMA_NODES:
        return [invalid_value(field, "", f"has {count} schemas in it, at most {MAX_SCHEMA_NODES} are served")]
    if len(patterns) > MAX_PATTERNS:
        detail = f"has {len(patterns)} different patterns, at most {MAX_PATTERNS} are served"
        return [invalid_value(field, "", detail)]
    return []


def _levels(schema: Schema) -> Iterator[list[Schema]]:
    """Yield the schemas at each depth."""
    level = [schema]
    while level:
        yield level
        level = [inner for node in level for inner in _below(node)]


def _below(node: Schema) -> Iterator[Schema]:
    named = node.get("properties")
    if isinstance(named, dict):
        yield from (inner for inner in named.values() if isinstance(inner, dict))
    for name in _OF_ONE:
        inner = node.get(name)
        if isinstance(inner, dict):
            yield inner
    for name in _OF_SEVERAL:
        several = node.get(name)
        if isinstance(several, list):
            yield from (inner for inner in several if isinstance(inner, dict))
