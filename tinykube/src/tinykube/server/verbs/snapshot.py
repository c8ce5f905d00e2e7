"""Snapshots of a server's objects, for tests that share a server."""

import asyncio
from collections.abc import Iterable

import msgspec

from tinykube.server.errors import conflict
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.encoding import reencoded
from tinykube.server.storage.model import Change, StoredObject, Write, WriteConflictError
from tinykube.server.verbs.commit import MAX_ATTEMPTS, note_created, note_deleted
from tinykube.server.verbs.context import Backend, Caller, new_request


class Snapshot(msgspec.Struct, frozen=True):
    """All objects of a server at one time. Cheap, because it shares their bytes with the server."""

    objects: tuple[StoredObject, ...]

    def __len__(self) -> int:
        """Count the objects."""
        return len(self.objects)


def take_snapshot(backend: Backend) -> Snapshot:
    """Return all stored objects, including accepted writes."""
    return Snapshot(
        tuple(stored for resource in _resources(backend) for stored in backend.storage.heads_in(resource))
    )


async def restore_snapshot(backend: Backend, snapshot: Snapshot, caller: Caller) -> int:
    """Restore the objects of a snapshot of this server; return the number of changes.

    It is a series of ordinary changes, so resource versions grow and watches stay open: they report DELETED for objects
    created since the snapshot, ADDED for deleted ones, MODIFIED for changed ones, and both for replaced ones. Everything
    except the resource version is restored, including the uid. Finalizers, grace periods and owner references do not
    delay removals, and nothing is validated. Raises 409 if other clients keep writing.
    """
    for _ in range(MAX_ATTEMPTS):
        removals, writes = _plan(backend, snapshot)
        # Both are accepted in one turn of the loop: no reader sees the state between them.
        results = await asyncio.gather(
            backend.storage.commit(removals), backend.storage.commit(writes), return_exceptions=True
        )
        changes = [change for result in results if isinstance(result, tuple) for change in result]
        _note(backend, changes, caller)
        failed = [result for result in results if isinstance(result, BaseException)]
        if not failed:
            return len(changes)
        if not isinstance(failed[0], WriteConflictError):
            raise failed[0]
    raise conflict(
        GroupResource("", "objects"), "", "other writers did not pause while a snapshot was restored"
    )


def _plan(backend: Backend, snapshot: Snapshot) -> tuple[list[Write], list[Write]]:
    wanted = {stored.key: stored for stored in snapshot.objects}
    removals: list[Write] = []
    writes: list[Write] = []
    resources = dict.fromkeys((*_resources(backend), *(key.resource for key in wanted)))
    found: set[StorageKey] = set()
    for resource in resources:
        for head in backend.storage.heads_in(resource):
            target = wanted.get(head.key)
            if target is not None and head.revision == target.revision:
                found.add(head.key)
            elif target is not None and head.uid == target.uid:
                found.add(head.key)
                if not _is_equal(head, target):
                    writes.append(Write(head.key, target.decode(), head.revision))
            else:
                removals.append(Write(head.key, None, head.revision))
    writes += [Write(key, target.decode(), 0) for key, target in wanted.items() if key not in found]
    return removals, writes


def _is_equal(one: StoredObject, other: StoredObject) -> bool:
    """Return whether two states of an object differ only in the resource version."""
    return reencoded(one, 0) == reencoded(other, 0)


def _note(backend: Backend, changes: Iterable[Change], caller: Caller) -> None:
    """Report the restored objects to the strategies: addresses in use, served custom resources."""
    for change in changes:
        definition = backend.registry.stored_at(change.after.key.resource)
        if definition is None:
            continue
        request = new_request(backend, caller, dry_run=False)
        if change.before is not None:
            note_deleted(definition.strategy, request, change.before)
        if change.type != "DELETED":
            note_created(definition.strategy, request, change.after)


def _resources(backend: Backend) -> list[GroupResource]:
    return sorted({definition.storage_resource for definition in backend.registry.all()})
