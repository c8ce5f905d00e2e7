"""Validation of CustomResourceDefinitions, with kube-apiserver's messages and order."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tinykube.server.custom.definition_limits import limit_errors
from tinykube.server.custom.jsonpath import MAX_PATH_CHARACTERS
from tinykube.server.custom.names import dns1035_problem, name_errors, set_condition
from tinykube.server.custom.schema_validation import schema_errors
from tinykube.server.custom.structural_schema import Schema, properties
from tinykube.server.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from tinykube.server.json_access import get_list, get_object, get_str, raw_json
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.names import dns_subdomain_problem

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SCOPES = ("Cluster", "Namespaced")
_MOST_SELECTABLE = 8
_MOST_COLUMNS = 100
"""A limit of this server: each column is evaluated for each row of a table."""
_LONGEST_WARNING = 256
_APPROVED = "api-approved.kubernetes.io"
_APPROVAL = f'protected groups must have approval annotation "{_APPROVED}"'
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_SELECTABLE = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_]*)+")
_NO_WEBHOOK = "conversion webhooks are not supported: use a single version or strategy None (versions that differ only in apiVersion)"


def definition_errors(definition: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
    """Return the errors of a definition or its update."""
    spec = get_object(definition, "spec")
    if (old is None or spec != old.get("spec")) and (over_limits := limit_errors(definition)):
        return over_limits  # the following checks assume a schema within the limits
    errors = _spec_errors(spec, "spec")
    if old is not None:
        errors += _update_errors(definition, old)
        accepted = get_object(get_object(definition, "status"), "acceptedNames")
        errors += name_errors("status.acceptedNames", accepted)
    errors += _stored_errors(definition)
    errors += _approval_errors(definition, old)
    if spec.get("preserveUnknownFields") and not (
        old and get_object(old, "spec").get("preserveUnknownFields")
    ):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid_value("spec.preserveUnknownFields", True, detail))
    return errors


def definition_name_problem(definition: JsonObject) -> str:
    """Return the error of a definition's name, or ``""``."""
    spec = get_object(definition, "spec")
    name = f"{get_str(get_object(spec, 'names'), 'plural')}.{get_str(spec, 'group')}"
    return "" if metadata_of(definition).get("name") == name else 'must be spec.names.plural+"."+spec.group'


def _update_errors(definition: JsonObject, old: JsonObject) -> list[FieldError]:
    spec, before = get_object(definition, "spec"), get_object(old, "spec")
    names, names_before = get_object(spec, "names"), get_object(before, "names")
    errors: list[FieldError] = []
    conditions = get_list(get_object(old, "status"), "conditions")
    if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        errors += validation.immutable("spec.scope", get_str(spec, "scope"), get_str(before, "scope"))
        errors += validation.immutable(
            "spec.names.kind", get_str(names, "kind"), get_str(names_before, "kind")
        )
    errors += validation.immutable("spec.group", get_str(spec, "group"), get_str(before, "group"))
    plural, plural_before = get_str(names, "plural"), get_str(names_before, "plural")
    return errors + validation.immutable("spec.names.plural", plural, plural_before)


def _stored_errors(definition: JsonObject) -> list[FieldError]:
    field, stored = "status.storedVersions", get_list(get_object(definition, "status"), "storedVersions")
    if not stored:
        return [invalid_value(field, [], "must have at least one stored version")]
    errors = []
    known = {get_str(version, "name") for version in get_list(get_object(definition, "spec"), "versions")}
    for version in get_list(get_object(definition, "spec"), "versions"):
        if version.get("storage") and get_str(version, "name") not in stored:
            detail = f"must have the storage version {get_str(version, 'name')}"
            errors.append(invalid_value(field, stored, detail))
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            errors.append(invalid_value(f"{field}[{index}]", name, detail))
    return errors


