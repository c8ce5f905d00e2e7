"""Validation of metadata, with kube-apiserver's messages."""

import re
from collections.abc import Callable
from typing import Any

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, required, too_long
from tinykube.server.objects import JsonObject
from tinykube.server.registry.names import dns_label_problem, dns_subdomain_problem

_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST_PART = 63
_LARGEST_ANNOTATIONS_BYTES = 256 * 1024
_BANNED_OWNER = ("v1", "Event")
_MOST_OWNER_ERRORS = 10
"""Each error may quote all references."""
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_NAME_PART_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_QUALIFIED_NAME_TEXT = f"a qualified name {_NAME_PART_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def qualified_name_problems(text: str) -> list[str]:
    """Return the problems of a qualified name (``example.com/name``)."""
    prefix, slash, name = text.rpartition("/")
    problems: list[str] = []
    if slash:
        if "/" in prefix:
            return [_QUALIFIED_NAME_TEXT]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problem = dns_subdomain_problem(prefix)
            if problem:
                problems.append(f"prefix part {problem}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > _LONGEST_PART:
        problems.append(f"name part must be no more than {_LONGEST_PART} bytes")
    if not _NAME_PART.fullmatch(name):
        problems.append(f"name part {_NAME_PART_TEXT}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Return the problems of a label value."""
    problems = []
    if len(value) > _LONGEST_PART:
        problems.append(f"must be no more than {_LONGEST_PART} bytes")
    if value and not _NAME_PART.fullmatch(value):
        problems.append(_LABEL_VALUE_TEXT)
    return problems


def metadata_errors(
    metadata: JsonObject,
    *,
    namespaced: bool,
    name_problem: Callable[[str], str],
    plain_finalizers: bool = False,
) -> list[FieldError]:
    """Return all errors of an object's metadata.

    ``plain_finalizers``: finalizers need not be qualified.
    """
    errors: list[FieldError] = []
    base = metadata.get("generateName")
    if base:
        # A trailing dash is allowed: a suffix follows.
        problem = name_problem(base[:-1] + "a" if base.endswith("-") else base)
        if problem:
            errors.append(invalid_value("metadata.generateName", base, problem))
    name = metadata.get("name")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        problem = name_problem(name)
        if problem:
            errors.append(invalid_value("metadata.name", name, problem))
    namespace = metadata.get("namespace") or ""
    if namespaced:
        problem = dns_label_problem(namespace)
        if problem:
            errors.append(invalid_value("metadata.namespace", namespace, problem))
    elif namespace:
        errors.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    if "labels" in metadata:
        errors += _label_errors(metadata["labels"])
    if "annotations" in metadata:
        errors += _annotation_errors(metadata["annotations"])
    if "ownerReferences" in metadata:
        errors += _owner_errors(metadata["ownerReferences"])
    if "finalizers" in metadata:
        errors += _finalizer_errors(metadata["finalizers"], plain=plain_finalizers)
    return errors


def _label_errors(labels: dict[str, str]) -> list[FieldError]:
    errors = []
    for key in sorted(labels):
        errors += [invalid_value("metadata.labels", key, text) for text in qualified_name_problems(key)]
        errors += [
            invalid_value("metadata.labels", labels[key], text) for text in label_value_problems(labels[key])
        ]
    return errors


def _annotation_errors(annotations: dict[str, str]) -> list[FieldError]:
    errors = []
    for key in sorted(annotations):
        problems = qualified_name_problems(key.lower())
        errors += [invalid_value("metadata.annotations", key, text) for text in problems]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _LARGEST_ANNOTATIONS_BYTES:
        errors.append(too_long("metadata.annotations", _LARGEST_ANNOTATIONS_BYTES))
    return errors


def _owner_errors(references: list[dict[str, Any]]) -> list[FieldError]:
    errors = []
    path = "metadata.ownerReferences"
    controller = ""
    for reference in references:
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        if not api_version or api_version.endswith("/"):
            errors.append(invalid_value(f"{path}.apiVersion", api_version, "version must not be empty"))
        errors += [
            invalid_value(f"{path}.{name}", reference.get(name) or "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not reference.get(name)
        ]
        if (api_version, kind) == _BANNED_OWNER:
            errors.append(invalid_value(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if reference.get("controller"):
            current = f"{kind}/{reference.get('name', '')}"
            if controller and len(errors) < _MOST_OWNER_ERRORS:
                errors.append(
                    invalid_value(
                        path,
                        references,
                        'Only one reference can have Controller set to true. Found "true" in references for '
                        f"{controller} and {current}",
                    )
                )
            elif not controller:
                controller = current
    return errors


def _finalizer_errors(finalizers: list[str], *, plain: bool) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [
        invalid_value(path, name, text) for name in finalizers for text in qualified_name_problems(name)
    ]
    if "foregroundDeletion" in finalizers and "orphan" in finalizers:
        errors.append(
            invalid_value(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
        )
    errors += [
        invalid_value(
            f"{path}[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"
        )
        for index, name in enumerate(finalizers)
        if not plain and "/" not in name and name not in _STANDARD_FINALIZERS
    ]
    return errors
