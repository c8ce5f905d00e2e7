"""Endpoints from pods that match a selector, from a server that fails, loses history and goes silent."""

import asyncio
import random
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from tests.unit.discovery.world import LONG, settle, virtually

from aiokube.api.core import NODES, Node
from aiokube.api.resource import Resource
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.client.rest import Client
from aiokube.discovery import LivePods, ServiceEndpoints, StaleViewError, watch_pods
from aiokube.discovery.pods import DiscoveredPod, pod_resource
from aiokube.runtime.reflector_settings import NotSyncedError
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock

KEPT = pod_resource(labels=["model", "role"], annotations=["weight"])


def pod(
    name: str,
    ip: str,
    *,
    ready: bool = True,
    phase: str = "Running",
    deleted: bool = False,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> DiscoveredPod:
    """Return a pod of ns1 with container port http 8000, as the API server sends it."""
    metadata: dict[str, Any] = {
        "namespace": "ns1",
        "name": name,
        "uid": f"uid-{name}",
        "labels": labels or {},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    container = {"name": "main", "ports": [{"name": "http", "containerPort": 8000}]}
    document = {
        "metadata": metadata,
        "spec": {"containers": [container], "nodeName": "node-1", **spec},
        "status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]},
    }
    return KEPT.decode(msgspec.json.encode(document))


class Cluster:
    """Fake sources of pods and nodes, and the part of a client that a view uses."""

    def __init__(self, *pods: DiscoveredPod) -> None:
        self.pods: FakeSource[DiscoveredPod] = FakeSource()
        self.nodes: FakeSource[Node] = FakeSource()
        self.requests: list[tuple[str, str, str]] = []
        for each in pods:
            self.pods.create(each)

    def source(
        self, resource: Resource[Any], *, namespace: str = "", label_selector: str = ""
    ) -> FakeSource[Any]:
        self.requests.append((resource.plural, namespace, label_selector))
        return self.pods if resource.plural == "pods" else self.nodes

    def live(self, **more: Any) -> LivePods:
        options = {"port": 8000, "clock": FakeClock(), "rng": random.Random(1), **more}
        return watch_pods(cast("Client", self), "ns1", "app=web", **options)


def addresses(endpoints: ServiceEndpoints) -> list[str]:
    return [each.address for each in endpoints.usable]


@virtually
async def test_ready_pods_are_usable_and_a_deleted_pod_is_removed_immediately() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), pod("c", "10.0.0.3", ready=False))
    async with cluster.live() as live:
        states = aiter(live)
        assert addresses(await anext(states)) == ["10.0.0.1:8000", "10.0.0.2:8000"]
        cluster.pods.modify(pod("a", "10.0.0.1", deleted=True))
        changed = await anext(states)
        assert addresses(changed) == ["10.0.0.2:8000"]
        assert [each.is_draining for each in changed.endpoints] == [True, False, False]
        cluster.pods.delete(pod("a", "").metadata.key)
        assert [each.ip for each in (await anext(states)).endpoints] == ["10.0.0.2", "10.0.0.3"]
    assert cluster.requests == [("pods", "ns1", "app=web")]


@virtually
async def test_endpoints_carry_requested_labels_annotations_ports_and_the_transition_time() -> None:
    cluster = Cluster(pod("a", "10.0.0.1", labels={"model": "llama", "other": "x"}))
    async with cluster.live(port="http") as live:
        (found,) = live.current.endpoints
        assert dict(found.labels) == {"model": "llama"}
        assert (found.port, found.ports[0].name, found.node_name) == (8000, "http", "node-1")
        assert found.since is not None
        assert found.since.isoformat() == "2026-01-01T00:00:00+00:00"
        assert found.target_ref is not None
        assert found.target_ref.name == "a"
        cluster.pods.modify(pod("a", "10.0.0.1", labels={"model": "llama", "other": "y"}))
        before = live.current
        await settle()
        assert live.current is before  # an unrequested label is not a change


@virtually
async def test_finished_pods_and_pods_without_an_address_are_ignored() -> None:
    cluster = Cluster(
        pod("done", "10.0.0.1", phase="Succeeded"),
        pod("evicted", "10.0.0.2", phase="Failed"),
        pod("new", "", phase="Pending", ready=False),
    )
    async with cluster.live() as live:
        assert live.current.endpoints == ()
        assert live.problems() == {}


@virtually
async def test_a_pod_without_the_named_port_is_skipped_with_a_reason() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2", containers=[{"name": "main"}]))
    async with cluster.live(port="http") as live:
        assert addresses(live.current) == ["10.0.0.1:8000"]
        assert list(live.problems().values()) == ["the pod has no TCP container port named 'http'"]