def is_protected(group: str) -> bool:
    """Return whether definitions in a group need an approval annotation."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def _approval_errors(definition: JsonObject, old: JsonObject | None) -> list[FieldError]:
    if not is_protected(get_str(get_object(definition, "spec"), "group")):
        return []
    value = (metadata_of(definition).get("annotations") or {}).get(_APPROVED, "")
    if old is not None and _approval(value) == _approval(
        (metadata_of(old).get("annotations") or {}).get(_APPROVED, "")
    ):
        return []
    field = f"metadata.annotations[{_APPROVED}]"
    match _approval(value):
        case "missing":
            return [required(field, f"{_APPROVAL}, {_SEE}")]
        case "invalid":
            detail = f'{_APPROVAL} with either a URL or a reason starting with "unapproved", {_SEE}'
            return [invalid_value(field, value, detail)]
    return []


def set_approval(definition: JsonObject, now: str) -> None:
    """Set the API approval condition of a definition in a protected group, in place."""
    if not is_protected(get_str(get_object(definition, "spec"), "group")):
        return
    value = (metadata_of(definition).get("annotations") or {}).get(_APPROVED, "")
    state = _approval(value)
    reason, message = {
        "missing": ("MissingAnnotation", f"{_APPROVAL}, {_SEE}"),
        "bypassed": ("UnapprovedAnnotation", f'not approved: "{value}"'),
        "approved": ("ApprovedAnnotation", f"approved in {value}"),
    }.get(
        state,
        (
            "InvalidAnnotation",
            f'{_APPROVAL} with either a URL or a reason starting with "unapproved", {_SEE}',
        ),
    )
    kind = "KubernetesAPIApprovalPolicyConformant"
    set_condition(definition, kind, state == "approved", reason, message, now)


def _approval(value: str) -> str:
    if not value:
        return "missing"
    if value.startswith("unapproved"):
        return "bypassed"
    parts = urlsplit(value)
    return "approved" if parts.scheme and parts.netloc else "invalid"


# -------------------------------------------------------------------------------------------------- spec


def _spec_errors(spec: JsonObject, field: str) -> list[FieldError]:
    errors = _group_errors(f"{field}.group", get_str(spec, "group"))
    scope = get_str(spec, "scope")
    if not scope:
        errors.append(required(f"{field}.scope"))
    elif scope not in _SCOPES:
        errors.append(not_supported(f"{field}.scope", scope, _SCOPES))
    versions = get_list(spec, "versions")
    for index, version in enumerate(versions):
        if not get_object(version, "schema").get("openAPIV3Schema"):
            errors.append(required(f"{field}.versions[{index}].schema.openAPIV3Schema"))
    hoisted = tuple(part for part in _PARTS if _is_shared(versions, part))
    for index, version in enumerate(versions):
        where = f"{field}.versions[{index}]"
        if problem := dns1035_problem(get_str(version, "name")):
            errors.append(invalid_value(f"{where}.name", get_str(version, "name"), problem))
        errors += _warning_errors(f"{where}.deprecationWarning", version)
        for part in _PARTS:
            if part not in hoisted:
                errors += _part_errors(part, f"{where}.{part}", version)
    names = [get_str(version, "name") for version in versions]
    shown = raw_json(versions)
    if len(set(names)) != len(names):
        errors.append(invalid_value(f"{field}.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid_value(f"{field}.versions", shown, detail))
    named = get_object(spec, "names")
    errors += [
        required(f"{field}.names.{name}")
        for name in ("plural", "singular", "kind", "listKind")
        if not get_str(named, name)
    ]
    errors += name_errors(f"{field}.names", named)
    for part in hoisted:
        errors += _part_errors(part, f"{field}.{_HOISTED.get(part, part)}", versions[0])
    needed = len(versions) > 1
    return errors + _conversion_errors(f"{field}.conversion", get_object(spec, "conversion"), needed=needed)


def _group_errors(field: str, group: str) -> list[FieldError]:
    if not group:
        return [required(field)]
    if problem := dns_subdomain_problem(group):
        return [invalid_value(field, group, problem)]
    if "." not in group:
        return [invalid_value(field, group, "should be a domain with at least one dot")]
    return []


def _conversion_errors(field: str, conversion: JsonObject, *, needed: bool) -> list[FieldError]:
    """Return the errors of the conversion; ``needed``: there are several versions, so a webhook would be called."""
    strategy = get_str(conversion, "strategy")
    if not conversion or strategy == "None":
        if conversion.get("webhook") is not None:
            detail = "should not be set when strategy is not set to Webhook"
            return [forbidden_field(f"{field}.webhookClientConfig", detail)]
        return []
    if not strategy:
        return [required(f"{field}.strategy")]
    if strategy == "Webhook":
        if needed:
            return [forbidden_field(f"{field}.strategy", _NO_WEBHOOK)]
        return _webhook_errors(field, conversion.get("webhook"))
    return [not_supported(f"{field}.strategy", strategy, ("None", "Webhook"))]


def _webhook_errors(field: str, webhook: JsonObject | None) -> list[FieldError]:
    config = get_object(webhook or {}, "clientConfig")
    if not config:
        detail = "required when strategy is set to Webhook"
        return [required(f"{field}.webhookClientConfig", detail)]
    errors: list[FieldError] = []
    if (config.get("url") is None) == (config.get("service") is None):
        detail = "exactly one of url or service is required"
        errors.append(required(f"{field}.webhookClientConfig", detail))
    if not get_list(webhook or {}, "conversionReviewVersions"):
        errors.append(required(f"{field}.conversionReviewVersions"))
    return errors


_PARTS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_HOISTED = {"schema": "validation"}


def _is_shared(versions: Sequence[JsonObject], part: str) -> bool:
    """Return whether all versions are equal in a part: kube-apiserver then reports its errors once, as the spec's own."""
    first = versions[0].get(part) if versions else None
    return first is not None and all(version.get(part) == first for version in versions)


