"""A simulation in virtual time: rollout limits, one status write per transition, repeatable from a seed."""

import asyncio
import random
from typing import Any

import pytest
from tests.scenario.simulate_world import (
    NODES,
    PODS,
    SimulatedWorld,
    condition,
    container,
    is_ready,
    lone_pod,
    simulated,
    template,
    workload,
)

from aiokube.api.status import Status
from aiokube.client.errors import api_error
from aiokube.testing.virtual_time import run_virtual
from tinykube.simulate.annotations import CRASH, PREFIX, READY, READY_AFTER
from tinykube.simulate.settings import SimulateSettings

QUICK = SimulateSettings(nodes=3, zones=("a", "b"), image_pull_seconds=1.0, stop_seconds=2.0, seed=3)
PROBE = {"httpGet": {"port": 80}, "periodSeconds": 2}


def slow_template(image: str = "main:1") -> dict[str, Any]:
    return template(containers=[container(image=image, readinessProbe=PROBE)])


def in_virtual_time(scenario: Any) -> Any:
    def test() -> None:
        run_virtual(scenario())

    test.__name__ = scenario.__name__
    return test


class Limits:
    """Checks the limits of a rollout after each write."""

    def __init__(self, world: SimulatedWorld, most: int, fewest: int) -> None:
        self._world = world
        self._most, self._fewest = most, fewest
        self.broken: list[str] = []
        self.highest = 0
        self.lowest = 10**6
        world.api.after_each = self.look

    def look(self) -> None:
        alive = self._world.alive()
        available = sum(map(is_ready, alive))
        self.highest, self.lowest = max(self.highest, len(alive)), min(self.lowest, available)
        if len(alive) > self._most or available < self._fewest:
            self.broken.append(f"{len(alive)} pods, {available} available")


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "fewest"),
    [(1, 0, 7, 6), (0, 1, 6, 5), ("50%", "50%", 9, 3), ("100%", 0, 12, 6), (0, "100%", 6, 0)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_rolling_update_keeps_its_limits_with_slow_and_reordered_responses(
    surge: Any, unavailable: Any, most: int, fewest: int, seed: int
) -> None:
    async def scenario() -> None:
        async with simulated(QUICK, longest_delay=1.0, chance=seed) as world:
            strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
            world.api.make(workload("Deployment", replicas=6, strategy=strategy, template=slow_template()))
            await asyncio.sleep(60)
            assert sum(map(is_ready, world.alive())) == 6
            limits = Limits(world, most, fewest)
            world.api.edit("deployments", "web", {"spec": {"template": slow_template("main:2")}})
            await asyncio.sleep(30)
            world.api.edit("deployments", "web", {"spec": {"template": slow_template("main:3")}})
            await asyncio.sleep(300)
            assert not limits.broken
            assert limits.highest > 6 or limits.lowest < 6
            assert [pod["spec"]["containers"][0]["image"] for pod in world.alive()] == ["main:3"] * 6
            status = world.api.documents("deployments")[0]["status"]
            assert status["updatedReplicas"] == status["availableReplicas"] == status["replicas"] == 6
            progress = {each["type"]: each["reason"] for each in status["conditions"]}
            assert progress == {
                "Available": "MinimumReplicasAvailable",
                "Progressing": "NewReplicaSetAvailable",
            }

    run_virtual(scenario(), seed=seed)


@in_virtual_time
async def test_a_stalled_rollout_is_reported_after_its_deadline_and_undone_by_the_old_template() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=2, progressDeadlineSeconds=60))
        await asyncio.sleep(20)
        bad = template(nodeSelector={"nowhere": "true"})
        world.api.edit("deployments", "web", {"spec": {"template": bad}})
        await asyncio.sleep(100)
        reasons = [each["reason"] for each in world.api.documents("deployments")[0]["status"]["conditions"]]
        assert "ProgressDeadlineExceeded" in reasons
        assert sum(map(is_ready, world.alive())) == 2
        back = {**template()["spec"], "nodeSelector": None}
        world.api.edit("deployments", "web", {"spec": {"template": {"spec": back}}})
        await asyncio.sleep(30)
        found = world.api.documents("deployments")[0]
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert "NewReplicaSetAvailable" in [each["reason"] for each in found["status"]["conditions"]]
        assert len(world.api.documents("replicasets")) == 2


@in_virtual_time
async def test_a_paused_deployment_keeps_its_template_and_still_scales() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=2))
        await asyncio.sleep(20)
        change = {"paused": True, "replicas": 4, "template": slow_template("main:2")}
        world.api.edit("deployments", "web", {"spec": change})
        await asyncio.sleep(20)
        assert [pod["spec"]["containers"][0]["image"] for pod in world.alive()] == ["main:1"] * 4
        world.api.edit("deployments", "web", {"spec": {"paused": False}})
        await asyncio.sleep(60)
        assert [pod["spec"]["containers"][0]["image"] for pod in world.alive()] == ["main:2"] * 4


