"""ControllerRevisions: immutable data and a mutable revision number."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, required
from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME, NONE, column


class _ControllerRevisionStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("revision", 0)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        errors = validation.nonnegative("revision", get_int(obj, "revision"))
        if obj.get("data") is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return validation.immutable("data", obj.get("data"), old.get("data"))


def _controller(obj: JsonObject) -> str:
    for reference in get_list(metadata_of(obj), "ownerReferences"):
        if reference.get("controller"):
            group, slash, _ = get_str(reference, "apiVersion").rpartition("/")
            kind = get_str(reference, "kind") + (f".{group}" if slash else "")
            return f"{kind.lower()}/{get_str(reference, 'name')}"
    return NONE


CONTROLLER_REVISIONS = Definition(
    group="apps",
    version="v1",
    plural="controllerrevisions",
    kind="ControllerRevision",
    singular="controllerrevision",
    namespaced=True,
    strategy=_ControllerRevisionStrategy(),
    columns=(
        NAME,
        column("Controller", _controller),
        column("Revision", lambda obj: get_int(obj, "revision")),
        AGE,
    ),
)
