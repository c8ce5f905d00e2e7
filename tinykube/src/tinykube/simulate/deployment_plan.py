"""What a Deployment does next: one step of its rollout, from what there is to what it asks for.

Pure. A step is small (one set scaled, or made), and the next is planned from what came of it.
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


class Counted(msgspec.Struct, frozen=True):
    """A ReplicaSet with what its pods are now, which its status may not tell yet."""

    item: ReplicaSet
    present: int = 0
    """Pods that have not ended, with those that are about to."""
    active: int = 0
    """Pods that are there to stay, with those that are just being made."""
    available: int = 0

    @property
    def wanted(self) -> int:
        """How many it was told to have."""
        return self.item.spec.replicas

    @property
    def held(self) -> int:
        """How many pods there may be of it, at most, whatever it does next."""
        return max(self.wanted, self.active)

    @property
    def sure(self) -> int:
        """How many available pods will be left when it has done what it was told."""
        return min(self.wanted, self.available)


class SetChange(msgspec.Struct, frozen=True):
    """What to change of a ReplicaSet: its replicas where given, and these annotations."""

    item: ReplicaSet
    replicas: int | None = None
    annotations: dict[str, str] | None = None


class NewSet(msgspec.Struct, frozen=True):
    """A ReplicaSet to make."""

    name: str
    hash: str
    replicas: int
    annotations: dict[str, str]


class DeploymentPlan(msgspec.Struct, frozen=True):
    """What to write, in this order. ``look_again_seconds`` is when time alone may change something."""

    create: NewSet | None = None
    changes: tuple[SetChange, ...] = ()
    deletes: tuple[ReplicaSet, ...] = ()
    revision: str | None = None
    """The revision to be noted at the Deployment, where another one stands there."""
    status: DeploymentStatus = DeploymentStatus()
    look_again_seconds: float | None = None


def plan_deployment(
    deployment: Deployment,
    sets: Sequence[Counted],
    now: datetime,
    *,
    collisions: int = 0,
    deadline_seconds: float | None = None,
) -> DeploymentPlan:
    """Return the next step, and the status as of now.

    ``sets`` are the ReplicaSets that it owns. ``collisions`` is how many names for a new one turned out to be taken.
    ``deadline_seconds`` stands in for the spec's progress deadline, where time runs at another speed.

    While no pod fails by itself, a rolling update never has more pods than ``replicas`` and surge, nor fewer available
    ones than ``replicas`` less ``maxUnavailable`` once there were that many, whatever order the sets act in.
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
            step = _make(deployment, old, collisions)
        else:
            step = _go_on(deployment, new, old)
    revision = _revision_of(step, new)
    if spec.paused or revision == (deployment.metadata.annotations or {}).get(REVISION):
        revision = None
    status, look_again = deployment_status(
        deployment,
        [each.item for each in ordered],
        new.item if new is not None else None,
        now,
        created=step.create.name if step.create is not None else None,
        deadline_seconds=spec.progress_deadline_seconds if deadline_seconds is None else deadline_seconds,
    )
    deletes = _outlived(deployment, old) if _is_complete(deployment, status) else ()
    return msgspec.structs.replace(
        step, status=status, deletes=deletes, revision=revision, look_again_seconds=look_again
    )


def is_set_of(item: ReplicaSet, template: Template) -> bool:
    """Tell whether a ReplicaSet's template is this one, but for the hash that it carries."""
    return _without_hash(item.spec.template) == _without_hash(template)


def _without_hash(template: Template) -> Template:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata["labels"] = labels
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def _age(each: Counted) -> tuple[str, str]:
    return each.item.metadata.creation_timestamp or "", each.item.metadata.name


# --------------------------------------------------------------------------------------------- one step


def _limits(deployment: Deployment) -> tuple[int, int]:
    """Return the most pods there may be and the fewest that must be available."""
    replicas = deployment.spec.replicas
    rolling = deployment.spec.strategy.rolling_update
    surge, unavailable = surge_and_unavailable(
        rolling.max_surge if rolling is not None else None,
        rolling.max_unavailable if rolling is not None else None,
        replicas,
    )
    return replicas + surge, replicas - unavailable


def _most(deployment: Deployment) -> int:
    """Return the most pods there may be, as it is noted at the sets."""
    if deployment.spec.strategy.type == "Recreate":
        return deployment.spec.replicas
    return _limits(deployment)[0]


def _make(deployment: Deployment, old: Sequence[Counted], collisions: int) -> DeploymentPlan:
    """Make the set of a new template; for Recreate, once nothing is left of the old ones."""
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


def _go_on(deployment: Deployment, new: Counted, old: Sequence[Counted]) -> DeploymentPlan:
    described = _described(deployment, new, old)
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
    return DeploymentPlan(changes=_less_of_the_old(deployment, new, old))


def _room(deployment: Deployment, wanted: int, sets: Iterable[Counted]) -> int:
    """Return by how many pods the new set may grow now."""
    most, _ = _limits(deployment)
    return max(0, min(most - sum(each.held for each in sets), deployment.spec.replicas - wanted))


def _less_of_the_old(deployment: Deployment, new: Counted, old: Sequence[Counted]) -> tuple[SetChange, ...]:
    """Take away from the old sets what may be missed: first pods that are not available, then others."""
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


def _scale(deployment: Deployment, each: Counted, replicas: int) -> SetChange:
    return SetChange(each.item, replicas, _replica_annotations(deployment))


# ---------------------------------------------------------------------------------------------- scaling


def _is_rescaled(deployment: Deployment, sets: Sequence[Counted]) -> bool:
    """Tell whether somebody changed the number of replicas since the sets were last scaled."""
    desired = str(deployment.spec.replicas)
    return any(
        (each.item.metadata.annotations or {}).get(DESIRED_REPLICAS, desired) != desired
        for each in sets
        if each.wanted
    )


def _rescaled(deployment: Deployment, new: Counted | None, old: Sequence[Counted]) -> tuple[SetChange, ...]:
    """Bring a new number of replicas to the sets: all to the only one, or to each its share in the midst of a rollout."""
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


def _changed(deployment: Deployment, targets: Sequence[tuple[Counted, int]]) -> tuple[SetChange, ...]:
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
    """Return the revision that is noted, 0 where none is."""
    text = (annotations or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _newest_revision(sets: Iterable[Counted]) -> int:
    return max((revision_number(each.item.metadata.annotations) for each in sets), default=0)


def _described(deployment: Deployment, new: Counted, old: Sequence[Counted]) -> SetChange | None:
    """Return what the newest set's annotations lack; one that is used again gets the newest revision."""
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


def _revision_of(step: DeploymentPlan, new: Counted | None) -> str | None:
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


def _outlived(deployment: Deployment, old: Sequence[Counted]) -> tuple[ReplicaSet, ...]:
    """Return the old sets, without pods, that the history has no room for."""
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
