"""The metrics of ``endpointd run``: collected from each component and rendered on request."""

import os
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from aiokube.clock import Clock
from aiokube.runtime.events import EventStatistics
from aiokube.runtime.exposition import Family, Sample, exposition
from aiokube.runtime.informer import Informer
from aiokube.runtime.metrics import QueueTimes, event_families, informer_families, queue_families
from aiokube.work_queue import WorkQueue
from endpointd import __version__
from endpointd.controllers.audit import AuditStatistics
from endpointd.controllers.rejections import Rejections, rejection_families
from endpointd.controllers.sync_lag import SyncLag

PREFIX = "endpointd"
Families = Callable[[], Iterable[Family]]


class Metrics:
    """The metric sources of a program; each component registers its own.

    Nothing is collected until :meth:`render`, which costs O(components and due keys) and sees one consistent
    moment.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: list[tuple[WorkQueue[Any], QueueTimes]] = []
        self._informers: list[Informer[Any]] = []
        self._lags: list[tuple[str, SyncLag]] = []
        self._rejections: list[tuple[str, Rejections]] = []
        self._sources: list[Families] = [process_families]

    def add(self, families: Families) -> None:
        """Add a source of metric families with unique names."""
        self._sources.append(families)

    def add_queue(self, queue: WorkQueue[Any], times: QueueTimes) -> None:
        """Add a work queue; ``times`` must be its observer."""
        self._queues.append((queue, times))

    def add_informer(self, informer: Informer[Any]) -> None:
        """Add an informer."""
        self._informers.append(informer)

    def add_lag(self, controller: str, lag: SyncLag) -> None:
        """Add the sync lag of a controller."""
        self._lags.append((controller, lag))

    def add_rejections(self, controller: str, rejections: Rejections) -> None:
        """Add a controller's count of rejected endpoints."""
        self._rejections.append((controller, rejections))

    def add_audit(self, statistics: Callable[[], AuditStatistics]) -> None:
        """Add the results of audits."""
        self.add(lambda: audit_families(statistics()))

    def add_events(self, statistics: Callable[[], EventStatistics]) -> None:
        """Add the counts of Events sent and dropped."""
        self.add(lambda: event_families(statistics(), prefix=PREFIX))

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        families = [family for source in self._sources for family in source()]
        families += queue_families(self._queues, prefix=PREFIX)
        families += informer_families(
            [informer.statistics() for informer in self._informers], self._clock.monotonic(), prefix=PREFIX
        )
        families += lag_families(self._lags)
        families += rejection_families(self._rejections)
        return exposition(families)


def lag_families(lags: Iterable[tuple[str, SyncLag]]) -> list[Family]:
    """Return how long pod changes took to be published, and how long the oldest has been waiting."""
    labelled = [((("controller", name),), lag) for name, lag in lags]
    return [
        Family(
            "endpointd_sync_lag_seconds",
            "histogram",
            "Seconds from the earliest unpublished pod change of a service to the response of the write that publishes it.",
            tuple(sample for labels, lag in labelled for sample in lag.seconds.samples(labels)),
        ),
        Family(
            "endpointd_unpublished_oldest_seconds",
            "gauge",
            "Seconds that the oldest unpublished pod change has been waiting.",
            tuple(Sample(lag.oldest_seconds(), labels) for labels, lag in labelled),
        ),
    ]


def audit_families(statistics: AuditStatistics) -> list[Family]:
    """Return the audit results of each component."""
    parts = [((("part", name),), counts) for name, counts in statistics.parts.items()]
    return [
        Family(
            "endpointd_audits_total",
            "counter",
            "Keys whose state was compared with one rebuilt from the caches.",
            tuple(Sample(counts.audits, labels) for labels, counts in parts),
        ),
        Family(
            "endpointd_audit_mismatches_total",
            "counter",
            "Audit mismatches that were repaired; each indicates a bug in endpointd.",
            tuple(Sample(counts.mismatches, labels) for labels, counts in parts),
        ),
        Family(
            "endpointd_audit_errors_total",
            "counter",
            "Audits that failed.",
            tuple(Sample(counts.errors, labels) for labels, counts in parts),
        ),
    ]


def process_families() -> list[Family]:
    """Return the standard process metrics; those the system does not provide are left out."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    families = [
        _single(
            "process_cpu_seconds_total",
            "User and system CPU time in seconds.",
            usage.ru_utime + usage.ru_stime,
            "counter",
        ),
        _single(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
        Family(
            "endpointd_build_info",
            "gauge",
            "Versions of endpointd and Python; the value is always 1.",
            (Sample(1, (("version", __version__), ("python", sys.version.split()[0]))),),
        ),
    ]
    proc = Path("/proc/self")
    try:
        pages = [int(number) for number in (proc / "statm").read_text().split()]
        open_files = len(os.listdir(proc / "fd"))  # noqa: PTH208 - names are enough
        ticks = int((proc / "stat").read_text().rpartition(")")[2].split()[19])
        stat = Path("/proc/stat").read_text().splitlines()
        booted = next(int(line.split()[1]) for line in stat if line.startswith("btime "))
    except (OSError, StopIteration):
        return families  # not Linux
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return [
        *families,
        _single("process_virtual_memory_bytes", "Virtual memory size in bytes.", pages[0] * page_bytes),
        _single("process_resident_memory_bytes", "Resident memory size in bytes.", pages[1] * page_bytes),
        _single("process_open_fds", "Number of open file descriptors.", open_files),
        _single(
            "process_start_time_seconds",
            "Start time of the process in seconds since the Unix epoch.",
            booted + ticks / os.sysconf("SC_CLK_TCK"),
        ),
    ]


def _single(name: str, help_text: str, value: float, kind: str = "gauge") -> Family:
    return Family(name, "counter" if kind == "counter" else "gauge", help_text, (Sample(value),))
