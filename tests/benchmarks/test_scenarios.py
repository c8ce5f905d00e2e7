"""The scenarios report the actual times, counts and CPU of a cluster and controller with known behaviour."""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.status import Status
from aiokube.client.errors import ServerTimeoutError
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock
from benchmarks.load import Load, LoadError
from benchmarks.objects import Workload
from benchmarks.observer import Observer
from benchmarks.published import (
    OBSERVED_ENDPOINTS,
    OBSERVED_SLICES,
    Judge,
    ObservedEndpoints,
    ObservedSlice,
)
from benchmarks.scenarios import (
    ChurnSettings,
    FlipSettings,
    ScenarioError,
    Subject,
    Values,
    churn,
    cold,
    flip,
    until_idle,
)
from benchmarks.sizes import Size
from benchmarks.usage import Memory, Usage
from tinykube.testing.processes import ChildProcess

WRITE_SECONDS = 0.004
SLICE_SECONDS = 0.010
OWN_SLICE_SECONDS = 0.007
ENDPOINTS_SECONDS = 0.025
CPU_SECONDS_PER_PUBLISH = 0.002


class KnownUsage(Usage):
    """A process with a prescribed CPU usage."""

    def __init__(self) -> None:
        super().__init__(os.getpid())
        self.seconds = 0.0
        self.peak_mib = 300.0

    def cpu_seconds(self) -> float:
        return self.seconds

    def memory(self) -> Memory:
        return Memory(100.0, self.peak_mib)

    def reset_peak(self) -> None:
        self.peak_mib = 100.0


class KnownCluster:
    """A server and a controller of known speed: a response takes 4 ms, a slice 10 ms, an Endpoints 25 ms after sending."""

    def __init__(self) -> None:
        self.slices: FakeSource[ObservedSlice] = FakeSource()
        self.endpoints: FakeSource[ObservedEndpoints] = FakeSource()
        self.usage = KnownUsage()
        self.server_usage = KnownUsage()
        self.controls = False
        self.most_not_ready = 0
        self.gives_up_deleting = 0
        self.delete_all: Callable[[], None] = self._delete_published
        self._ready: dict[str, bool] = {}
        self._addresses: dict[str, str] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        timeout_seconds: float | None = None,
    ) -> bytes:
        loop = asyncio.get_running_loop()
        if method == "DELETE":
            if self.gives_up_deleting:
                self.gives_up_deleting -= 1
                raise ServerTimeoutError(Status(code=504, message="the request took longer than a minute"))
            if "/namespaces/bench-0/" in path:
                self.delete_all()
        elif method == "PUT":
            await asyncio.sleep(OWN_SLICE_SECONDS)
        elif path.endswith("/status") and "/pods/" in path:
            status = json.loads(body or b"{}")["status"]
            name = path.split("/")[-2]
            self._addresses.setdefault(name, status.get("podIP", ""))
            self._ready[name] = any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in status["conditions"]
            )
            self.most_not_ready = max(self.most_not_ready, list(self._ready.values()).count(False))
            self.server_usage.seconds += 0.001
            if self.controls:
                loop.call_later(SLICE_SECONDS, self.publish_slices)
                loop.call_later(ENDPOINTS_SECONDS, self.publish_endpoints)
            await asyncio.sleep(WRITE_SECONDS)
        return b"{}"

    def publish_slices(self) -> None:
        self.usage.seconds += CPU_SECONDS_PER_PUBLISH
        endpoints = [
            {
                "addresses": [self._addresses[name]],
                "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "name": name},
            }
            for name, ready in self._ready.items()
        ]
        labels = {"kubernetes.io/service-name": "service-0"}
        metadata = {"name": "service-0-1", "namespace": "bench-0", "labels": labels}
        document = {"metadata": metadata, "endpoints": endpoints}
        self._put(self.slices, OBSERVED_SLICES.decode(json.dumps(document).encode()))

    def publish_endpoints(self) -> None:
        self.usage.seconds += CPU_SECONDS_PER_PUBLISH

        def shown(wanted: bool) -> list[object]:
            return [
                {"targetRef": {"kind": "Pod", "name": name}}
                for name, ready in self._ready.items()
                if ready is wanted
            ]

        subset = {"addresses": shown(True), "notReadyAddresses": shown(False)}
        document = {"metadata": {"name": "service-0", "namespace": "bench-0"}, "subsets": [subset]}
        self._put(self.endpoints, OBSERVED_ENDPOINTS.decode(json.dumps(document).encode()))

    def _put(self, source: FakeSource[ObservedSlice] | FakeSource[ObservedEndpoints], item: object) -> None:
        assert isinstance(item, ObservedSlice | ObservedEndpoints)
        if key_of(item) in source.objects:
            source.modify(item)  # type: ignore[arg-type]
        else:
            source.create(item)  # type: ignore[arg-type]

    def _delete_published(self) -> None:
        for key in self.slices.objects:
            self.slices.delete(key)
        for key in self.endpoints.objects:
            self.endpoints.delete(key)


