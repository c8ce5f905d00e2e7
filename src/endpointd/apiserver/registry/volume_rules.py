"""What volumes may look like: one source each, the common ones checked, the others believed."""

from endpointd.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.registry import checks
from endpointd.apiserver.registry.documents import items, text

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
_LARGEST_MODE = 0o777
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def volume_errors(path: str, volumes: list[JsonObject]) -> tuple[set[str], list[FieldError]]:
    """Return the names that can be mounted, and what is wrong."""
    errors: list[FieldError] = []
    mountable: set[str] = set()
    for index, volume in enumerate(volumes):
        field, name = f"{path}[{index}]", text(volume, "name")
        found = _source_errors(field, volume)
        found += checks.dns_label(f"{field}.name", name) if name else [required(f"{field}.name")]
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
    # An emptyDir is looked at first, and another source is then the one too many.
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
        errors = [] if text(source, key) else [required(f"{field}.{key}")]
        errors += _mode_errors(f"{field}.defaultMode", source.get("defaultMode"))
        for index, item in enumerate(items(source, "items")):
            errors += _item_errors(f"{field}.items[{index}]", item)
        return errors
    if name == "persistentVolumeClaim":
        return [] if text(source, "claimName") else [required(f"{field}.claimName")]
    if name == "hostPath":
        return _host_path_errors(field, source)
    return []


def _item_errors(field: str, item: JsonObject) -> list[FieldError]:
    path = text(item, "path")
    errors = [required(f"{field}.{name}") for name in ("key", "path") if not text(item, name)]
    if path.startswith("/"):
        errors.append(invalid_value(f"{field}.path", path, "must be a relative path"))
    if ".." in path.split("/"):
        errors.append(invalid_value(f"{field}.path", path, "must not contain '..'"))
    elif path.startswith(".."):
        errors.append(invalid_value(f"{field}.path", path, "must not start with '..'"))
    return errors + _mode_errors(f"{field}.mode", item.get("mode"))


def _host_path_errors(field: str, source: JsonObject) -> list[FieldError]:
    path, kind = text(source, "path"), text(source, "type")
    if not path:
        return [required(f"{field}.path")]
    errors: list[FieldError] = []
    if ".." in path.split("/"):
        errors.append(invalid_value(f"{field}.path", path, "must not contain '..'"))
    if kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return errors
