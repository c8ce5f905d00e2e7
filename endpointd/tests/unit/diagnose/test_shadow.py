"""Shadow mode checks changed services after a delay at a bounded cost, and reports persistent differences."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta, key_of
from aiokube.api.resource import WatchEvent
from aiokube.runtime.controller import Controller
from aiokube.runtime.store import Store
from aiokube.testing.builders import edited, make_endpoint, make_node, make_pod, make_service, make_slice
from aiokube.testing.virtual_time import FakeClock, VirtualTimeLoop, run_virtual
from aiokube.work_queue import WorkQueue
from endpointd.controllers.membership import Membership
from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.shadow import (
    Shadow,
    ShadowSettings,
    ShadowStatistics,
    ShadowWriteError,
    refuse_writes,
)
from endpointd.diagnose.shadow_metrics import shadow_families
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

WEB = ObjectKey("default", "web")
SLICES_ALONE = ShadowSettings(controllers=frozenset(["endpointslice"]))
ALWAYS = ShadowStatistics(checks=1, services=1, disagreeing=0, differences_started=0)


class Bed:
    """Stores filled by a test, and the shadow that reads them."""

    def __init__(self, settings: ShadowSettings = SLICES_ALONE) -> None:
        self.services: Store[Service] = Store("services")
        self.pods: Store[Pod] = Store("pods")
        self.nodes: Store[Node] = Store("nodes")
        self.endpoints: Store[Endpoints] = Store("endpoints")
        self.slices: Store[EndpointSlice] = Store("slices")
        self.membership = Membership(self.services, self.pods)
        clock = FakeClock()
        self.queue: WorkQueue[ObjectKey] = WorkQueue("shadow", clock=clock)
        self.shadow = Shadow(
            services=self.services,
            pods=self.pods,
            nodes=self.nodes,
            endpoints=self.endpoints,
            slices=self.slices,
            membership=self.membership,
            queue=self.queue,
            clock=clock,
            settings=settings,
            caches_current_since=lambda: self.current_since,
        )
        self.current_since: float | None = 0.0
        self.controller = Controller("shadow", self.queue, self.shadow.reconcile, clock=clock)
        self._version = 100

    def put(self, *items: Any) -> None:
        """Store objects in their newest version."""
        for item in items:
            self._store(item).apply([WatchEvent("MODIFIED", self._versioned(item))])

    def drop(self, item: Any) -> None:
        self._store(item).apply([WatchEvent("DELETED", self._versioned(item))])

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Run the shadow next to a scenario."""

        async def both() -> None:
            self.membership.start()
            self.services.subscribe(self.membership.service_changed)
            self.pods.subscribe(self.membership.pod_changed)
            self.shadow.start()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.controller.run(), name="shadow")
                await scenario()
                task.cancel()

        run_virtual(both())

    @property
    def checks(self) -> int:
        return self.shadow.statistics().checks

    def _store(self, item: Any) -> Any:
        stores: dict[Any, Any] = {
            Service: self.services,
            Pod: self.pods,
            Node: self.nodes,
            Endpoints: self.endpoints,
            EndpointSlice: self.slices,
        }
        return stores[type(item)]

    def _versioned(self, item: Any) -> Any:
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        return msgspec.structs.replace(item, metadata=metadata)


SERVICE = make_service()
POD = make_pod()
RIGHT = make_slice(SERVICE, endpoints=[make_endpoint(POD)])
WRONG = edited(RIGHT, endpoints=(make_endpoint(POD, ready=False),))


@pytest.fixture
def bed() -> Bed:
    return a_bed()


def a_bed(settings: ShadowSettings = SLICES_ALONE) -> Bed:
    made = Bed(settings)
    made.put(make_node(), SERVICE, POD, RIGHT)
    return made


