"""Metrics of queues, informers and Events, computed from their statistics at each scrape.

The ``workqueue_*`` family has upstream's names, types and buckets. The other names begin with the ``prefix``
that the program chooses.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from aiokube.runtime.events import EventStatistics
from aiokube.runtime.exposition import Family, Histogram, Labels, Sample, exponential_bounds
from aiokube.runtime.informer import InformerStatistics
from aiokube.work_queue import WorkQueue

DEFAULT_PREFIX = "aiokube"
QUEUE_BOUNDS = exponential_bounds(10e-9, 10, 10)


class QueueTimes:
    """Histograms of a queue's waiting and work times; a :class:`aiokube.work_queue.QueueObserver`."""

    __slots__ = ("waited", "worked")

    def __init__(self) -> None:
        self.waited = Histogram(QUEUE_BOUNDS)
        self.worked = Histogram(QUEUE_BOUNDS)

    def on_add(self) -> None:
        """Do nothing: the queue counts adds."""

    def on_get(self, waited_seconds: float) -> None:
        """Observe a waiting time."""
        self.waited.observe(waited_seconds)

    def on_done(self, worked_seconds: float) -> None:
        """Observe a work time."""
        self.worked.observe(worked_seconds)

    def on_retry(self) -> None:
        """Do nothing: the queue counts retries."""


def queue_families(
    queues: Iterable[tuple[WorkQueue[Any], QueueTimes]], *, prefix: str = DEFAULT_PREFIX
) -> list[Family]:
    """Return upstream's work queue metrics, the age of the oldest key and the number of failing keys."""
    there = [(_name(queue.name), queue.statistics(), times) for queue, times in queues]

    def family(
        name: str, kind: Literal["counter", "gauge"], help_text: str, values: Sequence[float]
    ) -> Family:
        samples = tuple(Sample(value, labels) for (labels, _, _), value in zip(there, values, strict=True))
        return Family(name, kind, help_text, samples)

    def histogram(name: str, help_text: str, histograms: Sequence[Histogram]) -> Family:
        pairs = zip(there, histograms, strict=True)
        samples = tuple(s for (labels, _, _), values in pairs for s in values.samples(labels))
        return Family(name, "histogram", help_text, samples)

    return [
        family(
            "workqueue_depth", "gauge", "Keys that a worker could take now.", [s.depth for _, s, _ in there]
        ),
        family(
            "workqueue_adds_total",
            "counter",
            "Keys added to the queue, without duplicates.",
            [s.adds for _, s, _ in there],
        ),
        family(
            "workqueue_retries_total",
            "counter",
            "Keys added again after a failure.",
            [s.retries for _, s, _ in there],
        ),
        family(
            "workqueue_unfinished_work_seconds",
            "gauge",
            "Total seconds of the reconciles in progress.",
            [s.unfinished_seconds for _, s, _ in there],
        ),
        family(
            "workqueue_longest_running_processor_seconds",
            "gauge",
            "Seconds since the longest-running reconcile started.",
            [s.longest_running_seconds for _, s, _ in there],
        ),
        histogram(
            "workqueue_queue_duration_seconds",
            "Time that a due key waited for a worker.",
            [times.waited for _, _, times in there],
        ),
        histogram(
            "workqueue_work_duration_seconds",
            "Duration of the work on a key.",
            [times.worked for _, _, times in there],
        ),
        family(
            f"{prefix}_queue_oldest_age_seconds",
            "gauge",
            "Seconds that the oldest due key has been waiting.",
            [s.oldest_age_seconds for _, s, _ in there],
        ),
        family(
            f"{prefix}_queue_failing_keys",
            "gauge",
            "Keys whose last reconcile failed.",
            [s.failing for _, s, _ in there],
        ),
    ]


def informer_families(
    informers: Iterable[InformerStatistics], now: float, *, prefix: str = DEFAULT_PREFIX
) -> list[Family]:
    """Return the state of the informers' watches at ``now``, a monotonic time."""
    there = [((("resource", one.reflector.name),), one) for one in informers]
    return [
        Family(
            f"{prefix}_store_objects",
            "gauge",
            "Objects held.",
            tuple(Sample(one.store.objects, labels) for labels, one in there),
        ),
        Family(
            f"{prefix}_watch_last_contact_seconds",
            "gauge",
            "Seconds since the last successful response; absent before the first.",
            tuple(
                Sample(max(now - one.reflector.last_contact, 0.0), labels)
                for labels, one in there
                if one.reflector.last_contact is not None
            ),
        ),
        Family(
            f"{prefix}_watch_relists_total",
            "counter",
            "Relists: lists and initial events after the first.",
            tuple(Sample(max(one.reflector.lists - 1, 0), labels) for labels, one in there),
        ),
        Family(
            f"{prefix}_watch_errors_total",
            "counter",
            "Failed lists and watches.",
            tuple(Sample(one.reflector.errors, labels) for labels, one in there),
        ),
        Family(
            f"{prefix}_watch_undecodable_events_total",
            "counter",
            "Watch events that could not be decoded.",
            tuple(Sample(one.reflector.undecodable_events, labels) for labels, one in there),
        ),
    ]


def event_families(statistics: EventStatistics, *, prefix: str = DEFAULT_PREFIX) -> list[Family]:
    """Return the outcomes of the Events that controllers recorded."""
    outcomes: dict[str, int] = {
        "written": statistics.written,
        "quiet": statistics.quiet,
        "overflowed": statistics.overflowed,
        "refused": statistics.refused,
        "failed": statistics.failed,
    }
    return [
        Family(
            f"{prefix}_events_total",
            "counter",
            "Events by outcome; quiet ones were suppressed by the rate limit.",
            tuple(Sample(count, (("outcome", outcome),)) for outcome, count in outcomes.items()),
        ),
        Family(
            f"{prefix}_events_buffered",
            "gauge",
            "Events in the buffer.",
            (Sample(statistics.buffered),),
        ),
    ]


def _name(name: str) -> Labels:
    return (("name", name),)
