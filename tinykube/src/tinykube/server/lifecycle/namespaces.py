"""Delete the contents of terminating namespaces, then the namespaces."""

import asyncio
from collections.abc import Sequence

from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError
from tinykube.server.lifecycle.interfaces import Deleter, Make, Updater
from tinykube.server.lifecycle.namespace_plan import plan_namespace, with_conditions
from tinykube.server.lifecycle.ownership import OwnershipInfo, ownership_of
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import GroupResource, JsonObject, StorageKey
from tinykube.server.registry.definition import Registry
from tinykube.server.storage.model import Change, Storage, StoredObject

NAMESPACES = GroupResource("", "namespaces")
_FINALIZER = "kubernetes"
_TOGETHER = 64


class NamespaceCleaner:
    """Empties each terminating namespace, and removes its ``spec.finalizers`` once it is empty.

    Objects are deleted under the usual rules, so grace periods and finalizers apply; each removal requeues
    the namespace. Its conditions describe the remaining content.
    """

    def __init__(
        self, storage: Storage, registry: Registry, clock: Clock, delete: Deleter, update: Updater
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._delete = delete
        self._update = update
        self._terminating: set[str] = set()
        self._queue: WorkQueue[str] = lifecycle_queue("namespaces", clock)

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection."""
        if resource == NAMESPACES:
            self._terminating.clear()
            for stored in objects:
                self._note(stored)
        else:
            # Changes in these namespaces may have been missed.
            for name in self._terminating:
                self._queue.add(name)

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection."""
        for change in changes:
            key = change.after.key
            if key.resource == NAMESPACES:
                if change.type == "DELETED":
                    self._terminating.discard(key.name)
                    self._queue.forget(key.name)
                else:
                    self._note(change.after)
            elif key.namespace in self._terminating and change.type != "MODIFIED":
                self._queue.add(key.namespace)

    def _note(self, stored: StoredObject) -> None:
        if ownership_of(stored).is_deleting:
            self._terminating.add(stored.key.name)
            self._queue.add(stored.key.name)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_workers(self._queue, self.look)

    async def look(self, name: str) -> None:
        """Reconcile the deletion of one namespace. Raises StatusError if a deletion was rejected."""
        key = StorageKey(NAMESPACES, "", name)
        stored = self._storage.head(key)
        if stored is None or not ownership_of(stored).is_deleting:
            return
        refused: list[StatusError] = []
        to_delete = plan_namespace(self._content(name)).to_delete
        for first in range(0, len(to_delete), _TOGETHER):
            # In parallel, so that they share a disk sync.
            async with asyncio.TaskGroup() as group:
                for info in to_delete[first : first + _TOGETHER]:
                    group.create_task(self._try_delete(info, refused), name=f"lifecycle empties {name}")
        # Pods that are removed immediately make way for the rest: their changes requeue the namespace.
        remaining = self._content(name)
        await self._write_conditions(key, remaining, [str(error) for error in refused])
        if not remaining:
            await self._write(key, _released, "finalize")
        if refused:
            raise refused[0]

    async def _try_delete(self, info: OwnershipInfo, refused: list[StatusError]) -> None:
        try:
            await self._delete(info.key, info.uid)
        except StatusError as error:
            if error.code not in (404, 409):
                refused.append(error)

    def _content(self, namespace: str) -> list[OwnershipInfo]:
        """Return all objects in a namespace, durable or not: pending writes will be in it."""
        resources = {
            definition.storage_resource
            for definition in self._registry.all()
            if definition.namespaced and "delete" in definition.verbs
        }
        return [
            ownership_of(stored)
            for resource in sorted(resources)
            for stored in self._storage.heads_in(resource, namespace)
        ]

    async def _write_conditions(
        self, key: StorageKey, remaining: Sequence[OwnershipInfo], failures: Sequence[str]
    ) -> None:
        now = self._clock.wall()

        def make(obj: JsonObject) -> JsonObject:
            obj["status"] = with_conditions(obj.get("status") or {}, remaining, failures, now)
            return obj

        await self._write(key, make, "status")

    async def _write(self, key: StorageKey, make: Make, subresource: str) -> None:
        try:
            await self._update(key, make, subresource=subresource)
        except StatusError as error:
            if error.code != 404:
                raise


def _released(obj: JsonObject) -> JsonObject:
    spec = obj.setdefault("spec", {})
    kept = [name for name in spec.get("finalizers") or () if name != _FINALIZER]
    if kept:
        spec["finalizers"] = kept
    else:
        spec.pop("finalizers", None)
    return obj
