"""CustomResourceDefinitions: kinds that users bring. In force as soon as they are stored; gone when they are empty."""

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
    condition,
    grant_names,
    set_condition,
    taken_names,
)
from tinykube.server.custom.structural_schema import nodes
from tinykube.server.errors import FieldError, forbidden_field, invalid_value
from tinykube.server.json_access import fill, items, keep_only_status, made, member, number, text
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.statuses import status_door

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_RULES = "x-kubernetes-validations"
_NOT_EVALUATED = "x-kubernetes-validations: the rules (CEL) are kept, but not evaluated by this server: objects are not held to them"


class Kinds(Protocol):
    """What these rules ask of whoever serves the custom resources."""

    def refresh(self, name: str) -> None:
        """Serve what the stored definition of this name says now."""
        ...

    def others(self, name: str, group: str) -> Iterable[JsonObject]:
        """Return the other definitions of a group."""
        ...

    def is_builtin(self, group: str, plural: str) -> bool:
        """Tell whether the server has a resource of this name by itself."""
        ...


class _DefinitionStrategy(Strategy):
    """Names are granted, and the kind is served, with the write itself: who has its answer can use the kind."""

    plain_finalizers: ClassVar[bool] = True

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def default(self, obj: JsonObject) -> None:
        names = made(made(obj, "spec"), "names")
        kind = text(names, "kind")
        if kind:
            fill(names, "singular", kind.lower())
            fill(names, "listKind", f"{kind}List")
        status = made(obj, "status")
        if not items(status, "storedVersions"):
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
        status = obj["status"] = copy.deepcopy(member(old, "status"))
        stored = items(status, "storedVersions")
        status["storedVersions"] = stored + [
            name for name in _storage_versions(obj)[:1] if name not in stored
        ]
        changed = obj["spec"] != old["spec"]
        metadata_of(obj)["generation"] = number(metadata_of(old), "generation") + changed
        if "deletionTimestamp" not in metadata_of(old):
            self._grant(request, obj)
        self._refresh_after(request, obj)

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)
        self._refresh_after(request, obj)

    def _grant(self, request: Request, obj: JsonObject) -> None:
        others = self._kinds.others(text(metadata_of(obj), "name"), text(member(obj, "spec"), "group"))
        now = format_time(request.clock.wall())
        grant_names(obj, taken_names(others), now)
        set_approval(obj, now)

    def _refresh_after(self, request: Request, obj: JsonObject) -> None:
        name = text(metadata_of(obj), "name")
        request.on_commit.append(lambda: self._kinds.refresh(name))

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        errors: list[FieldError] = []
        if "resourceVersion" not in metadata_of(obj):
            if problem := definition_name_problem(obj):
                errors.append(invalid_value("metadata.name", text(metadata_of(obj), "name"), problem))
            errors += definition_errors(obj)
        spec = member(obj, "spec")
        group, plural = text(spec, "group"), text(member(spec, "names"), "plural")
        if self._kinds.is_builtin(group, plural):
            detail = f"{plural}.{group} is a resource of the server itself: choose another name or group"
            errors.append(forbidden_field("spec.names.plural", detail))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        return definition_errors(obj, old)

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        told: list[str] = []
        has_rules = False
        for version in items(member(obj, "spec"), "versions"):
            for one in nodes(member(version, "schema").get("openAPIV3Schema")):
                format_name = one.get("format") or ""
                if format_name and not is_known(format_name, one.get("type") or ""):
                    told.append(f'unrecognized format "{format_name}"')
                has_rules = has_rules or bool(one.get(_RULES))
        return [*told, _NOT_EVALUATED] if has_rules else told

    def is_held(self, obj: JsonObject) -> bool:
        """Keep a definition until its objects have been looked for."""
        return CLEANUP not in items(metadata_of(obj), "finalizers") and condition(obj, TERMINATING) is None

    def mark_deleted(self, request: Request, obj: JsonObject) -> None:
        metadata = metadata_of(obj)
        if metadata.get("generation"):
            metadata["generation"] -= 1  # a deletion is no change of the spec, for these
        metadata["finalizers"] = [*items(metadata, "finalizers"), CLEANUP]
        text_of = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_condition(
            obj, TERMINATING, True, "InstanceDeletionPending", text_of, format_time(request.clock.wall())
        )
        self._refresh_after(request, obj)

    def after_create(self, request: Request, obj: JsonObject) -> None:
        self._kinds.refresh(text(metadata_of(obj), "name"))

    def after_delete(self, request: Request, obj: JsonObject) -> None:
        self._kinds.refresh(text(metadata_of(obj), "name"))


def _storage_versions(obj: JsonObject) -> list[str]:
    versions = items(member(obj, "spec"), "versions")
    return [text(version, "name") for version in versions if version.get("storage")]


def custom_resource_definitions(kinds: Kinds) -> Definition:
    """Return the resource, for one server."""
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
        subresources=(status_door("CustomResourceDefinition"),),
        allows_unconditional_update=False,
    )
