"""The observer interface of the mirroring controller (behaviour 3.7)."""

from typing import Protocol

from aiokube.api.meta import ObjectKey
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites


class MirroringObserver(Protocol):
    """Called synchronously during syncs; must be fast and must not raise."""

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        """Observe a plan: one per sync, and another after newer server state was read.

        The gauges of 3.7 are sums of ``endpoints``, ``slices_desired`` and ``slices_actual`` over the last
        plan of each key.
        """
        ...

    def wrote(self, writes: SliceWrites) -> None:
        """Observe the result of a plan's writes; deletions of a clean-up are not reported (M-10)."""
        ...

    def forgot(self, key: ObjectKey) -> None:
        """Observe that an Endpoints is no longer mirrored; may also be called for one that never was."""
        ...

    def synced(self, seconds: float) -> None:
        """Observe the duration of a sync, successful or not (M-13)."""
        ...


class NoObserver:
    """Ignores all observations. Implements :class:`MirroringObserver`."""

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        """Do nothing."""

    def wrote(self, writes: SliceWrites) -> None:
        """Do nothing."""

    def forgot(self, key: ObjectKey) -> None:
        """Do nothing."""

    def synced(self, seconds: float) -> None:
        """Do nothing."""
