"""What a manager runs: the protocol of its parts, and informers as parts."""

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from aiokube.runtime.informer import Informer
from aiokube.runtime.permissions import advised


@runtime_checkable
class Part(Protocol):
    """Something that runs as long as the program does.

    What else it can do it offers as further methods: :class:`Readiable`, :class:`Explaining`, :class:`Stoppable`.
    """

    @property
    def name(self) -> str:
        """What logs and errors call it."""
        ...

    async def run(self) -> object:
        """Run until cancelled, or until stopped where it is :class:`Stoppable`; an end of any other kind is an error."""
        ...


@runtime_checkable
class Readiable(Protocol):
    """A part for which the next ones must wait: a cache until it is filled, an election until it is won."""

    async def wait_ready(self) -> None:
        """Return when the part is ready; wait for ever if it never is. Raises what cannot heal.

        May be cancelled and called again at any time.
        """
        ...


@runtime_checkable
class WaitsForCurrent(Protocol):
    """A cache that can tell whether it has missed something, and catch up."""

    async def wait_current(self) -> None:
        """Return once the cache is as new as this call. May be cancelled and called again at any time."""
        ...


@runtime_checkable
class Needing(Protocol):
    """A controller that needs some of the informers only: those alone have to be complete before it begins."""

    @property
    def needed_informers(self) -> Collection[str]:
        """The names of the informers it reads."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A part that can say why others still wait for it."""

    def why_not_ready(self) -> str:
        """Return what is in the way, where, and what to do about it; ``""`` if nothing is known."""
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A part that needs time to end well. Others are cancelled."""

    async def stop(self, grace_seconds: float) -> object:
        """Make :meth:`Part.run` return, finishing what can be finished in the time given."""
        ...


class InformerPart:
    """An informer as a part: ready once its store is complete and followed. The manager makes it of an informer by itself."""

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
        """Return once the store is complete, and a watch keeps it so: what is only listed would go stale."""
        await self._informer.wait_synced()
        await self._informer.wait_following()

    async def wait_current(self) -> None:
        """Return once nothing that happened before this call is missing."""
        await self._informer.wait_current()

    def why_not_ready(self) -> str:
        """Return what went wrong last, and what to do where that is known."""
        statistics = self._informer.statistics().reflector
        cause = statistics.last_error
        if not cause:
            return f"nothing went wrong, it is {statistics.phase}"
        return advised(cause)


def as_informer(part: Part | Informer[Any]) -> Part:
    """Return a part that says when it is ready; raises ``TypeError`` for one that cannot."""
    if isinstance(part, Informer):
        return InformerPart(part)
    if not isinstance(part, Readiable):
        raise TypeError(
            f"{part.name} cannot run as an informer: it has no wait_ready(), so nothing could wait for it"
        )
    return part