@in_virtual_time
async def test_old_replica_sets_are_kept_up_to_the_revision_history_limit() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=1, revisionHistoryLimit=1))
        for number in range(2, 6):
            await asyncio.sleep(20)
            world.api.edit("deployments", "web", {"spec": {"template": slow_template(f"main:{number}")}})
        await asyncio.sleep(40)
        sets = world.api.documents("replicasets")
        revisions = [each["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for each in sets]
        assert sorted(revisions) == ["4", "5"]


def test_the_history_is_determined_by_the_seed() -> None:
    async def history(seed: int) -> list[tuple[float, str, str, str]]:
        settings = SimulateSettings(nodes=4, seed=seed, crash_rate=60.0, startup_seconds=1.0)
        async with simulated(settings) as world:
            world.api.make(workload("Deployment", replicas=5, template=slow_template()))
            world.api.make(workload("StatefulSet", "db", replicas=2, serviceName="db"))
            world.api.make(workload("DaemonSet", "agent"))
            await asyncio.sleep(60)
            world.api.edit("deployments", "web", {"spec": {"template": slow_template("main:2")}})
            world.api.remove(NODES, "node-2", namespace="")
            await asyncio.sleep(300)
        return world.api.history

    first, second, other = (run_virtual(history(seed)) for seed in (5, 5, 6))
    assert len(first) > 100
    assert first == second
    assert first != other


@in_virtual_time
async def test_a_pod_is_bound_once_and_its_status_written_once_for_each_transition() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod())
        await asyncio.sleep(600)
        steps = [(verb, what) for _, verb, what, _ in world.api.history if what == f"{PODS}/default/alone"]
        assert [verb for verb, _ in steps] == ["create", "bind", "patch status", "patch status"]
        told = [text for _, _, what, text in world.api.history if what == f"{PODS}/default/alone"]
        assert '"podIPs":[{"ip":"10.128.0.2"},{"ip":"fd00:10:128::2"}]' in told[2]
        assert '"reason":"ContainerCreating"' in told[2]
        assert world.pod("alone")["status"]["phase"] == "Running"
        assert [
            condition(world.pod("alone"), kind) for kind in ("Ready", "ContainersReady", "Initialized")
        ] == ["True"] * 3


@in_virtual_time
async def test_a_deleted_pod_stays_ready_until_its_containers_end_and_is_then_removed() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod())
        await asyncio.sleep(10)
        world.api.remove(PODS, "alone")
        await asyncio.sleep(0.9)
        assert is_ready(world.pod("alone"))
        await asyncio.sleep(2.5)
        assert world.api.document(PODS, "alone") is None
        verbs = [verb for _, verb, what, _ in world.api.history if what.endswith("/alone")]
        assert verbs[-3:] == ["delete", "patch status", "gone"]
        last = [text for _, verb, what, text in world.api.history if what.endswith("/alone")][-1]
        assert '"phase":"Succeeded"' in last


@in_virtual_time
async def test_a_setting_makes_deleted_pods_unready_immediately() -> None:
    settings = SimulateSettings(nodes=1, ready_while_terminating=False, stop_seconds=10.0)
    async with simulated(settings) as world:
        world.api.make(lone_pod())
        await asyncio.sleep(10)
        world.api.remove(PODS, "alone")
        await asyncio.sleep(1)
        assert not is_ready(world.pod("alone"))
        assert world.pod("alone")["status"]["phase"] == "Running"


@in_virtual_time
async def test_annotations_make_a_pod_unready_ready_or_crash() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod(annotations={READY_AFTER: "5s"}))
        await asyncio.sleep(4)
        assert world.pod("alone")["status"]["phase"] == "Running"
        assert not is_ready(world.pod("alone"))
        await asyncio.sleep(4)
        assert is_ready(world.pod("alone"))
        world.api.edit(PODS, "alone", {"metadata": {"annotations": {READY: "false"}}})
        await asyncio.sleep(0.1)
        assert not is_ready(world.pod("alone"))
        world.api.edit(PODS, "alone", {"metadata": {"annotations": {READY: None, CRASH: "now"}}})
        await asyncio.sleep(6)
        assert is_ready(world.pod("alone"))
        status = world.pod("alone")["status"]["containerStatuses"][0]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 1


@in_virtual_time
async def test_readiness_waits_for_its_gates_and_foreign_conditions_are_kept() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod(readinessGates=[{"conditionType": "example.com/gate"}]))
        await asyncio.sleep(10)
        assert [condition(world.pod("alone"), kind) for kind in ("ContainersReady", "Ready")] == [
            "True",
            "False",
        ]
        gate = {"type": "example.com/gate", "status": "True"}
        world.api.edit_status(PODS, "alone", {"conditions": [gate]})
        await asyncio.sleep(0.1)
        assert is_ready(world.pod("alone"))
        assert condition(world.pod("alone"), "example.com/gate") == "True"


