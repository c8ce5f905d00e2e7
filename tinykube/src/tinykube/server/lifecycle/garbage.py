"""The garbage collector: deletes orphaned dependents."""

from collections.abc import Callable, Iterable, Sequence

from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError
from tinykube.server.lifecycle.garbage_plan import (
    DeleteOwned,
    DropFinalizer,
    DropOwners,
    OwnerState,
    Step,
    Unblock,
    plan_garbage,
)
from tinykube.server.lifecycle.interfaces import Deleter, Updater
from tinykube.server.lifecycle.owners import OwnerGraph
from tinykube.server.lifecycle.ownership import OwnerReference, OwnershipInfo, ownership_of
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import GroupResource, JsonObject, StorageKey
from tinykube.server.registry.definition import Definition, Registry
from tinykube.server.storage.model import Change, Storage, StoredObject

IGNORED_RESOURCES = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
"""Never collected: events expire."""


class GarbageCollector:
    """Deletes objects whose owners no longer exist, and completes foreground and orphan deletions.

    An object is reconciled when it, one of its owners or one of its dependents changes, and at start-up.
    Decisions use the durable state; a deletion has the uid that it was decided for as a precondition.
    """

    def __init__(
        self, storage: Storage, registry: Registry, clock: Clock, delete: Deleter, update: Updater
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._delete = delete
        self._update = update
        self._graph = OwnerGraph()
        self._queue: WorkQueue[StorageKey] = lifecycle_queue("garbage", clock)

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection."""
        if resource not in IGNORED_RESOURCES:
            self._put(self._graph.replace(resource, objects))
            # The deletion of an owner may have been missed: check all dependents.
            self.enqueue_all()

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection."""
        if changes[0].after.key.resource in IGNORED_RESOURCES:
            return
        for change in changes:
            self._put(self._graph.apply(change))

    def enqueue_all(self) -> None:
        """Reconcile every dependent: the set of known kinds has changed."""
        self._put(self._graph.owned())

    def _put(self, keys: Iterable[StorageKey]) -> None:
        for key in keys:
            self._queue.add(key)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_workers(self._queue, self.look)

    async def look(self, key: StorageKey) -> None:
        """Reconcile one object."""
        subject = self._graph.get(key)
        if subject is None:
            return
        dependents = [
            dependent
            for dependent in self._graph.dependents(subject.uid)
            if self._refers_to(dependent, subject)
        ]
        for step in plan_garbage(subject, dependents, self._locate):
            try:
                await self._do(step)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
                # Deleted or replaced: its change requeues it.

    async def _do(self, step: Step) -> None:
        match step:
            case DeleteOwned():
                await self._delete(step.key, step.uid, propagation_policy=step.policy)
            case DropOwners():
                await self._update(step.key, _without_owners(step.uids))
            case Unblock():
                await self._update(step.key, _unblocked)
            case DropFinalizer():
                await self._update(step.key, _without_finalizer(step.uid, step.name))

    def _refers_to(self, dependent: OwnershipInfo, subject: OwnershipInfo) -> bool:
        return any(
            owner.uid == subject.uid and self._owner_key(dependent.key, owner) == subject.key
            for owner in dependent.owners
        )

    def _locate(self, key: StorageKey, owner: OwnerReference) -> OwnerState:
        definition = self._definition(owner)
        if definition is None:
            return OwnerState.UNKNOWN
        if definition.namespaced and not key.namespace:
            return OwnerState.MISPLACED
        found = self._storage.get(self._key_of(definition, key, owner))
        if found is None or found.uid != owner.uid:
            return OwnerState.GONE
        return OwnerState.WAITING if ownership_of(found).deletes_dependents else OwnerState.PRESENT

    def _owner_key(self, key: StorageKey, owner: OwnerReference) -> StorageKey | None:
        definition = self._definition(owner)
        return None if definition is None else self._key_of(definition, key, owner)

    def _key_of(self, definition: Definition, key: StorageKey, owner: OwnerReference) -> StorageKey:
        return StorageKey(
            definition.storage_resource, key.namespace if definition.namespaced else "", owner.name
        )

    def _definition(self, owner: OwnerReference) -> Definition | None:
        group, _, _ = owner.api_version.rpartition("/")
        for definition in self._registry.all():
            if definition.kind == owner.kind and definition.group == group:
                return definition
        return None


def _without_owners(uids: Sequence[str]) -> Callable[[JsonObject], JsonObject]:
    def make(obj: JsonObject) -> JsonObject:
        metadata = obj["metadata"]
        kept = [owner for owner in metadata.get("ownerReferences") or () if owner.get("uid") not in uids]
        if kept:
            metadata["ownerReferences"] = kept
        else:
            metadata.pop("ownerReferences", None)
        return obj

    return make


def _unblocked(obj: JsonObject) -> JsonObject:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("blockOwnerDeletion"):
            owner["blockOwnerDeletion"] = False
    return obj


def _without_finalizer(uid: str, name: str) -> Callable[[JsonObject], JsonObject]:
    def make(obj: JsonObject) -> JsonObject:
        metadata = obj["metadata"]
        if metadata.get("uid") != uid:
            return obj  # another object of the same name, with other dependents
        kept = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != name]
        if kept:
            metadata["finalizers"] = kept
        else:
            metadata.pop("finalizers", None)
        return obj

    return make
