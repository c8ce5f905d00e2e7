"""Writes of an object or its status: create, update, patch and server-side apply.

Each verb is one function, followed by its decision function. All verbs have the same stages::

    decoded body (http) -> merge or apply -> conform -> defaults -> managed fields -> strategy -> validation -> commit

Writes are decided on the newest accepted object (``Storage.head``). If another write is accepted first, the
verb starts again from the new object. Decisions on large custom resources run in a thread
(:func:`~.offload.decide`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokube.api.names import generated_name
from tinykube.server.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    stale,
)
from tinykube.server.fields import managed_fields
from tinykube.server.fields.managed_fields import Writer
from tinykube.server.fields.managers import same_but_times
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.patch.errors import go_type_of
from tinykube.server.patch.service import PatchType
from tinykube.server.registry.definition import Request
from tinykube.server.registry.metadata_validation import metadata_errors
from tinykube.server.storage.model import StoredObject, WriteConflictError
from tinykube.server.verbs import metadata as meta
from tinykube.server.verbs.commit import (
    MAX_ATTEMPTS,
    Attempt,
    commit_one,
    note_created,
    note_deleted,
    roll_back,
    wait_until_durable,
)
from tinykube.server.verbs.context import Backend, Result, Target, answer, copied, shown
from tinykube.server.verbs.field_manager import FieldManager, set_managed_fields, tracked, writer
from tinykube.server.verbs.field_validation import conform, report_duplicate_keys
from tinykube.server.verbs.namespaces import check_namespace_accepts
from tinykube.server.verbs.offload import decide
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.patch_merge import merged, not_an_object

_NAME_ATTEMPTS = 8
_NO_OBJECT = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal"


class _Call(NamedTuple):
    """The context of one patch or apply."""

    backend: Backend
    target: Target
    request: Request
    options: WriteOptions
    problems: Sequence[str]


# ---------------------------------------------------------------------------------------------------- create


async def create(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: JsonObject,
    problems: Sequence[str] = (),
) -> Result:
    """Create an object; the response has code 201 and is durable (a dry run is not stored and has no revision).

    ``problems``: the findings of strict decoding. Raises 400 (a body of another type), 403 and 404 (the
    namespace), 409 (the name is taken) and 422 (the object is invalid). A generated name that is taken is
    generated again, up to eight times.
    """
    definition = target.definition
    manager = FieldManager(target, request, options)
    manager.note_sent(body)
    meta.check_type(backend.registry, definition.kind, definition.api_version, body)
    await decide(
        backend,
        target,
        request.body_bytes,
        conform,
        backend.schema,
        request,
        options,
        definition,
        body,
        problems,
    )
    if definition.answers is not None:
        return Result(201, document=definition.answers(request, body))
    metadata = meta.ensure_metadata(body)
    meta.check_namespace(metadata, target.namespace)
    check_namespace_accepts(backend.storage, target, str(metadata.get("name") or ""))
    base = metadata.get("generateName")
    if metadata.get("name") or not base:
        return await _insert(backend, target, request, body, manager)
    for attempts_left in reversed(range(_NAME_ATTEMPTS)):
        candidate = copied(body) if attempts_left else body
        meta.ensure_metadata(candidate)["name"] = generated_name(str(base), request.rng)
        try:
            return await _insert(backend, target, request, candidate, manager)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            if not attempts_left:
                raise _no_name_left(error) from None
    raise AssertionError("the loop returns or raises")


async def _insert(
    backend: Backend, target: Target, request: Request, body: JsonObject, manager: FieldManager | None
) -> Result:
    """Store a conformed body as a new object. Without a manager its managedFields are kept: an apply has set them."""
    definition = target.definition
    try:
        obj = await decide(
            backend, target, request.body_bytes, _prepare_create, target, request, body, manager
        )
        name = str(metadata_of(obj).get("name") or "")
        check_namespace_accepts(backend.storage, target, name)  # again: a large decision takes a while
        key = target.key(name)
        existing = backend.storage.head(key)
        if existing is not None:
            raise _name_taken(target, name, existing)
        if request.dry_run:
            roll_back(request)
            return Result(201, document=shown(definition, obj))
        try:
            change = await commit_one(backend.storage, request, key, obj, 0)
        except WriteConflictError:
            raise _name_taken(target, name, None) from None
    except BaseException:
        roll_back(request)
        raise
    note_created(definition.strategy, request, change.after)
    return answer(201, definition, change.after)


def _prepare_create(
    target: Target, request: Request, body: JsonObject, manager: FieldManager | None
) -> JsonObject:
    """Return the object to store: defaults, managed fields, strategy, validation. Raises 422."""
    definition, strategy = target.definition, target.definition.strategy
    sent = metadata_of(body).get("managedFields")
    metadata = meta.initialize(request, body)
    obj = body if definition.view is None else definition.view.to_storage(body)
    strategy.default(obj)
    set_managed_fields(obj, sent if manager is None else manager.update(None, obj, sent))
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


# ---------------------------------------------------------------------------------------------------- update


async def update(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: JsonObject,
    problems: Sequence[str] = (),
) -> Result:
    """Replace an object, or its status if the target is the status subresource.

    Code 200; 201 if the definition lets a PUT create. Without a resource version the last writer wins; with
    one it must be the current one (409). An update that changes nothing is not written: same revision, no
    event.
    """
    definition = target.definition
    manager = FieldManager(target, request, options)
    manager.note_sent(body)
    meta.check_type(backend.registry, definition.kind, definition.api_version, body)
    conform(backend.schema, request, options, definition, body, problems)
    metadata = meta.ensure_metadata(body)
    meta.check_namespace(metadata, target.namespace)
    meta.check_names_object(metadata, target.name)
    creates = target.subresource is None and definition.creates_on_update
    if creates and backend.storage.head(target.key()) is None:
        try:
            return await _create_by_update(backend, target, request, copied(body), manager)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise  # otherwise another write has just created it: replace it
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            stored, old = _current(backend, target)
            size_bytes = request.body_bytes + len(stored.encoded)
            obj = await decide(
                backend, target, size_bytes, _decide_update, target, request, stored, old, body, manager
            )
            return await replace(backend, target, request, stored, old, obj)
    raise stale(target.resource, target.name)


def _decide_update(
    target: Target,
    request: Request,
    stored: StoredObject,
    old: JsonObject,
    body: JsonObject,
    manager: FieldManager,
) -> JsonObject:
    metadata = body["metadata"]
    uid = metadata.get("uid")
    if uid and uid != stored.uid:
        raise conflict(target.resource, target.name, _uid_mismatch(target, uid, stored.uid))
    # A body with a resource version gets no second attempt, so this attempt may modify it.
    is_final = metadata.get("resourceVersion") not in (None, "", "0")
    return _prepare_update(target, request, stored, old, body if is_final else copied(body), manager)


async def _create_by_update(
    backend: Backend, target: Target, request: Request, body: JsonObject, manager: FieldManager
) -> Result:
    metadata = meta.ensure_metadata(body)
    if metadata.get("uid"):
        raise conflict(target.resource, target.name, _uid_mismatch(target, metadata["uid"], ""))
    metadata.pop("resourceVersion", None)
    check_namespace_accepts(backend.storage, target, target.name)
    return await _insert(backend, target, request, body, manager)


async def modify(
    backend: Backend, target: Target, request: Request, make: Callable[[JsonObject], JsonObject]
) -> Result:
    """Update an object, or its status, with ``make(current)``; called again after each lost race.

    ``make`` gets a copy of the current object. Raises the errors of ``make``, and 404, 409 and 422.
    """
    manager = FieldManager(target, request, None)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            stored, old = _current(backend, target)
            size_bytes = request.body_bytes + len(stored.encoded)
            obj = await decide(
                backend, target, size_bytes, _decide_modification, target, request, stored, old, make, manager
            )
            return await replace(backend, target, request, stored, old, obj)
    raise stale(target.resource, target.name)


def _decide_modification(
    target: Target,
    request: Request,
    stored: StoredObject,
    old: JsonObject,
    make: Callable[[JsonObject], JsonObject],
    manager: FieldManager,
) -> JsonObject:
    made = make(shown(target.definition, stored.decode()))
    return _prepare_update(target, request, stored, old, made, manager)


def _current(backend: Backend, target: Target) -> tuple[StoredObject, JsonObject]:
    """Return the newest accepted object and its document. Raises 404."""
    stored = backend.storage.head(target.key())
    if stored is None:
        raise not_found(target.resource, target.name)
    return stored, stored.decode()


def _prepare_update(
    target: Target,
    request: Request,
    stored: StoredObject,
    old: JsonObject,
    new: JsonObject,
    manager: FieldManager | None,
) -> JsonObject:
    """Return the object to store in place of ``old``: defaults, managed fields, strategy, validation. Raises 409 and 422.

    Without a manager the managedFields of ``new`` are kept: an apply has set them.
    """
    definition, strategy = target.definition, target.definition.strategy
    obj = new if definition.view is None else definition.view.to_storage(new)
    metadata = meta.ensure_metadata(obj)
    _check_resource_version(target, metadata, stored)
    sent = metadata.get("managedFields")
    meta.carry_over(request, metadata, old["metadata"])
    strategy.default(obj)
    set_managed_fields(obj, sent if manager is None else manager.update(old, obj, sent))
    if target.subresource is None:
        strategy.prepare_for_update(request, obj, old)
    else:
        strategy.prepare_for_status_update(request, obj, old)
        metadata = meta.ensure_metadata(obj)
        metadata["resourceVersion"] = str(stored.revision)
    keep_times(obj, old)
    if obj == old:
        return obj
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
    return obj


def _check_resource_version(target: Target, metadata: JsonObject, stored: StoredObject) -> None:
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


def keep_times(obj: JsonObject, old: JsonObject) -> None:
    """Restore the old timestamps of managedFields if nothing else has changed, so that the write is a no-op."""
    new, before = metadata_of(obj).get("managedFields"), metadata_of(old).get("managedFields")
    if new and before and new != before and same_but_times(new, before):
        obj["metadata"]["managedFields"] = before
        if obj != old:
            obj["metadata"]["managedFields"] = new


async def replace(
    backend: Backend,
    target: Target,
    request: Request,
    stored: StoredObject,
    old: JsonObject,
    obj: JsonObject,
) -> Result:
    """Commit a decided update: no write if nothing has changed, a removal if nothing holds the object any longer.

    Raises WriteConflictError if another write has been accepted since ``stored``.
    """
    definition, storage = target.definition, backend.storage
    if obj == old:
        roll_back(request)
        return answer(200, definition, await wait_until_durable(storage, stored))
    if request.dry_run:
        roll_back(request)
        return Result(200, document=shown(definition, obj))
    if _is_finished(target, obj):
        change = await commit_one(storage, request, stored.key, None, stored.revision)
        note_deleted(definition.strategy, request, change.after)
        return Result(200, document=shown(definition, obj))
    change = await commit_one(storage, request, stored.key, obj, stored.revision)
    return answer(200, definition, change.after)


def _is_finished(target: Target, obj: JsonObject) -> bool:
    """Return whether an object is being deleted and nothing holds it: this write removes it."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not target.definition.strategy.is_held(obj)
    )


