"""The metrics of queues, informers and Events; the workqueue metrics are upstream's (behaviour 0.1)."""

from aiokube.client.errors import ConnectionFailedError
from aiokube.runtime.events import EventStatistics
from aiokube.runtime.exposition import Family, exposition
from aiokube.runtime.informer import InformerStatistics
from aiokube.runtime.metrics import QueueTimes, event_families, informer_families, queue_families
from aiokube.runtime.reflector_settings import ReflectorStatistics
from aiokube.runtime.store import Store
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from tests.differential.metrics_text import Metric, parse_metrics

MAIN = (("name", "main"),)


def read(families: list[Family]) -> dict[str, Metric]:
    return parse_metrics(exposition(families).decode())


def test_a_queue_reports_waits_work_and_keys_in_flight() -> None:
    clock, times = ManualClock(), QueueTimes()
    queue: WorkQueue[str] = WorkQueue("main", clock=clock, observer=times)
    for key in ("a", "b", "c"):
        queue.add(key)
    clock.now = 2.0
    assert (queue.get_nowait(), queue.get_nowait()) == ("a", "b")
    clock.now = 5.0
    queue.done("a")
    queue.add_rate_limited("a")
    metrics = read(queue_families([(queue, times)]))
    assert {name: metric.values[MAIN] for name, metric in metrics.items()} == {
        "workqueue_depth": 1,
        "workqueue_adds_total": 3,
        "workqueue_retries_total": 1,
        "workqueue_queue_duration_seconds": 4.0,
        "workqueue_work_duration_seconds": 3.0,
        "workqueue_unfinished_work_seconds": 3.0,
        "workqueue_longest_running_processor_seconds": 3.0,
        "aiokube_queue_oldest_age_seconds": 5.0,
        "aiokube_queue_failing_keys": 1,
    }
    assert metrics["workqueue_queue_duration_seconds"].counts[MAIN] == 2
    assert metrics["workqueue_work_duration_seconds"].counts[MAIN] == 1


def test_a_new_queues_metrics_start_at_zero() -> None:
    queue: WorkQueue[str] = WorkQueue("main", clock=ManualClock())
    metrics = read(queue_families([(queue, QueueTimes())]))
    assert {value for metric in metrics.values() for value in metric.values.values()} == {0}
    assert {metric.type for metric in metrics.values()} == {"gauge", "counter", "histogram"}


def informer(*, last_contact: float | None, lists: int) -> InformerStatistics:
    return InformerStatistics(
        store=Store("pods").statistics(),
        reflector=ReflectorStatistics(
            name="pods",
            phase="watching",
            since=0.0,
            last_contact=last_contact,
            resource_version="7",
            synced=True,
            failures=0,
            last_error=str(ConnectionFailedError("no")),
            last_error_at=1.0,
            errors=3,
            lists=lists,
            watches=2,
            undecodable_events=1,
        ),
    )


def test_an_informer_reports_its_last_contact_and_relists() -> None:
    metrics = read(informer_families([informer(last_contact=10.0, lists=3)], now=14.5))
    pods = (("resource", "pods"),)
    assert {name: metric.values[pods] for name, metric in metrics.items()} == {
        "aiokube_store_objects": 0,
        "aiokube_watch_last_contact_seconds": 4.5,
        "aiokube_watch_relists_total": 2,
        "aiokube_watch_errors_total": 3,
        "aiokube_watch_undecodable_events_total": 1,
    }


def test_an_informer_without_contact_reports_no_age_and_no_relist() -> None:
    metrics = read(informer_families([informer(last_contact=None, lists=0)], now=14.5))
    assert metrics["aiokube_watch_last_contact_seconds"].values == {}
    assert metrics["aiokube_watch_relists_total"].values == {(("resource", "pods"),): 0}


def test_events_are_counted_by_outcome() -> None:
    statistics = EventStatistics(buffered=1, written=2, quiet=3, overflowed=4, refused=5, failed=6)
    metrics = read(event_families(statistics))
    assert {dict(key)["outcome"]: count for key, count in metrics["aiokube_events_total"].values.items()} == {
        "written": 2,
        "quiet": 3,
        "overflowed": 4,
        "refused": 5,
        "failed": 6,
    }
    assert metrics["aiokube_events_buffered"].values == {(): 1}


def test_the_prefix_of_metrics_without_an_upstream_name_is_configurable() -> None:
    statistics = EventStatistics(buffered=0, written=0, quiet=0, overflowed=0, refused=0, failed=0)
    queue: WorkQueue[str] = WorkQueue("main", clock=ManualClock())
    names = {
        family.name
        for family in (
            *queue_families([(queue, QueueTimes())], prefix="shop"),
            *informer_families([informer(last_contact=1.0, lists=1)], now=2.0, prefix="shop"),
            *event_families(statistics, prefix="shop"),
        )
    }
    assert {name.partition("_")[0] for name in names} == {"workqueue", "shop"}
