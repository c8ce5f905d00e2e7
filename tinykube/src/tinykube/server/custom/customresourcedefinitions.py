"""CustomResourceDefinitions: served as soon as they are stored, removed once their objects are deleted."""

import copy
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from aiokube.api.times import format_time
from tinykube.server.custom.definition_validation import (
    definition_errors,
    definition_name_problem,
    set_approval,
)
from tinykube.server.custom.formats import is_known
from tinykube.server.custom.names import (
    TERMINATING,
    accept_names,
    condition,
    set_condition,
    taken_names,
)
from tinykube.server.custom.structural_schema import nodes
from tinykube.server.errors import FieldError, forbidden_field, invalid_value
from tinykube.server.json_access import (
    ensure_object,
    get_int,
    get_list,
    get_object,
    get_str,
    keep_only_status,
    set_if_empty,
)
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.statuses import status_subresource

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_RULES = "x-kubernetes-validations"
_NOT_EVALUATED = (
    "x-kubernetes-validations: the rules (CEL) are stored, but this server does not evaluate them"
)


class Kinds(Protocol):
    """The operations of the custom resource registry that the strategy needs."""

    def refresh(self, name: str) -> None:
        """Serve the stored definition of this name."""
        ...

    def others(self, name: str, group: str) -> Iterable[JsonObject]:
        """Return the other definitions of a group."""
        ...

    def is_builtin(self, group: str, plural: str) -> bool:
        """Return whether the server has a built-in resource of this name."""
        ...


class _DefinitionStrategy(Strategy):
    """Names are accepted and the kind is served within the write: clients can use the kind once they have the response."""

    plain_finalizers: ClassVar[bool] = True

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def default(self, obj: JsonObject) -> None:
        names = ensure_object(ensure_object(obj, "spec"), "names")
        kind = get_str(names, "kind")
        if kind:
            set_if_empty(names, "singular", kind.lower())
            set_if_empty(names, "listKind", f"{kind}List")
        status = ensure_object(obj, "status")
        if not get_list(status, "storedVersions"):
            status["storedVersions"] = _storage_versions(obj)[:1]

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        obj["status"] = {
            "conditions": [],
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj)[:1],
        }
        metadata_of(obj)["generation"] = 1
        self._grant(request, obj)

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        status = obj["status"] = copy.deepcopy(get_object(old, "status"))
        stored = get_list(status, "storedVersions")
        status["storedVersions"] = stored + [
            name for name in _storage_versions(obj)[:1] if name not in stored
        ]
        changed = obj["spec"] != old["spec"]
        metadata_of(obj)["generation"] = get_int(metadata_of(old), "generation") + changed
        if "deletionTimestamp" not in metadata_of(old):
            self._grant(request, obj)
        self._refresh_after(request, obj)

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)
        self._refresh_after(request, obj)

    def _grant(self, request: Request, obj: JsonObject) -> None:
        others = self._kinds.others(
            get_str(metadata_of(obj), "name"), get_str(get_object(obj, "spec"), "group")
        )
        now = format_time(request.clock.wall())
        accept_names(obj, taken_names(others), now)
        set_approval(obj, now)

    def _refresh_after(self, request: Request, obj: JsonObject) -> None:
        name = get_str(metadata_of(obj), "name")
        request.on_commit.append(lambda: self._kinds.refresh(name))

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        errors: list[FieldError] = []
        if "resourceVersion" not in metadata_of(obj):
            if problem := definition_name_problem(obj):
                errors.append(invalid_value("metadata.name", get_str(metadata_of(obj), "name"), problem))
            errors += definition_errors(obj)
        spec = get_object(obj, "spec")
        group, plural = get_str(spec, "group"), get_str(get_object(spec, "names"), "plural")
        if self._kinds.is_builtin(group, plural):
            detail = f"{plural}.{group} is a built-in resource: choose another name or group"
            errors.append(forbidden_field("spec.names.plural", detail))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return definition_errors(obj, old)

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        found: list[str] = []
        has_rules = False
        for version in get_list(get_object(obj, "spec"), "versions"):
            for one in nodes(get_object(version, "schema").get("openAPIV3Schema")):
                format_name = one.get("format") or ""
                if format_name and not is_known(format_name, one.get("type") or ""):
                    found.append(f'unrecognized format "{format_name}"')
                has_rules = has_rules or bool(one.get(_RULES))
        return [*found, _NOT_EVALUATED] if has_rules else found

    def is_held(self, obj: JsonObject) -> bool:
        """Hold a definition until its objects have been deleted."""
        return CLEANUP not in get_list(metadata_of(obj), "finalizers") and condition(obj, TERMINATING) is None

    def mark_deleted(self, request: Request, obj: JsonObject) -> None:
        metadata = metadata_of(obj)
        if metadata.get("generation"):
            metadata["generation"] -= (
                1  # unlike for other kinds, a deletion does not increment the generation
            )
        metadata["finalizers"] = [*get_list(metadata, "finalizers"), CLEANUP]
        text_of = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_condition(
            obj, TERMINATING, True, "InstanceDeletionPending", text_of, format_time(request.clock.wall())
        )
        self._refresh_after(request, obj)

    def after_create(self, request: Request, obj: JsonObject) -> None:
        self._kinds.refresh(get_str(metadata_of(obj), "name"))

    def after_delete(self, request: Request, obj: JsonObject) -> None:
        self._kinds.refresh(get_str(metadata_of(obj), "name"))


def _storage_versions(obj: JsonObject) -> list[str]:
    versions = get_list(get_object(obj, "spec"), "versions")
    return [get_str(version, "name") for version in versions if version.get("storage")]


def custom_resource_definitions(kinds: Kinds) -> Definition:
    """Return the resource for one server."""
    return Definition(
        group="apiextensions.k8s.io",
        version="v1",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        singular="customresourcedefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        strategy=_DefinitionStrategy(kinds),
        subresources=(status_subresource("CustomResourceDefinition"),),
        allows_unconditional_update=False,
    )
