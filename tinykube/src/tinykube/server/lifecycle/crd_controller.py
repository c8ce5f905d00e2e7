"""The controller of CustomResourceDefinitions: accepts names, and deletes the instances of removed definitions."""

import asyncio

from aiokube.api.times import format_time
from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.custom.crd_definitions import resource_of
from tinykube.server.custom.customresourcedefinitions import CLEANUP
from tinykube.server.custom.kinds import CRDS, CustomKinds
from tinykube.server.custom.names import (
    ESTABLISHED,
    TERMINATING,
    accept_names,
    is_true,
    set_condition,
    taken_names,
)
from tinykube.server.errors import StatusError
from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.lifecycle.interfaces import Deleter, Make, Updater
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import JsonObject, StorageKey, metadata_of
from tinykube.server.storage.model import Storage, StoredObject

_LOOK_AGAIN_SECONDS = 0.25
_TOGETHER = 64


class CrdController:
    """Reconciles the definitions. Stateless: a restart resumes from the stored objects."""

    def __init__(
        self, storage: Storage, kinds: CustomKinds, clock: Clock, *, delete: Deleter, update: Updater
    ) -> None:
        self._storage = storage
        self._kinds = kinds
        self._clock = clock
        self._delete = delete
        self._update = update
        self._queue: WorkQueue[str] = lifecycle_queue("custom resource definitions", clock)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, self.look), name="custom resource definitions")
            group.create_task(self._follow(), name="custom resource definitions watch")

    async def _follow(self) -> None:
        while True:
            self._enqueue_all()
            subscription = self._storage.subscribe(CRDS, after_revision=self._storage.revision)
            try:
                while await subscription.next_batch():
                    self._enqueue_all()
            finally:
                subscription.close()
            if not subscription.overrun:
                return

    def _enqueue_all(self) -> None:
        """Enqueue all: there are few definitions, and one may wait for names that another releases."""
        for stored in self._storage.heads_in(CRDS):
            self._queue.add(stored.key.name)

    async def look(self, name: str) -> None:
        """Reconcile one definition. Raises StatusError if a deletion was rejected."""
        stored = self._storage.head(StorageKey(CRDS, "", name))
        if stored is None:
            return
        crd = stored.decode()
        if "deletionTimestamp" in metadata_of(crd):
            if CLEANUP in get_list(metadata_of(crd), "finalizers"):
                await self._empty(stored, crd)
        elif get_object(get_object(crd, "spec"), "names") != get_object(
            get_object(crd, "status"), "acceptedNames"
        ):
            await self._write(stored, self._granted)

    def _granted(self, crd: JsonObject) -> JsonObject:
        others = self._kinds.others(
            get_str(metadata_of(crd), "name"), get_str(get_object(crd, "spec"), "group")
        )
        accept_names(crd, taken_names(others), format_time(self._clock.wall()))
        return crd

    async def _empty(self, stored: StoredObject, crd: JsonObject) -> None:
        """Delete all objects of a definition; remove its finalizer once none is left."""
        if not is_true(crd, ESTABLISHED):
            await self._release(stored, "NeverEstablished", "resource was never established")
            return
        await self._write(stored, self._in_progress)
        resource = resource_of(crd)
        refused: list[StatusError] = []
        left = list(self._storage.heads_in(resource))
        for first in range(0, len(left), _TOGETHER):
            async with asyncio.TaskGroup() as group:
                for one in left[first : first + _TOGETHER]:
                    group.create_task(self._try_delete(one, refused), name=f"emptying {resource}")
        if refused:
            raise refused[0]
        if any(True for _ in self._storage.heads_in(resource)):
            self._queue.add_after(stored.key.name, _LOOK_AGAIN_SECONDS)  # finalizers hold some of them
            return
        await self._release(stored, "InstanceDeletionCompleted", "removed all instances")

    async def _try_delete(self, one: StoredObject, refused: list[StatusError]) -> None:
        try:
            await self._delete(one.key, one.uid)
        except StatusError as error:
            if error.code not in (404, 409):
                refused.append(error)

    def _in_progress(self, crd: JsonObject) -> JsonObject:
        text_of = "CustomResource deletion is in progress"
        now = format_time(self._clock.wall())
        set_condition(crd, TERMINATING, True, "InstanceDeletionInProgress", text_of, now)
        return crd

    async def _release(self, stored: StoredObject, reason: str, message: str) -> None:
        def terminated(crd: JsonObject) -> JsonObject:
            set_condition(crd, TERMINATING, False, reason, message, format_time(self._clock.wall()))
            metadata = metadata_of(crd)
            kept = [name for name in get_list(metadata, "finalizers") if name != CLEANUP]
            if kept:
                metadata["finalizers"] = kept
            else:
                metadata.pop("finalizers", None)
            return crd

        await self._write(stored, terminated)

    async def _write(self, stored: StoredObject, make: Make) -> None:
        try:
            await self._update(stored.key, make, subresource="status")
        except StatusError as error:
            if error.code != 404:
                raise
