"""The ``scale`` subresource of custom resources: replicas at the path that the definition specifies."""

from typing import Any

from tinykube.server.errors import FieldError, bad_request, invalid, invalid_value, stale
from tinykube.server.json_access import get_int, get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry.definition import Request, Subresource

_SHOWN_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MOST = 2**31 - 1
_UNSET = -(2**31)
"""The replicas that a patch starts from if the object specifies no number, as on kube-apiserver; the patch must change it."""


def path_names(path: str) -> list[str]:
    """Return the names in a path of the definition."""
    return path.removeprefix(".").split(".")


def _obstacle(obj: JsonObject, path: str) -> Any:
    """Return the first value on a path that has no members; ``None`` if the path is free."""
    value: Any = obj
    for name in path_names(path)[:-1]:
        value = value.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            return value
    return None


def value_at(obj: JsonObject, path: str) -> Any:
    """Return the value at a path of names, or ``None``."""
    value: Any = obj
    for name in path_names(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value


class PathScale:
    """Reads and writes the replicas of one kind (:class:`~.registry.definition.SubresourceHandler`)."""

    def __init__(self, resource: GroupResource, kind: str, scale: JsonObject) -> None:
        self._resource = resource
        self._kind = kind
        self._spec_path = get_str(scale, "specReplicasPath")
        self._status_path = get_str(scale, "statusReplicasPath")
        self._selector_path = get_str(scale, "labelSelectorPath")

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the Scale; without replicas in the object, they are 0."""
        metadata = metadata_of(obj)
        replicas = value_at(obj, self._spec_path) or 0
        status: JsonObject = {"replicas": value_at(obj, self._status_path) or 0}
        selector = value_at(obj, self._selector_path) if self._selector_path else None
        if isinstance(selector, str) and selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in _SHOWN_METADATA if name in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def before(self, obj: JsonObject) -> JsonObject:
        """Return the Scale that a patch starts from; without replicas in the object, they are marked as unset."""
        scale = self.read(obj)
        if value_at(obj, self._spec_path) is None:
            scale["spec"] = {"replicas": _UNSET}
        return scale

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Set the replicas; a change increments the generation. Raises 400, 409 and 422."""
        metadata = metadata_of(obj)
        replicas = get_int(get_object(body, "spec"), "replicas")
        if replicas == _UNSET:
            raise bad_request(f'the spec replicas field "{self._spec_path}" cannot be empty')
        if replicas < 0:
            error = invalid_value(self._spec_path, replicas, "should be a non-negative integer")
            raise invalid(self._resource.group, self._kind, get_str(metadata, "name"), [error])
        version = get_str(metadata_of(body), "resourceVersion")
        if version not in ("", "0", metadata.get("resourceVersion")):
            raise stale(self._resource, get_str(metadata, "name"))
        if value_at(obj, self._spec_path) != replicas:
            self._put(obj, replicas)
            metadata["generation"] = get_int(metadata, "generation") + 1
        return self.read(obj)

    def _put(self, obj: JsonObject, replicas: int) -> None:
        *parents, last = path_names(self._spec_path)
        holder = obj
        for name in parents:
            inner = holder.setdefault(name, {})
            if not isinstance(inner, dict):
                raise bad_request(f"value cannot be set because {self._spec_path} is not an object path")
            holder = inner
        holder[last] = replicas


def path_scale_subresource(resource: GroupResource, kind: str, scale: JsonObject) -> Subresource:
    """Return the ``scale`` subresource of a custom resource."""
    handler = PathScale(resource, kind, scale)
    return Subresource(
        name="scale",
        verbs=("get", "patch", "update"),
        group="autoscaling",
        version="v1",
        kind="Scale",
        handler=handler,
        before=handler.before,
    )


def scale_errors(obj: JsonObject, scale: JsonObject) -> list[FieldError]:
    """Return the errors of the values at an object's replicas and selector paths."""
    errors: list[FieldError] = []
    for name in ("specReplicasPath", "statusReplicasPath"):
        path = get_str(scale, name)
        value = value_at(obj, path)
        obstacle = _obstacle(obj, path)
        if obstacle is not None:
            errors.append(invalid_value(path, 0, _wrong_type(path, obstacle, "map[string]interface{}")))
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            errors.append(invalid_value(path, 0, _wrong_type(path, value, "int64")))
        elif value < 0:
            errors.append(invalid_value(path, value, "should be a non-negative integer"))
        elif value > _MOST:
            errors.append(invalid_value(path, value, f"should be less than or equal to {_MOST}"))
    path = get_str(scale, "labelSelectorPath")
    selector = value_at(obj, path) if path else None
    if selector is not None and not isinstance(selector, str):
        errors.append(invalid_value(path, "", _wrong_type(path, selector, "string")))
    return errors


def _wrong_type(path: str, value: Any, wanted: str) -> str:
    return f"{path} accessor error: {value} is of the type {_go_type(value)}, expected {wanted}"


def _go_type(value: Any) -> str:
    names = {bool: "bool", str: "string", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
