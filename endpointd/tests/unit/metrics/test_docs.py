"""The documentation lists exactly the existing metrics, with their types and labels."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.metrics.test_runtime_metrics import informer

from aiokube.api.meta import ObjectKey
from aiokube.runtime.events import EventStatistics
from aiokube.runtime.exposition import Family
from aiokube.runtime.leader_election import LeaderElector
from aiokube.runtime.leader_election_fence import Fence
from aiokube.runtime.leader_election_machine import Rules
from aiokube.runtime.metrics import QueueTimes, event_families, informer_families, queue_families
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue
from endpointd.cli.metrics import PREFIX, audit_families, lag_families, process_families
from endpointd.controllers.audit import AuditCounts, AuditStatistics
from endpointd.controllers.endpointslice.metrics import SliceMetrics
from endpointd.controllers.mirroring.metrics import MirroringMetrics
from endpointd.controllers.rejections import Rejections, rejection_families
from endpointd.controllers.sync_lag import SyncLag

DOCUMENT = Path(__file__).parents[4] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)


class NoEvents:
    def event(self, *event: object) -> None:
        pass


def families() -> Iterator[Family]:
    clock = ManualClock()
    yield from SliceMetrics(clock).families()
    yield from MirroringMetrics().families()
    yield from lag_families([("some-controller", SyncLag(clock))])
    yield from rejection_families([("some-controller", Rejections(NoEvents()))])
    yield from queue_families([(WorkQueue[str]("main", clock=clock), QueueTimes())], prefix=PREFIX)
    yield from informer_families([informer(last_contact=1.0, lists=1)], now=2.0, prefix=PREFIX)
    yield from event_families(
        EventStatistics(buffered=0, written=0, quiet=0, overflowed=0, refused=0, failed=0), prefix=PREFIX
    )
    yield from audit_families(
        AuditStatistics(
            parts={"membership": AuditCounts(0, 0, 0)},
            rounds=0,
            last_round_seconds=None,
            worked_seconds=0.0,
            last_mismatch="",
        )
    )
    yield from process_families()
    elector = LeaderElector(
        MemoryServer(),
        ObjectKey("kube-system", "endpointd"),
        Rules(identity="one"),
        fence=Fence(),
        clock=clock,
        rng=random.Random(0),
    )
    yield from elector.families()


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    text = DOCUMENT.read_text()
    documented = {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(text)
    }
    there = {
        family.name: (
            family.type,
            frozenset(label for sample in family.samples for label, _ in sample.labels if label != "le"),
        )
        for family in families()
        if not family.name.startswith("process_")
    }
    assert documented == there
    assert all(f"`{f.name}`" in text for f in process_families())
