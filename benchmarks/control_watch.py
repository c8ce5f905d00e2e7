"""The benchmark's own watch of one resource, which survives dropped connections."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.errors import ClientError, ExpiredError, api_error
from aiokube.clock import Clock
from aiokube.runtime.source import Batch, Source

T = TypeVar("T", bound=KubernetesObject)

_LONGEST_WATCH_SECONDS = 4 * 3600
_MOST_VAIN_ATTEMPTS = 10  # in a row, none of which delivered an event
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


class ObserverError(RuntimeError):
    """A watch of the benchmark itself cannot be maintained; the measurements of that time are invalid."""


class ControlWatch(Generic[T]):
    """Deliver every event of a resource, in order, starting with a list.

    kube-apiserver disconnects slow watchers. The watch then resumes after the last version seen in an event or
    bookmark: no event is lost or repeated. If that version has expired, the resource is relisted and the differences are
    delivered as events, one per object, so several writes of one object may count as one.
    """

    def __init__(
        self,
        source: Source[T],
        name: str,
        take: Callable[[Sequence[WatchEvent[T]], float], None],
        clock: Clock,
    ) -> None:
        """Call ``take`` with each batch of events and the time at which it was read and decoded."""
        self.started = asyncio.Event()
        """Set as soon as no later write can be missed."""
        self.restarts = 0
        """Number of disconnects so far."""
        self._source = source
        self._name = name
        self._take = take
        self._clock = clock
        self._known: dict[ObjectKey, T] = {}
        self._version = ""  # "" before the first list and when a relist is needed
        self._vain_attempts = 0

    async def run(self) -> NoReturn:
        """Watch until cancelled.

        Raises ObserverError after many disconnects in a row without an event, and any permanent error of the source.
        """
        while True:
            why = "the server has ended it"
            try:
                if not self._version:
                    await self._list()
                await self._follow()
            except ExpiredError as error:
                why = str(error)
                self._version = ""
            except ClientError as error:
                if not error.retryable:
                    raise
                why = str(error)
            self.restarts += 1
            self._vain_attempts += 1
            if self._vain_attempts >= _MOST_VAIN_ATTEMPTS:
                raise ObserverError(
                    f"the benchmark's own watch of {self._name} was cut off {self._vain_attempts} times in a row, "
                    f"at last because {why}"
                )
            await self._clock.sleep(self._pause_seconds())

    async def _list(self) -> None:
        page = await self._source.list_page()
        now = self._clock.monotonic()
        listed = {key_of(item): item for item in page.items}
        events: list[WatchEvent[T]] = [
            WatchEvent("DELETED", item) for key, item in self._known.items() if key not in listed
        ]
        for key, item in listed.items():
            known = self._known.get(key)
            if known is None:
                events.append(WatchEvent("ADDED", item))
            elif known.metadata.resource_version != item.metadata.resource_version:
                events.append(WatchEvent("MODIFIED", item))
        self._known = listed
        self._version = page.resource_version
        self._take(events, now)

    async def _follow(self) -> None:
        async with self._source.watch(
            resource_version=self._version, timeout_seconds=_LONGEST_WATCH_SECONDS
        ) as batches:
            self.started.set()
            async for batch in batches:
                self._accept(batch, self._clock.monotonic())

    def _accept(self, batch: Batch[T], now: float) -> None:
        events = [event for event in batch if isinstance(event, WatchEvent)]
        for event in events:
            key = key_of(event.item)
            if event.type == "DELETED":
                self._known.pop(key, None)
            else:
                self._known[key] = event.item
        self._take(events, now)
        for told in batch:
            if isinstance(told, WatchError):
                raise api_error(told.status)
            version = (
                told.resource_version if isinstance(told, Bookmark) else told.item.metadata.resource_version
            )
            self._version = version or self._version
            self._vain_attempts = 0

    def _pause_seconds(self) -> float:
        """Return 0 at first: a watcher that was too slow must catch up, not wait."""
        if self._vain_attempts <= 2:  # disconnected, and possibly told that its version has expired
            return 0.0
        return min(_FIRST_PAUSE_SECONDS * 2.0 ** (self._vain_attempts - 3), _LONGEST_PAUSE_SECONDS)
