"""The rules of structural schemas: exactly one type per value, specified outside of ``allOf`` and the like, and complete."""

from collections.abc import Mapping
from typing import Any, Literal

from tinykube.server.custom.patterns import PatternError, go_pattern
from tinykube.server.custom.structural_schema import Schema
from tinykube.server.errors import FieldError, forbidden_field, invalid_value, required

Level = Literal["root", "item", "field"]

_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED_TEXTS = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def structural_errors(field: str, schema: Schema) -> list[FieldError]:
    """Return the errors of a schema that is not structural, sorted."""
    errors = _node_errors(schema, "root", field) + _completeness_errors(schema, schema, field, field)
    return sorted(errors, key=str)


def _sub(schema: Schema, name: str) -> Mapping[str, Schema]:
    value = schema.get(name)
    return value if isinstance(value, Mapping) else {}


def _node_errors(schema: Schema, level: Level, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    named, items, free = _sub(schema, "properties"), schema.get("items"), schema.get("additionalProperties")
    type_name = schema.get("type") or ""
    if type_name == "array" and items is None:
        errors.append(required(f"{field}.items", "must be specified"))
    if isinstance(items, Mapping):
        errors += _node_errors(items, "item", f"{field}.items")
    for name in sorted(named):
        errors += _node_errors(named[name], "field", f"{field}.properties[{name}]")
    if free is not None:
        if level == "root":
            errors.append(forbidden_field(f"{field}.additionalProperties", "must not be used at the root"))
        if isinstance(free, Mapping):
            errors += _node_errors(free, "field", f"{field}.additionalProperties")
    errors += _extension_errors(schema, field)
    errors += _value_errors(schema, field, _skips(schema))
    return errors + _type_errors(schema, level, field, type_name)


def _extension_errors(schema: Schema, field: str) -> list[FieldError]:
    if not schema.get(_INT_OR_STRING):
        return []
    detail = f"must be false if {_INT_OR_STRING} is true"
    return [
        invalid_value(f"{field}.{name}", True, detail) for name in (_PRESERVE, _EMBEDDED) if schema.get(name)
    ]


def _skips(schema: Schema) -> tuple[bool, bool]:
    """Return whether ``anyOf``, and that of the first ``allOf``, only restate x-kubernetes-int-or-string."""
    all_of = schema.get("allOf") or [{}]
    return schema.get("anyOf") == _EITHER, all_of[0].get("anyOf") == _EITHER


def _type_errors(schema: Schema, level: Level, field: str, type_name: str) -> list[FieldError]:
    errors: list[FieldError] = []
    named = _sub(schema, "properties")
    embedded, preserves = bool(schema.get(_EMBEDDED)), bool(schema.get(_PRESERVE))
    has_meta = level == "root" or embedded
    if embedded and type_name != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        where = f"{field}.type"
        errors.append(invalid_value(where, type_name, detail) if type_name else required(where, detail))
    elif not type_name and not schema.get(_INT_OR_STRING) and not preserves:
        errors.append(required(f"{field}.type", _NO_TYPE[level]))
    if embedded and schema.get("additionalProperties") is not None:
        detail = f"must not be used if {_EMBEDDED} is set"
        errors.append(forbidden_field(f"{field}.additionalProperties", detail))
    if level == "root" and type_name and type_name != "object":
        errors.append(invalid_value(f"{field}.type", type_name, "must be object at the root"))
    for name in ("kind", "apiVersion"):
        found = named.get(name)
        if has_meta and found is not None and found.get("type") != "string":
            where = f"{field}.properties[{name}].type"
            errors.append(invalid_value(where, found.get("type") or "", "must be string"))
    metadata = named.get("metadata")
    if metadata is not None:
        errors += _metadata_errors(metadata, level, f"{field}.properties[metadata]", has_meta)
    if embedded and not preserves and not named:
        detail = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        errors.append(required(f"{field}.properties", detail))
    return errors


def _metadata_errors(metadata: Schema, level: Level, field: str, has_meta: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if has_meta and metadata.get("type") != "object":
        errors.append(invalid_value(f"{field}.type", metadata.get("type") or "", "must be object"))
    if level == "root":
        rest: dict[str, Any] = {
            key: value for key, value in metadata.items() if key not in ("type", "default")
        }
        named = _sub(metadata, "properties")
        if named and set(named) <= {"name", "generateName"}:
            rest.pop("properties")
        if rest:
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(forbidden_field(field, detail))
    return errors


def _value_errors(schema: Schema, field: str, skips: tuple[bool, bool]) -> list[FieldError]:
    errors: list[FieldError] = []
    skip_any, skip_first = skips
    if not skip_any:
        for index, one in enumerate(schema.get("anyOf") or ()):
            errors += _nested_errors(one, f"{field}.anyOf[{index}]")
    for index, one in enumerate(schema.get("allOf") or ()):
        skip = skip_first and index == 0
        errors += _nested_errors(one, f"{field}.allOf[{index}]", skip_any=skip)
    for index, one in enumerate(schema.get("oneOf") or ()):
        errors += _nested_errors(one, f"{field}.oneOf[{index}]")
    negated = schema.get("not")
    if isinstance(negated, Mapping):
        errors += _nested_errors(negated, f"{field}.not")
    if pattern := schema.get("pattern"):
        try:
            go_pattern(pattern)
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid_value(f"{field}.pattern", pattern, detail))
    return errors


def _nested_errors(schema: Schema, field: str, *, skip_any: bool = False) -> list[FieldError]:
    """Return the errors of a schema nested in ``allOf`` and the like."""
    errors = _value_errors(schema, field, (skip_any, False))
    items, named = schema.get("items"), _sub(schema, "properties")
    if isinstance(items, Mapping):
        errors += _nested_errors(items, f"{field}.items")
    for name in sorted(named):
        errors += _nested_errors(named[name], f"{field}.properties[{name}]")
    if schema.get("type"):
        errors.append(forbidden_field(f"{field}.type", "must be empty to be structural"))
    if schema.get("additionalProperties") is not None:
        errors.append(forbidden_field(f"{field}.additionalProperties", "must be undefined to be structural"))
    errors += [forbidden_field(f"{field}.{name}", text) for name, text in _NESTED_TEXTS if schema.get(name)]
    if "metadata" in named:
        detail = "must not be specified in a nested context"
        errors.append(forbidden_field(f"{field}.properties[metadata]", detail))
    return errors


def _completeness_errors(
    values: Schema, schema: Schema | None, schema_field: str, field: str
) -> list[FieldError]:
    """Return the values constrained in ``allOf`` and the like without a type outside of them."""
    errors: list[FieldError] = []
    nested = [(f"{field}.not", values["not"])] if isinstance(values.get("not"), Mapping) else []
    for name in ("allOf", "anyOf", "oneOf"):
        nested += [(f"{field}.{name}[{index}]", one) for index, one in enumerate(values.get(name) or ())]
    for where, one in nested:
        errors += _nested_completeness(one, schema, schema_field, where)
    return errors


def _nested_completeness(
    values: Schema, schema: Schema | None, schema_field: str, field: str
) -> list[FieldError]:
    if schema is None:
        return [required(schema_field, f"because it is defined in {field}")]
    errors = _completeness_errors(values, schema, schema_field, field)
    items = values.get("items")
    if isinstance(items, Mapping):
        inner = schema.get("items")
        inner = inner if isinstance(inner, Mapping) else None
        errors += _nested_completeness(items, inner, f"{schema_field}.items", f"{field}.items")
    known = _sub(schema, "properties")
    for name, one in sorted(_sub(values, "properties").items()):
        where, there = f"{schema_field}.properties[{name}]", f"{field}.properties[{name}]"
        errors += _nested_completeness(one, known.get(name), where, there)
    return errors
