"""The subset of JSON Schema used by values.schema.json; an unsupported keyword raises an error."""

import re
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
}
_KNOWN = {
    "$schema", "type", "properties", "additionalProperties", "required", "enum", "minimum", "maximum", "minLength",
    "minItems", "pattern", "items", "propertyNames", "not",
}  # fmt: skip


def problems(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """Return the validation errors of a value with their paths."""
    if unknown := schema.keys() - _KNOWN:
        raise ValueError(f"{path or '.'}: this validator does not know {sorted(unknown)}")
    found: list[str] = []
    wanted = schema.get("type")
    if wanted is not None:
        is_of = isinstance(value, _TYPES[wanted]) and not (wanted == "integer" and isinstance(value, bool))
        if not is_of:
            return [f"{path}: must be of type {wanted}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: must be one of {schema['enum']}")
    if "not" in schema and not problems(schema["not"], value, path):
        found.append(f"{path}: must not be that")
    if isinstance(value, int) and not (schema.get("minimum", value) <= value <= schema.get("maximum", value)):
        found.append(f"{path}: is out of range")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            found.append(f"{path}: is too short")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{path}: does not match {schema['pattern']}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(f"{path}: has too few items")
        for number, item in enumerate(value):
            found += problems(schema.get("items", {}), item, f"{path}[{number}]")
    if isinstance(value, dict):
        found += [f"{path}.{name}: is missing" for name in schema.get("required", ()) if name not in value]
        known = schema.get("properties", {})
        for name, item in value.items():
            if name in known:
                found += problems(known[name], item, f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{path}.{name}: is not known")
            found += problems(schema.get("propertyNames", {}), name, f"{path}.{name}")
    return found
