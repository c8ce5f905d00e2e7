"""Namespaces that are deleted: first what is in them, then they."""

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
    """Empties each namespace that is being deleted, and lets go of it (``spec.finalizers``) once nothing is left.

    Objects are deleted like everybody's, so grace periods and finalizers hold them; each that goes brings the namespace
    here again. What the namespace still waits for stands in its conditions.
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
        """Take the whole of a collection."""
        if resource == NAMESPACES:
            self._terminating.clear()
            for stored in objects:
                self._note(stored)
        else:
            # What is in these may have gone unseen.
            for name in self._terminating:
                self._queue.add(name)

    def changed(self, changes: Sequence[Change]) -> None:
        """Take changes of one collection."""
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
        """Work until cancelled."""
        await run_workers(self._queue, self.look)

    async def look(self, name: str) -> None:
        """Bring one namespace's deletion as far as it goes now. Raises StatusError where a deletion was refused."""
        key = StorageKey(NAMESPACES, "", name)
        stored = self._storage.head(key)
        if stored is None or not ownership_of(stored).is_deleting:
            return
        refused: list[StatusError] = []
        to_delete = plan_namespace(self._content(name)).to_delete
        for first in range(0, len(to_delete), _TOGETHER):
            # Together, so that they share what a write costs on the disk.
            async with asyncio.TaskGroup() as group:
                for info in to_delete[first : first + _TOGETHER]:
                    group.create_task(self._try_delete(info, refused), name=f"lifecycle empties {name}")
        # Pods that go at once make room for the rest: their own changes bring the namespace here again.
        remaining = self._content(name)
        await self._tell(key, remaining, [str(error) for error in refused])
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
        """Return all that is in a namespace, durable or not yet: a write that is under way will be there."""
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

    async def _tell(
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