class World:
    """A subject on the known cluster."""

    def __init__(self, folder: Path, pods: int) -> None:
        self.clock = FakeClock()
        self.cluster = KnownCluster()
        observer = Observer(self.cluster.slices, self.cluster.endpoints, Judge(), self.clock)
        self.observer = observer
        self.load = Load(Workload(Size(1, pods)), self.cluster, observer, self.clock)
        command = [sys.executable, "-c", "print('last words', flush=True); import time; time.sleep(600)"]
        self.child = ChildProcess("controller", command, log_path=folder / "log")
        self.subject = Subject(self.child, [self.cluster.server_usage], self.load, observer, self.clock)
        self.subject.usage = self.cluster.usage

    def start_controlling(self) -> None:
        self.cluster.controls = True
        self.cluster.publish_slices()
        self.cluster.publish_endpoints()


@asynccontextmanager
async def world_of(folder: Path, pods: int = 4) -> AsyncIterator[World]:
    world = World(folder, pods)
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(world.observer.run(), name="observer")
            await world.observer.wait_watching()
            await world.load.populate()
            yield world
            watching.cancel()
    finally:
        world.child.kill()


def rounded(values: Values) -> Values:
    return {name: round(value, 6) for name, value in values.items() if not name.startswith("own_")}


async def test_a_flip_reports_latency_writes_and_total_cpu_per_change(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.start_controlling()
        values = await flip(world.subject, FlipSettings(6), random.Random(1))
    assert rounded(values) == {
        "p50_ms": 10.0,
        "p99_ms": 10.0,
        "max_ms": 10.0,
        "status_write_p50_ms": 4.0,
        "after_answer_p50_ms": 6.0,
        "after_answer_p99_ms": 6.0,
        "endpoints_p50_ms": 25.0,
        "cpu_ms_per_change": 4.0,
        "server_cpu_ms_per_change": 1.0,
        "slice_writes_per_change": 1.0,
        "endpoints_writes_per_change": 1.0,
        "changes": 6.0,
    }


async def test_at_most_one_pod_is_unready_during_flips(tmp_path: Path) -> None:
    async with world_of(tmp_path, pods=20) as world:
        world.start_controlling()
        await flip(world.subject, FlipSettings(20), random.Random(1))
        assert world.cluster.most_not_ready == 1


async def test_after_flips_every_pod_is_ready_again(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.start_controlling()
        await flip(world.subject, FlipSettings(3), random.Random(1))
        await world.load.restore()
        pods = world.load.workload.pods
        assert all(world.observer.judge.expected(pod.key).ready for pod in pods)
        await world.subject.settle()


async def test_churn_keeps_its_rate_and_measures_latency_from_the_send_time(tmp_path: Path) -> None:
    async with world_of(tmp_path, pods=50) as world:
        world.start_controlling()
        await world.subject.settle()
        settings = ChurnSettings(per_second=20.0, seconds=5.0)
        values = await churn(world.subject, settings, random.Random(1))
    assert settings.changes == 100
    assert (round(values["p50_ms"], 3), round(values["p99_ms"], 3)) == (10.0, 10.0)
    assert values["changes_per_second"] == pytest.approx(20.0, rel=0.02)
    assert values["slice_writes_per_change"] == 1.0
    assert round(values["settled_ms"], 3) == 25.0
    assert round(values["own_slice_write_p50_ms"], 3) == 7.0
    assert values["peak_mib"] == 100.0  # the earlier peak was reset


async def test_churn_never_changes_a_pod_before_its_last_change_was_observed(tmp_path: Path) -> None:
    async with world_of(tmp_path, pods=1) as world:
        world.start_controlling()
        values = await churn(world.subject, ChurnSettings(per_second=1000.0, seconds=0.05), random.Random(1))
    # 10 ms per change with one pod: the rate cannot be kept, and the report shows the achieved one.
    assert values["changes_per_second"] == pytest.approx(100.0, rel=0.05)
    assert round(values["max_ms"], 3) == 10.0


async def test_a_cold_start_lasts_until_slices_and_endpoints_are_correct(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        await world.load.clear()
        started = world.clock.monotonic()
        loop = asyncio.get_running_loop()
        loop.call_later(1.5, world.cluster.publish_slices)
        loop.call_later(2.0, world.cluster.publish_endpoints)
        values = await cold(world.subject, started, 0.0)
    assert rounded(values) == {
        "seconds": 2.0,
        "slices_seconds": 1.5,
        "cpu_seconds": 0.004,
        "resident_mib": 100.0,
        "peak_mib": 300.0,
        "server_cpu_seconds": 0.004,
    }


async def test_a_state_that_never_becomes_correct_is_reported_with_complaint_and_log(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.child.wait_for_log("last words", timeout_seconds=30)
        with pytest.raises(ScenarioError) as caught:
            await world.subject.right()
    assert "controller has not made things right in 600 s: 4 pods not published" in str(caught.value)
    assert "last words" in str(caught.value)


async def test_a_controller_that_exits_is_reported(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.child.kill()
        with pytest.raises(ScenarioError, match="has ended with -9"):
            await world.subject.guard()


async def test_the_wait_for_an_idle_controller_has_a_timeout(tmp_path: Path) -> None:
    class Restless(KnownUsage):
        def cpu_seconds(self) -> float:
            self.seconds += 1.0
            return self.seconds

    async with world_of(tmp_path) as world:
        world.start_controlling()
        world.subject.usage = Restless()
        with pytest.raises(ScenarioError, match="never stops working"):
            await world.subject.settle()


async def test_a_controller_is_idle_after_two_samples_with_unchanged_cpu() -> None:
    clock, usage = FakeClock(), KnownUsage()
    loop = asyncio.get_running_loop()

    def work() -> None:
        usage.seconds += 0.01

    for moment in (0.01, 0.05, 0.09):
        loop.call_later(moment, work)
    await until_idle([usage], clock)
    assert 0.13 < clock.monotonic() < 0.15


async def test_clearing_returns_when_nothing_is_published(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.start_controlling()
        await world.subject.right()
        await world.load.clear()
        assert world.observer.judge.is_empty()
        assert ObjectKey("bench-0", "service-0") not in world.cluster.endpoints.objects


async def test_a_bulk_delete_that_times_out_on_the_server_is_retried(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.start_controlling()
        await world.subject.right()
        world.cluster.gives_up_deleting = 3
        await world.load.clear()
        assert world.observer.judge.is_empty()


async def test_the_wait_for_deletion_has_a_timeout(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        world.start_controlling()
        await world.subject.right()
        world.cluster.delete_all = lambda: None
        with pytest.raises(LoadError, match="not gone 300 s after asking"):
            await world.load.clear()
