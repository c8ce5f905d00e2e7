"""ReplicaSets, StatefulSets, DaemonSets and revisions: which pods are created and deleted."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from aiokube.api.apps import ControllerRevision, DaemonSet, ReplicaSet, StatefulSet
from aiokube.api.meta import ObjectMeta
from tinykube.simulate.daemonset_plan import plan_daemon_set
from tinykube.simulate.nodes import SimulatedNode
from tinykube.simulate.pods import SimulatedPod, deletion_order
from tinykube.simulate.replicaset_plan import plan_replica_set
from tinykube.simulate.revision_plan import plan_revisions, template_of
from tinykube.simulate.statefulset_plan import NewPod, plan_stateful_set, pod_document

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
SELECTOR = {"matchLabels": {"app": "web"}}


def pod(
    name: str,
    *,
    owner: str | None = "o",
    ready: bool = True,
    phase: str = "Running",
    node: str = "n",
    terminating: bool = False,
    since: str = "2026-01-01T00:00:00Z",
    labels: dict[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
    restarts: int = 0,
) -> SimulatedPod:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {"app": "web", **(labels or {})},
        "creationTimestamp": created,
    }
    if owner is not None:
        meta["ownerReferences"] = [{"kind": "X", "name": "web", "uid": owner, "controller": True}]
    if terminating:
        meta["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    status = {"phase": phase, "conditions": [condition], "containerStatuses": [{"restartCount": restarts}]}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": status}, SimulatedPod)


def replica_set(replicas: int, **spec: Any) -> ReplicaSet:
    meta = {"name": "web", "namespace": "default", "uid": "o", "generation": 3}
    body = {"metadata": meta, "spec": {"replicas": replicas, "selector": SELECTOR, **spec}}
    return msgspec.convert(body, ReplicaSet)


def names(pods: Any) -> list[str]:
    return [each.metadata.name for each in pods]


# ------------------------------------------------------------------------------------------ ReplicaSets


def test_missing_pods_are_created_and_terminating_or_failed_pods_do_not_count() -> None:
    there = [pod("a"), pod("b", terminating=True), pod("c", phase="Failed"), pod("d")]
    plan = plan_replica_set(replica_set(4), there, NOW, deleting={"uid-d"})
    assert plan.create == 3
    assert not plan.delete
    assert (plan.status.replicas, plan.status.ready_replicas, plan.status.observed_generation) == (1, 1, 3)


def test_matching_orphans_are_adopted_and_owned_pods_that_no_longer_match_are_released() -> None:
    there = [pod("lone", owner=None), pod("foreign", owner="x"), pod("lost", labels={"app": "other"})]
    plan = plan_replica_set(replica_set(2), there, NOW)
    assert (names(plan.adopt), names(plan.release), plan.create) == (["lone"], ["lost"], 1)


def test_the_least_valuable_pods_are_deleted_first() -> None:
    there = [
        pod("old"),
        pod("restarted", restarts=2),
        pod("younger", created="2026-01-01T00:00:10Z"),
        pod("just-ready", since="2026-01-01T00:00:20Z"),
        pod("not-ready", ready=False),
        pod("pending", ready=False, phase="Pending"),
        pod("unplaced", ready=False, phase="Pending", node=""),
    ]
    order = ["unplaced", "pending", "not-ready", "just-ready", "restarted", "younger", "old"]
    assert names(sorted(there, key=deletion_order)) == order
    assert names(plan_replica_set(replica_set(5), there, NOW).delete) == order[:2]


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    there = [pod("a", since="2026-01-01T00:00:00Z"), pod("b", since="2026-01-01T00:00:50Z")]
    plan = plan_replica_set(replica_set(2, minReadySeconds=30), there, NOW)
    assert (plan.status.ready_replicas, plan.status.available_replicas) == (2, 1)
    assert plan.requeue_after_seconds == 20.0


# ----------------------------------------------------------------------------------------- StatefulSets


def stateful_set(replicas: int, **spec: Any) -> StatefulSet:
    meta = {"name": "web", "namespace": "default", "uid": "o", "generation": 1}
    base = {"replicas": replicas, "selector": SELECTOR, "serviceName": "svc"}
    return msgspec.convert({"metadata": meta, "spec": {**base, **spec}}, StatefulSet)


def numbered(number: int, revision: str = "r1", **state: Any) -> SimulatedPod:
    return pod(f"web-{number}", labels={"controller-revision-hash": revision}, **state)


def steps(
    item: StatefulSet, *pods: SimulatedPod, update: str = "r1", current: str = "r1"
) -> tuple[list[Any], list[str]]:
    plan = plan_stateful_set(item, pods, NOW, update=update, current=current)
    return [(new.ordinal, new.revision) for new in plan.create], names(plan.delete)


def test_ordered_pods_are_created_one_after_another_once_ready() -> None:
    assert steps(stateful_set(3)) == ([(0, "r1")], [])
    assert steps(stateful_set(3), numbered(0, ready=False)) == ([], [])
    assert steps(stateful_set(3), numbered(0)) == ([(1, "r1")], [])
    assert steps(stateful_set(3), numbered(1)) == ([(0, "r1")], [])
    assert steps(stateful_set(3), numbered(0, terminating=True), numbered(1)) == ([], [])


def test_parallel_pods_are_created_and_deleted_at_once() -> None:
    item = stateful_set(3, podManagementPolicy="Parallel")
    assert steps(item) == ([(0, "r1"), (1, "r1"), (2, "r1")], [])
    fewer = stateful_set(1, podManagementPolicy="Parallel")
    assert steps(fewer, *(numbered(number) for number in range(3))) == ([], ["web-2", "web-1"])


def test_scaling_down_deletes_the_highest_ordinal_and_waits_for_it() -> None:
    pods = [numbered(number) for number in range(3)]
    assert steps(stateful_set(1), *pods) == ([], ["web-2"])
    assert steps(stateful_set(1), *pods[:2], numbered(2, terminating=True)) == ([], [])


def test_ordinals_start_at_the_configured_number() -> None:
    item = stateful_set(2, ordinals={"start": 5}, podManagementPolicy="Parallel")
    assert steps(item) == ([(5, "r1"), (6, "r1")], [])


def test_a_failed_pod_is_deleted_for_recreation() -> None:
    assert steps(stateful_set(2), numbered(0, phase="Failed", ready=False)) == ([], ["web-0"])


def test_a_rolling_update_proceeds_from_the_highest_ordinal_down_to_the_partition() -> None:
    item = stateful_set(3, updateStrategy={"rollingUpdate": {"partition": 1}})
    old = [numbered(number) for number in range(3)]
    assert steps(item, *old, update="r2") == ([], ["web-2"])
    assert steps(item, *old[:2], numbered(2, "r2", ready=False), update="r2") == ([], [])
    assert steps(item, *old[:2], numbered(2, "r2"), update="r2") == ([], ["web-1"])
    assert steps(item, old[0], numbered(1, "r2"), numbered(2, "r2"), update="r2") == ([], [])
    assert steps(item, numbered(1, "r2"), numbered(2, "r2"), update="r2") == ([(0, "r1")], [])
    parallel = stateful_set(3, podManagementPolicy="Parallel")
    assert steps(parallel, *old[:2], numbered(2, "r2", ready=False), update="r2") == ([], [])
    by_hand = stateful_set(3, updateStrategy={"type": "OnDelete"})
    assert steps(by_hand, *old, update="r2") == ([], [])


def test_the_current_revision_advances_once_all_pods_are_updated() -> None:
    pods = [numbered(0, "r2"), numbered(1, "r2")]
    status = plan_stateful_set(stateful_set(2), pods, NOW, update="r2", current="r1").status
    assert (status.current_revision, status.update_revision, status.current_replicas) == ("r2", "r2", 2)
    half = plan_stateful_set(stateful_set(2), [numbered(0), pods[1]], NOW, update="r2", current="r1").status
    assert (half.current_revision, half.current_replicas, half.updated_replicas) == ("r1", 1, 1)


def test_an_ordinal_pod_has_its_hostname_subdomain_and_volumes() -> None:
    claims = [{"metadata": {"name": "data"}}]
    item = stateful_set(1, volumeClaimTemplates=claims)
    made = pod_document(item, NewPod(4, "r1"), {"metadata": {}, "spec": {"containers": []}}, {"uid": "o"})
    assert made["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "4"
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("web-4", "svc")
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-4"}}]


# ------------------------------------------------------------------------------------------- DaemonSets


def node(name: str, *, unschedulable: bool = False, taint: str = "", version: str = "") -> SimulatedNode:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    body = {
        "metadata": {"name": name},
        "spec": {"unschedulable": unschedulable, "taints": taints},
        "status": {"nodeInfo": {"kubeletVersion": version}},
    }
    return msgspec.convert(body, SimulatedNode)


def daemon_set(**spec: Any) -> DaemonSet:
    meta = {"name": "web", "namespace": "default", "uid": "o"}
    return msgspec.convert(
        {"metadata": meta, "spec": {"selector": SELECTOR, "template": {"spec": {}}, **spec}}, DaemonSet
    )


def placed(name: str, on: str, hashed: str = "h1", **state: Any) -> SimulatedPod:
    return pod(name, node=on, labels={"controller-revision-hash": hashed}, **state)


def test_each_eligible_node_gets_exactly_one_pod() -> None:
    nodes = [node("a"), node("b", unschedulable=True), node("c", taint="gpu"), node("d", version="v1.36.3")]
    there = [placed("on-c", "c"), placed("on-a", "a"), placed("twice", "a", created="2026-01-01T00:00:05Z")]
    plan = plan_daemon_set(daemon_set(), nodes, there, NOW, hashed="h1")
    assert plan.create == ("b",), "a cordoned node is tolerated; tainted and real nodes are skipped"
    assert sorted(names(plan.delete)) == ["on-c", "twice"]
    status = plan.status
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (2, 1)
    assert (status.number_misscheduled, status.number_available, status.number_unavailable) == (1, 1, 1)


def test_a_node_with_a_terminating_pod_gets_no_new_pod_yet() -> None:
    plan = plan_daemon_set(daemon_set(), [node("a")], [placed("p", "a", terminating=True)], NOW, hashed="h1")
    assert not plan.create


def test_an_update_respects_max_unavailable_and_replaces_broken_pods_first() -> None:
    nodes = [node("a"), node("b"), node("c")]
    old = [placed("on-a", "a"), placed("on-b", "b"), placed("on-c", "c")]
    assert names(plan_daemon_set(daemon_set(), nodes, old, NOW, hashed="h2").delete) == ["on-a"]
    missing = plan_daemon_set(daemon_set(), nodes, old[1:], NOW, hashed="h2")
    assert (missing.create, names(missing.delete)) == (("a",), [])
    broken = [old[0], placed("on-b", "b", ready=False), old[2]]
    assert names(plan_daemon_set(daemon_set(), nodes, broken, NOW, hashed="h2").delete) == ["on-b"]
    two = daemon_set(updateStrategy={"rollingUpdate": {"maxUnavailable": "50%"}})
    assert names(plan_daemon_set(two, nodes, old, NOW, hashed="h2").delete) == ["on-a", "on-b"]
    by_hand = daemon_set(updateStrategy={"type": "OnDelete"})
    assert not plan_daemon_set(by_hand, nodes, old, NOW, hashed="h2").delete


def test_with_surge_the_old_pod_is_kept_until_the_new_one_is_available() -> None:
    item = daemon_set(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    nodes, old = [node("a"), node("b")], [placed("on-a", "a"), placed("on-b", "b")]
    assert plan_daemon_set(item, nodes, old, NOW, hashed="h2").create == ("a",)
    starting = plan_daemon_set(item, nodes, [*old, placed("new", "a", "h2", ready=False)], NOW, hashed="h2")
    assert (starting.create, starting.delete) == ((), ())
    up = plan_daemon_set(item, nodes, [*old, placed("new", "a", "h2")], NOW, hashed="h2")
    assert (up.create, names(up.delete)) == ((), ["on-a"])


# -------------------------------------------------------------------------------------------- revisions

OWNER = ObjectMeta(name="web", namespace="default", uid="o")


def revision(number: int, image: str, name: str | None = None) -> ControllerRevision:
    plan = plan_revisions(OWNER, {}, {"spec": {"image": image}}, [], limit=9, in_use=())
    assert plan.create is not None
    document = {**plan.create, "revision": number}
    if name is not None:
        document["metadata"] = {**document["metadata"], "name": name}
    return msgspec.convert(document, ControllerRevision)


def test_a_new_template_creates_a_revision_with_a_restoring_patch() -> None:
    plan = plan_revisions(
        OWNER, {"uid": "o"}, {"spec": {"image": "2"}}, [revision(4, "1")], limit=9, in_use=()
    )
    assert plan.create is not None
    assert plan.create["revision"] == 5
    assert plan.create["data"]["spec"]["template"] == {"$patch": "replace", "spec": {"image": "2"}}
    assert template_of(msgspec.convert(plan.create, ControllerRevision)) == {"spec": {"image": "2"}}
    assert plan.name == f"web-{plan.hash}"


def test_a_rollback_makes_the_old_revision_the_newest() -> None:
    old, newer = revision(1, "1"), revision(2, "2")
    plan = plan_revisions(OWNER, {}, {"spec": {"image": "1"}}, [old, newer], limit=9, in_use=())
    assert plan.create is None
    assert plan.renumber == (old, 3)


def test_the_oldest_unused_revisions_are_deleted() -> None:
    there = [revision(number, str(number)) for number in range(1, 6)]
    used = there[0].metadata.name
    plan = plan_revisions(OWNER, {}, {"spec": {"image": "5"}}, there, limit=2, in_use={used})
    assert [each.revision for each in plan.deletes] == [2]


def test_a_daemon_set_revision_has_the_hash_label_and_sorted_keys() -> None:
    label = "controller-revision-hash"
    template = {"spec": {"b": 1, "a": [{"d": 1, "c": 2}]}, "metadata": {}}
    plan = plan_revisions(OWNER, {}, template, [], limit=9, in_use=(), label=label)
    assert plan.create is not None
    assert plan.create["metadata"]["labels"][label] == plan.hash
    text = msgspec.json.encode(plan.create["data"]).decode()
    assert (
        text == '{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"a":[{"c":2,"d":1}],"b":1}}}}'
    )
    there = [msgspec.convert(plan.create, ControllerRevision)]
    assert plan_revisions(OWNER, {}, template, there, limit=9, in_use=(), label=label).hash == plan.hash
