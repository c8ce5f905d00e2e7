"""What everything in this package that watches a cluster has in common: whose client, which tasks, how it ends."""

import asyncio
import contextlib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from endpointd.clock import Clock
from endpointd.runtime.informer import Informer
from endpointd.runtime.reflector_settings import NotSyncedError

if TYPE_CHECKING:
    from endpointd.client.rest import Client

Cluster: TypeAlias = "Client | str | Path | None"
"""A client; or the path of a kubeconfig; or None for the cluster that is meant when nobody says so."""


class Watching:
    """Informers that run from :meth:`open` to :meth:`close`, in a task group of their own.

    An informer ends by being cancelled, or by a bug: then the task that opened it is cancelled, and :meth:`close`
    raises the bug as an ExceptionGroup. What the body of an ``async with`` raises passes through unwrapped.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[Any]] = []
        self._own = contextlib.AsyncExitStack()

    async def client(self, cluster: Cluster) -> "Client":
        """Return the client, made and later closed by us unless it was given. Raises ConfigError."""
        if cluster is not None and not isinstance(cluster, str | Path):
            return cluster
        # Imported here, so that who wants only the rules does not pay for a client.
        from endpointd.client.discover import load_config
        from endpointd.client.rest import Client

        config = load_config(cluster or "", clock=self._clock)
        return await self._own.enter_async_context(Client.from_config(config, clock=self._clock))

    async def open(self, informers: Sequence[Informer[Any]], timeout_seconds: float) -> None:
        """Start the informers, and return once all have read everything.

        Raises :class:`endpointd.runtime.reflector_settings.NotSyncedError`, with the cause, for one that has not after
        the timeout, and at once for one that the server forbids; then everything has ended.
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
        """End the informers, then the client if it is ours. Raises an ExceptionGroup where one had a bug."""
        async with self._own:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                self._tasks = []
                # Told of what the body raised, it would wrap that; told of nothing, it raises only its own.
                await self._group.__aexit__(None, None, None)


async def _raise_when_denied(informer: Informer[Any]) -> None:
    await informer.wait_denied()
    raise NotSyncedError(informer.statistics().reflector, None)


class Bell:
    """Wakes those who wait for news. Who does not wait hears it when they next do; a hundred rings are one."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[asyncio.Event] = weakref.WeakSet()

    def ring(self) -> None:
        """Wake everybody. Costs O(listeners)."""
        for listener in self._listeners:
            listener.set()

    def listen(self) -> asyncio.Event:
        """Return an event that every ring sets from now on, as long as somebody holds it."""
        listener = asyncio.Event()
        self._listeners.add(listener)
        return listener
