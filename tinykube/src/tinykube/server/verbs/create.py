"""Create: the object as the client sent it, made whole, judged, and stored where nothing was."""

from collections.abc import Sequence

from tinykube.server.errors import StatusError, already_exists, invalid
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Request
from tinykube.server.registry.metadata_validation import metadata_errors
from tinykube.server.storage.model import StoredObject, WriteConflictError
from tinykube.server.verbs import metadata as meta
from tinykube.server.verbs.commit import commit_one, note_created, roll_back
from tinykube.server.verbs.context import Backend, Result, Target, answer, copied, shown
from tinykube.server.verbs.field_manager import Own, Owner, settle
from tinykube.server.verbs.fields import conform
from tinykube.server.verbs.namespaces import check_namespace_accepts
from tinykube.server.verbs.offload import decide
from tinykube.server.verbs.options import WriteOptions

_NAME_ATTEMPTS = 8


async def create(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: JsonObject,
    problems: Sequence[str] = (),
) -> Result:
    """Create an object; the answer has code 201 and is durable (a dry run's is neither stored nor has a revision).

    Raises 400 (a body of something else), 403 and 404 (its namespace), 409 (the name is taken), 422 (it breaks rules).
    A generated name is drawn again where it is taken, up to eight times.
    """
    definition = target.definition
    own = Owner(target, request, options)
    own.look_at(body)
    meta.check_type(backend.registry, definition.kind, definition.api_version, body)
    group, version, kind = definition.group, definition.version, definition.kind
    await decide(
        backend,
        target,
        request.body_bytes,
        lambda: conform(backend.schema, request, options, group, version, kind, body, problems),
    )
    if definition.answers is not None:
        return Result(201, document=definition.answers(request, body))
    metadata = meta.ensure_metadata(body)
    meta.check_namespace(metadata, target.namespace)
    check_namespace_accepts(backend.storage, target, str(metadata.get("name") or ""))
    base = metadata.get("generateName")
    drawn = bool(base) and not metadata.get("name")
    pristine = copied(body) if drawn else body
    for attempt in range(_NAME_ATTEMPTS if drawn else 1):
        candidate = copied(pristine) if drawn and attempt < _NAME_ATTEMPTS - 1 else pristine
        if drawn:
            meta.ensure_metadata(candidate)["name"] = meta.generated_name(str(base), request.rng)
        try:
            return await create_decided(backend, target, request, candidate, own)
        except StatusError as error:
            if not drawn or error.reason != "AlreadyExists":
                raise
            if attempt == _NAME_ATTEMPTS - 1:
                raise _no_name_left(error) from None
    raise AssertionError("the loop returns or raises")


def _no_name_left(error: StatusError) -> StatusError:
    details = {**(error.details or {}), "retryAfterSeconds": 1}
    return StatusError(
        409,
        "AlreadyExists",
        f"{error.message}, the server was not able to generate a unique name for the object",
        details=details,
        headers={"Retry-After": "1"},
    )


async def create_decided(
    backend: Backend, target: Target, request: Request, body: JsonObject, own: Own
) -> Result:
    """Create an object whose name and types are settled: rules, then the storage. ``own`` says who owns its fields."""
    try:
        result = await _create(backend, target, request, body, own)
    except BaseException:
        roll_back(request)
        raise
    if request.dry_run:
        roll_back(request)
    return result


def _taken(target: Target, name: str, existing: StoredObject | None) -> StatusError:
    error = already_exists(target.resource, name)
    if existing is None or "deletionTimestamp" not in existing.decode()["metadata"]:
        return error
    # Whoever recreates what goes away can tell that it is only a matter of time.
    return StatusError(
        error.code, error.reason, f"object is being deleted: {error.message}", details=error.details
    )


async def _create(backend: Backend, target: Target, request: Request, body: JsonObject, own: Own) -> Result:
    obj = await decide(backend, target, request.body_bytes, lambda: _decided(target, request, body, own))
    definition, strategy = target.definition, target.definition.strategy
    name = str(metadata_of(obj).get("name") or "")
    # Looked at once more: a large decision may have taken a while.
    check_namespace_accepts(backend.storage, target, name)
    key = target.key(name)
    existing = backend.storage.head(key)
    if existing is not None:
        raise _taken(target, name, existing)
    if request.dry_run:
        return Result(201, document=shown(definition, obj))
    try:
        change = await commit_one(backend.storage, request, key, obj, 0)
    except WriteConflictError:
        raise _taken(target, name, None) from None
    note_created(strategy, request, change.after)
    return answer(201, definition, change.after)


def _decided(target: Target, request: Request, body: JsonObject, own: Own) -> JsonObject:
    """Return the object to be stored, by the rules of its kind. Raises 422."""
    definition, strategy = target.definition, target.definition.strategy
    given = metadata_of(body).get("managedFields")
    metadata = meta.initialize(request, body)
    obj = body if definition.view is None else definition.view.to_storage(body)
    strategy.default(obj)
    settle(obj, own(None, obj, given))
    strategy.prepare_for_create(request, obj)
    errors = [
        *metadata_errors(
            metadata,
            namespaced=definition.namespaced,
            name_problem=strategy.validate_name,
            plain_finalizers=strategy.plain_finalizers,
        ),
        *strategy.validate(request, obj),
    ]
    if errors:
        raise invalid(definition.group, definition.kind, str(metadata.get("name") or ""), errors)
    for text in strategy.warnings(request, obj):
        request.warn(text)
    return obj
