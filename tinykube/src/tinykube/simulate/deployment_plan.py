"""Plan the next step of a Deployment's rollout.

Pure. A step is small (one ReplicaSet created or scaled); the next step is planned from its result.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aiokube.api.apps import Deployment, DeploymentStatus, ReplicaSet, Template
from tinykube.simulate.deployment_status import deployment_status
from tinykube.simulate.int_or_percent import surge_and_unavailable
from tinykube.simulate.proportional_scaling import proportional_shares
from tinykube.simulate.seeded_random import template_hash

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
)
_MAX_NAME = 63


class ReplicaSetState(msgspec.Struct, frozen=True):
    """A ReplicaSet with the current counts of its pods, which its status may not show yet."""

    item: ReplicaSet
    present: int = 0
    """Pods that have not terminated, including pods being deleted."""
    active: int = 0
    """Pods that are not being deleted, including pods being created."""
    available: int = 0

    @property
    def wanted(self) -> int:
        """The desired number of pods."""
        return self.item.spec.replicas

    @property
    def held(self) -> int:
        """The highest number of pods that it may have before it is scaled again."""
        return max(self.wanted, self.active)

    @property
    def sure(self) -> int:
        """The number of available pods that will remain once it has reached its desired size."""
        return min(self.wanted, self.available)


class SetChange(msgspec.Struct, frozen=True):
    """A change of a ReplicaSet: its replicas, its annotations, or both."""

    item: ReplicaSet
    replicas: int | None = None
    annotations: dict[str, str] | None = None


class NewSet(msgspec.Struct, frozen=True):
    """A ReplicaSet to create."""

    name: str
    hash: str
    replicas: int
    annotations: dict[str, str]


class DeploymentPlan(msgspec.Struct, frozen=True):
    """The writes, in order. ``requeue_after_seconds`` is the time until the passing of time may change the plan."""

    create: NewSet | None = None
    changes: tuple[SetChange, ...] = ()
    deletes: tuple[ReplicaSet, ...] = ()
    revision: str | None = None
    """The revision to record on the Deployment, if it differs from the recorded one."""
    status: DeploymentStatus = DeploymentStatus()
    requeue_after_seconds: float | None = None


def plan_deployment(
    deployment: Deployment,
    sets: Sequence[ReplicaSetState],
    now: datetime,
    *,
    collisions: int = 0,
    deadline_seconds: float | None = None,
) -> DeploymentPlan:
    """Return the next step and the current status.

    ``sets`` are the Deployment's ReplicaSets. ``collisions`` counts generated names that were taken.
    ``deadline_seconds`` replaces the spec's progress deadline when simulated time runs at another speed.

    As long as no pod fails, a rolling update never has more pods than ``replicas`` plus surge, nor, once that
    many were available, fewer available pods than ``replicas`` less ``maxUnavailable``, in any order the
    ReplicaSets act.
    """
    spec = deployment.spec
    ordered = sorted(sets, key=_age)
    new = next((each for each in ordered if is_set_of(each.item, spec.template)), None)
    old = [each for each in ordered if each is not new]
    step = DeploymentPlan()
    if deployment.metadata.deletion_timestamp is None:
        if spec.paused or _is_rescaled(deployment, ordered):
            step = DeploymentPlan(changes=_rescaled(deployment, new, old))
        elif new is None:
            step = _create_new_set(deployment, old, collisions)
        else:
            step = _continue_rollout(deployment, new, old)
    revision = _revision_of(step, new)
    if spec.paused or revision == (deployment.metadata.annotations or {}).get(REVISION):
        revision = None
    status, next_change = deployment_status(
        deployment,
        [each.item for each in ordered],
        new.item if new is not None else None,
        now,
        created=step.create.name if step.create is not None else None,
        deadline_seconds=spec.progress_deadline_seconds if deadline_seconds is None else deadline_seconds,
    )
    deletes = _excess_history(deployment, old) if _is_complete(deployment, status) else ()
    return msgspec.structs.replace(
        step, status=status, deletes=deletes, revision=revision, requeue_after_seconds=next_change
    )


def is_set_of(item: ReplicaSet, template: Template) -> bool:
    """Return whether a ReplicaSet has this template, ignoring its hash label."""
    return _without_hash(item.spec.template) == _without_hash(template)


def _without_hash(template: Template) -> Template:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata["labels"] = labels
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def _age(each: ReplicaSetState) -> tuple[str, str]:
    return each.item.metadata.creation_timestamp or "", each.item.metadata.name


# --------------------------------------------------------------------------------------------- rollout


def _limits(deployment: Deployment) -> tuple[int, int]:
    """Return the maximum number of pods and the minimum number of available pods."""
    replicas = deployment.spec.replicas
    rolling = deployment.spec.strategy.rolling_update
    surge, unavailable = surge_and_unavailable(
        rolling.max_surge if rolling is not None else None,
        rolling.max_unavailable if rolling is not None else None,
        replicas,
    )
    return replicas + surge, replicas - unavailable


def _most(deployment: Deployment) -> int:
    """Return the maximum number of pods, as recorded on the ReplicaSets."""
    if deployment.spec.strategy.type == "Recreate":
        return deployment.spec.replicas
    return _limits(deployment)[0]


def _create_new_set(
    deployment: Deployment, old: Sequence[ReplicaSetState], collisions: int
) -> DeploymentPlan:
    """Create the ReplicaSet of a new template; with Recreate, after the last old pod has terminated."""
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        if any(each.wanted for each in old):
            return DeploymentPlan(changes=tuple(_scale(deployment, each, 0) for each in old if each.wanted))
        if any(each.present for each in old):
            return DeploymentPlan()
    else:
        replicas = _room(deployment, 0, old)
    hashed = template_hash(_without_hash(deployment.spec.template), collisions)
    name = f"{deployment.metadata.name[: _MAX_NAME - len(hashed) - 1]}-{hashed}"
    annotations = {
        **_copied(deployment),
        **_replica_annotations(deployment),
        REVISION: str(_newest_revision(old) + 1),
    }
    return DeploymentPlan(create=NewSet(name, hashed, replicas, annotations))


def _continue_rollout(
    deployment: Deployment, new: ReplicaSetState, old: Sequence[ReplicaSetState]
) -> DeploymentPlan:
    described = _annotation_update(deployment, new, old)
    if described is not None:
        return DeploymentPlan(changes=(described,))
    if deployment.spec.strategy.type == "Recreate":
        if any(each.wanted for each in old):
            return DeploymentPlan(changes=tuple(_scale(deployment, each, 0) for each in old if each.wanted))
        if any(each.present for each in old) or new.wanted == deployment.spec.replicas:
            return DeploymentPlan()
        return DeploymentPlan(changes=(_scale(deployment, new, deployment.spec.replicas),))
    target = new.wanted + _room(deployment, new.wanted, [new, *old])
    if new.wanted > deployment.spec.replicas:
        target = deployment.spec.replicas
    if target != new.wanted:
        return DeploymentPlan(changes=(_scale(deployment, new, target),))
    return DeploymentPlan(changes=_scale_down_old(deployment, new, old))


def _room(deployment: Deployment, wanted: int, sets: Iterable[ReplicaSetState]) -> int:
    """Return how many pods the new ReplicaSet may add now."""
    most, _ = _limits(deployment)
    return max(0, min(most - sum(each.held for each in sets), deployment.spec.replicas - wanted))


def _scale_down_old(
    deployment: Deployment, new: ReplicaSetState, old: Sequence[ReplicaSetState]
) -> tuple[SetChange, ...]:
    """Scale down the old ReplicaSets within the limits of availability, unavailable pods first."""
    _, fewest = _limits(deployment)
    told = sum(each.wanted for each in old)
    not_needed = told + new.wanted - fewest - (new.wanted - new.sure)
    if told == 0 or not_needed <= 0:
        return ()
    left = {each.item.metadata.name: each.wanted for each in old}
    for each in old:
        fewer = max(0, min(each.wanted - each.sure, not_needed))
        left[each.item.metadata.name] -= fewer
        not_needed -= fewer
    spare = sum(each.sure for each in [new, *old]) - fewest
    for each in old:
        fewer = max(0, min(left[each.item.metadata.name], spare, not_needed))
        left[each.item.metadata.name] -= fewer
        spare -= fewer
        not_needed -= fewer
    return tuple(
        _scale(deployment, each, left[each.item.metadata.name])
        for each in old
        if left[each.item.metadata.name] != each.wanted
    )


def _scale(deployment: Deployment, each: ReplicaSetState, replicas: int) -> SetChange:
    return SetChange(each.item, replicas, _replica_annotations(deployment))


# ---------------------------------------------------------------------------------------------- scaling


def _is_rescaled(deployment: Deployment, sets: Sequence[ReplicaSetState]) -> bool:
    """Return whether the Deployment's replicas changed since the ReplicaSets were last scaled."""
    desired = str(deployment.spec.replicas)
    return any(
        (each.item.metadata.annotations or {}).get(DESIRED_REPLICAS, desired) != desired
        for each in sets
        if each.wanted
    )


