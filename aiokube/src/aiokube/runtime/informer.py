"""The informer: an up-to-date cache of one resource, for most users of the library."""

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
    """The statistics of an informer's store and reflector."""

    store: StoreStatistics
    reflector: ReflectorStatistics


class Informer(Generic[T]):
    """A store, and the reflector that keeps it in sync with a source; their guarantees apply.

    Read from :attr:`lister` at any time (it is complete after :meth:`wait_synced`), receive changes through
    :meth:`add_handler`, and run :meth:`run` in a task::

        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run(), name="informer pods")
            await pods.wait_synced(timeout_seconds=30)

    A program that also writes the resource reports its writes to :attr:`store` (``record_write``,
    ``record_delete``), which then contains them immediately.
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
        """The name in messages and metrics, usually the resource."""
        return self.store.name

    @property
    def lister(self) -> Lister[T]:
        """The read-only view of the store."""
        return self.store

    @property
    def synced(self) -> bool:
        """Whether the initial state has been stored."""
        return self.store.synced

    def add_index(self, name: str, keys_of: KeysOf[T]) -> None:
        """Maintain an index of the objects for :meth:`Lister.by_index`; see :meth:`Store.add_index`."""
        self.store.add_index(name, keys_of)

    def add_handler(self, handler: Handler[T], *, replay: bool = True) -> Callable[[], None]:
        """Call ``handler(old, new)`` for every change; see :class:`aiokube.runtime.store.Store`.

        With ``replay`` it is first called with (None, object) for every stored object, before this returns;
        its exceptions propagate from there. Returns a function that unsubscribes it.
        """
        if replay:
            for item in self.store.values():
                handler(None, item)
        return self.store.subscribe(handler)

    async def run(self) -> NoReturn:
        """Keep the store up to date until cancelled (:meth:`Reflector.run`)."""
        await self._reflector.run()

    async def wait_synced(self, timeout_seconds: float | None = None) -> None:
        """Wait for the initial state. Raises :class:`NotSyncedError`, with the cause, after the timeout."""
        await self._reflector.wait_synced(timeout_seconds)

    async def wait_denied(self) -> None:
        """Wait until retrying cannot help: a permission is missing, or the configuration is wrong."""
        await self._reflector.wait_denied()

    async def wait_following(self) -> None:
        """Wait until a watch is open: a list can be allowed where a watch is not."""
        await self._reflector.wait_following()

    async def wait_current(self) -> None:
        """Return once the store is as new as this call (:meth:`Reflector.wait_current`)."""
        await self._reflector.wait_current()

    def statistics(self) -> InformerStatistics:
        """Return a snapshot of the informer's statistics."""
        return InformerStatistics(store=self.store.statistics(), reflector=self._reflector.statistics())


async def wait_all_synced(informers: Iterable[Informer[Any]], timeout_seconds: float) -> None:
    """Wait until all informers have synced.

    After the timeout, raises an ExceptionGroup with a :class:`NotSyncedError` for each that has not.
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
        raise ExceptionGroup(f"informers did not sync in time: {names}", missing) from None