def told(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [message for message in caplog.messages if message.startswith(what)]


def test_without_differences_every_service_is_checked_once_and_nothing_is_reported(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await asyncio.sleep(3600.0)

    bed.run(scenario)
    assert bed.shadow.statistics() == ALWAYS
    assert caplog.messages == []


def test_a_planted_difference_is_reported_when_persistent_and_when_resolved(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        await asyncio.sleep(10.0)
        bed.put(WRONG)
        await asyncio.sleep(5.9)  # a second to settle, five of grace
        assert caplog.messages == []
        await asyncio.sleep(0.2)
        assert len(told(caplog, "difference found")) == 1
        assert bed.shadow.statistics().disagreeing == 1
        await asyncio.sleep(100.0)
        bed.put(RIGHT)
        await asyncio.sleep(1.1)
        assert bed.shadow.statistics().disagreeing == 0

    bed.run(scenario)
    assert len(caplog.messages) == 2
    assert (
        "would=update kind=EndpointSlice namespace=default name=web-abcde service=web "
        "what=~ endpoint pod-1: ready false -> true" in caplog.text
    )
    assert "difference resolved" in caplog.messages[1]


def test_a_difference_resolved_within_the_grace_period_is_not_reported(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for _ in range(10):
            bed.put(WRONG)
            await asyncio.sleep(4.0)
            bed.put(RIGHT)
            await asyncio.sleep(4.0)

    bed.run(scenario)
    assert caplog.messages == []
    assert bed.shadow.statistics().differences_started == 0


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (lambda bed: bed.drop(RIGHT), "create"),
        (lambda bed: bed.put(make_pod(ready=False)), "update"),
        (lambda bed: bed.put(make_pod("pod-2", "10.0.0.2")), "update"),
        (lambda bed: bed.put(make_node(zone="zone-b")), "update"),
        (lambda bed: bed.put(make_service(ip_families=("IPv6",))), "delete"),
        (lambda bed: bed.put(make_slice(SERVICE, "web-second", [make_endpoint(POD)])), "delete"),
    ],
    ids=[
        "slice gone",
        "pod not ready",
        "pod came",
        "zone of the node",
        "family of the service",
        "second slice",
    ],
)
def test_each_kind_of_change_causes_a_check_of_its_service(
    bed: Bed, change: Callable[[Bed], None], operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await asyncio.sleep(10.0)
        change(bed)
        await asyncio.sleep(10.0)

    bed.run(scenario)
    assert f"would={operation} kind=EndpointSlice" in caplog.text


def test_a_wrong_or_missing_endpoints_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    bed = a_bed(ShadowSettings(controllers=frozenset(["endpoints"])))

    async def scenario() -> None:
        await asyncio.sleep(10.0)
        assert told(caplog, "difference found: controller=endpoints would=create kind=Endpoints")
        bed.put(Endpoints(metadata=ObjectMeta(name="web", namespace="default")))
        await asyncio.sleep(10.0)
        assert told(caplog, "difference resolved") == []  # resolved differences are logged at a lower level
        assert told(caplog, "difference found: controller=endpoints would=update kind=Endpoints")

    bed.run(scenario)


def test_a_slice_known_only_by_its_label_is_checked_from_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bed = Bed(ShadowSettings(controllers=frozenset(["mirroring"])))
    manager = {"endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}
    bed.put(make_slice(make_service("gone"), "gone-abcde", extra_labels=manager))

    async def scenario() -> None:
        await asyncio.sleep(10.0)

    bed.run(scenario)
    assert "controller=mirroring would=delete kind=EndpointSlice" in caplog.text


def test_a_relabelled_slice_causes_a_check_of_both_services(bed: Bed) -> None:
    other = make_service("other", selector={"app": "other"})
    theirs = edited(RIGHT, labels={**(RIGHT.metadata.labels or {}), "kubernetes.io/service-name": "other"})

    async def scenario() -> None:
        await asyncio.sleep(10.0)
        before = bed.checks
        bed.put(theirs)
        await asyncio.sleep(1.1)
        assert bed.checks == before + 2
        await asyncio.sleep(10.0)
        assert bed.shadow.statistics().disagreeing == 2

    bed.put(other, make_slice(other, "other-abcde"))
    bed.run(scenario)


def test_while_a_watch_is_down_nothing_is_reported_and_time_does_not_count(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """Pod events continue, slice events do not: slices published during that time are observed only afterwards."""

    async def scenario() -> None:
        await asyncio.sleep(10.0)
        bed.put(make_pod(ready=False))
        await asyncio.sleep(2.0)
        bed.current_since, before = None, bed.checks
        await asyncio.sleep(60.0)
        assert bed.checks == before
        bed.current_since = asyncio.get_running_loop().time()
        await asyncio.sleep(4.0)
        assert caplog.messages == []
        bed.put(edited(RIGHT, endpoints=(make_endpoint(make_pod(ready=False)),)))
        await asyncio.sleep(60.0)
        assert bed.shadow.statistics().disagreeing == 0

    bed.run(scenario)
    assert caplog.messages == []


def test_a_hundred_changes_within_a_second_are_one_check(bed: Bed) -> None:
    async def scenario() -> None:
        await asyncio.sleep(10.0)
        before = bed.checks
        for number in range(100):
            bed.put(make_pod(ready=number % 2 == 1))
            await asyncio.sleep(0.009)
        await asyncio.sleep(0.2)
        assert bed.checks == before + 1

    bed.run(scenario)


def test_unchanged_services_are_not_checked(bed: Bed) -> None:
    for number in range(50):
        bed.put(make_service(f"other-{number}", selector={"app": "other"}))

    async def scenario() -> None:
        await asyncio.sleep(100.0)
        before = bed.checks
        bed.put(make_pod(ready=False))
        bed.put(WRONG)
        await asyncio.sleep(2.0)
        assert bed.checks == before + 1

    bed.run(scenario)


def test_topology_aware_hints_are_checked_when_zones_change() -> None:
    bed = Bed()
    bed.put(
        make_node(),
        make_service(topology_mode="Auto"),
        make_service("plain", selector={"app": "other"}),
        make_slice(make_service("plain"), "plain-abcde"),
    )

    async def scenario() -> None:
        await asyncio.sleep(10.0)
        before = bed.checks
        bed.put(make_node("node-2", zone="zone-b"))
        await asyncio.sleep(1.5)
        assert bed.checks == before + 1

    bed.run(scenario)


def test_an_expensive_service_gets_only_its_share_of_time(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check takes 2 s here, with a change every 0.1 s: a share of a tenth allows one check every 20 s."""
    snapshot = bed.shadow._snapshot

    def slowly(key: ObjectKey) -> Snapshot:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.jump(2.0)
        return snapshot(key)

    monkeypatch.setattr(bed.shadow, "_snapshot", slowly)

    async def scenario() -> None:
        for number in range(1000):
            bed.put(make_pod(ready=number % 2 == 1))
            await asyncio.sleep(0.1)

    bed.run(scenario)
    assert 4 <= bed.checks <= 7


def test_a_flood_of_differences_is_logged_in_a_hundred_lines_and_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bed = Bed()
    services = [make_service(f"web-{number}") for number in range(150)]
    bed.put(make_node(), POD, *services)

    async def scenario() -> None:
        await asyncio.sleep(50.0)
        assert len(told(caplog, "difference found")) == 100
        assert bed.shadow.statistics().disagreeing == 150
        await asyncio.sleep(50.0)
        bed.put(make_service("later"))
        await asyncio.sleep(10.0)

    bed.run(scenario)
    assert told(caplog, "too many differences") == ["too many differences to log each: suppressed=50"]
    assert "service=later" in caplog.messages[-1]


def test_a_completely_deleted_service_is_no_longer_counted(bed: Bed) -> None:
    async def scenario() -> None:
        await asyncio.sleep(10.0)
        bed.drop(RIGHT)
        await asyncio.sleep(10.0)
        assert bed.shadow.statistics().disagreeing == 1
        bed.drop(SERVICE)
        await asyncio.sleep(10.0)
        assert bed.shadow.statistics().disagreeing == bed.shadow.statistics().services == 0

    bed.run(scenario)


def test_one_service_alone_has_the_same_differences_as_in_the_whole_cluster(bed: Bed) -> None:
    """The snapshot cut out of the stores for one service gives the same plan as the whole cluster."""
    second = make_service("second", selector={"tier": "back"}, ip_families=("IPv6", "IPv4"))
    bed.put(
        second,
        make_node("node-2", zone="zone-b"),
        make_pod("back-1", "10.0.1.1", "fd00::1", labels={"tier": "back"}, node_name="node-2"),
        make_pod("back-2", "10.0.1.2", "fd00::2", labels={"tier": "back"}, node_name="nowhere"),
        make_slice(second, "second-abcde"),
        WRONG,
    )
    whole = ClusterIndex(
        Snapshot(
            services=tuple(bed.services.values()),
            pods=tuple(bed.pods.values()),
            nodes=tuple(bed.nodes.values()),
            slices=tuple(bed.slices.values()),
        )
    )
    expected = list(changes_of_all(whole, controllers=frozenset(["endpointslice"])))
    bed.membership.start()
    bed.shadow.start()
    found = [
        change
        for key in sorted(key_of(service) for service in bed.services.values())
        for change in changes_of_all(
            ClusterIndex(bed.shadow._snapshot(key)), controllers=frozenset(["endpointslice"])
        )
    ]
    assert len(expected) >= 3
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_the_metrics_start_at_zero_and_follow(bed: Bed) -> None:
    def values() -> dict[str, float]:
        return {
            family.name + "".join(f" {value}" for _, value in sample.labels): sample.value
            for family in shadow_families(bed.shadow)
            for sample in family.samples
        }

    assert values() == {
        "endpointd_shadow_differences endpointslice EndpointSlice create": 0,
        "endpointd_shadow_differences endpointslice EndpointSlice update": 0,
        "endpointd_shadow_differences endpointslice EndpointSlice delete": 0,
        "endpointd_shadow_differences_begun_total": 0,
        "endpointd_shadow_services_checked_total": 0,
        "endpointd_shadow_services": 0,
        "endpointd_shadow_agreement_ratio": 1,
    }
    bed.put(make_service("other", selector={"app": "other"}), WRONG)

    async def scenario() -> None:
        await asyncio.sleep(10.0)

    bed.run(scenario)
    now = values()
    assert now["endpointd_shadow_differences endpointslice EndpointSlice update"] == 1
    assert now["endpointd_shadow_differences endpointslice EndpointSlice create"] == 1
    assert now["endpointd_shadow_services"] == 2
    assert now["endpointd_shadow_agreement_ratio"] == 0


def test_a_write_in_shadow_mode_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ShadowWriteError, match="shadow mode does not write"):
        refuse_writes()


def test_the_guide_names_every_metric_with_its_type_and_labels(bed: Bed) -> None:
    text = (Path(__file__).parents[4] / "docs" / "guide" / "shadow.md").read_text()
    rows = re.findall(r"^\| `(endpointd_\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert documented == {
        family.name: (family.type, {label for sample in family.samples for label, _ in sample.labels})
        for family in shadow_families(bed.shadow)
    }
