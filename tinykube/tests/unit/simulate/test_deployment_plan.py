"""The steps of a rollout, one by one."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from aiokube.api.apps import Deployment, ReplicaSet
from tinykube.simulate.deployment_plan import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    DeploymentPlan,
    ReplicaSetState,
    plan_deployment,
    set_document,
)
from tinykube.simulate.int_or_percent import scaled_value, surge_and_unavailable
from tinykube.simulate.proportional_scaling import proportional_shares

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def template(image: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def make(replicas: int = 4, image: str = "1", **spec: Any) -> Deployment:
    body = {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "d",
            "generation": 2,
            "annotations": {"why": "a"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }
    return msgspec.convert(body, Deployment)


def counted(
    image: str,
    wanted: int,
    active: int | None = None,
    available: int | None = None,
    *,
    revision: int = 1,
    of: int = 4,
) -> ReplicaSetState:
    active = wanted if active is None else active
    available = active if available is None else available
    labelled = template(image)
    labelled["metadata"] = {"labels": {"app": "web", "pod-template-hash": f"hash{image}"}}
    annotations = {"why": "a", REVISION: str(revision), DESIRED_REPLICAS: str(of), MAX_REPLICAS: str(of + 1)}
    status = {"replicas": active, "readyReplicas": available, "availableReplicas": available}
    body = {
        "metadata": {
            "name": f"web-{image}",
            "uid": image,
            "annotations": annotations,
            "creationTimestamp": image,
        },
        "spec": {"replicas": wanted, "template": labelled},
        "status": status,
    }
    return ReplicaSetState(msgspec.convert(body, ReplicaSet), active, active, available)


def scaled(plan: DeploymentPlan) -> dict[str, int | None]:
    return {change.item.metadata.name: change.replicas for change in plan.changes}


def test_the_first_replica_set_gets_all_replicas_the_template_and_the_annotations() -> None:
    plan = plan_deployment(make(), [], NOW)
    assert plan.create is not None
    assert (plan.create.replicas, plan.revision) == (4, "1")
    assert plan.create.annotations == {"why": "a", REVISION: "1", DESIRED_REPLICAS: "4", MAX_REPLICAS: "5"}
    document = set_document(make(), plan.create)
    hashed = plan.create.hash
    assert document["metadata"]["name"] == f"web-{hashed}"
    assert document["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hashed}
    assert document["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
    assert make().spec.template["metadata"]["labels"] == {"app": "web"}


def test_the_replica_set_name_depends_only_on_the_template_and_collisions() -> None:
    names = [
        plan.create.name
        for plan in (
            plan_deployment(make(), [], NOW),
            plan_deployment(make(9), [], NOW),
            plan_deployment(make(image="2"), [], NOW),
            plan_deployment(make(), [], NOW, collisions=1),
        )
        if plan.create is not None
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_a_new_template_starts_with_as_many_pods_as_the_surge_allows() -> None:
    plan = plan_deployment(make(image="2"), [counted("1", 4)], NOW)
    assert plan.create is not None
    assert (plan.create.replicas, plan.create.annotations[REVISION]) == (1, "2")


def test_existing_pods_count_towards_the_surge_even_if_scaled_down() -> None:
    plan = plan_deployment(make(image="2"), [counted("1", 3, active=5)], NOW)
    assert plan.create is not None
    assert plan.create.replicas == 0


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (counted("2", 1, available=0, revision=2), counted("1", 4), {"web-1": 3}),
        (counted("2", 2, available=0, revision=2), counted("1", 3), {}),
        (counted("2", 2, available=1, revision=2), counted("1", 3), {"web-1": 2}),
        (counted("2", 2, available=2, revision=2), counted("1", 2), {"web-2": 3}),
        (counted("2", 4, revision=2), counted("1", 1), {"web-1": 0}),
        (counted("2", 1, available=0, revision=2), counted("1", 4, available=2), {"web-1": 3}),
        (counted("2", 4, revision=2), counted("1", 0), {}),
    ],
)
def test_each_step_of_a_rolling_update_respects_surge_and_unavailability(
    new: ReplicaSetState, old: ReplicaSetState, expected: dict[str, int]
) -> None:
    assert scaled(plan_deployment(make(image="2"), [old, new], NOW)) == expected


def test_unavailable_pods_are_removed_first() -> None:
    broken, good = counted("1", 2, available=0), counted("2", 3, revision=2)
    new = counted("3", 0, revision=3)
    plan = plan_deployment(make(image="3"), [broken, good, new], NOW)
    assert scaled(plan) == {"web-1": 0}


def test_recreate_removes_all_pods_before_creating_new_ones() -> None:
    deployment = make(image="2", strategy={"type": "Recreate"})
    assert scaled(plan_deployment(deployment, [counted("1", 4)], NOW)) == {"web-1": 0}
    leaving = ReplicaSetState(counted("1", 0).item, present=1)
    waiting = plan_deployment(deployment, [leaving], NOW)
    assert waiting.create is None
    assert not waiting.changes
    made = plan_deployment(deployment, [counted("1", 0)], NOW)
    assert made.create is not None
    assert made.create.replicas == 4


def test_a_rollback_gives_the_old_replica_set_a_new_revision_and_records_the_old_one() -> None:
    plan = plan_deployment(make(image="1"), [counted("1", 0), counted("2", 4, revision=2)], NOW)
    assert plan.changes[0].annotations == {REVISION: "3", REVISION_HISTORY: "1"}
    assert plan.revision == "3"


def test_a_paused_deployment_creates_no_replica_set_and_scales_proportionally() -> None:
    paused = make(8, image="3", paused=True)
    plan = plan_deployment(paused, [counted("1", 2), counted("2", 2, revision=2)], NOW)
    assert plan.create is None
    assert sum(change.replicas or 0 for change in plan.changes) == 10, "with the surge"
    assert {change.annotations is not None for change in plan.changes} == {True}


def test_scaling_without_a_rollout_changes_the_only_replica_set() -> None:
    plan = plan_deployment(make(7), [counted("1", 4)], NOW)
    assert scaled(plan) == {"web-1": 7}
    assert (plan.changes[0].annotations or {})[DESIRED_REPLICAS] == "7"


def test_a_deleted_deployment_is_not_changed() -> None:
    deployment = make()
    meta = msgspec.structs.replace(deployment.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    plan = plan_deployment(msgspec.structs.replace(deployment, metadata=meta), [], NOW)
    assert plan.create is None
    assert plan.revision is None


def test_only_empty_replica_sets_are_cleaned_up_and_only_after_the_rollout() -> None:
    deployment = make(image="4", revisionHistoryLimit=1)
    old = [counted(str(number), 0, revision=number) for number in (1, 2, 3)]
    done = plan_deployment(deployment, [*old, counted("4", 4, revision=4)], NOW)
    assert [item.metadata.name for item in done.deletes] == ["web-1", "web-2"]
    under_way = plan_deployment(deployment, [*old, counted("4", 4, available=3, revision=4)], NOW)
    assert not under_way.deletes


def test_the_progress_deadline_counts_from_the_last_progress() -> None:
    deployment = make(progressDeadlineSeconds=100)
    stuck = [counted("1", 4, available=0)]
    first = plan_deployment(deployment, stuck, NOW)
    assert first.requeue_after_seconds == 100.0
    held = msgspec.structs.replace(deployment, status=first.status)
    later = plan_deployment(held, stuck, datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
    assert later.requeue_after_seconds == 40.0
    over = plan_deployment(held, stuck, datetime(2026, 1, 1, 0, 2, tzinfo=UTC))
    reasons = {each.type: (each.status, each.reason) for each in over.status.conditions or ()}
    assert reasons["Progressing"] == ("False", "ProgressDeadlineExceeded")
    moved = plan_deployment(held, [counted("1", 4, available=1)], datetime(2026, 1, 1, 0, 2, tzinfo=UTC))
    reasons = {each.type: (each.status, each.reason) for each in moved.status.conditions or ()}
    assert reasons["Progressing"] == ("True", "ReplicaSetUpdated")


def test_amounts_are_integers_or_percentages() -> None:
    assert scaled_value("30%", 0, 10, round_up=False) == 3
    assert scaled_value("25%", 0, 10, round_up=True) == 3
    assert scaled_value(None, "25%", 8, round_up=False) == 2
    assert scaled_value("many", 0, 10, round_up=True) == 0
    assert surge_and_unavailable(0, 0, 4) == (0, 1)
    assert surge_and_unavailable("0%", 9, 4) == (0, 4)


def test_a_total_is_distributed_in_proportion_to_the_sizes() -> None:
    assert proportional_shares(20, [(5, 10), (5, 10)]) == [10, 10]
    assert proportional_shares(5, [(8, 10), (2, 10)]) == [4, 1]
    assert proportional_shares(0, [(3, 10), (7, 10)]) == [0, 0]
    assert sum(proportional_shares(11, [(3, 7), (3, 7), (1, 7)])) == 11