@virtually
async def test_a_reused_address_belongs_to_the_pod_that_is_not_terminating() -> None:
    """The old pod is still terminating while its address is assigned to a new pod."""
    cluster = Cluster(pod("new", "10.0.0.1"), pod("old", "10.0.0.1", deleted=True))
    async with cluster.live() as live:
        (found,) = live.current.usable
        assert found.target_ref is not None
        assert found.target_ref.name == "new"
        cluster.pods.delete(pod("old", "").metadata.key)
        await settle()
        assert addresses(live.current) == ["10.0.0.1:8000"]


@virtually
async def test_zones_are_taken_from_nodes_if_requested_and_from_the_pod_label_otherwise() -> None:
    zone = "topology.kubernetes.io/zone"
    cluster = Cluster(pod("a", "10.0.0.1", labels={zone: "zone-of-pod"}))
    cluster.nodes.create(
        NODES.decode(msgspec.json.encode({"metadata": {"name": "node-1", "labels": {zone: "zone-of-node"}}}))
    )
    async with cluster.live() as live:
        assert [each.zone for each in live.current.endpoints] == ["zone-of-pod"]
    async with cluster.live(node_zones=True) as live:
        assert [each.zone for each in live.current.endpoints] == ["zone-of-node"]


@virtually
async def test_a_deletion_missed_during_a_reconnect_is_detected_by_the_relist() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
    async with cluster.live() as live:
        cluster.pods.delete(pod("a", "").metadata.key, silently=True)
        cluster.pods.compact()
        cluster.pods.break_watches(ConnectionFailedError("reset"))
        await asyncio.sleep(2.0)
        assert addresses(live.current) == ["10.0.0.2:8000"]


@virtually
async def test_the_age_grows_while_the_server_is_unreachable_and_check_reports_the_cause() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"))
    async with cluster.live(stale_after=60.0) as live:
        await asyncio.sleep(LONG)
        assert live.age < 45.0  # quiet, and healthy
        live.check()
        cluster.pods.fail_next(*[ConnectionFailedError("connection refused")] * 500)
        cluster.pods.break_watches(ConnectionFailedError("reset"))
        await asyncio.sleep(100.0)
        assert live.age >= 100.0
        assert live.is_stale
        with pytest.raises(
            StaleViewError, match=r"pods app=web in ns1: .* at most 60 s .*connection refused"
        ):
            live.check()
        assert addresses(live.current) == ["10.0.0.1:8000"]  # the last known state
        cluster.pods.clear_faults()
        await asyncio.sleep(2.0)
        live.check()


@virtually
async def test_a_missing_permission_raises_a_one_line_error_on_entry() -> None:
    cluster = Cluster()
    cluster.pods.fail_next(
        *[api_error(Status(code=403, reason="Forbidden", message="pods is forbidden"))] * 3
    )
    with pytest.raises(NotSyncedError, match="pods is forbidden") as caught:
        await cluster.live().__aenter__()
    assert "\n" not in str(caught.value)


@virtually
async def test_all_readers_share_one_state_and_one_selection() -> None:
    cluster = Cluster(*(pod(f"p{number}", f"10.0.0.{number}") for number in range(1, 9)))
    async with cluster.live() as live:
        readers = [aiter(live) for _ in range(200)]
        states = [await anext(reader) for reader in readers]
        assert len({id(state) for state in states}) == 1
        assert len({id(state.usable) for state in states}) == 1


