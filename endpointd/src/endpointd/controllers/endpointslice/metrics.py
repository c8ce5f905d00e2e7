"""The metrics of the EndpointSlice controller, under upstream's names (behaviour 2.12)."""

from collections import Counter
from collections.abc import Sequence

from aiokube.api.core import Service
from aiokube.api.meta import ObjectKey, key_of
from aiokube.clock import Clock
from aiokube.runtime.exposition import Family, Histogram, Sample, exponential_bounds
from endpointd.controllers.endpointslice.distribution import (
    DISTRIBUTIONS,
    topology_aware,
    traffic_distribution,
)
from endpointd.controllers.endpointslice.observer import Operation, Result
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.service_counts import ServiceCounts
from endpointd.controllers.sync_lag import SyncLag

PREFIX = "endpoint_slice_controller_"
ENDPOINT_BOUNDS = exponential_bounds(2, 2, 15)
CHANGE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class SliceMetrics:
    """Upstream's metrics of this controller.

    Implements :class:`~endpointd.controllers.endpointslice.observer.SliceObserver`.

    Each call costs O(its arguments); sums over services are kept incrementally. Series of all known label
    values exist from the start.
    """

    def __init__(self, clock: Clock) -> None:
        self.lag = SyncLag(clock)
        self.added = Histogram(ENDPOINT_BOUNDS)
        self.removed = Histogram(ENDPOINT_BOUNDS)
        self.changes: dict[Operation, int] = {"create": 0, "update": 0, "delete": 0}
        self.syncs: dict[Result, int] = {"success": 0, "stale": 0, "error": 0}
        self.slices_changed: dict[tuple[str, str], Histogram] = {("Disabled", ""): Histogram(CHANGE_BOUNDS)}
        self.distributions: Counter[str] = Counter(dict.fromkeys(sorted(DISTRIBUTIONS), 0))
        self.endpoints = 0
        self.slices = 0
        self.slices_desired = 0
        self._described: dict[ObjectKey, tuple[ServiceCounts, str | None]] = {}

    # ------------------------------------------------------------------------------------- observations

    def pod_changed(self, service: ObjectKey) -> None:
        """Start measuring the lag."""
        self.lag.changed(service)

    def planned(self, service: Service, plans: Sequence[AddressTypePlan], address_types: int) -> None:
        """Count the endpoints that a sync adds and removes, once per address type, including unchanged ones."""
        self.lag.take(key_of(service))
        idle = address_types
        for plan in plans:
            self.added.observe(plan.added)
            self.removed.observe(plan.removed)
            idle -= not plan.is_empty
        quiet = address_types - len(plans)
        if quiet:
            self.added.observe(0, quiet)
            self.removed.observe(0, quiet)
        if idle:
            self._slices_changed(service).observe(0, idle)

    def changed(self, operation: Operation, count: int = 1) -> None:
        """Count writes."""
        self.changes[operation] += count

    def address_type_written(self, service: Service, plan: AddressTypePlan) -> None:
        """Count the slices that a sync changed."""
        self._slices_changed(service).observe(len(plan.create) + len(plan.update) + len(plan.delete))

    def completed(self, service: ObjectKey, *, wrote: bool) -> None:
        """Record the lag if something was written."""
        if wrote:
            self.lag.published(service)
        else:
            self.lag.skipped(service)

    def failed(self, service: ObjectKey) -> None:
        """Keep measuring the lag."""
        self.lag.put_back(service)

    def synced(self, result: Result) -> None:
        """Count a sync."""
        self.syncs[result] += 1

    def described(self, service: Service, counts: ServiceCounts) -> None:
        """Replace a service's counts."""
        key = key_of(service)
        now = (counts, traffic_distribution(service))
        if self._described.get(key) == now:
            return
        self._replace(key, now)

    def forgot(self, service: ObjectKey) -> None:
        """Remove a service's counts."""
        self.lag.forget(service)
        self._replace(service, None)

    def _replace(self, key: ObjectKey, now: tuple[ServiceCounts, str | None] | None) -> None:
        before = self._described.pop(key, None)
        for record, sign in ((before, -1), (now, 1)):
            if record is None:
                continue
            counts, distribution = record
            self.endpoints += sign * counts.endpoints
            self.slices += sign * counts.slices
            self.slices_desired += sign * counts.slices_desired
            if distribution is not None:
                self.distributions[distribution] += sign
        if now is not None:
            self._described[key] = now

    def _slices_changed(self, service: Service) -> Histogram:
        labels = ("Auto" if topology_aware(service) else "Disabled", traffic_distribution(service) or "")
        found = self.slices_changed.get(labels)
        if found is None:
            found = self.slices_changed[labels] = Histogram(CHANGE_BOUNDS)
        return found

    # ------------------------------------------------------------------------------------- exposition

    def families(self) -> list[Family]:
        """Return all metric families except the lag, which is :attr:`lag`."""
        return [
            _histogram(
                "endpoints_added_per_sync", "Endpoints added by a sync of an address type.", self.added
            ),
            _histogram(
                "endpoints_removed_per_sync", "Endpoints removed by a sync of an address type.", self.removed
            ),
            _gauge("endpoints_desired", "Endpoints that should be published.", self.endpoints),
            _gauge("num_endpoint_slices", "Existing EndpointSlices.", self.slices),
            _gauge(
                "desired_endpoint_slices",
                "EndpointSlices needed if all were filled to the limit.",
                self.slices_desired,
            ),
            Family(
                f"{PREFIX}changes",
                "counter",
                "EndpointSlices written.",
                tuple(Sample(count, (("operation", name),)) for name, count in self.changes.items()),
            ),
            Family(
                f"{PREFIX}endpointslices_changed_per_sync",
                "histogram",
                "EndpointSlices written by a fully successful sync of an address type.",
                tuple(
                    sample
                    for (topology, distribution), histogram in self.slices_changed.items()
                    for sample in histogram.samples(
                        (("topology", topology), ("traffic_distribution", distribution))
                    )
                ),
            ),
            Family(
                f"{PREFIX}syncs",
                "counter",
                "Syncs of services by result.",
                tuple(Sample(count, (("result", name),)) for name, count in self.syncs.items()),
            ),
            Family(
                f"{PREFIX}services_count_by_traffic_distribution",
                "gauge",
                "Services with an effective traffic distribution.",
                tuple(
                    Sample(count, (("traffic_distribution", name),))
                    for name, count in sorted(self.distributions.items())
                ),
            ),
        ]


def _gauge(name: str, help_text: str, value: float) -> Family:
    return Family(f"{PREFIX}{name}", "gauge", help_text, (Sample(value),))


def _histogram(name: str, help_text: str, histogram: Histogram) -> Family:
    return Family(f"{PREFIX}{name}", "histogram", help_text, histogram.samples())
