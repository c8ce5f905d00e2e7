"""Update: what is stored replaced by what the client (or a patch, or a subresource) makes of it.

Decided on what was accepted last; where another write comes first, the decision is made again, unless the client named
the version it had seen.
"""

from collections.abc import Callable, Sequence

from tinykube.server.errors import (
    StatusError,
    conflict,
    invalid,
    invalid_value,
    not_found,
    stale,
)
from tinykube.server.fields.managers import same_but_times
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Request
from tinykube.server.registry.metadata_validation import metadata_errors
from tinykube.server.storage.model import StoredObject, WriteConflictError
from tinykube.server.verbs import metadata as meta
from tinykube.server.verbs.commit import commit_one, note_deleted, roll_back, wait_until_durable
from tinykube.server.verbs.context import Backend, Result, Target, answer, copied, shown
from tinykube.server.verbs.create import create_decided
from tinykube.server.verbs.field_manager import Own, Owner, settle
from tinykube.server.verbs.fields import conform
from tinykube.server.verbs.namespaces import check_namespace_accepts
from tinykube.server.verbs.offload import decide
from tinykube.server.verbs.options import WriteOptions

_ATTEMPTS = 100  # each lost race means that another write has won

Make = Callable[[JsonObject], JsonObject]
"""Gets what is stored, as the definition shows it (the maker's own copy), and returns what is to take its place."""


async def update(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: JsonObject,
    problems: Sequence[str] = (),
) -> Result:
    """Replace an object, or its status if the target is the status subresource.

    Code 200; 201 where the definition lets a PUT create. Without a resource version the last writer wins; with one
    it must be the current one (409). What equals what is stored is not written: same revision, no event.
    """
    definition = target.definition
    own = Owner(target, request, options)
    own.look_at(body)
    meta.check_type(backend.registry, definition.kind, definition.api_version, body)
    group, version, kind = definition.group, definition.version, definition.kind
    conform(backend.schema, request, options, group, version, kind, body, problems)
    metadata = meta.ensure_metadata(body)
    meta.check_namespace(metadata, target.namespace)
    meta.check_names_object(metadata, target.name)
    if (
        target.subresource is None
        and definition.creates_on_update
        and backend.storage.head(target.key()) is None
    ):
        try:
            return await _create_by_update(backend, target, request, copied(body), own)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise  # else somebody has created it meanwhile: replace it
    # With a version it is this one or none: no second attempt would need the body as it came.
    is_final = metadata.get("resourceVersion") not in (None, "", "0")

    def replacement(stored: StoredObject) -> JsonObject:
        uid = metadata.get("uid")
        if uid and uid != stored.uid:
            raise conflict(target.resource, target.name, _uid_mismatch(target, uid, stored.uid))
        return body if is_final else copied(body)

    return await _modify(backend, target, request, replacement, own)


async def _create_by_update(
    backend: Backend, target: Target, request: Request, body: JsonObject, own: Own
) -> Result:
    metadata = meta.ensure_metadata(body)
    if metadata.get("uid"):
        raise conflict(
            target.resource,
            target.name,
            _uid_mismatch(target, metadata["uid"], ""),
        )
    metadata.pop("resourceVersion", None)
    check_namespace_accepts(backend.storage, target, target.name)
    return await create_decided(backend, target, request, body, own)


async def modify(
    backend: Backend, target: Target, request: Request, make: Make, own: Own | None = None
) -> Result:
    """Replace an object by what ``make`` makes of it; made again after each lost race.

    ``own`` says who owns its fields then; without it what has changed is that of the program that asks. Raises what ``make`` raises, 404, 409 for a resource version or uid that is another's, 422.
    """

    def made(stored: StoredObject) -> JsonObject:
        return make(shown(target.definition, stored.decode()))

    return await _modify(backend, target, request, made, own or Owner(target, request, None))


async def _modify(
    backend: Backend, target: Target, request: Request, make: Callable[[StoredObject], JsonObject], own: Own
) -> Result:
    for _ in range(_ATTEMPTS):
        stored = backend.storage.head(target.key())
        if stored is None:
            raise not_found(target.resource, target.name)
        try:
            return await _modify_once(backend, target, request, stored, make, own)
        except WriteConflictError:
            roll_back(request)
        except BaseException:
            roll_back(request)
            raise
    raise stale(target.resource, target.name)


