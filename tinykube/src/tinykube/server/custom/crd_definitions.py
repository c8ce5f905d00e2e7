"""Convert a CustomResourceDefinition to the server's definitions, one per version."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tinykube.server.custom.columns import columns_of
from tinykube.server.custom.jsonpath import json_path
from tinykube.server.custom.names import ESTABLISHED, TERMINATING, is_true
from tinykube.server.custom.scale import path_names, path_scale_subresource
from tinykube.server.custom.strategy import CustomStrategy, VersionView
from tinykube.server.custom.structural_schema import Schema
from tinykube.server.fields.kinds import CustomTypes, CustomVersion
from tinykube.server.json_access import get_int, get_list, get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry.definition import Definition, Verb
from tinykube.server.registry.statuses import status_subresource

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_VERBS: tuple[Verb, ...] = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)
_STAGES = {"": 2, "beta": 1, "alpha": 0}


class CustomKind(msgspec.Struct, frozen=True):
    """One version of one custom resource: its schema and its registry definition."""

    schema: Schema
    list_kind: str
    definition: Definition


def kinds_of(crd: JsonObject) -> tuple[CustomKind, ...]:
    """Return the served versions of a definition; none before its names are accepted."""
    if not is_true(crd, ESTABLISHED):
        return ()
    versions, types = get_list(get_object(crd, "spec"), "versions"), _types(crd)
    return tuple(_kind(crd, version, types) for version in versions if version.get("served"))


def resource_of(crd: JsonObject) -> GroupResource:
    """Return the collection of a definition's objects."""
    spec = get_object(crd, "spec")
    return GroupResource(get_str(spec, "group"), get_str(get_object(spec, "names"), "plural"))


def _types(crd: JsonObject) -> CustomTypes:
    """Return field ownership for a definition's objects in all of its versions."""
    known = {}
    for version in get_list(get_object(crd, "spec"), "versions"):
        declared = get_object(version, "subresources")
        replicas = get_str(get_object(declared, "scale"), "specReplicasPath")
        known[get_str(version, "name")] = CustomVersion(
            _schema(version),
            declared.get("status") is not None,
            tuple(f"f:{name}" for name in path_names(replicas)) if replicas else None,
        )
    return CustomTypes(resource_of(crd).group, known)


def _schema(version: JsonObject) -> Schema:
    return get_object(version, "schema").get("openAPIV3Schema") or {}


def _kind(crd: JsonObject, version: JsonObject, types: CustomTypes) -> CustomKind:
    spec, resource = get_object(crd, "spec"), resource_of(crd)
    names = get_object(get_object(crd, "status"), "acceptedNames")
    schema = _schema(version)
    declared = get_object(version, "subresources")
    has_status, scale = declared.get("status") is not None, declared.get("scale")
    kind, version_name = get_str(names, "kind"), get_str(version, "name")
    selectable = [get_str(one, "jsonPath") for one in get_list(version, "selectableFields")]
    subresources = [status_subresource(kind)] if has_status else []
    if isinstance(scale, dict):
        subresources.append(path_scale_subresource(resource, kind, scale))
    view = _view(crd, version_name)
    definition = Definition(
        group=resource.group,
        version=version_name,
        plural=resource.plural,
        kind=kind,
        list_kind=get_str(names, "listKind"),
        singular=get_str(names, "singular"),
        namespaced=get_str(spec, "scope") == "Namespaced",
        short_names=tuple(get_list(names, "shortNames")),
        categories=tuple(get_list(names, "categories")),
        strategy=CustomStrategy(
            resource,
            schema,
            view=view,
            has_status=has_status,
            scale=scale if isinstance(scale, dict) else None,
            is_terminating=is_true(crd, TERMINATING),
        ),
        subresources=tuple(subresources),
        columns=columns_of(version),
        fields=_fields(selectable),
        field_names=tuple(path.removeprefix(".") for path in selectable),
        typed_items=True,
        verbs=_VERBS,
        allows_unconditional_update=False,
        view=view,
        types=types,
        deprecation=_deprecation(crd, kind, version),
    )
    return CustomKind(schema, definition.listed_kind, definition)


def _view(crd: JsonObject, version_name: str) -> VersionView | None:
    """Return the conversion from the stored form to this version; ``None`` if none is needed."""
    spec, group = get_object(crd, "spec"), resource_of(crd).group
    versions = get_list(spec, "versions")
    if len(versions) == 1 and get_int(metadata_of(crd), "generation") == 1:
        return None
    stored = next(get_str(version, "name") for version in versions if version.get("storage"))
    schemas: dict[str, Schema] = {
        f"{group}/{get_str(version, 'name')}": _schema(version) for version in versions
    }
    return VersionView(f"{group}/{version_name}", f"{group}/{stored}", schemas)


def _fields(paths: list[str]) -> Callable[[JsonObject], Mapping[str, str]]:
    read = [(path.removeprefix("."), json_path(path)) for path in paths]

    def values(obj: JsonObject) -> Mapping[str, str]:
        return {name: _field_text(path.first(obj)) for name, path in read}

    return values


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _deprecation(crd: JsonObject, kind: str, version: JsonObject) -> str:
    """Return the deprecation warning of a version: its own, or one that names the best newer version."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return get_str(version, "deprecationWarning")
    group, name = resource_of(crd).group, get_str(version, "name")
    better = sorted(
        (
            get_str(one, "name")
            for one in get_list(get_object(crd, "spec"), "versions")
            if one.get("served") and not one.get("deprecated")
        ),
        key=version_order,
    )
    instead = ""
    if better and version_order(better[0]) < version_order(name):
        instead = f"; use {group}/{better[0]} {kind}"
    return f"{group}/{name} {kind} is deprecated{instead}"


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key for kube-aware version priority: v2, v1, v1beta2, v1alpha1, then other names."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (1, 0, 0, version)
    stage = _STAGES[found[2] or ""]
    return (0, -stage, -int(found[1]) * 1_000_000 - int(found[3] or 0), version)
