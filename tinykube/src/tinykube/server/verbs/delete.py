"""Delete an object or a collection: immediately, gracefully, or after the last finalizer is removed."""

from datetime import datetime, timedelta

from aiokube.api.times import format_time
from tinykube.server.errors import StatusError, conflict, not_found, stale
from tinykube.server.objects import GroupResource, JsonObject
from tinykube.server.registry.definition import Request
from tinykube.server.storage.model import StoredObject
from tinykube.server.verbs.commit import MAX_ATTEMPTS, Attempt, commit_one, note_deleted
from tinykube.server.verbs.context import Backend, Caller, Result, Target, answer, new_request, shown
from tinykube.server.verbs.options import DeleteOptions
from tinykube.server.verbs.selection import Selection

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


async def delete(backend: Backend, target: Target, request: Request, options: DeleteOptions) -> Result:
    """Delete an object; return 200 with a Status, or with the object if it remains or its definition returns it.

    Failed preconditions are 409. Finalizers keep the object, marked with its deletionTimestamp; a grace
    period keeps it until a client deletes it with 0. A started deletion can only be shortened.
    """
    options.check()
    for _ in range(MAX_ATTEMPTS):
        with Attempt(request):
            stored = backend.storage.head(target.key())
            if stored is None:
                raise not_found(target.resource, target.name)
            return await _delete_once(backend, target, request, options, stored)
    raise stale(target.resource, target.name)


async def _delete_once(
    backend: Backend, target: Target, request: Request, options: DeleteOptions, stored: StoredObject
) -> Result:
    definition = target.definition
    obj = stored.decode()
    _check_preconditions(target, options, obj["metadata"])
    definition.strategy.check_delete(request, obj)
    before = stored.decode()
    stays = _mark(target, request, options, obj)
    if stays:
        if obj == before:
            return answer(200, definition, stored)
        if request.dry_run:
            return Result(200, document=shown(definition, obj))
        change = await commit_one(backend.storage, request, stored.key, obj, stored.revision)
        return answer(200, definition, change.after)
    if not request.dry_run:
        change = await commit_one(backend.storage, request, stored.key, None, stored.revision)
        note_deleted(definition.strategy, request, change.after)
        stored = change.after
    if definition.returns_object_on_delete:
        return answer(200, definition, stored)
    return Result(200, document=_success(target, obj["metadata"]))


def _check_preconditions(target: Target, options: DeleteOptions, metadata: JsonObject) -> None:
    # kube-apiserver names the kind here, not the resource.
    kind = GroupResource(target.resource.group, target.definition.kind)
    uid, version = options.precondition_uid, options.precondition_resource_version
    if uid is not None and uid != metadata.get("uid"):
        raise conflict(
            kind,
            target.name,
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata.get('uid', '')}). "
            "The object might have been deleted and then recreated",
        )
    if version is not None and version != metadata.get("resourceVersion"):
        raise conflict(
            kind,
            target.name,
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata.get('resourceVersion', '')}). The object might have been modified",
        )


def _mark(target: Target, request: Request, options: DeleteOptions, obj: JsonObject) -> bool:
    """Mark the object as being deleted, or update the mark; return whether it remains for now."""
    metadata: JsonObject = obj["metadata"]
    _apply_policy(options, metadata)
    is_first = "deletionTimestamp" not in metadata
    grace_seconds = _grace_seconds(target, options, obj) if target.definition.graceful else 0
    held = bool(metadata.get("finalizers")) or target.definition.strategy.is_held(obj)
    if not grace_seconds and not held:
        return False
    if is_first:
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = _later(format_time(request.clock.wall()), grace_seconds)
        if not target.definition.strategy.is_held(obj):
            metadata["deletionGracePeriodSeconds"] = grace_seconds
        target.definition.strategy.mark_deleted(request, obj)
    elif grace_seconds < metadata.get("deletionGracePeriodSeconds", 0):
        begun = _later(metadata["deletionTimestamp"], -metadata["deletionGracePeriodSeconds"])
        now = format_time(request.clock.wall())
        hastened = _later(begun, grace_seconds)
        if hastened < now:
            hastened, grace_seconds = now, min(grace_seconds, 1)
        metadata["deletionTimestamp"] = hastened
        metadata["deletionGracePeriodSeconds"] = grace_seconds
    return True


def _grace_seconds(target: Target, options: DeleteOptions, obj: JsonObject) -> int:
    requested = options.grace_period_seconds
    if requested is not None and requested < 0:
        requested = 1
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        pending: int = metadata.get("deletionGracePeriodSeconds") or 0
        return pending if requested is None else min(requested, pending)
    return target.definition.strategy.grace_period_seconds(obj, requested)


def _apply_policy(options: DeleteOptions, metadata: JsonObject) -> None:
    """Set or remove the garbage collector's finalizers for the propagation policy; keep them without one."""
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return
    wanted = {"Foreground": _FOREGROUND, "Orphan": _ORPHAN}.get(policy)
    current = list(metadata.get("finalizers") or ())
    kept = [name for name in current if name not in (_FOREGROUND, _ORPHAN) or name == wanted]
    if wanted is not None and wanted not in kept:
        kept.append(wanted)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _later(text: str, seconds: int) -> str:
    return format_time(datetime.fromisoformat(text) + timedelta(seconds=seconds))


def _success(target: Target, metadata: JsonObject) -> JsonObject:
    details: JsonObject = {"name": target.name}
    if target.resource.group:
        details["group"] = target.resource.group
    details["kind"] = target.resource.plural
    details["uid"] = metadata.get("uid", "")
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_collection(
    backend: Backend, target: Target, caller: Caller, options: DeleteOptions, selection: Selection
) -> list[StoredObject]:
    """Delete the selected objects one by one; return them as they were listed.

    Objects that no longer exist count as deleted. The first error stops the deletion.
    """
    options.check()
    snapshot = backend.storage.snapshot(target.definition.storage_resource, target.namespace)
    found = [stored for stored in snapshot.after("", "") if selection.matches(stored)]
    for stored in found:
        one = Target(target.definition, stored.key.namespace, stored.key.name)
        request = new_request(backend, caller, dry_run=options.is_dry_run)
        try:
            await delete(backend, one, request, options)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
    return found
