"""The ``scale`` subresource: the replicas of a workload."""

from tinykube.server.errors import invalid, stale
from tinykube.server.json_access import ensure_object, get_int, get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Request, Subresource
from tinykube.server.registry.printing import AGE, NAME, column, selector_text

_SHOWN_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


SCALE_COLUMNS = (
    NAME,
    column("Desired", lambda obj: get_int(get_object(obj, "spec"), "replicas"), kind="integer"),
    column("Available", lambda obj: get_int(get_object(obj, "status"), "replicas"), kind="integer"),
    AGE,
)
"""The table columns of a Scale of any kind."""


class Scale:
    """Reads and writes the replicas of one kind of workload."""

    def __init__(self, resource: GroupResource) -> None:
        self._resource = resource

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the Scale of a workload."""
        metadata, spec = metadata_of(obj), get_object(obj, "spec")
        status: JsonObject = {"replicas": get_int(get_object(obj, "status"), "replicas")}
        if selector := selector_text(spec.get("selector")):
            status["selector"] = selector
        replicas = get_int(spec, "replicas")
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in _SHOWN_METADATA if name in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Set the replicas; a change increments the generation.

        Raises 422 for a negative number, 409 for a stale resource version.
        """
        metadata, spec = metadata_of(obj), ensure_object(obj, "spec")
        name = get_str(metadata, "name")
        replicas = get_int(get_object(body, "spec"), "replicas")
        errors = validation.nonnegative("spec.replicas", replicas)
        if errors:
            raise invalid("autoscaling", "Scale", name, errors)
        version = get_str(metadata_of(body), "resourceVersion")
        if version not in ("", "0", metadata.get("resourceVersion")):
            raise stale(self._resource, name)
        if get_int(spec, "replicas") != replicas:
            spec["replicas"] = replicas
            metadata["generation"] = get_int(metadata, "generation") + 1
        return self.read(obj)


def scale_subresource(plural: str) -> Subresource:
    """Return the ``scale`` subresource of a workload of the group apps."""
    return Subresource(
        name="scale",
        verbs=("get", "patch", "update"),
        group="autoscaling",
        version="v1",
        kind="Scale",
        handler=Scale(GroupResource("apps", plural)),
        columns=SCALE_COLUMNS,
    )