@in_virtual_time
async def test_pods_of_a_deleted_node_are_deleted_immediately_and_replaced() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=6))
        await asyncio.sleep(20)
        world.api.remove(NODES, "node-1", namespace="")
        await asyncio.sleep(10)
        assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"node-2", "node-3"}
        assert sum(map(is_ready, world.pods())) == 6
        assert len(world.api.documents(NODES)) == 2, "a node that a person deletes is not made again"


@in_virtual_time
async def test_pods_of_an_unready_node_are_unready() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=3))
        await asyncio.sleep(20)
        annotation = {"metadata": {"annotations": {f"{PREFIX}ready": "false"}}}
        world.api.edit(NODES, "node-1", annotation, namespace="")
        await asyncio.sleep(1)
        unready = [pod["spec"]["nodeName"] for pod in world.pods() if not is_ready(pod)]
        assert unready == ["node-1"]


@in_virtual_time
async def test_an_unschedulable_pod_gets_the_reason_and_is_placed_once_a_node_fits() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod(nodeSelector={"disk": "fast"}))
        await asyncio.sleep(5)
        told = world.pod("alone")["status"]["conditions"][0]
        assert (told["type"], told["status"], told["reason"]) == ("PodScheduled", "False", "Unschedulable")
        assert told["message"].startswith("0/3 nodes are available: 3 node(s) didn't match")
        world.api.edit(NODES, "node-2", {"metadata": {"labels": {"disk": "fast"}}}, namespace="")
        await asyncio.sleep(5)
        assert world.pod("alone")["spec"]["nodeName"] == "node-2"
        assert is_ready(world.pod("alone"))


@in_virtual_time
async def test_an_unowned_pod_is_adopted_by_the_matching_replica_set_and_counted() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod("web"))
        await asyncio.sleep(5)
        world.api.make(workload("ReplicaSet", replicas=2))
        await asyncio.sleep(10)
        assert len(world.alive()) == 2
        assert world.pod("web")["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        world.api.edit(PODS, "web", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(10)
        assert "ownerReferences" not in world.pod("web")["metadata"]
        assert len(world.alive()) == 2


@in_virtual_time
async def test_a_stateful_set_scales_up_one_by_one_and_down_from_the_last_pod() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("StatefulSet", replicas=3, serviceName="web"))
        orders: list[tuple[str, ...]] = []

        def look() -> None:
            names = tuple(pod["metadata"]["name"] for pod in world.pods())
            if not orders or orders[-1] != names:
                orders.append(names)

        world.api.after_each = look
        await asyncio.sleep(60)
        assert orders == [(), ("web-0",), ("web-0", "web-1"), ("web-0", "web-1", "web-2")]
        world.api.edit("statefulsets", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(60)
        assert orders[-2:] == [("web-0", "web-1"), ("web-0",)]


@in_virtual_time
async def test_ten_idle_minutes_cost_no_request_and_no_timer() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=20, template=slow_template()))
        world.api.make(workload("DaemonSet", "agent"))
        await asyncio.sleep(120)
        before = len(world.api.history)
        succeeded = world.reconciles()
        await asyncio.sleep(600)
        assert len(world.api.history) == before
        assert world.reconciles() == succeeded