@pytest.mark.parametrize("selector", ["", "  ", "app in (", "a=b=c"])
def test_an_empty_or_invalid_selector_is_rejected(selector: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        watch_pods(None, "ns1", selector, port=80)


@pytest.mark.parametrize("options", [{"timeout_seconds": 0.0}, {"stale_after": -1.0}])
def test_durations_that_are_not_positive_are_rejected(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        watch_pods(None, "ns1", "app=web", port=80, **cast("Any", options))


REFUSED = ConnectionFailedError("connection refused")


async def seconds_until(live: LivePods, expected: list[str]) -> float:
    """Return the time until the view has these addresses."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async for endpoints in live:
        if addresses(endpoints) == expected:
            return loop.time() - begun
    raise AssertionError("the view has ended")


@pytest.mark.parametrize("alive_seconds", [1.0, 8.5, 30.0, 37.7])
@pytest.mark.parametrize("bookmark_seconds", [60.0, None])
def test_a_silent_connection_is_replaced_within_16_seconds(
    alive_seconds: float, bookmark_seconds: float | None
) -> None:
    @virtually
    async def scenario() -> None:
        cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
        cluster.pods.bookmark_seconds = bookmark_seconds
        async with cluster.live() as live:
            await asyncio.sleep(alive_seconds)
            cluster.pods.abandon_watches()
            cluster.pods.delete(pod("a", "").metadata.key)
            assert await seconds_until(live, ["10.0.0.2:8000"]) <= 16.0
            (statistics,) = live.statistics()
            assert statistics.reflector.lists == 1, "the watch continues from its version"

    scenario()


@virtually
async def test_a_server_restored_from_an_older_state_is_followed_within_two_seconds() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
    async with cluster.live() as live:
        backup = cluster.pods.backup()
        cluster.pods.delete(pod("a", "").metadata.key)
        cluster.pods.create(pod("c", "10.0.0.3"))
        await seconds_until(live, ["10.0.0.2:8000", "10.0.0.3:8000"])
        cluster.pods.fail_next(*[REFUSED] * 1000)
        cluster.pods.break_watches(REFUSED)
        await asyncio.sleep(20)
        cluster.pods.restore(backup)
        cluster.pods.clear_faults()
        assert await seconds_until(live, ["10.0.0.1:8000", "10.0.0.2:8000"]) <= 2.0


@virtually
async def test_a_server_behind_our_resource_version_is_relisted_within_ten_seconds() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
    async with cluster.live() as live:
        behind = api_error(
            Status(code=504, reason="Timeout", message="Too large resource version: 9, current: 8")
        )
        cluster.pods.fail_next(*[behind] * 3)
        cluster.pods.break_watches(behind)
        cluster.pods.delete(pod("a", "").metadata.key)
        assert await seconds_until(live, ["10.0.0.2:8000"]) <= 10.0


@virtually
async def test_an_unreachable_server_is_polled_every_second_and_followed_within_two() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
    async with cluster.live() as live:
        await asyncio.sleep(1)
        asked = len(cluster.pods.requests)
        cluster.pods.fail_next(*[REFUSED] * 1000)
        cluster.pods.break_watches(REFUSED)
        cluster.pods.delete(pod("a", "").metadata.key)
        await asyncio.sleep(60)
        times = [request.at_seconds for request in cluster.pods.requests[asked:]]
        assert min(after - before for before, after in pairwise(times)) >= 1.0
        assert len(times) > 40
        cluster.pods.clear_faults()
        assert await seconds_until(live, ["10.0.0.2:8000"]) <= 2.0


@virtually
async def test_a_quiet_hour_needs_one_list_and_a_watch_every_ten_seconds_and_wakes_no_reader() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"))
    async with cluster.live() as live, asyncio.TaskGroup() as group:
        yielded = 0

        async def read() -> None:
            nonlocal yielded
            async for _ in live:
                yielded += 1

        readers = [group.create_task(read(), name="reader") for _ in range(5)]
        await settle()
        computed = live.current
        await asyncio.sleep(3600)
        assert (yielded, live.current is computed) == (5, True)
        assert live.age < 12.0
        (statistics,) = live.statistics()
        assert statistics.reflector.lists == 1
        assert len(cluster.pods.requests) <= 3600 / 9 + 1
        for reader in readers:
            reader.cancel()


@virtually
async def test_readers_with_the_same_state_share_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*(pod(f"p{number}", f"10.0.0.{number}") for number in range(1, 9)))
    compared = 0
    equal = ServiceEndpoints.__eq__

    def count(one: ServiceEndpoints, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(one, other)

    async with cluster.live() as live:
        readers = [aiter(live) for _ in range(200)]
        for reader in readers:
            await anext(reader)
        monkeypatch.setattr(ServiceEndpoints, "__eq__", count)
        cluster.pods.modify(pod("p1", "10.0.0.1", ready=False))
        assert len({id(await anext(reader)) for reader in readers}) == 1
        assert compared == 2, "one for the view and one for its readers"


@virtually
async def test_a_change_reverted_between_two_reads_yields_nothing() -> None:
    cluster = Cluster(pod("a", "10.0.0.1"))
    async with cluster.live() as live:
        states = aiter(live)
        first = await anext(states)
        cluster.pods.modify(pod("a", "10.0.0.1", ready=False))
        await settle()
        assert live.current != first
        cluster.pods.modify(pod("a", "10.0.0.1"))
        await settle()
        assert live.differs(first) is False
        cluster.pods.create(pod("b", "10.0.0.2"))
        assert addresses(await anext(states)) == ["10.0.0.1:8000", "10.0.0.2:8000"]


@virtually
async def test_a_missing_cluster_wide_permission_is_reported_with_the_user_and_the_grant() -> None:
    cluster = Cluster()
    user = "system:serviceaccount:llm:router"
    message = (
        f'pods is forbidden: User "{user}" cannot list resource "pods" in API group "" at the cluster scope'
    )
    cluster.pods.fail_next(*[api_error(Status(code=403, reason="Forbidden", message=message))] * 3)
    with pytest.raises(NotSyncedError) as caught:
        await cluster.live().__aenter__()
    text = str(caught.value)
    assert f"grant list and watch on pods to {user}" in text
    assert "\n" not in text
