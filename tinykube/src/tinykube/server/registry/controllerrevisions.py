"""ControllerRevisions: data that never changes, and a number that does."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, required
from tinykube.server.json_access import items, number, text
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation as checks
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME, NONE, column


class _ControllerRevisionStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("revision", 0)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        errors = checks.nonnegative("revision", number(obj, "revision"))
        if obj.get("data") is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return checks.immutable("data", obj.get("data"), old.get("data"))


def _controller(obj: JsonObject) -> str:
    for reference in items(metadata_of(obj), "ownerReferences"):
        if reference.get("controller"):
            group, slash, _ = text(reference, "apiVersion").rpartition("/")
            kind = text(reference, "kind") + (f".{group}" if slash else "")
            return f"{kind.lower()}/{text(reference, 'name')}"
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
        column("Revision", lambda obj: number(obj, "revision")),
        AGE,
    ),
)
