"""The OpenAPI v3 document of a group version, for kubectl's validate, explain and apply.

In each PATCH operation, kubectl looks up the kind and a ``fieldValidation`` parameter (without which it
validates on the client side); in the schemas, merge keys and list types.
"""

from collections.abc import Callable
from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Registry, Subresource
from tinykube.server.schema.loader import UnknownTypeError
from tinykube.server.schema.openapi_schemas import Schemas

_JSON_TYPES = ("application/json", "application/yaml")
_STRATEGIC = "application/strategic-merge-patch+json"  # without it, kubectl apply sends merge patches
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    _STRATEGIC,
)
_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_ACTIONS = {"create": "post", "update": "put"}
_WRITE = ("dryRun:string", "fieldManager:string", "fieldValidation:string")
_LIST = (
    "allowWatchBookmarks:boolean",
    "continue:string",
    "fieldSelector:string",
    "labelSelector:string",
    "limit:integer",
    "resourceVersion:string",
    "resourceVersionMatch:string",
    "sendInitialEvents:boolean",
    "timeoutSeconds:integer",
    "watch:boolean",
)
_DELETE = (
    "dryRun:string",
    "gracePeriodSeconds:integer",
    "orphanDependents:boolean",
    "propagationPolicy:string",
)
_PARAMETERS = {
    "list": _LIST,
    "create": _WRITE,
    "update": _WRITE,
    "patch": (*_WRITE, "force:boolean"),
    "delete": _DELETE,
    "deletecollection": (*_LIST, *_DELETE),
}


class TypeOpenApi:
    """Builds the documents (:class:`tinykube.server.http.openapi.OpenApiSource`). Stateless."""

    def __init__(self, schemas: Callable[[str, str], Schemas] = Schemas) -> None:
        self._schemas = schemas

    def document(self, registry: Registry, group: str, version: str) -> JsonObject:
        """Return the document of a group version: its paths and all types they refer to."""
        schemas = self._schemas(group, version)
        paths: dict[str, JsonObject] = {}
        for definition in registry.all():
            if (definition.group, definition.version) == (group, version):
                _add_paths(paths, schemas, definition)
        for kind in ("Status", "DeleteOptions", "WatchEvent"):
            schemas.reference(group, version, kind)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": dict(sorted(schemas.collected.items())),
                "securitySchemes": {
                    "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}
                },
            },
        }


def _add_paths(paths: dict[str, JsonObject], schemas: Schemas, definition: Definition) -> None:
    root = (
        f"/apis/{definition.group}/{definition.version}" if definition.group else f"/api/{definition.version}"
    )
    scope = "/namespaces/{namespace}" if definition.namespaced else ""
    collection = f"{root}{scope}/{definition.plural}"
    item = f"{collection}/{{name}}"
    own = (definition.group, definition.version, definition.kind)
    if not _is_described(schemas, *own):
        return  # a custom resource: described by its CustomResourceDefinition
    for verb in definition.verbs:
        if verb == "watch":
            continue
        on_item = verb in ("get", "update", "patch", "delete")
        path = item if on_item else collection
        shared = paths.setdefault(path, {"parameters": _path_parameters(path)})
        shared[_METHODS[verb]] = _operation(schemas, verb, own, definition)
    if definition.namespaced and "list" in definition.verbs:
        path = f"{root}/{definition.plural}"
        paths[path] = {"parameters": [], "get": _operation(schemas, "list", own, definition, everywhere=True)}
    for subresource in definition.subresources:
        _add_subresource(paths, schemas, definition, subresource, f"{item}/{subresource.name}")


def _add_subresource(
    paths: dict[str, JsonObject],
    schemas: Schemas,
    definition: Definition,
    subresource: Subresource,
    path: str,
) -> None:
    kind = (
        subresource.group or definition.group,
        subresource.version or definition.version,
        subresource.kind,
    )
    if not _is_described(schemas, *kind):
        return
    shared = paths.setdefault(path, {"parameters": _path_parameters(path)})
    for verb in subresource.verbs:
        shared[_METHODS[verb]] = _operation(schemas, verb, kind, definition, subresource=subresource.name)


def _is_described(schemas: Schemas, group: str, version: str, kind: str) -> bool:
    try:
        schemas.reference(group, version, kind)
    except UnknownTypeError:
        return False
    return True


def _operation(
    schemas: Schemas,
    verb: str,
    kind: tuple[str, str, str],
    definition: Definition,
    *,
    everywhere: bool = False,
    subresource: str = "",
) -> JsonObject:
    group, version, name = kind
    answered = name
    if verb in ("list", "deletecollection"):
        answered = (
            definition.listed_kind
            if verb == "list" and _is_described(schemas, group, version, definition.listed_kind)
            else "Status"
        )
    elif verb == "delete" and not definition.returns_object_on_delete:
        answered = "Status"
    answer = schemas.reference(group, version, answered)
    operation: JsonObject = {
        "tags": [_tag(definition)],
        "operationId": _operation_id(verb, definition, everywhere, subresource),
        "parameters": [_parameter(one) for one in _PARAMETERS.get(verb, ())],
        "responses": {
            "201" if verb == "create" else "200": {
                "description": "OK",
                "content": _content(_JSON_TYPES, answer),
            },
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": name},
    }
    if verb == "patch":
        taken = tuple(one for one in _PATCH_TYPES if one != _STRATEGIC or not definition.typed_items)
        body = _content(taken, schemas.patch_reference())
        operation["requestBody"] = {"content": body, "required": True}
    elif verb in ("create", "update"):
        body = {"*/*": {"schema": schemas.reference(group, version, name)}}
        operation["requestBody"] = {"content": body, "required": True}
    elif verb in ("delete", "deletecollection"):
        options = schemas.reference(group, version, "DeleteOptions")
        operation["requestBody"] = {"content": {"*/*": {"schema": options}}}
    return operation


def _tag(definition: Definition) -> str:
    group = definition.group.removesuffix(".k8s.io").replace(".", "_") or "core"
    return f"{group}_{definition.version}"


def _operation_id(verb: str, definition: Definition, everywhere: bool, subresource: str) -> str:
    names = {"get": "read", "update": "replace", "deletecollection": "deleteCollection"}
    tag = "".join(part.capitalize() for part in _tag(definition).split("_"))
    scope = "Namespaced" if definition.namespaced and not everywhere else ""
    suffix = "ForAllNamespaces" if everywhere else ""
    return f"{names.get(verb, verb)}{tag}{scope}{definition.kind}{subresource.capitalize()}{suffix}"


def _content(media_types: tuple[str, ...], schema: JsonObject) -> JsonObject:
    return {media: {"schema": schema} for media in media_types}


def _parameter(text: str) -> JsonObject:
    name, _, kind = text.partition(":")
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(path: str) -> list[Any]:
    names = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
    found: list[Any] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in names
    ]
    return [*found, _parameter("pretty:string")]
