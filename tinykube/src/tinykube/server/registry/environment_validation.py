"""Validation of environment variables and their sources."""

import re

from tinykube.server.errors import FieldError, invalid_value, not_supported, required
from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")


def environment_errors(path: str, container: JsonObject) -> list[FieldError]:
    """Return the errors of a container's ``env`` and ``envFrom``."""
    errors: list[FieldError] = []
    for index, variable in enumerate(get_list(container, "env")):
        field, name = f"{path}.env[{index}]", get_str(variable, "name")
        if not name:
            errors.append(required(f"{field}.name"))
        else:
            errors += validation.each(f"{field}.name", name, validation.environment_name_problems(name))
        if variable.get("valueFrom") is not None:
            errors += _source_errors(f"{field}.valueFrom", variable["valueFrom"], get_str(variable, "value"))
    for index, source in enumerate(get_list(container, "envFrom")):
        errors += _from_errors(f"{path}.envFrom", index, source)
    return errors


def _source_errors(field: str, source: JsonObject, value: str) -> list[FieldError]:
    named = [name for name in _SOURCES if source.get(name) is not None]
    errors: list[FieldError] = []
    for name in named:
        reference = source[name]
        if name == "fieldRef":
            errors += field_ref_errors(f"{field}.{name}", reference, _FIELDS)
        elif name == "resourceFieldRef":
            errors += resource_ref_errors(f"{field}.{name}", reference)
        elif name in ("configMapKeyRef", "secretKeyRef"):
            errors += _key_errors(f"{field}.{name}", reference)
    if not named:
        listed = ", ".join(f"`{name}`" for name in _SOURCES[:-1])
        detail = f"must specify one of: {listed} or `{_SOURCES[-1]}`"
        errors.append(invalid_value(field, "", detail))
    elif value:
        errors.append(invalid_value(field, "", "may not be specified when `value` is not empty"))
    elif len(named) > 1:
        errors.append(invalid_value(field, "", "may not have more than one field specified at a time"))
    return errors


def field_ref_errors(field: str, reference: JsonObject, fields: tuple[str, ...]) -> list[FieldError]:
    """Return the errors of a reference to a field of the pod; ``fields`` are the supported paths."""
    path = get_str(reference, "fieldPath")
    if not path:
        return [required(f"{field}.fieldPath")]
    subscripted = _SUBSCRIPT.fullmatch(path)
    if subscripted is not None:
        key = subscripted[2].lower() if subscripted[1].endswith("annotations") else subscripted[2]
        return validation.qualified_name(field, key)
    if path in fields:
        return []
    known = (*_FIELDS, "metadata.labels", "metadata.annotations", "spec.restartPolicy", "status.phase")
    if path not in known:
        detail = f"error converting fieldPath: field label not supported: {path}"
        return [invalid_value(f"{field}.fieldPath", path, detail)]
    return [not_supported(f"{field}.fieldPath", path, tuple(sorted(fields)))]


def resource_ref_errors(field: str, reference: JsonObject, *, in_volume: bool = False) -> list[FieldError]:
    """Return the errors of a reference to a container's resources; in volumes it names the container."""
    if in_volume and not get_str(reference, "containerName"):
        return [required(f"{field}.containerName")]
    resource = get_str(reference, "resource")
    if not resource:
        return [required(f"{field}.resource")]
    if resource in _RESOURCES or resource.startswith(_HUGE):
        return []
    return [not_supported(f"{field}.resource", resource, _RESOURCES)]


def _key_errors(field: str, reference: JsonObject) -> list[FieldError]:
    key = get_str(reference, "key")
    errors = validation.dns_subdomain(f"{field}.name", get_str(reference, "name"))
    if not key:
        return [*errors, required(f"{field}.key")]
    return errors + validation.each(f"{field}.key", key, validation.config_key_problems(key))


def _from_errors(path: str, index: int, source: JsonObject) -> list[FieldError]:
    field, prefix = f"{path}[{index}]", get_str(source, "prefix")
    errors: list[FieldError] = []
    if prefix:
        errors += validation.each(f"{field}.prefix", prefix, validation.environment_name_problems(prefix))
    named = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
    for name in named:
        target = get_str(get_object(source, name), "name")
        errors += (
            validation.dns_subdomain(f"{field}.{name}.name", target)
            if target
            else [required(f"{field}.{name}.name")]
        )
    # kube-apiserver's path lacks the index, too.
    if not named:
        errors.append(invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(named) > 1:
        errors.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return errors