def _rescaled(
    deployment: Deployment, new: ReplicaSetState | None, old: Sequence[ReplicaSetState]
) -> tuple[SetChange, ...]:
    """Apply a new number of replicas: to the only ReplicaSet, or proportionally to all during a rollout."""
    replicas = deployment.spec.replicas
    sets = [*old, *([new] if new is not None else [])]
    in_use = [each for each in sets if each.wanted]
    if len(in_use) <= 1:
        only = in_use[0] if in_use else new or (old[-1] if old else None)
        return () if only is None else _changed(deployment, [(only, replicas)])
    if deployment.spec.strategy.type == "Recreate":
        return _changed(deployment, [(each, each.wanted) for each in in_use])
    if new is not None and new.wanted == replicas == new.available and new.item.status.replicas == replicas:
        return _changed(deployment, [(each, 0) for each in old if each.wanted])
    weights = [
        (each.wanted, int((each.item.metadata.annotations or {}).get(MAX_REPLICAS) or _most(deployment)))
        for each in in_use
    ]
    shares = proportional_shares(_most(deployment) if replicas else 0, weights)
    return _changed(deployment, list(zip(in_use, shares, strict=True)))


def _changed(deployment: Deployment, targets: Sequence[tuple[ReplicaSetState, int]]) -> tuple[SetChange, ...]:
    noted = _replica_annotations(deployment)
    return tuple(
        _scale(deployment, each, target)
        for each, target in targets
        if target != each.wanted
        or any((each.item.metadata.annotations or {}).get(key) != value for key, value in noted.items())
    )


