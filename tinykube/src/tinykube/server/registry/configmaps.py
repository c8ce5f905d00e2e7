"""ConfigMaps: keys, size limit, and ``immutable``."""

import base64
from collections.abc import Sequence

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, too_long
from tinykube.server.json_access import get_object
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME, column

_LARGEST_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"


def decoded_size(value: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64.b64decode(value))


def frozen_errors(obj: JsonObject, old: JsonObject, names: Sequence[str]) -> list[FieldError]:
    """Return errors for changes of immutable fields, including ``immutable`` itself."""
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden_field("immutable", _FROZEN)]
    errors += [
        forbidden_field(name, _FROZEN) for name in names if get_object(obj, name) != get_object(old, name)
    ]
    return errors


class _ConfigMapStrategy(Strategy):
    """Keys are file names; the total size is at most one mebibyte."""

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        data, binary = get_object(obj, "data"), get_object(obj, "binaryData")
        errors: list[FieldError] = []
        for key in sorted(data):
            errors += validation.each(f"data[{key}]", key, validation.config_key_problems(key))
            if key in binary:
                errors.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in sorted(binary):
            errors += validation.each(f"binaryData[{key}]", key, validation.config_key_problems(key))
        size = sum(len(value.encode()) for value in data.values()) + sum(map(decoded_size, binary.values()))
        if size > _LARGEST_BYTES:
            errors.append(
                too_long("[]", _LARGEST_BYTES)
            )  # kube-apiserver reports the whole object with this path
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return frozen_errors(obj, old, ("data", "binaryData"))


CONFIG_MAPS = Definition(
    group="",
    version="v1",
    plural="configmaps",
    kind="ConfigMap",
    singular="configmap",
    namespaced=True,
    short_names=("cm",),
    strategy=_ConfigMapStrategy(),
    columns=(
        NAME,
        column("Data", lambda obj: len(get_object(obj, "data")) + len(get_object(obj, "binaryData"))),
        AGE,
    ),
)
