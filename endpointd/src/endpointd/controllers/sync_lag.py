"""How long changes take to be published: from the loop turn in which one is stored to the answer of the write."""

from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock
from aiokube.runtime.exposition import Histogram, exponential_bounds

# 1 ms to 8.7 minutes: from better than anyone needs to worse than anyone bears.
LAG_BOUNDS = exponential_bounds(0.001, 2, 20)


class SyncLag:
    """The lag of one controller, service by service.

    The earliest change that has not been published counts, whatever comes after it and however many writes fail; it
    is forgotten only once it is published, found to need no write (it was undone, say), or its service has gone.
    """

    __slots__ = ("_clock", "_taken", "_waiting", "seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[ObjectKey, float] = {}
        self._taken: dict[ObjectKey, float] = {}
        self.seconds = Histogram(LAG_BOUNDS)

    def changed(self, service: ObjectKey) -> None:
        """Note that a change has to be published, from now on."""
        if service not in self._waiting:
            self._waiting[service] = self._clock.monotonic()

    def take(self, service: ObjectKey) -> None:
        """Note that a plan is made: it knows all changes so far, and none that comes while it is carried out."""
        since = self._waiting.pop(service, None)
        if since is not None:
            self._taken[service] = since

    def published(self, service: ObjectKey) -> None:
        """Note that what was taken has been written in full."""
        since = self._taken.pop(service, None)
        if since is not None:
            self.seconds.observe(self._clock.monotonic() - since)

    def skipped(self, service: ObjectKey) -> None:
        """Note that what was taken needs no write."""
        self._taken.pop(service, None)

    def put_back(self, service: ObjectKey) -> None:
        """Note that what was taken has not been written: it still waits, since when it did."""
        since = self._taken.pop(service, None)
        if since is not None:  # nothing that came meanwhile is earlier
            self._waiting[service] = since

    def forget(self, service: ObjectKey) -> None:
        """Forget what waits of a service that has gone."""
        self._waiting.pop(service, None)
        self._taken.pop(service, None)

    def oldest_seconds(self) -> float:
        """Return for how long the earliest change of all waits to be published, 0 where none does. O(services)."""
        since = min((*self._waiting.values(), *self._taken.values()), default=None)
        return 0.0 if since is None else self._clock.monotonic() - since