# --------------------------------------------------------------------------------- annotations, revisions


def _copied(deployment: Deployment) -> dict[str, str]:
    annotations = deployment.metadata.annotations or {}
    return {key: value for key, value in annotations.items() if key not in _NOT_COPIED}


def _replica_annotations(deployment: Deployment) -> dict[str, str]:
    return {DESIRED_REPLICAS: str(deployment.spec.replicas), MAX_REPLICAS: str(_most(deployment))}


def revision_number(annotations: dict[str, str] | None) -> int:
    """Return the recorded revision, or 0."""
    text = (annotations or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _newest_revision(sets: Iterable[ReplicaSetState]) -> int:
    return max((revision_number(each.item.metadata.annotations) for each in sets), default=0)


def _annotation_update(
    deployment: Deployment, new: ReplicaSetState, old: Sequence[ReplicaSetState]
) -> SetChange | None:
    """Return the missing annotations of the newest ReplicaSet; a reused one gets the newest revision."""
    there = new.item.metadata.annotations or {}
    wanted = _copied(deployment)
    newest = _newest_revision(old) + 1
    before = revision_number(there)
    if before < newest:
        wanted[REVISION] = str(newest)
        if before:
            wanted[REVISION_HISTORY] = ",".join(filter(None, [there.get(REVISION_HISTORY), str(before)]))
    lacking = {key: value for key, value in wanted.items() if there.get(key) != value}
    return SetChange(new.item, None, lacking) if lacking else None


def _revision_of(step: DeploymentPlan, new: ReplicaSetState | None) -> str | None:
    if step.create is not None:
        return step.create.annotations[REVISION]
    if new is None:
        return None
    for change in step.changes:
        if change.item is new.item and REVISION in (change.annotations or {}):
            return (change.annotations or {})[REVISION]
    return (new.item.metadata.annotations or {}).get(REVISION)


def _is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    replicas = deployment.spec.replicas
    return status.updated_replicas == status.replicas == status.available_replicas == replicas


def _excess_history(deployment: Deployment, old: Sequence[ReplicaSetState]) -> tuple[ReplicaSet, ...]:
    """Return the old, empty ReplicaSets beyond the revision history limit."""
    empty = [
        each.item
        for each in old
        if not each.wanted and not each.present and each.item.metadata.deletion_timestamp is None
    ]
    empty.sort(key=lambda item: revision_number(item.metadata.annotations))
    excess = len(old) - deployment.spec.revision_history_limit
    return tuple(empty[:excess]) if excess > 0 else ()


def set_document(deployment: Deployment, new: NewSet) -> dict[str, Any]:
    """Return the JSON of a new ReplicaSet."""
    template = deployment.spec.template
    metadata = dict(template.get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: new.hash}
    selector: dict[str, Any] = (
        msgspec.to_builtins(deployment.spec.selector) if deployment.spec.selector is not None else {}
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": new.name,
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": new.annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": deployment.metadata.name,
                    "uid": deployment.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": new.replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: new.hash},
            },
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
