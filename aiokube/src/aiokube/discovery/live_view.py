"""The base of all live views: watches in a task group, one shared value, iteration, freshness."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec

from aiokube.clock import Clock
from aiokube.discovery.changes import ServiceEndpoints
from aiokube.discovery.informer_group import ChangeSignal, Cluster, InformerGroup
from aiokube.runtime.informer import Informer, InformerStatistics
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.watch_states import WatchRules

if TYPE_CHECKING:
    from aiokube.client.rest import Client


WATCHES = ReflectorSettings(
    shortest_watch_seconds=9,
    longest_watch_seconds=11,
    silence_seconds=14.0,
    paced_silence_seconds=14.0,
    open_seconds=10.0,
    rules=WatchRules(healthy_seconds=8.0, refusals=2, checks_version=True),
)
"""How views watch by default: a silent server is detected within 15 s, even behind a proxy.

It costs the server a cheap request every ten seconds, on the same connection.
"""


class StaleViewError(Exception):
    """A view is older than its ``stale_after``; the text names the view, its age and the last error."""


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to watch, for every kind of view. ``stale_after`` is in seconds; None never counts a view as stale."""

    cluster: Cluster
    timeout_seconds: float
    stale_after: float | None
    clock: Clock
    rng: random.Random
    reflector: ReflectorSettings | None

    def __post_init__(self) -> None:
        """Raise ValueError for times that are not positive."""
        if self.timeout_seconds <= 0:
            raise ValueError(f"timeout_seconds must be positive, not {self.timeout_seconds:g}")
        if self.stale_after is not None and self.stale_after <= 0:
            raise ValueError(f"stale_after must be positive, not {self.stale_after:g}")


class LiveView(ABC):
    """Endpoints that stay current inside ``async with``.

    * **Consistent.** Every :attr:`current` is the state of one moment of the server's history, and moments never go
      back, through broken connections and relists. A part of a batch or of a relist is never visible.
    * **Eventually current.** While the server is reachable the view lags by the network; while it is not, the view
      keeps its last state and :attr:`age` grows.
    * **Iteration** yields the state immediately, then each state that differs from the one before. A slow reader skips
      intermediate states and always receives the last one; nothing queues up. Any number of readers share one
      value. Iteration ends when the ``async with`` block ends.
    * **Cancellation** is safe anywhere. Leaving the block stops all watches.
    """

    def __init__(self, name: str, settings: ViewSettings) -> None:
        self._name = name
        self._settings = settings
        self._informers: Sequence[Informer[Any]] = ()
        self._group = InformerGroup(settings.clock)
        self._changed = ChangeSignal()
        self._current: ServiceEndpoints | None = None
        self._compared: tuple[ServiceEndpoints, ServiceEndpoints, bool] | None = None
        self._outdated = True
        self._is_over = False

    @abstractmethod
    def _make_informers(self, client: "Client") -> Sequence[Informer[Any]]:
        """Return the informers, with the subscriptions that feed the view."""

    @abstractmethod
    def _compute(self) -> ServiceEndpoints:
        """Return the state from the caches."""

    async def __aenter__(self) -> Self:
        if self._informers:
            raise RuntimeError(f"the view of {self._name} was used before: create another one")
        self._informers = self._make_informers(await self._group.client(self._settings.cluster))
        for informer in self._informers:
            informer.store.subscribe(self._note_change)
        await self._group.open(self._informers, self._settings.timeout_seconds)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_over = True
        self._changed.notify()
        await self._group.close()

    def __aiter__(self) -> AsyncIterator[ServiceEndpoints]:
        return _States(self, self._changed.listen())

    @property
    def name(self) -> str:
        """The name in messages."""
        return self._name

    @property
    def current(self) -> ServiceEndpoints:
        """The state now: complete after entering, and the last known state after leaving.

        The same object until the state differs. Raises RuntimeError before entering: unknown is not the same as
        no endpoints (C-88).
        """
        if not self._informers:
            raise RuntimeError(f"nothing is known about {self._name} yet: enter the view with async with")
        if self._outdated or self._current is None:
            self._outdated = False
            found = self._compute()
            if found != self._current:
                self._current = found
        return self._current

    def differs(self, earlier: ServiceEndpoints | None) -> bool:
        """Return whether :attr:`current` differs from an earlier state.

        Readers that have the same earlier state share one comparison.
        """
        current = self.current
        if earlier is current or earlier is None:
            return earlier is None
        if self._compared is None or self._compared[0] is not earlier or self._compared[1] is not current:
            self._compared = (earlier, current, earlier != current)
        return self._compared[2]

    @property
    def age(self) -> float:
        """Seconds since the last proof that the view was current: an event, a bookmark or a list of every watch.

        On a quiet, healthy connection it stays below about 12 s, the time after which a watch is renewed. Infinite
        before the first proof.
        """
        now = self._settings.clock.monotonic()
        contacts = [informer.statistics().reflector.last_contact for informer in self._informers]
        if not contacts or None in contacts:
            return float("inf")
        return max(now - contact for contact in contacts if contact is not None)

    @property
    def is_stale(self) -> bool:
        """Whether :attr:`age` exceeds ``stale_after``; False if none was given."""
        limit = self._settings.stale_after
        return limit is not None and self.age > limit

    def check(self) -> None:
        """Raise :class:`StaleViewError` if the view is stale: one line for a readiness probe."""
        if not self.is_stale:
            return
        errors = [informer.statistics().reflector.last_error for informer in self._informers]
        cause = next((error for error in errors if error), "no response from the API server")
        raise StaleViewError(
            f"{self._name}: the last proof of being current is {self.age:.0f} s old, "
            f"at most {self._settings.stale_after:g} s are allowed: {cause}"
        )

    @property
    def is_over(self) -> bool:
        """Whether the block was left: nothing changes any more."""
        return self._is_over

    def statistics(self) -> tuple[InformerStatistics, ...]:
        """Return the state of each watch."""
        return tuple(informer.statistics() for informer in self._informers)

    def _informer(self, source: Any, name: str, reachability: Reachability) -> Informer[Any]:
        settings = self._settings
        return Informer(
            source,
            name=name,
            clock=settings.clock,
            rng=settings.rng,
            settings=self._settings.reflector or WATCHES,
            reachability=reachability,
        )

    def _note_change(self, old: object, new: object) -> None:
        self._outdated = True
        self._changed.notify()


class _States(AsyncIterator[ServiceEndpoints]):
    """One reader: yields the state unless the reader has just received it."""

    def __init__(self, view: LiveView, changed: asyncio.Event) -> None:
        self._view = view
        self._changed = changed
        self._last: ServiceEndpoints | None = None

    async def __anext__(self) -> ServiceEndpoints:
        while not self._view.is_over:
            self._changed.clear()
            current = self._view.current
            if self._view.differs(self._last):
                self._last = current
                return current
            await self._changed.wait()
        raise StopAsyncIteration
