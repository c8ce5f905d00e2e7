"""Namespaces: the name label, the finalizer that waits for their contents, and the undeletable ones."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, forbidden, invalid, invalid_value
from tinykube.server.json_access import ensure_object, get_list, get_object, get_str, keep_only_status
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy, Subresource
from tinykube.server.registry.names import dns_label_problem
from tinykube.server.registry.printing import AGE, NAME, column
from tinykube.server.registry.statuses import status_subresource

RESOURCE = GroupResource("", "namespaces")
LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = (FINALIZER, "orphan", "foregroundDeletion")
_UNDELETABLE = ("default", "kube-system", "kube-public")
_ACTIVE, _TERMINATING = "Active", "Terminating"


def _finalizer_errors(field: str, name: str) -> list[FieldError]:
    errors = validation.qualified_name(field, name)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid_value(field, name, text))
    return errors


def _spec_finalizers(obj: JsonObject) -> list[str]:
    return get_list(get_object(obj, "spec"), "finalizers")


class _NamespaceStrategy(Strategy):
    """A namespace is Active when created and, after its deletion, Terminating until ``/finalize`` removes its finalizers."""

    def default(self, obj: JsonObject) -> None:
        metadata = metadata_of(obj)
        if metadata.get("name"):
            ensure_object(metadata, "labels")[LABEL] = metadata["name"]
        ensure_object(obj, "spec")
        status = ensure_object(obj, "status")
        status["phase"] = get_str(status, "phase") or _ACTIVE

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        obj["status"] = {"phase": _ACTIVE}
        finalizers = _spec_finalizers(obj)
        if FINALIZER not in finalizers:
            obj["spec"]["finalizers"] = [*finalizers, FINALIZER]

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        for name in ("spec", "status"):
            obj[name] = old[name]

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)

    def validate_name(self, name: str) -> str:
        return dns_label_problem(name)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        return [
            error for name in _spec_finalizers(obj) for error in _finalizer_errors("spec.finalizers", name)
        ]

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        phase = get_str(get_object(obj, "status"), "phase")
        if phase == get_str(get_object(old, "status"), "phase"):
            return ()
        expected, when = (
            (_TERMINATING, "is not empty")
            if metadata_of(obj).get("deletionTimestamp")
            else (_ACTIVE, "is empty")
        )
        if phase == expected:
            return ()
        return [
            invalid_value("status.Phase", phase, f"may only be '{expected}' if `deletionTimestamp` {when}")
        ]

    def check_delete(self, request: Request, obj: JsonObject) -> None:
        name = get_str(metadata_of(obj), "name")
        if name in _UNDELETABLE:
            raise forbidden(RESOURCE, name, "this namespace may not be deleted")

    def mark_deleted(self, request: Request, obj: JsonObject) -> None:
        ensure_object(obj, "status")["phase"] = _TERMINATING

    def is_held(self, obj: JsonObject) -> bool:
        return bool(_spec_finalizers(obj))


class Finalize:
    """``PUT .../finalize``: the only way to remove a namespace's spec.finalizers."""

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the namespace."""
        return obj

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Set the finalizers and metadata of the body; keep the status. Raises 422."""
        finalizers = _spec_finalizers(body)
        errors = [
            error
            for index, name in enumerate(finalizers)
            for error in _finalizer_errors(f"spec.finalizers[{index}]", name)
        ]
        if errors:
            raise invalid("", "Namespace", get_str(metadata_of(obj), "name"), errors)
        obj["spec"] = {"finalizers": list(finalizers)} if finalizers else {}
        return obj


NAMESPACES = Definition(
    group="",
    version="v1",
    plural="namespaces",
    kind="Namespace",
    singular="namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    strategy=_NamespaceStrategy(),
    subresources=(
        Subresource(name="finalize", verbs=("update",), kind="Namespace", handler=Finalize()),
        status_subresource("Namespace"),
    ),
    columns=(NAME, column("Status", lambda obj: get_str(get_object(obj, "status"), "phase")), AGE),
    fields=lambda obj: {
        "status.phase": get_str(get_object(obj, "status"), "phase"),
        "name": get_str(metadata_of(obj), "name"),
    },
    field_names=("status.phase", "name"),
    returns_object_on_delete=True,
)
