"""Run all lifecycle controllers: each collection is watched once and fed to all of them."""

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
    """A controller that sees all changes."""

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection: at start-up, and after missed changes."""
        ...

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection: at least one, in order, each exactly once."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class Lifecycle:
    """The background controllers: namespace deletion, garbage collection, expiry and graceful deletion.

    They are stateless: a restart resumes from the stored objects.
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
        """Run until cancelled. New kinds are watched within half a second."""
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
                    self._garbage.enqueue_all()
                await self._clock.sleep(_REGISTRY_SECONDS)

    async def _follow(self, resource: GroupResource) -> None:
        """Feed one collection to all controllers; resync after an overrun. Ends when the storage closes."""
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
