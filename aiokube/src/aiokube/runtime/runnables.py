"""What a manager runs: the protocols of runnables, and informers as runnables."""

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from aiokube.runtime.informer import Informer
from aiokube.runtime.permissions import with_hint


@runtime_checkable
class Runnable(Protocol):
    """A component that runs as long as the program does.

    Optional abilities are further methods: :class:`WaitsForReady`, :class:`ExplainsNotReady`, :class:`Stoppable`.
    """

    @property
    def name(self) -> str:
        """The name in logs and errors."""
        ...

    async def run(self) -> object:
        """Run until cancelled, or until stopped if it is :class:`Stoppable`; any other end is an error."""
        ...


@runtime_checkable
class WaitsForReady(Protocol):
    """A runnable that later ones wait for: a cache until it has synced, an election until it is won."""

    async def wait_ready(self) -> None:
        """Return when ready; wait indefinitely if that never happens. Raises errors that retrying cannot fix.

        May be cancelled and called again at any time.
        """
        ...


@runtime_checkable
class WaitsForCurrent(Protocol):
    """A cache that can detect gaps in its watch, and catch up."""

    async def wait_current(self) -> None:
        """Return once the cache is as new as this call. May be cancelled and called again at any time."""
        ...


@runtime_checkable
class NeedsInformers(Protocol):
    """A controller that needs only some of the informers: only those must have synced before it starts."""

    @property
    def needed_informers(self) -> Collection[str]:
        """The names of the informers it reads."""
        ...


@runtime_checkable
class ExplainsNotReady(Protocol):
    """A runnable that can explain why others still wait for it."""

    def why_not_ready(self) -> str:
        """Return the cause and how to fix it; ``""`` if nothing is known."""
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A runnable with a graceful shutdown. Others are cancelled."""

    async def stop(self, grace_seconds: float) -> object:
        """Make :meth:`Runnable.run` return, finishing what can be finished in the time given."""
        ...


class InformerRunnable:
    """Adapts an informer to a runnable, ready once it has synced and is watched. Used by the manager."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    @property
    def name(self) -> str:
        """The informer's name."""
        return self._informer.name

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        await self._informer.run()

    async def wait_ready(self) -> None:
        """Return once the store has synced and a watch keeps it current; a list alone would go stale."""
        await self._informer.wait_synced()
        await self._informer.wait_following()

    async def wait_current(self) -> None:
        """Return once the cache contains everything that happened before this call."""
        await self._informer.wait_current()

    def why_not_ready(self) -> str:
        """Return the last error, with a hint if one is known."""
        statistics = self._informer.statistics().reflector
        cause = statistics.last_error
        if not cause:
            return f"no errors so far, it is {statistics.phase}"
        return with_hint(cause)


def as_informer(part: Runnable | Informer[Any]) -> Runnable:
    """Return a runnable that reports when it is ready. Raises ``TypeError`` for one that cannot."""
    if isinstance(part, Informer):
        return InformerRunnable(part)
    if not isinstance(part, WaitsForReady):
        raise TypeError(
            f"{part.name} cannot run as an informer: it has no wait_ready(), so nothing could wait for it"
        )
    return part