def _part_errors(part: str, field: str, version: JsonObject) -> list[FieldError]:
    schema, subresources = (
        get_object(version, "schema").get("openAPIV3Schema"),
        get_object(version, "subresources"),
    )
    errors: list[FieldError] = []
    if part == "schema" and isinstance(schema, dict):
        has_status = subresources.get("status") is not None
        return schema_errors(f"{field}.openAPIV3Schema", schema, has_status=has_status)
    if part == "subresources" and isinstance(subresources.get("scale"), dict):
        return _scale_errors(f"{field}.scale", subresources["scale"])
    if part == "additionalPrinterColumns":
        columns = get_list(version, part)
        if len(columns) > _MOST_COLUMNS:
            return [too_many(field, len(columns), _MOST_COLUMNS)]
        for index, column in enumerate(columns):
            errors += _column_errors(f"{field}[{index}]", column)
    if part == "selectableFields":
        errors += _selectable_errors(field, get_list(version, part), schema or {})
    return errors


def _warning_errors(field: str, version: JsonObject) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    problems = []
    if warning is None:
        return []
    if not version.get("deprecated"):
        problems = ["can only be set for deprecated versions"]
    else:
        if len(warning.encode()) > _LONGEST_WARNING:
            problems.append(f"must be <= {_LONGEST_WARNING} characters long")
        if not warning:
            problems.append("must not be an empty string")
        for index, character in enumerate(warning):
            if not character.isprintable():
                problems.append(
                    "must only contain printable UTF-8 characters; non-printable character found at index "
                    f"{len(warning[:index].encode())}"
                )
                break
    return [invalid_value(field, warning, problem) for problem in problems]


def _scale_errors(field: str, scale: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path, where = get_str(scale, name), f"{field}.{name}"
        if not path:
            errors.append(required(where))
        elif found := _path_errors(where, path):
            errors += found
        elif not path.startswith(root):
            errors.append(invalid_value(where, path, f"should be a json path under {root[:-1]}"))
    path, where = get_str(scale, "labelSelectorPath"), f"{field}.labelSelectorPath"
    if path:
        if found := _path_errors(where, path):
            errors += found
        elif not path.startswith((".spec.", ".status.")):
            errors.append(invalid_value(where, path, "should be a json path under either .spec or .status"))
    return errors


def _path_errors(field: str, path: str) -> list[FieldError]:
    if len(path) > MAX_PATH_CHARACTERS:
        return [too_long(field, MAX_PATH_CHARACTERS)]
    if not path.startswith("."):
        return [invalid_value(field, path, "must be a simple json path starting with .")]
    return []


def _column_errors(field: str, column: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    type_name, format_name, path = (
        get_str(column, "type"),
        get_str(column, "format"),
        get_str(column, "jsonPath"),
    )
    if not get_str(column, "name"):
        errors.append(required(f"{field}.name"))
    known = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not type_name:
        errors.append(required(f"{field}.type", known))
    elif type_name not in _COLUMN_TYPES:
        errors.append(invalid_value(f"{field}.type", type_name, known))
    if format_name and format_name not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        errors.append(invalid_value(f"{field}.format", format_name, detail))
    if not path:
        errors.append(required(f"{field}.JSONPath"))
    else:
        errors += _path_errors(f"{field}.JSONPath", path)
    return errors


def _selectable_errors(field: str, selectable: Sequence[JsonObject], schema: Schema) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(selectable):
        where, path = f"{field}[{index}].jsonPath", get_str(one, "jsonPath")
        if not path:
            errors.append(required(where))
            continue
        found, problem = _schema_at(schema, path)
        if problem:
            errors.append(invalid_value(where, path, f"is an invalid path: {problem}"))
            continue
        if path.startswith(".metadata"):
            errors.append(invalid_value(where, path, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed."
            )
            errors.append(invalid_value(where, path, detail))
        if path in seen:
            errors.append(duplicate(where, path))
        seen.add(path)
    if len(seen) > _MOST_SELECTABLE:
        errors.append(too_many(field, len(seen), _MOST_SELECTABLE))
    return errors


def _schema_at(schema: Schema, path: str) -> tuple[Mapping[str, Any], str]:
    """Return the schema at a path, and the error of the path."""
    if not _SELECTABLE.fullmatch(path):
        return {}, "does not refer to a valid field"
    current: Mapping[str, Any] = schema
    for name in path[1:].split("."):
        inner = properties(current).get(name)
        if inner is None:
            return {}, "does not refer to a valid field"
        current = inner
    return current, ""
