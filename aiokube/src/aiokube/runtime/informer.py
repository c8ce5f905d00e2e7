"""The informer: one resource, kept here, with everything that takes. What most users of the library want."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject
from aiokube.clock import Clock
from aiokube.runtime.handler_registry import Handler
from aiokube.runtime.lister import Lister
from aiokube.runtime.pacing import LoopPacer
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import NotSyncedError, ReflectorSettings, ReflectorStatistics
from aiokube.runtime.source import Source
from aiokube.runtime.store import Store, StoreStatistics
from aiokube.runtime.store_index import KeysOf

T = TypeVar("T", bound=KubernetesObject)


class InformerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How an informer is: what it holds, and how the watching goes."""

    store: StoreStatistics
    reflector: ReflectorStatistics


class Informer(Generic[T]):
    """A store, and the reflector that keeps it like a source; the promises are theirs.

    In short: read from :attr:`lister` whenever you like (it is complete after :meth:`wait_synced`), hear of changes
    through :meth:`add_handler`, and keep :meth:`run` running in a task of yours::

        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run(), name="informer pods")
            await pods.wait_synced(timeout_seconds=30)

    Who writes the resource too tells :attr:`store` of it (``record_write``, ``record_delete``) and then reads it here
    at once.
    """

    def __init__(
        self,
        source: Source[T],
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
        settings: ReflectorSettings | None = None,
        reachability: Reachability | None = None,
        pacer: LoopPacer | None = None,
    ) -> None:
        self.store: Store[T] = Store(name)
        self._reflector = Reflector(
            source,
            self.store,
            clock=clock,
            rng=rng,
            settings=settings,
            reachability=reachability,
            pacer=pacer,
        )

    @property
    def name(self) -> str:
        """What messages and metrics call it: the resource, most often."""
        return self.store.name

    @property
    def lister(self) -> Lister[T]:
        """The reading side."""
        return self.store

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        return self.store.synced

    def add_index(self, name: str, keys_of: KeysOf[T]) -> None:
        """Keep an index of the objects, read with :meth:`Lister.by_index`: see :meth:`Store.add_index`."""
        self.store.add_index(name, keys_of)

    def add_handler(self, handler: Handler[T], *, replay: bool = True) -> Callable[[], None]:
        """Call ``handler(old, new)`` for every change; see :class:`aiokube.runtime.store.Store` for what it may expect.

        With ``replay`` it is first told of everything that is there, as (None, object), before this returns; what
        it raises there comes out here. Returns a function that ends it.
        """
        if replay:
            for item in self.store.values():
                handler(None, item)
        return self.store.subscribe(handler)

    async def run(self) -> NoReturn:
        """Keep the store up to date until cancelled: :meth:`Reflector.run`."""
        await self._reflector.run()

    async def wait_synced(self, timeout_seconds: float | None = None) -> None:
        """Return once everything has been read. Raises :class:`NotSyncedError`, with the cause, after the timeout."""
        await self._reflector.wait_synced(timeout_seconds)

    async def wait_denied(self) -> None:
        """Return once it is certain that retrying cannot help: a right is missing, or the configuration is wrong."""
        await self._reflector.wait_denied()

    async def wait_following(self) -> None:
        """Return once changes are being watched, too: a list can be allowed where a watch is not."""
        await self._reflector.wait_following()

    async def wait_current(self) -> None:
        """Return once the store is as new as this call: :meth:`Reflector.wait_current`."""
        await self._reflector.wait_current()

    def statistics(self) -> InformerStatistics:
        """Return how the informer is."""
        return InformerStatistics(store=self.store.statistics(), reflector=self._reflector.statistics())


async def wait_all_synced(informers: Iterable[Informer[Any]], timeout_seconds: float) -> None:
    """Return once all are complete.

    Raises an ExceptionGroup after the timeout, with a :class:`NotSyncedError` for each that is not.
    """
    waiting = list(informers)
    try:
        async with asyncio.timeout(timeout_seconds):
            for informer in waiting:
                await informer.wait_synced()
    except TimeoutError:
        missing = [
            NotSyncedError(informer.statistics().reflector, timeout_seconds)
            for informer in waiting
            if not informer.synced
        ]
        names = ", ".join(error.statistics.name for error in missing)
        raise ExceptionGroup(f"not everything could be read in time: {names}", missing) from None
