"""The metrics of the mirroring controller (behaviour 3.7)."""

from aiokube.api.meta import ObjectKey
from aiokube.runtime.exposition import Family, Histogram, Sample, exponential_bounds
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites

PREFIX = "endpoint_slice_mirroring_controller_"
ENDPOINT_BOUNDS = exponential_bounds(2, 2, 15)
DURATION_BOUNDS = exponential_bounds(0.001, 2, 15)

_NOTHING = MirrorCounts()


class MirroringMetrics:
    """Upstream's mirroring metrics, under upstream's names.

    Implements :class:`endpointd.controllers.mirroring.observer.MirroringObserver`. Each call costs O(1); sums
    over all Endpoints are kept incrementally.
    """

    def __init__(self) -> None:
        self.added = Histogram(ENDPOINT_BOUNDS)
        self.updated = Histogram(ENDPOINT_BOUNDS)
        self.removed = Histogram(ENDPOINT_BOUNDS)
        self.skipped = Histogram(ENDPOINT_BOUNDS)
        self.seconds = Histogram(DURATION_BOUNDS)
        self.changes = {"create": 0, "update": 0, "delete": 0}
        self.endpoints = 0
        self.slices = 0
        self.slices_desired = 0
        self._planned: dict[ObjectKey, MirrorCounts] = {}

    def planned(self, key: ObjectKey, counts: MirrorCounts) -> None:
        """Count the endpoints that a sync adds, updates, removes and skips, and replace the key's sums."""
        self.added.observe(counts.added)
        self.updated.observe(counts.updated)
        self.removed.observe(counts.removed)
        self.skipped.observe(counts.skipped)
        self._exchange(self._planned.get(key, _NOTHING), counts)
        self._planned[key] = counts

    def wrote(self, writes: SliceWrites) -> None:
        """Count successful writes."""
        self.changes["create"] += writes.created
        self.changes["update"] += writes.updated
        self.changes["delete"] += writes.deleted

    def forgot(self, key: ObjectKey) -> None:
        """Remove the sums of an Endpoints."""
        self._exchange(self._planned.pop(key, _NOTHING), _NOTHING)

    def synced(self, seconds: float) -> None:
        """Record the duration of a sync."""
        self.seconds.observe(seconds)

    def _exchange(self, old: MirrorCounts, new: MirrorCounts) -> None:
        self.endpoints += new.endpoints - old.endpoints
        self.slices += new.slices_actual - old.slices_actual
        self.slices_desired += new.slices_desired - old.slices_desired

    def families(self) -> list[Family]:
        """Return all metric families."""
        histograms = {
            "endpoints_added_per_sync": ("Endpoints added by a sync.", self.added),
            "endpoints_updated_per_sync": ("Endpoints changed by a sync.", self.updated),
            "endpoints_removed_per_sync": ("Endpoints removed by a sync.", self.removed),
            "addresses_skipped_per_sync": ("Addresses that a sync did not mirror.", self.skipped),
            "endpoints_sync_duration": ("Seconds that a sync took.", self.seconds),
        }
        gauges = {
            "endpoints_desired": ("Endpoints that should be published.", self.endpoints),
            "num_endpoint_slices": ("EndpointSlices after all planned writes.", self.slices),
            "desired_endpoint_slices": (
                "EndpointSlices needed if all were filled to the limit.",
                self.slices_desired,
            ),
        }
        changes = tuple(Sample(count, (("operation", name),)) for name, count in self.changes.items())
        return [
            *(
                Family(PREFIX + name, "histogram", text, histogram.samples())
                for name, (text, histogram) in histograms.items()
            ),
            *(
                Family(PREFIX + name, "gauge", text, (Sample(value),))
                for name, (text, value) in gauges.items()
            ),
            Family(f"{PREFIX}changes", "counter", "EndpointSlices written.", changes),
        ]
