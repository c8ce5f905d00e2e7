"""Measures the time from storing a change to the response of the write that publishes it."""

from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock
from aiokube.runtime.exposition import Histogram, exponential_bounds

# 1 ms to 8.7 minutes: from better than needed to worse than acceptable.
LAG_BOUNDS = exponential_bounds(0.001, 2, 20)


class SyncLag:
    """The lag of one controller, per service.

    The earliest unpublished change counts, regardless of later changes and failed writes; it is forgotten
    only when it is published, needs no write (for example because it was undone), or its service is deleted.
    """

    __slots__ = ("_clock", "_taken", "_waiting", "seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[ObjectKey, float] = {}
        self._taken: dict[ObjectKey, float] = {}
        self.seconds = Histogram(LAG_BOUNDS)

    def changed(self, service: ObjectKey) -> None:
        """Start measuring a change that must be published."""
        if service not in self._waiting:
            self._waiting[service] = self._clock.monotonic()

    def take(self, service: ObjectKey) -> None:
        """Mark the start of a plan: it covers all changes so far, and none that arrive while it is written."""
        since = self._waiting.pop(service, None)
        if since is not None:
            self._taken[service] = since

    def published(self, service: ObjectKey) -> None:
        """Record that the covered changes have been written completely."""
        since = self._taken.pop(service, None)
        if since is not None:
            self.seconds.observe(self._clock.monotonic() - since)

    def skipped(self, service: ObjectKey) -> None:
        """Record that the covered changes need no write."""
        self._taken.pop(service, None)

    def put_back(self, service: ObjectKey) -> None:
        """Record that the covered changes were not written: they keep waiting since their original time."""
        since = self._taken.pop(service, None)
        if since is not None:  # no change that arrived since can be earlier
            self._waiting[service] = since

    def forget(self, service: ObjectKey) -> None:
        """Forget the changes of a deleted service."""
        self._waiting.pop(service, None)
        self._taken.pop(service, None)

    def oldest_seconds(self) -> float:
        """Return the age of the oldest unpublished change, or 0. O(services)."""
        since = min((*self._waiting.values(), *self._taken.values()), default=None)
        return 0.0 if since is None else self._clock.monotonic() - since
