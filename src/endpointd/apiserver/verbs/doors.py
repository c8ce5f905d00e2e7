"""Doors of an object that are no status: ``scale``, ``binding``, ``eviction``, ``finalize``. Their handlers have the say."""

from collections.abc import Callable

from endpointd.apiserver.errors import bad_request, not_found, stale
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.registry.definition import Request, Subresource, SubresourceHandler
from endpointd.apiserver.storage.model import WriteConflictError
from endpointd.apiserver.verbs.commit import give_back
from endpointd.apiserver.verbs.context import Backend, Target, copied, shown
from endpointd.apiserver.verbs.delete import delete
from endpointd.apiserver.verbs.fields import conform
from endpointd.apiserver.verbs.metadata import check_name, check_namespace, check_type, own_metadata
from endpointd.apiserver.verbs.options import DeleteOptions, WriteOptions
from endpointd.apiserver.verbs.ownership import own_door
from endpointd.apiserver.verbs.ports import PatchType
from endpointd.apiserver.verbs.update import write_decided

_ATTEMPTS = 100
_EVICTION = "eviction"


def read_door(backend: Backend, target: Target, handler: SubresourceHandler) -> JsonObject:
    """Return what a door shows of an object. Raises 404."""
    stored = backend.storage.get(target.key())
    if stored is None:
        raise not_found(target.resource, target.name)
    return handler.read(shown(target.definition, stored.decode()))


async def write_door(
    backend: Backend,
    target: Target,
    request: Request,
    door: Subresource,
    body: JsonObject,
    options: WriteOptions,
) -> JsonObject:
    """Write through a door; return what the client gets. The handler decides on what was accepted last.

    An eviction is a deletion with the options it carries, once its handler has let it pass.
    """
    _check_body(backend, target, request, door, body, options)
    return await modify_door(backend, target, request, door, lambda _: copied(body), options)


async def patch_door(
    backend: Backend,
    target: Target,
    request: Request,
    door: Subresource,
    patch_type: PatchType,
    patch: object,
    options: WriteOptions,
) -> JsonObject:
    """Patch what a door shows, and write the result through it."""
    group, version = _types_of(target, door)

    def patched(shown_now: JsonObject) -> JsonObject:
        result = backend.patches.apply(patch_type, group, version, door.kind, shown_now, patch)
        _check_body(backend, target, request, door, result, options)
        return result

    return await modify_door(backend, target, request, door, patched, options)


def _types_of(target: Target, door: Subresource) -> tuple[str, str]:
    return door.group or target.definition.group, door.version or target.definition.version


def _check_body(
    backend: Backend,
    target: Target,
    request: Request,
    door: Subresource,
    body: JsonObject,
    options: WriteOptions,
) -> None:
    group, version = _types_of(target, door)
    api_version = f"{group}/{version}" if group else version
    check_type(backend.registry, door.kind, api_version, body)
    metadata = own_metadata(body)
    check_namespace(metadata, target.namespace)
    check_name(metadata, target.name)
    conform(backend.schema, request, options, group, version, door.kind, body)


async def modify_door(
    backend: Backend,
    target: Target,
    request: Request,
    door: Subresource,
    make: Callable[[JsonObject], JsonObject],
    options: WriteOptions | None = None,
) -> JsonObject:
    """Replace what a door shows by what ``make`` makes of it; made again after each lost race. Return the answer.

    Raises what ``make`` and the handler raise, and 404.
    """
    handler = door.handler
    if handler is None:
        raise bad_request(f"{door.name} is written as the object itself is")
    for _ in range(_ATTEMPTS):
        stored = backend.storage.latest(target.key())
        if stored is None:
            raise not_found(target.resource, target.name)
        old, obj = stored.decode(), stored.decode()
        try:
            body = make(handler.read(stored.decode()))
            told = handler.write(request, obj, body)
            if door.name == _EVICTION:
                options = body.get("deleteOptions")
                wanted = DeleteOptions.from_document(options if isinstance(options, dict) else {})
                await delete(
                    backend, Target(target.definition, target.namespace, target.name), request, wanted
                )
                return told
            own_door(target, request, options, old, obj)
            result = await write_decided(backend, target, request, stored, old, obj)
        except WriteConflictError:
            give_back(request)
            continue
        except BaseException:
            give_back(request)
            raise
        # What the handler told was of the document before the storage gave it its version.
        return handler.read(result.decode()) if _shows_object(told) else told
    raise stale(target.resource, target.name)


def _shows_object(told: JsonObject) -> bool:
    """Tell whether an answer shows the object, and so has to show its new version."""
    return told.get("kind") != "Status"
