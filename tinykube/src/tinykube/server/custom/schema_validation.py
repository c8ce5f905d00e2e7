"""Validation of a definition's schemas and their defaults."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from tinykube.server.custom.list_and_embedded_validation import (
    ConformError,
    conform_embedded,
    embedded_errors,
)
from tinykube.server.custom.structural_schema import META_FIELDS, Schema, is_embedded, prune
from tinykube.server.custom.structural_validation import structural_errors
from tinykube.server.custom.values import value_errors
from tinykube.server.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from tinykube.server.json_access import raw_json

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST, _KEYS, _MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_PRESERVE, _RULES = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_ROOT_FIELDS = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    _PRESERVE: "XPreserveUnknownFields",
    _RULES: "XValidations",
}
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


class _Place(msgspec.Struct, frozen=True):
    """The context of a schema node."""

    no_defaults: str = ""
    """The reason why defaults are forbidden; ``""`` if they are allowed."""
    in_metadata: bool = False


def schema_errors(field: str, schema: Schema, *, has_status: bool) -> list[FieldError]:
    """Return the errors of a version's schema. ``has_status``: status is a subresource."""
    errors = _root_errors(field, schema) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden_field(f"{field}.nullable", "nullable cannot be true at the root"))
    found = structural_errors(field, schema) or default_errors(field, schema)
    return errors + found + _node_errors(field, schema, _Place(), is_root=True)


def _root_errors(field: str, schema: Schema) -> list[FieldError]:
    if schema.get("type") and schema["type"] != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid_value(f"{field}.type", schema["type"], detail)]
    if all(name in _ROOT_FIELDS for name in schema):
        return []
    detail = (
        f"only [{' '.join(_ROOT_FIELDS.values())}] fields are allowed at the root of the schema if the status "
        "subresource is enabled"
    )
    return [invalid_value(field, raw_json(schema), detail)]


def _node_errors(field: str, schema: Schema, place: _Place, *, is_root: bool = False) -> list[FieldError]:
    errors = _plain_errors(field, schema, place)
    errors += _below_errors(field, schema, place, is_root)
    if schema.get(_PRESERVE) is False:
        errors.append(invalid_value(f"{field}.{_PRESERVE}", False, "must be true or undefined"))
    errors += _collection_errors(field, schema)
    return errors + _rule_errors(field, schema)


