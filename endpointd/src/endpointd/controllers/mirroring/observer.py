"""What mirroring tells of its work to whoever counts it (behaviour 3.7)."""

from typing import Protocol

from aiokube.api.meta import ObjectKey
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites


class MirroringObserver(Protocol):
    """Is told synchronously, from within syncs; it must be quick and must not raise."""

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        """Take note of a plan: one a sync, and another where the server knew better.

        The gauges of 3.7 are sums of ``endpoints``, ``slices_desired`` and ``slices_actual`` over the last plan of each key.
        """
        ...

    def wrote(self, writes: SliceWrites) -> None:
        """Take note of what came of a plan's writes; the deletions of a clean-up are not told (M-10)."""
        ...

    def forgot(self, key: ObjectKey) -> None:
        """Take note that an Endpoints is not mirrored any more; also of one that never was."""
        ...

    def synced(self, seconds: float) -> None:
        """Take note of how long a sync took, whatever came of it (M-13)."""
        ...


class NoObserver:
    """Counts nothing. Fulfils :class:`MirroringObserver`."""

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        """Do nothing."""

    def wrote(self, writes: SliceWrites) -> None:
        """Do nothing."""

    def forgot(self, key: ObjectKey) -> None:
        """Do nothing."""

    def synced(self, seconds: float) -> None:
        """Do nothing."""
