"""Write subresources other than ``status``: ``scale``, ``binding``, ``eviction`` and ``finalize``, each by its handler.

Stages of a write: current object -> merge or apply -> conform -> handler -> managed fields -> validation ->
commit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tinykube.server.errors import StatusError, bad_request, invalid, not_found, stale
from tinykube.server.fields import scaling
from tinykube.server.objects import JsonObject
from tinykube.server.patch.errors import no_strategic_merge
from tinykube.server.patch.service import PatchType
from tinykube.server.registry.definition import Request, Subresource, SubresourceHandler
from tinykube.server.storage.model import StoredObject
from tinykube.server.verbs.commit import MAX_ATTEMPTS, Attempt
from tinykube.server.verbs.context import Backend, Target, copied, shown
from tinykube.server.verbs.delete import delete
from tinykube.server.verbs.field_manager import (
    FieldManager,
    own_scaled,
    scale_to_write,
    set_managed_fields,
    writer,
)
from tinykube.server.verbs.field_validation import Kind, conform, report_duplicate_keys
from tinykube.server.verbs.metadata import check_name, check_namespace, check_type, ensure_metadata
from tinykube.server.verbs.options import DeleteOptions, WriteOptions
from tinykube.server.verbs.write import applied_document, keep_times, replace

_EVICTION = "eviction"
_FINALIZE = "finalize"
_SCALE = "scale"


def read_subresource(backend: Backend, target: Target, handler: SubresourceHandler) -> JsonObject:
    """Return the response to a GET of a subresource. Raises 404."""
    stored = backend.storage.get(target.key())
    if stored is None:
        raise not_found(target.resource, target.name)
    return handler.read(shown(target.definition, stored.decode()))


async def write_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    body: JsonObject,
    options: WriteOptions,
) -> JsonObject:
    """Create or update a subresource; return the response. The handler decides on the newest accepted object.

    A permitted eviction is a deletion with the eviction's options.
    """
    _check_body(backend, target, request, subresource, body, options)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            current = _current(backend, target, subresource)
            return await _write(backend, target, request, subresource, options, current, copied(body))
    raise stale(target.resource, target.name)


async def patch_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    patch_type: PatchType,
    patch: object,
    options: WriteOptions,
) -> JsonObject:
    """Patch a subresource; return the response. Raises 415 for a strategic merge patch of a custom resource."""
    if patch_type == "strategic" and target.definition.types is not None:
        raise no_strategic_merge()
    kind = _kind(target, subresource)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            current = _current(backend, target, subresource)
            body = backend.patches.apply(patch_type, *kind, copied(current.shown), patch)
            _check_body(backend, target, request, subresource, body, options)
            return await _write(backend, target, request, subresource, options, current, body)
    raise stale(target.resource, target.name)


async def apply_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    body: Any,
    options: WriteOptions,
    problems: Sequence[str] = (),
) -> JsonObject:
    """Server-side apply to a subresource; return the response.

    Only a Scale can be applied: changing a field of another manager is rejected (409) unless forced.
    ``problems``: the findings of strict decoding. Raises 400, 404, 409, 415 for other subresources, and 500
    for fields that a Scale does not have.
    """
    if subresource.name != _SCALE:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    wanted, who = applied_document(body), writer(target, request, options)
    is_custom, force = target.definition.types is not None, bool(options.force)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            current = _current(backend, target, subresource)
            live = copied(current.shown)
            result, entries = scaling.applied(who, live, wanted, force=force, is_custom=is_custom)
            report_duplicate_keys(request, options, problems)
            scale = copied(result)
            _check_body(backend, target, request, subresource, scale, options)
            set_managed_fields(scale, entries)
            return await _write(backend, target, request, subresource, options, current, scale, is_apply=True)
    raise stale(target.resource, target.name)


async def modify_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    make: Callable[[JsonObject], JsonObject],
) -> JsonObject:
    """Update a subresource with ``make(current)``, called again after each lost race; return the response.

    Raises 404 and the errors of ``make`` and the handler.
    """
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            current = _current(backend, target, subresource)
            body = make(copied(current.shown))
            return await _write(backend, target, request, subresource, None, current, body)
    raise stale(target.resource, target.name)


class _Current(msgspec.Struct, frozen=True):
    """The newest accepted object, and the subresource before the write."""

    stored: StoredObject
    handler: SubresourceHandler
    shown: JsonObject


def _current(backend: Backend, target: Target, subresource: Subresource) -> _Current:
    handler = subresource.handler
    if handler is None:
        raise bad_request(f"{subresource.name} has no handler: write it like the object")
    stored = backend.storage.head(target.key())
    if stored is None:
        raise not_found(target.resource, target.name)
    obj = stored.decode()
    shown_now = (subresource.before or handler.read)(obj)
    if subresource.name == _SCALE:
        shown_now = scale_to_write(target, shown_now, obj)
    return _Current(stored, handler, shown_now)


async def _write(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    options: WriteOptions | None,
    current: _Current,
    body: JsonObject,
    *,
    is_apply: bool = False,
) -> JsonObject:
    """Let the handler apply a conformed body to the object, and commit it. ``is_apply``: the body has its managed fields."""
    stored, handler = current.stored, current.handler
    old, obj = stored.decode(), stored.decode()
    response = handler.write(request, obj, body)
    if subresource.answers_only:
        return response
    if subresource.name == _EVICTION:
        given = body.get("deleteOptions")
        wanted = DeleteOptions.from_document(given if isinstance(given, dict) else {})
        await delete(backend, Target(target.definition, target.namespace, target.name), request, wanted)
        return response
    if subresource.name == _SCALE:
        own_scaled(target, request, options, obj, current.shown, body, is_applied=is_apply)
        keep_times(obj, old)
        _check_scaled(target, request, old, obj)
    elif subresource.name == _FINALIZE:
        set_managed_fields(obj, FieldManager(target, request, options).update(old, obj, None))
    result = await replace(backend, target, request, stored, old, obj)
    # The handler's response has the resource version from before the commit.
    return handler.read(result.decode()) if _shows_object(response) else response


def _kind(target: Target, subresource: Subresource) -> Kind:
    definition = target.definition
    return Kind(
        subresource.group or definition.group, subresource.version or definition.version, subresource.kind
    )


def _check_body(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    body: JsonObject,
    options: WriteOptions,
) -> None:
    kind = _kind(target, subresource)
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    check_type(backend.registry, kind.kind, api_version, body)
    metadata = ensure_metadata(body)
    check_namespace(metadata, target.namespace)
    if not subresource.answers_only:
        check_name(metadata, target.name)
    conform(backend.schema, request, options, kind, body)


def _check_scaled(target: Target, request: Request, old: JsonObject, obj: JsonObject) -> None:
    """Validate a scaled custom resource: its schema may limit the replicas. Raises 422."""
    definition = target.definition
    errors = () if definition.types is None else definition.strategy.validate_update(request, obj, old)
    if errors:
        raise invalid(definition.group, definition.kind, target.name, list(errors))


def _shows_object(response: JsonObject) -> bool:
    """Return whether a response contains the object, and therefore its new resource version."""
    return response.get("kind") != "Status"
