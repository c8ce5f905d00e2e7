"""All of it together: every collection followed once, every loop fed from there."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from aiokube.clock import Clock
from tinykube.server.lifecycle.expiry import Expiry
from tinykube.server.lifecycle.garbage import GarbageCollector
from tinykube.server.lifecycle.graceful import GracefulDeletion
from tinykube.server.lifecycle.interfaces import Deleter, Updater
from tinykube.server.lifecycle.namespaces import NamespaceCleaner
from tinykube.server.objects import GroupResource
from tinykube.server.registry.definition import Registry
from tinykube.server.storage.model import Change, Storage, StoredObject

_REGISTRY_SECONDS = 0.5


class Part(Protocol):
    """A loop that sees all changes."""

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Take the whole of a collection: at the start, and where changes have been missed."""
        ...

    def changed(self, changes: Sequence[Change]) -> None:
        """Take changes of one collection, at least one, in order, each once."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class Lifecycle:
    """What a control plane does by itself to objects that are to go.

    Namespaces that are deleted are emptied, owned objects go with their owners, events expire, and pods that no kubelet
    ends are ended. All of it is found again after a restart: nothing but the objects themselves is remembered.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        clock: Clock,
        *,
        delete: Deleter,
        update: Updater,
        finish_graceful_deletions: bool = False,
        others: Sequence[Part] = (),
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._garbage = GarbageCollector(storage, registry, clock, delete, update)
        self._parts: tuple[Part, ...] = (
            self._garbage,
            NamespaceCleaner(storage, registry, clock, delete, update),
            Expiry(storage, registry, clock, delete),
            GracefulDeletion(storage, clock, delete, finish_all=finish_graceful_deletions),
            *others,
        )

    async def run(self) -> None:
        """Work until cancelled. Kinds that come while it runs are followed within half a second."""
        followed: set[GroupResource] = set()
        known_revision = -1
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run(), name=f"lifecycle {type(part).__name__}")
            while True:
                if self._registry.revision != known_revision:
                    known_revision = self._registry.revision
                    resources = {definition.storage_resource for definition in self._registry.all()}
                    for resource in sorted(resources - followed):
                        group.create_task(self._follow(resource), name=f"lifecycle follows {resource}")
                    followed |= resources
                    self._garbage.look_at_all()
                await self._clock.sleep(_REGISTRY_SECONDS)

    async def _follow(self, resource: GroupResource) -> None:
        """Feed one collection to all parts; begin anew where the history has run away. Ends with the storage."""
        while True:
            snapshot = self._storage.snapshot(resource)
            subscription = self._storage.subscribe(resource, after_revision=snapshot.revision)
            try:
                objects = tuple(snapshot.after("", ""))
                for part in self._parts:
                    part.replaced(resource, objects)
                while batch := await subscription.next_batch():
                    for part in self._parts:
                        part.changed(batch)
            finally:
                subscription.close()
            if not subscription.overrun:
                return