# ---------------------------------------------------------------------------------------------------- patch


async def patch(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    patch_type: PatchType,
    body: object,
    problems: Sequence[str] = (),
) -> Result:
    """Patch an object, or its status; code 200.

    A patch with a resource version is rejected (409) if it is not the current one; any other patch is applied
    again to the result of a concurrent write. Raises 400, 413 and 422 according to the patch type.
    """
    call = _Call(backend, target, request, options, problems)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            stored, old = _current(backend, target)
            size_bytes = request.body_bytes + len(stored.encoded)
            obj = await decide(
                backend, target, size_bytes, _decide_patch, call, stored, old, patch_type, body
            )
            return await replace(backend, target, request, stored, old, obj)
    raise stale(target.resource, target.name)


def _decide_patch(
    call: _Call, stored: StoredObject, old: JsonObject, patch_type: PatchType, body: object
) -> JsonObject:
    backend, target, request, options, problems = call
    manager = FieldManager(target, request, options)
    definition = target.definition
    current = shown(definition, stored.decode())
    version = current["metadata"]["resourceVersion"]
    patched = merged(backend.patches, patch_type, definition, current, body)
    manager.note_sent(patched)
    try:
        meta.check_type(backend.registry, definition.kind, definition.api_version, patched)
        conform(backend.schema, request, options, definition, patched, problems)
    except StatusError as error:
        again = merged(
            backend.patches, patch_type, definition, current, body
        )  # the first result is half conformed
        raise not_an_object(again, error) from None
    metadata = meta.ensure_metadata(patched)
    meta.check_namespace(metadata, target.namespace)
    meta.check_names_object(metadata, target.name)
    if not metadata.get("resourceVersion"):
        metadata["resourceVersion"] = version  # a patch that removes it has no precondition
    return _prepare_update(target, request, stored, old, patched, manager)