@in_virtual_time
async def test_after_a_restart_running_pods_continue_and_nothing_is_written() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("Deployment", replicas=3, template=slow_template()))
        world.api.make(workload("StatefulSet", "db", replicas=2, serviceName="db"))
        world.api.make(workload("DaemonSet", "agent"))
        world.api.make(lone_pod(annotations={CRASH: "1", READY_AFTER: "3s"}))
        await asyncio.sleep(120)
    before = len(world.api.history)
    async with simulated(QUICK, api=world.api) as again:
        await asyncio.sleep(120)
        assert [what for _, _, what, _ in again.api.history[before:]] == []
        taken = {each["status"]["podIP"] for each in again.api.documents(PODS)}
        again.api.make(lone_pod("later"))
        await asyncio.sleep(10)
        assert is_ready(again.pod("later"))
        assert again.pod("later")["status"]["podIP"] not in taken


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_failures_of_a_third_of_the_requests_only_delay_the_result(seed: int) -> None:
    async def scenario() -> None:
        async with simulated(QUICK, longest_delay=0.2, chance=seed) as world:
            chance = random.Random(seed)
            error = api_error(Status(code=500, reason="InternalError", message="etcd has no leader"))
            world.api.fault = lambda: error if chance.random() < 1 / 3 else None
            world.api.make(workload("Deployment", replicas=4, template=slow_template()))
            world.api.make(workload("StatefulSet", "db", replicas=2, serviceName="db"))
            world.api.make(workload("DaemonSet", "agent"))
            await asyncio.sleep(300)
            world.api.edit("deployments", "web", {"spec": {"template": slow_template("main:2")}})
            world.api.edit("statefulsets", "db", {"spec": {"template": slow_template("main:2")}})
            world.api.edit(
                "statefulsets", "db", {"spec": {"template": {"metadata": {"labels": {"app": "db"}}}}}
            )
            await asyncio.sleep(600)
            for app, count in (("web", 4), ("db", 2), ("agent", 3)):
                assert [is_ready(pod) for pod in world.pods(app)] == [True] * count
            found = {
                pod["spec"]["containers"][0]["image"] for app in ("web", "db") for pod in world.pods(app)
            }
            assert found == {"main:2"}

    run_virtual(scenario(), seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_daemon_set_update_respects_max_unavailable(seed: int) -> None:
    async def scenario() -> None:
        async with simulated(SimulateSettings(nodes=6), longest_delay=1.0, chance=seed) as world:
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
            world.api.make(workload("DaemonSet", updateStrategy=rolling, template=slow_template()))
            await asyncio.sleep(60)
            limits = Limits(world, most=6, fewest=4)
            world.api.edit("daemonsets", "web", {"spec": {"template": slow_template("main:2")}})
            await asyncio.sleep(200)
            assert not limits.broken
            assert limits.lowest == 4
            assert [pod["spec"]["containers"][0]["image"] for pod in world.pods()] == ["main:2"] * 6
            assert len({pod["spec"]["nodeName"] for pod in world.pods()}) == 6

    run_virtual(scenario(), seed=seed)


@in_virtual_time
async def test_pods_being_created_count_in_a_rollout() -> None:
    async with simulated(QUICK) as world:
        strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        world.api.make(workload("Deployment", replicas=3, strategy=strategy))
        await asyncio.sleep(20)
        slow = [5.0]
        world.api.slow = lambda path: slow.pop() if path.endswith("/pods") and slow else 0.0
        world.api.edit("deployments", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(1)
        limits = Limits(world, most=4, fewest=2)
        world.api.edit("deployments", "web", {"spec": {"template": slow_template("main:2")}})
        await asyncio.sleep(60)
        assert not limits.broken
        assert [pod["spec"]["containers"][0]["image"] for pod in world.alive()] == ["main:2"] * 4


@in_virtual_time
async def test_a_pod_with_an_accepted_deletion_no_longer_counts_while_the_watch_lags() -> None:
    async with simulated(QUICK) as world:
        world.api.make(workload("ReplicaSet", replicas=4))
        await asyncio.sleep(20)
        world.api.hold(PODS)
        world.api.edit("replicasets", "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(5)
        world.api.edit("replicasets", "web", {"metadata": {"labels": {"look": "again"}}})
        await asyncio.sleep(5)
        assert len(world.alive()) == 3
        world.api.release(PODS)
        await asyncio.sleep(20)
        assert len(world.pods()) == 3


@in_virtual_time
async def test_foreign_conditions_in_the_response_to_our_write_take_effect() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod(readinessGates=[{"conditionType": "example.com/gate"}]))
        await asyncio.sleep(0.1)
        world.api.hold(PODS)
        world.api.edit_status(PODS, "alone", {"conditions": [{"type": "example.com/gate", "status": "True"}]})
        await asyncio.sleep(10)
        assert is_ready(world.pod("alone")), "known from the response to a write, before any watch event"


@in_virtual_time
async def test_a_deployment_takes_over_an_orphaned_replica_set_and_replaces_its_pods() -> None:
    async with simulated(QUICK) as world:
        orphan = workload("ReplicaSet", replicas=1)
        orphan["metadata"] = {"name": "old", "labels": {"app": "web"}}
        world.api.make(orphan)
        await asyncio.sleep(10)
        world.api.make(workload("Deployment", replicas=1, template=slow_template("main:2")))
        await asyncio.sleep(30)
        old = next(each for each in world.api.documents("replicasets") if each["metadata"]["name"] == "old")
        assert old["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
        assert old["spec"]["replicas"] == 0
        assert [pod["spec"]["containers"][0]["image"] for pod in world.alive()] == ["main:2"]


@in_virtual_time
async def test_a_pod_with_a_missing_image_stays_pending() -> None:
    async with simulated(QUICK) as world:
        world.api.make(lone_pod("web", containers=[container(image="web:nonexistent")]))
        await asyncio.sleep(60)
        status = world.pod("web")["status"]
        assert status["phase"] == "Pending"
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
