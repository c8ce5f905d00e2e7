"""The served text is valid Prometheus format according to Prometheus' own client."""

from prometheus_client.parser import text_string_to_metric_families

from aiokube.runtime.exposition import Family, Sample, exposition
from aiokube.runtime.metrics import QueueTimes
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.cli.metrics import Metrics
from endpointd.controllers.audit import Auditor
from endpointd.controllers.endpointslice.metrics import SliceMetrics
from endpointd.controllers.mirroring.metrics import MirroringMetrics
from tests.differential.metrics_text import parse_metrics


def everything() -> str:
    clock = ManualClock()
    metrics = Metrics(clock)
    slices = SliceMetrics(clock)
    slices.added.observe(7)
    metrics.add(slices.families)
    metrics.add(MirroringMetrics().families)
    metrics.add_lag("endpointslice-controller", slices.lag)
    metrics.add_audit(Auditor(clock=clock).statistics)
    times = QueueTimes()
    times.on_get(0.002)
    queue: WorkQueue[str] = WorkQueue("endpoint_slice", clock=clock)
    queue.add("a")
    metrics.add_queue(queue, times)
    return metrics.render().decode()


def test_prometheus_client_parses_every_sample_like_our_parser() -> None:
    text = everything()
    theirs = {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_count"))
    }
    ours = {
        ((name + "_sum" if metric.type == "histogram" else name).removesuffix("_total"), labels): value
        for name, metric in parse_metrics(text).items()
        for labels, value in metric.values.items()
    }
    assert theirs == ours
    assert len(theirs) > 40


def test_prometheus_client_parses_types_and_buckets() -> None:
    families = {family.name: family for family in text_string_to_metric_families(everything())}
    assert families["workqueue_adds"].type == "counter"
    assert families["workqueue_depth"].type == "gauge"
    added = families["endpoint_slice_controller_endpoints_added_per_sync"]
    assert added.type == "histogram"
    assert [(s.labels["le"], s.value) for s in added.samples if s.name.endswith("_bucket")][1:4] == [
        ("4", 0),
        ("8", 1),
        ("16", 1),
    ]


def test_prometheus_client_reads_back_escaped_texts() -> None:
    odd = 'a"b\\c\nd, {e}'
    text = exposition([Family("odd", "gauge", odd, (Sample(1.5, (("label", odd),)),))]).decode()
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"label": odd}
    assert family.samples[0].value == 1.5