async def _modify_once(
    backend: Backend,
    target: Target,
    request: Request,
    stored: StoredObject,
    make: Callable[[StoredObject], JsonObject],
    own: Own,
) -> Result:
    definition = target.definition
    old = stored.decode()

    def decision() -> JsonObject:
        made = make(stored)
        obj = made if definition.view is None else definition.view.to_storage(made)
        metadata = meta.ensure_metadata(obj)
        _check_version(target, metadata, stored)
        _decide(target, request, obj, metadata, old, stored, own)
        return obj

    obj = await decide(backend, target, request.body_bytes + len(stored.encoded), decision)
    return await write_decided(backend, target, request, stored, old, obj)


def _check_version(target: Target, metadata: JsonObject, stored: StoredObject) -> None:
    version = metadata.get("resourceVersion") or "0"
    if not version.isascii() or not version.isdigit():
        raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version == "0":
        if not target.definition.allows_unconditional_update:
            error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(target.resource.group, target.resource.plural, target.name, [error])
    elif version != str(stored.revision):
        raise stale(target.resource, target.name)
    metadata["resourceVersion"] = str(stored.revision)


def _uid_mismatch(target: Target, wanted: str, actual: str) -> str:
    key = "/".join(part for part in (target.resource.plural, target.namespace, target.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    )


def _decide(
    target: Target,
    request: Request,
    obj: JsonObject,
    metadata: JsonObject,
    old: JsonObject,
    stored: StoredObject,
    own: Own,
) -> None:
    """Apply the rules of an update to a document, in place. Raises 422."""
    definition, strategy = target.definition, target.definition.strategy
    given = metadata.get("managedFields")
    meta.carry_over(request, metadata, old["metadata"])
    strategy.default(obj)
    settle(obj, own(old, obj, given))
    if target.subresource is None:
        strategy.prepare_for_update(request, obj, old)
    else:
        strategy.prepare_for_status_update(request, obj, old)
        metadata = meta.ensure_metadata(obj)
        metadata["resourceVersion"] = str(stored.revision)
    keep_times(obj, old)
    if obj == old:
        return
    errors = [
        *metadata_errors(
            metadata,
            namespaced=definition.namespaced,
            name_problem=strategy.validate_name,
            plain_finalizers=strategy.plain_finalizers,
        ),
        *meta.update_errors(metadata, old["metadata"]),
        *strategy.validate(request, obj),
        *strategy.validate_update(request, obj, old),
    ]
    if errors:
        raise invalid(definition.group, definition.kind, target.name, errors)
    for text in strategy.warnings(request, obj):
        request.warn(text)


def keep_times(obj: JsonObject, old: JsonObject) -> None:
    """Take back new times of managedFields where nothing else has changed: a write that changes nothing is none."""
    new, before = metadata_of(obj).get("managedFields"), metadata_of(old).get("managedFields")
    if new and before and new != before and same_but_times(new, before):
        obj["metadata"]["managedFields"] = before
        if obj != old:
            obj["metadata"]["managedFields"] = new


async def write_decided(
    backend: Backend, target: Target, request: Request, stored: StoredObject, old: JsonObject, obj: JsonObject
) -> Result:
    """Store what is decided: nothing where nothing changed, and a removal where nothing keeps the object any more."""
    definition, storage = target.definition, backend.storage
    if obj == old:
        roll_back(request)
        return answer(200, definition, await wait_until_durable(storage, stored))
    if request.dry_run:
        roll_back(request)
        return Result(200, document=shown(definition, obj))
    if is_finished(target, obj):
        change = await commit_one(storage, request, stored.key, None, stored.revision)
        note_deleted(definition.strategy, request, change.after)
        return Result(200, document=shown(definition, obj))
    change = await commit_one(storage, request, stored.key, obj, stored.revision)
    return answer(200, definition, change.after)


def is_finished(target: Target, obj: JsonObject) -> bool:
    """Tell whether an object that is being deleted has nothing left that keeps it: it goes with this write."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not target.definition.strategy.is_held(obj)
    )
