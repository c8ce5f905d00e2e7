"""Secrets: ``stringData``, typed secrets, and ``immutable``. Values are never printed."""

import base64
import json
from collections.abc import Sequence

from tinykube.server.errors import FieldError, invalid_value, required, too_long
from tinykube.server.json_access import ensure_object, get_object, get_str, set_if_empty
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.configmaps import decoded_size, frozen_errors
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME, column

_LARGEST_BYTES = 1024 * 1024
_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_USER, _PASSWORD = "username", "password"


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict | None)
    except ValueError:
        return False


def _type_errors(obj: JsonObject) -> list[FieldError]:
    data, kind = get_object(obj, "data"), get_str(obj, "type")
    missing = {
        key: required(f"data[{key}]") for key in ("ssh-privatekey", "tls.crt", "tls.key", _USER, _PASSWORD)
    }
    if kind == "kubernetes.io/service-account-token":
        annotations = metadata_of(obj).get("annotations") or {}
        if not annotations.get(_SERVICE_ACCOUNT_NAME):
            return [required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]")]
    elif kind in _JSON_KEYS:
        key = _JSON_KEYS[kind]
        if key not in data:
            return [required(f"data[{key}]")]
        if not _is_json_object(data[key]):
            shown = "<secret contents redacted>"
            return [
                invalid_value(
                    f"data[{key}]", shown, "unexpected end of JSON input" if not data[key] else "invalid JSON"
                )
            ]
    elif kind == "kubernetes.io/basic-auth":
        if _USER not in data and _PASSWORD not in data:
            return [missing[_USER], missing[_PASSWORD]]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [missing["ssh-privatekey"]]
    elif kind == "kubernetes.io/tls":
        return [missing[key] for key in ("tls.crt", "tls.key") if key not in data]
    return []


class _SecretStrategy(Strategy):
    """``stringData`` is merged into ``data`` and never stored; the type is immutable."""

    def default(self, obj: JsonObject) -> None:
        given = obj.pop("stringData", None)
        if given:
            data = ensure_object(obj, "data")
            for key, value in given.items():
                data[key] = base64.b64encode(value.encode()).decode()
        set_if_empty(obj, "type", "Opaque")

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        data = get_object(obj, "data")
        errors: list[FieldError] = []
        for key in sorted(data):
            errors += validation.each(f"data[{key}]", key, validation.config_key_problems(key))
        if sum(map(decoded_size, data.values())) > _LARGEST_BYTES:
            errors.append(too_long("data", _LARGEST_BYTES))
        return errors + _type_errors(obj)

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return validation.immutable("type", obj["type"], old["type"]) + frozen_errors(obj, old, ("data",))


SECRETS = Definition(
    group="",
    version="v1",
    plural="secrets",
    kind="Secret",
    singular="secret",
    namespaced=True,
    strategy=_SecretStrategy(),
    fields=lambda obj: {"type": get_str(obj, "type")},
    field_names=("type",),
    columns=(
        NAME,
        column("Type", lambda obj: get_str(obj, "type")),
        column("Data", lambda obj: len(get_object(obj, "data"))),
        AGE,
    ),
)
