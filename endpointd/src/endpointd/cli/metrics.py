"""The metrics of ``endpointd run``: who counts what, and all of it in one text when somebody asks."""

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
    """Everything that is counted, for the parts to be entered in as they are made.

    Nothing is collected until :meth:`render`, which costs O(parts and keys due) and sees one moment of them all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: list[tuple[WorkQueue[Any], QueueTimes]] = []
        self._informers: list[Informer[Any]] = []
        self._lags: list[tuple[str, SyncLag]] = []
        self._rejections: list[tuple[str, Rejections]] = []
        self._sources: list[Families] = [process_families]

    def add(self, families: Families) -> None:
        """Tell this too; its names must be its own."""
        self._sources.append(families)

    def add_queue(self, queue: WorkQueue[Any], times: QueueTimes) -> None:
        """Tell how a queue is; ``times`` must be its observer."""
        self._queues.append((queue, times))

    def add_informer(self, informer: Informer[Any]) -> None:
        """Tell how an informer is."""
        self._informers.append(informer)

    def add_lag(self, controller: str, lag: SyncLag) -> None:
        """Tell how long a controller takes to publish changes."""
        self._lags.append((controller, lag))

    def add_rejections(self, controller: str, rejections: Rejections) -> None:
        """Tell how many endpoints a controller leaves out."""
        self._rejections.append((controller, rejections))

    def add_audit(self, statistics: Callable[[], AuditStatistics]) -> None:
        """Tell what audits have found."""
        self.add(lambda: audit_families(statistics()))

    def add_events(self, statistics: Callable[[], EventStatistics]) -> None:
        """Tell what became of Events."""
        self.add(lambda: event_families(statistics(), prefix=PREFIX))

    def render(self) -> bytes:
        """Return all there is, as Prometheus reads it."""
        families = [family for source in self._sources for family in source()]
        families += queue_families(self._queues, prefix=PREFIX)
        families += informer_families(
            [informer.statistics() for informer in self._informers], self._clock.monotonic(), prefix=PREFIX
        )
        families += lag_families(self._lags)
        families += rejection_families(self._rejections)
        return exposition(families)


def lag_families(lags: Iterable[tuple[str, SyncLag]]) -> list[Family]:
    """Return how long changes of pods take, and have been waiting, to be published."""
    there = [((("controller", name),), lag) for name, lag in lags]
    return [
        Family(
            "endpointd_sync_lag_seconds",
            "histogram",
            "From the storing of a service's earliest unpublished pod change to the answer of the write.",
            tuple(sample for labels, lag in there for sample in lag.seconds.samples(labels)),
        ),
        Family(
            "endpointd_unpublished_oldest_seconds",
            "gauge",
            "For how long the earliest pod change of all waits to be published.",
            tuple(Sample(lag.oldest_seconds(), labels) for labels, lag in there),
        ),
    ]


def audit_families(statistics: AuditStatistics) -> list[Family]:
    """Return what audits have found, part by part."""
    parts = [((("part", name),), counts) for name, counts in statistics.parts.items()]
    return [
        Family(
            "endpointd_audits_total",
            "counter",
            "Keys compared with a rebuilt state.",
            tuple(Sample(counts.audits, labels) for labels, counts in parts),
        ),
        Family(
            "endpointd_audit_mismatches_total",
            "counter",
            "Keys found wrong, and mended. Each one is an error of this program.",
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
    """Return what the system knows of this process, under the usual names; what it does not know is left out."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    families = [
        _single("process_cpu_seconds_total", "CPU time used.", usage.ru_utime + usage.ru_stime, "counter"),
        _single("process_max_fds", "Files that may be open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        Family(
            "endpointd_build_info",
            "gauge",
            "Versions; always 1.",
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
        return families  # no Linux
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return [
        *families,
        _single("process_virtual_memory_bytes", "Address space.", pages[0] * page_bytes),
        _single("process_resident_memory_bytes", "Memory in RAM.", pages[1] * page_bytes),
        _single("process_open_fds", "Files open.", open_files),
        _single(
            "process_start_time_seconds",
            "When the process began, in seconds since 1970.",
            booted + ticks / os.sysconf("SC_CLK_TCK"),
        ),
    ]


def _single(name: str, help_text: str, value: float, kind: str = "gauge") -> Family:
    return Family(name, "counter" if kind == "counter" else "gauge", help_text, (Sample(value),))