# ---------------------------------------------------------------------------------------------------- apply


async def apply(
    backend: Backend,
    target: Target,
    request: Request,
    options: WriteOptions,
    body: Any,
    problems: Sequence[str] = (),
) -> Result:
    """Server-side apply: set the fields that a manager wants; code 200, 201 if this creates the object.

    Changing a field of another manager is rejected (409, one cause per field) unless forced. A resource
    version or uid in the body is a precondition. ``problems``: the findings of strict decoding. Raises 400,
    404 (missing namespace, or a subresource of a missing object), 409, 422, and 500 for fields that the type
    does not have, as kube-apiserver does.
    """
    wanted = applied_document(body)
    who = writer(target, request, options)
    call = _Call(backend, target, request, options, problems)
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            stored = backend.storage.head(target.key())
            if stored is not None:
                old = stored.decode()
                size_bytes = request.body_bytes + len(stored.encoded)
                obj = await decide(backend, target, size_bytes, _decide_apply, call, stored, old, wanted, who)
                return await replace(backend, target, request, stored, old, obj)
            if target.subresource is not None:
                raise not_found(target.resource, target.name)
            document = await decide(backend, target, request.body_bytes, _applied, call, None, wanted, who)
            check_namespace_accepts(backend.storage, target, target.name)
            try:
                return await _insert(backend, target, request, document, None)
            except StatusError as error:
                if error.reason != "AlreadyExists" or backend.storage.head(target.key()) is None:
                    raise  # otherwise another write has just created it: apply to that
    raise stale(target.resource, target.name)


