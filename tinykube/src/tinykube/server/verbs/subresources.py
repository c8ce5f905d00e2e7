"""Subresources other than ``status``: ``scale``, ``binding``, ``eviction``, ``finalize``. Their handlers have the say."""

from collections.abc import Callable, Sequence
from typing import Any

from tinykube.server.errors import StatusError, bad_request, invalid, not_found, stale
from tinykube.server.fields import scaling
from tinykube.server.objects import JsonObject
from tinykube.server.patch.errors import no_strategic_merge
from tinykube.server.patch.service import PatchType
from tinykube.server.registry.definition import Request, Subresource, SubresourceHandler
from tinykube.server.storage.model import WriteConflictError
from tinykube.server.verbs.apply import applied_document, report_twice
from tinykube.server.verbs.commit import roll_back
from tinykube.server.verbs.context import Backend, Target, copied, shown
from tinykube.server.verbs.delete import delete
from tinykube.server.verbs.field_manager import Owner, own_scaled, scale_to_write, settle, writer
from tinykube.server.verbs.fields import conform
from tinykube.server.verbs.metadata import check_name, check_namespace, check_type, ensure_metadata
from tinykube.server.verbs.options import DeleteOptions, WriteOptions
from tinykube.server.verbs.update import keep_times, write_decided

_ATTEMPTS = 100
_EVICTION = "eviction"
_FINALIZE = "finalize"
_SCALE = "scale"


def read_subresource(backend: Backend, target: Target, handler: SubresourceHandler) -> JsonObject:
    """Return what a subresource shows of an object. Raises 404."""
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
    """Write through a subresource; return what the client gets. The handler decides on what was accepted last.

    An eviction is a deletion with the options it carries, once its handler has let it pass.
    """
    _check_body(backend, target, request, subresource, body, options)
    return await modify_subresource(backend, target, request, subresource, lambda _: copied(body), options)


async def patch_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    patch_type: PatchType,
    patch: object,
    options: WriteOptions,
) -> JsonObject:
    """Patch what a subresource shows, and write the result through it. Raises 415 for a strategic merge of a custom resource's."""
    if patch_type == "strategic" and target.definition.types is not None:
        raise no_strategic_merge()
    group, version = _types_of(target, subresource)

    def patched(shown_now: JsonObject) -> JsonObject:
        result = backend.patches.apply(patch_type, group, version, subresource.kind, shown_now, patch)
        _check_body(backend, target, request, subresource, result, options)
        return result

    return await modify_subresource(backend, target, request, subresource, patched, options)


async def apply_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    body: Any,
    options: WriteOptions,
    problems: Sequence[str] = (),
) -> JsonObject:
    """Apply what a manager wants of what a subresource shows; return what the client gets.

    Only a Scale can be applied: what others own of it, and would change, is refused with 409 unless the options force it.
    ``problems``: what strict decoding has found. Raises 400, 404, 409, 415 for other subresources, and 500 for fields that a Scale
    does not have.
    """
    if subresource.name != _SCALE:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    wanted, who = applied_document(body), writer(target, request, options)

    def made(shown_now: JsonObject) -> JsonObject:
        is_custom, force = target.definition.types is not None, bool(options.force)
        result, entries = scaling.applied(who, shown_now, wanted, force=force, is_custom=is_custom)
        report_twice(request, options, problems)
        result = copied(result)
        _check_body(backend, target, request, subresource, result, options)
        settle(result, entries)
        return result

    return await modify_subresource(backend, target, request, subresource, made, options, is_apply=True)


def _types_of(target: Target, subresource: Subresource) -> tuple[str, str]:
    return subresource.group or target.definition.group, subresource.version or target.definition.version


def _check_body(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    body: JsonObject,
    options: WriteOptions,
) -> None:
    group, version = _types_of(target, subresource)
    api_version = f"{group}/{version}" if group else version
    check_type(backend.registry, subresource.kind, api_version, body)
    metadata = ensure_metadata(body)
    check_namespace(metadata, target.namespace)
    check_name(metadata, target.name)
    conform(backend.schema, request, options, group, version, subresource.kind, body)


async def modify_subresource(
    backend: Backend,
    target: Target,
    request: Request,
    subresource: Subresource,
    make: Callable[[JsonObject], JsonObject],
    options: WriteOptions | None = None,
    *,
    is_apply: bool = False,
) -> JsonObject:
    """Replace what a subresource shows by what ``make`` makes of it; made again after each lost race. Return the answer.

    What is made of a Scale by an apply bears the managed fields that it is to have.

    Raises what ``make`` and the handler raise, and 404.
    """
    handler = subresource.handler
    if handler is None:
        raise bad_request(f"{subresource.name} is written as the object itself is")
    for _ in range(_ATTEMPTS):
        stored = backend.storage.head(target.key())
        if stored is None:
            raise not_found(target.resource, target.name)
        old, obj = stored.decode(), stored.decode()
        try:
            before = _to_write(target, subresource, handler, stored.decode())
            body = make(copied(before))
            told = handler.write(request, obj, body)
            if subresource.name == _EVICTION:
                options = body.get("deleteOptions")
                wanted = DeleteOptions.from_document(options if isinstance(options, dict) else {})
                await delete(
                    backend, Target(target.definition, target.namespace, target.name), request, wanted
                )
                return told
            if subresource.name == _SCALE:
                own_scaled(target, request, options, obj, before, body, is_applied=is_apply)
                keep_times(obj, old)
                _check_scaled(target, request, old, obj)
            elif subresource.name == _FINALIZE:
                settle(obj, Owner(target, request, options)(old, obj, None))
            result = await write_decided(backend, target, request, stored, old, obj)
        except WriteConflictError:
            roll_back(request)
            continue
        except BaseException:
            roll_back(request)
            raise
        # What the handler told was of the document before the storage gave it its version.
        return handler.read(result.decode()) if _shows_object(told) else told
    raise stale(target.resource, target.name)


def _check_scaled(target: Target, request: Request, old: JsonObject, obj: JsonObject) -> None:
    """Judge what a custom resource has become: its schema may set bounds. Raises 422."""
    definition = target.definition
    errors = () if definition.types is None else definition.strategy.validate_update(request, obj, old)
    if errors:
        raise invalid(definition.group, definition.kind, target.name, list(errors))


def _to_write(
    target: Target, subresource: Subresource, handler: SubresourceHandler, obj: JsonObject
) -> JsonObject:
    """Return what a write through a subresource begins with."""
    shown_now = (subresource.before or handler.read)(obj)
    return scale_to_write(target, shown_now, obj) if subresource.name == _SCALE else shown_now


def _shows_object(told: JsonObject) -> bool:
    """Tell whether an answer shows the object, and so has to show its new version."""
    return told.get("kind") != "Status"
