"""The informers, client and tasks shared by everything in this package that watches a cluster."""

import asyncio
import contextlib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aiokube.clock import Clock
from aiokube.runtime.informer import Informer
from aiokube.runtime.reflector_settings import NotSyncedError

if TYPE_CHECKING:
    from aiokube.client.rest import Client

Cluster: TypeAlias = "Client | str | Path | None"
"""A client, the path of a kubeconfig, or None for the default cluster."""


class InformerGroup:
    """Informers that run from :meth:`open` to :meth:`close` in their own task group.

    An informer ends only by cancellation or by a bug. A bug cancels the task that opened the group, and
    :meth:`close` raises it as an ExceptionGroup. Exceptions from the body of an ``async with`` pass through unwrapped.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[Any]] = []
        self._own = contextlib.AsyncExitStack()

    async def client(self, cluster: Cluster) -> "Client":
        """Return the given client, or create one that :meth:`close` closes. Raises ConfigError."""
        if cluster is not None and not isinstance(cluster, str | Path):
            return cluster
        # Imported here: users of the pure rules should not pay for a client.
        from aiokube.client.load_config import load_config
        from aiokube.client.rest import Client

        config = load_config(cluster or "", clock=self._clock)
        return await self._own.enter_async_context(Client.from_config(config, clock=self._clock))

    async def open(self, informers: Sequence[Informer[Any]], timeout_seconds: float) -> None:
        """Start the informers, and return once all have synced.

        Raises :class:`aiokube.runtime.reflector_settings.NotSyncedError`, with the cause, if one has not synced
        within the timeout, and immediately if the server forbids one; everything is closed by then.
        """
        await self._group.__aenter__()
        self._tasks = [
            self._group.create_task(informer.run(), name=f"informer {informer.name}")
            for informer in informers
        ]
        try:
            await self._wait_synced(informers, timeout_seconds)
        except BaseException:
            await self.close()
            raise

    async def _wait_synced(self, informers: Sequence[Informer[Any]], timeout_seconds: float) -> None:
        deadline = self._clock.monotonic() + timeout_seconds
        try:
            async with asyncio.TaskGroup() as group:
                denials = [
                    group.create_task(_raise_when_denied(informer), name=f"denial of {informer.name}")
                    for informer in informers
                ]
                for informer in informers:
                    left_seconds = deadline - self._clock.monotonic()
                    await informer.wait_synced(max(round(left_seconds, 1), 0.1))
                for denial in denials:
                    denial.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def close(self) -> None:
        """Stop the informers, then close our client. Raises an ExceptionGroup if an informer had a bug."""
        async with self._own:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                self._tasks = []
                # With the body's exception, the group would wrap it; without, it raises only its own.
                await self._group.__aexit__(None, None, None)


async def _raise_when_denied(informer: Informer[Any]) -> None:
    await informer.wait_denied()
    raise NotSyncedError(informer.statistics().reflector, None)


class ChangeSignal:
    """Notifies waiters of a change. Notifications coalesce: a waiter that is busy sees one."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[asyncio.Event] = weakref.WeakSet()

    def notify(self) -> None:
        """Wake every waiter. Costs O(waiters)."""
        for listener in self._listeners:
            listener.set()

    def listen(self) -> asyncio.Event:
        """Return an event that each notification sets while the caller holds a reference to it."""
        listener = asyncio.Event()
        self._listeners.add(listener)
        return listener