def _plain_errors(field: str, schema: Schema, place: _Place) -> list[FieldError]:
    errors: list[FieldError] = []
    type_name = schema.get("type") or ""
    if type_name and type_name not in _TYPES:
        errors.append(not_supported(f"{field}.type", type_name, _TYPES))
    if schema.get("default") is not None and place.no_defaults:
        errors.append(forbidden_field(f"{field}.default", f"must not be set {place.no_defaults}"))
    errors += [
        forbidden_field(f"{field}.{name}", f"{name} is not supported")
        for name in _UNSUPPORTED
        if schema.get(name) not in (None, "", {})
    ]
    if type_name == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden_field(f"{field}.type", detail))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden_field(f"{field}.items", "items must be a schema object and not an array"))
    if place.in_metadata and is_embedded(schema):
        errors.append(forbidden_field(f"{field}.{_EMBEDDED}", "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden_field(f"{field}.uniqueItems", detail))
    return errors


def _below_errors(field: str, schema: Schema, place: _Place, is_root: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    free, named = schema.get("additionalProperties"), schema.get("properties") or {}
    if free is not None and named and free is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden_field(f"{field}.additionalProperties", detail))
    if isinstance(free, Mapping):
        inner = place
        if place.in_metadata:
            inner = _Place("inside additionalProperties applying to object metadata", True)
        errors += _node_errors(f"{field}.additionalProperties", free, inner)
    for name in sorted(named):
        inner = place
        if (is_root or is_embedded(schema)) and name in META_FIELDS:
            inner = _Place(f"in top-level {name}" if is_root else place.no_defaults, True)
        errors += _node_errors(f"{field}.properties[{name}]", named[name], inner)
    if isinstance(schema.get("not"), Mapping):
        errors += _node_errors(f"{field}.not", schema["not"], place)
    for combination in ("allOf", "oneOf", "anyOf"):
        for index, one in enumerate(schema.get(combination) or ()):
            errors += _node_errors(f"{field}.{combination}[{index}]", one, place)
    items = schema.get("items")
    if isinstance(items, Mapping):
        errors += _node_errors(f"{field}.items", items, place)
    return errors


# ----------------------------------------------------------------------------------------- lists and maps


def _collection_errors(field: str, schema: Schema) -> list[FieldError]:
    errors: list[FieldError] = []
    type_name, list_type, map_type = schema.get("type") or "", schema.get(_LIST), schema.get(_MAP)
    if map_type is not None and type_name != "object":
        errors.append(_wrong_type(field, type_name, f"must be object if {_MAP} is specified"))
    if map_type is not None and map_type not in ("atomic", "granular"):
        errors.append(not_supported(f"{field}.{_MAP}", map_type, ("atomic", "granular")))
    items = schema.get("items")
    if list_type is not None and type_name != "array":
        errors.append(_wrong_type(field, type_name, f"must be array if {_LIST} is specified"))
    elif list_type == "set" and isinstance(items, Mapping):
        errors += _set_errors(field, items)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        errors.append(not_supported(f"{field}.{_LIST}", list_type, ("atomic", "set", "map")))
    keys = schema.get(_KEYS) or []
    if keys and list_type != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        where = f"{field}.{_LIST}"
        errors.append(
            required(where, detail) if list_type is None else invalid_value(where, list_type, detail)
        )
    if list_type == "map":
        errors += _keys_errors(field, keys, items)
    if list_type in ("map", "set") and isinstance(items, Mapping):
        errors += _null_errors(field, list_type, keys, items)
    return errors


def _wrong_type(field: str, type_name: str, detail: str) -> FieldError:
    where = f"{field}.type"
    return invalid_value(where, type_name, detail) if type_name else required(where, detail)


def _set_errors(field: str, items: Schema) -> list[FieldError]:
    detail = f"must be atomic as item of a list with {_LIST}=set"
    type_name, inner = items.get("type"), items.get(_LIST)
    if type_name == "array" and inner not in (None, "atomic"):
        return [invalid_value(f"{field}.items.{_LIST}", inner, detail)]
    if type_name == "object" and items.get(_MAP) != "atomic":
        return [invalid_value(f"{field}.items.{_MAP}", inner, detail)]
    return []


def _keys_errors(field: str, keys: list[str], items: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    where = f"{field}.{_KEYS}"
    if not keys:
        errors.append(required(where, f"must not be empty if {_LIST} is map"))
    if items is None:
        errors.append(required(f"{field}.items", f"must have a schema if {_LIST} is map"))
    elif not isinstance(items, Mapping):
        detail = f"must only have a single schema if {_LIST} is map"
        errors.append(invalid_value(f"{field}.items", items, detail))
    elif items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST} is map"
        errors.append(invalid_value(f"{field}.items.type", items.get("type") or "", detail))
    else:
        named = items.get("properties") or {}
        for index, key in enumerate(keys):
            if key not in named:
                errors.append(invalid_value(where, keys, "entries must all be names of item properties"))
            elif named[key].get("type") in ("array", "object"):
                detail = f"must be a scalar type if parent array's {_LIST} is map"
                errors.append(invalid_value(f"{field}.items.properties[{key}].type", items["type"], detail))
            if key in keys[:index]:
                errors.append(invalid_value(where, keys, "must not contain duplicate entries"))
    return errors


def _null_errors(field: str, list_type: str, keys: list[str], items: Schema) -> list[FieldError]:
    errors: list[FieldError] = []
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST} is {list_type}"
        errors.append(forbidden_field(f"{field}.items.nullable", detail))
    if list_type != "map":
        return errors
    named, needed = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        if key not in named:
            continue
        where = f"{field}.items.properties[{key}]"
        if key not in needed and named[key].get("default") is None:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            errors.append(required(f"{where}.default", detail))
        if named[key].get("nullable"):
            detail = f"this property is in {_KEYS}, so it cannot be nullable"
            errors.append(forbidden_field(f"{where}.nullable", detail))
    return errors


def _rule_errors(field: str, schema: Schema) -> list[FieldError]:
    """Return the errors of CEL rules that are visible without parsing them."""
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get(_RULES) or ()):
        where = f"{field}.{_RULES}[{index}]"
        message = rule.get("message") or ""
        if not (rule.get("rule") or "").strip():
            errors.append(required(f"{where}.rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid_value(f"{where}.message", message, "must be non-empty if specified"))
        elif "\n" in message.strip():
            errors.append(invalid_value(f"{where}.message", message, "must not contain line breaks"))
        elif "\n" in rule["rule"].strip() and not message.strip():
            detail = "message must be specified if rule contains line breaks"
            errors.append(required(f"{where}.message", detail))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{where}.reason", reason, _REASONS))
    return errors


# ---------------------------------------------------------------------------------------------- defaults


def default_errors(field: str, schema: Schema) -> list[FieldError]:
    """Return the errors of a structural schema's defaults: each must be valid, without unknown fields."""
    return _default_errors(field, schema, in_metadata=False, is_resource=True)


def _default_errors(field: str, schema: Schema, *, in_metadata: bool, is_resource: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    default = schema.get("default")
    if is_embedded(schema):
        in_metadata, is_resource = False, True
    if default is not None and not in_metadata:
        errors += _one_default(f"{field}.default", schema, default)
    items = schema.get("items")
    if isinstance(items, Mapping):
        errors += _default_errors(f"{field}.items", items, in_metadata=in_metadata, is_resource=False)
    for name, inner in sorted((schema.get("properties") or {}).items()):
        inside = in_metadata or (is_resource and name in META_FIELDS)
        where = f"{field}.properties[{name}]"
        errors += _default_errors(where, inner, in_metadata=inside, is_resource=False)
    return errors


def _one_default(field: str, schema: Schema, default: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    shown = raw_json(default) if isinstance(default, dict | list) else default
    pruned = copy.deepcopy(default)
    if isinstance(pruned, dict | list):
        prune({"": pruned} if isinstance(pruned, list) else pruned, _within(schema, pruned), is_root=False)
    if pruned != default:
        errors.append(invalid_value(field, shown, "must not have unknown fields"))
    try:
        conform_embedded(copy.deepcopy(default), schema, field, [])
    except ConformError as error:
        return [*errors, invalid_value(f"{field}.metadata", shown, str(error))]
    return errors + (embedded_errors(default, schema, field) or value_errors(default, schema, field=field))


def _within(schema: Schema, value: Any) -> Schema:
    return {"properties": {"": schema}} if isinstance(value, list) else schema
