"""Validation of volumes: exactly one source each; common sources are validated, others are accepted."""

from tinykube.server.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from tinykube.server.json_access import get_int, get_list, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.environment_validation import field_ref_errors, resource_ref_errors

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_DOWNWARD_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.uid",
)
_SHORTEST_TOKEN_SECONDS = 600
_LONGEST_TOKEN_SECONDS = 2**32
_LARGEST_MODE = 0o777
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def volume_errors(path: str, volumes: list[JsonObject]) -> tuple[set[str], list[FieldError]]:
    """Return the mountable volume names, and the errors."""
    errors: list[FieldError] = []
    mountable: set[str] = set()
    for index, volume in enumerate(volumes):
        field, name = f"{path}[{index}]", get_str(volume, "name")
        found = _source_errors(field, volume)
        found += validation.dns_label(f"{field}.name", name) if name else [required(f"{field}.name")]
        if name in mountable:
            found.append(duplicate(f"{field}.name", name))
        if not found:
            mountable.add(name)
        errors += found
    return mountable, errors


def _source_errors(field: str, volume: JsonObject) -> list[FieldError]:
    sources = [name for name in volume if name != "name" and volume[name] is not None]
    if not sources:
        return [required(field, "must specify a volume type")]
    # An emptyDir is checked first; errors report the other sources as superfluous.
    sources.sort(key=lambda name: name != "emptyDir")
    errors = _one_source_errors(f"{field}.{sources[0]}", sources[0], volume[sources[0]])
    return errors + [
        forbidden_field(f"{field}.{name}", "may not specify more than 1 volume type") for name in sources[1:]
    ]


def _mode_errors(field: str, mode: int | None) -> list[FieldError]:
    if mode is None or 0 <= mode <= _LARGEST_MODE:
        return []
    return [invalid_value(field, mode, _MODE_TEXT)]


def _one_source_errors(field: str, name: str, source: JsonObject) -> list[FieldError]:
    if name in ("secret", "configMap"):
        key = "secretName" if name == "secret" else "name"
        errors = [] if get_str(source, key) else [required(f"{field}.{key}")]
        errors += _mode_errors(f"{field}.defaultMode", source.get("defaultMode"))
        for index, item in enumerate(get_list(source, "items")):
            errors += _item_errors(f"{field}.items[{index}]", item)
        return errors
    if name == "persistentVolumeClaim":
        return [] if get_str(source, "claimName") else [required(f"{field}.claimName")]
    if name == "hostPath":
        return _host_path_errors(field, source)
    if name == "downwardAPI":
        errors = _mode_errors(f"{field}.defaultMode", source.get("defaultMode"))
        return errors + [
            error for item in get_list(source, "items") for error in _downward_errors(field, item)
        ]
    if name == "projected":
        return _projected_errors(field, source)
    return []


def _item_errors(field: str, item: JsonObject) -> list[FieldError]:
    errors = [required(f"{field}.{name}") for name in ("key", "path") if not get_str(item, name)]
    errors += _path_errors(f"{field}.path", get_str(item, "path"))
    return errors + _mode_errors(f"{field}.mode", item.get("mode"))


def _path_errors(field: str, path: str) -> list[FieldError]:
    """Return the errors of a path within a volume."""
    errors: list[FieldError] = []
    if path.startswith("/"):
        errors.append(invalid_value(field, path, "must be a relative path"))
    if ".." in path.split("/"):
        errors.append(invalid_value(field, path, "must not contain '..'"))
    if path.startswith("..") and not path.startswith("../"):
        errors.append(invalid_value(field, path, "must not start with '..'"))
    return errors


def _downward_errors(field: str, item: JsonObject) -> list[FieldError]:
    """Return the errors of a downward API file; kube-apiserver's paths name the volume, not the file."""
    path, of_field, of_resource = get_str(item, "path"), item.get("fieldRef"), item.get("resourceFieldRef")
    errors = [] if path else [required(f"{field}.path")]
    errors += _path_errors(f"{field}.path", path)
    if of_field is not None:
        errors += field_ref_errors(f"{field}.fieldRef", of_field, _DOWNWARD_FIELDS)
        if of_resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid_value(field, "resource", detail))
    elif of_resource is not None:
        errors += resource_ref_errors(f"{field}.resourceFieldRef", of_resource, in_volume=True)
    else:
        errors.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return errors + _mode_errors(f"{field}.mode", item.get("mode"))


def _projected_errors(field: str, projected: JsonObject) -> list[FieldError]:
    errors = _mode_errors(f"{field}.defaultMode", projected.get("defaultMode"))
    paths: set[str] = set()
    for index, source in enumerate(get_list(projected, "sources")):
        path = f"{field}.sources[{index}]"
        for name in ("secret", "configMap"):
            if source.get(name) is not None:
                errors += _projected_keys(field, f"{path}.{name}", source[name], paths)
        for item in get_list(get_object(source, "downwardAPI"), "items"):
            errors += _downward_errors(f"{path}.downwardAPI", item)
            errors += _unique_path_errors(field, get_str(item, "path"), get_str(item, "path"), paths)
        if source.get("serviceAccountToken") is not None:
            errors += _token_errors(field, f"{path}.serviceAccountToken", source["serviceAccountToken"])
    return errors


def _projected_keys(volume: str, field: str, source: JsonObject, paths: set[str]) -> list[FieldError]:
    errors = [] if get_str(source, "name") else [required(f"{field}.name")]
    for index, item in enumerate(get_list(source, "items")):
        errors += _item_errors(f"{field}.items[{index}]", item)
        errors += _unique_path_errors(volume, get_str(item, "path"), get_str(source, "name"), paths)
    return errors


def _unique_path_errors(volume: str, path: str, shown: str, paths: set[str]) -> list[FieldError]:
    """Return an error if two sources write the same file."""
    if path and path in paths:
        return [invalid_value(volume, shown, "conflicting duplicate paths")]
    paths.add(path)
    return []


def _token_errors(volume: str, field: str, token: JsonObject) -> list[FieldError]:
    seconds, path = get_int(token, "expirationSeconds"), get_str(token, "path")
    errors: list[FieldError] = []
    if seconds < _SHORTEST_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
    if seconds > _LONGEST_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid_value(f"{field}.expirationSeconds", seconds, detail))
    return errors + (_path_errors(f"{volume}.path", path) if path else [required(f"{volume}.path")])


def _host_path_errors(field: str, source: JsonObject) -> list[FieldError]:
    path, kind = get_str(source, "path"), get_str(source, "type")
    if not path:
        return [required(f"{field}.path")]
    errors: list[FieldError] = []
    if ".." in path.split("/"):
        errors.append(invalid_value(f"{field}.path", path, "must not contain '..'"))
    if kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return errors