def _decide_apply(
    call: _Call, stored: StoredObject, old: JsonObject, wanted: JsonObject, who: Writer
) -> JsonObject:
    document = _applied(call, shown(call.target.definition, stored.decode()), wanted, who)
    return _prepare_update(call.target, call.request, stored, old, document, None)


def _applied(call: _Call, live: JsonObject | None, wanted: JsonObject, who: Writer) -> JsonObject:
    """Return the conformed result of an apply, with its managed fields. ``live``: the current object, if any."""
    backend, target, request, options, problems = call
    about = tracked(target)
    made, entries = managed_fields.apply(about, who, live, wanted, force=bool(options.force))
    report_duplicate_keys(request, options, problems)
    document = copied(made)  # it shares subtrees with the body and the stored object
    group, version, kind = about.group, about.version, about.kind
    try:
        if about.others is None:
            conform(backend.schema, request, options, target.definition, document)
        else:
            # Like kube-apiserver, validate a custom resource before dropping unknown fields.
            backend.schema.conform(group, version, kind, {"metadata": document.get("metadata")})
            backend.schema.apply_defaults(group, version, kind, document)
    except StatusError as error:
        why = error.message.partition(f" cannot be handled as a {kind}: ")[2] or error.message
        raise managed_fields.not_converted(about, made, why) from None
    metadata = meta.ensure_metadata(document)
    if live is None:
        metadata.pop("resourceVersion", None)  # without an object, no precondition can be met
        if metadata.get("uid"):
            raise _no_such_uid(target, metadata["uid"])
    meta.check_namespace(metadata, target.namespace)
    meta.check_names_object(metadata, target.name)
    set_managed_fields(document, entries)
    return document


def applied_document(body: Any) -> JsonObject:
    """Return the body of an apply as a document. Raises 400 if it is not an object."""
    if not isinstance(body, dict | None):
        raise bad_request(f"{_NO_OBJECT} {go_type_of(body)} into Go value of type map[string]interface {{}}")
    return body or {}


# --------------------------------------------------------------------------------------------------- errors


def _name_taken(target: Target, name: str, existing: StoredObject | None) -> StatusError:
    error = already_exists(target.resource, name)
    if existing is None or "deletionTimestamp" not in existing.decode()["metadata"]:
        return error
    # Tells the client that the name will become free.
    return StatusError(
        error.code, error.reason, f"object is being deleted: {error.message}", details=error.details
    )


def _no_name_left(error: StatusError) -> StatusError:
    details = {**(error.details or {}), "retryAfterSeconds": 1}
    return StatusError(
        409,
        "AlreadyExists",
        f"{error.message}, the server was not able to generate a unique name for the object",
        details=details,
        headers={"Retry-After": "1"},
    )


def _uid_mismatch(target: Target, wanted: str, actual: str) -> str:
    key = "/".join(part for part in (target.resource.plural, target.namespace, target.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    )


def _no_such_uid(target: Target, uid: str) -> StatusError:
    return conflict(
        target.resource,
        target.name,
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
    )
