"""The status of a Deployment, for ``kubectl rollout status`` and ``kubectl wait``. Pure."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from aiokube.api.apps import Deployment, DeploymentStatus, ReplicaSet, WorkloadCondition
from aiokube.api.times import format_time, parse_time
from tinykube.simulate.int_or_percent import surge_and_unavailable

_NO_DEADLINE_SECONDS = 2**31 - 1


def deployment_status(
    deployment: Deployment,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
    *,
    created: str | None,
    deadline_seconds: float,
) -> tuple[DeploymentStatus, float | None]:
    """Return the status, and the seconds until the progress deadline if it is running.

    ``created`` is the name of a ReplicaSet created in the same step.
    """
    spec = deployment.spec
    available = sum(item.status.available_replicas for item in sets)
    counts = DeploymentStatus(
        observed_generation=deployment.metadata.generation or 0,
        replicas=sum(item.status.replicas for item in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(item.status.ready_replicas for item in sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(item.spec.replicas for item in sets) - available),
    )
    rolling = spec.strategy.rolling_update
    unavailable = 0
    if spec.strategy.type != "Recreate":
        _, unavailable = surge_and_unavailable(
            rolling.max_surge if rolling is not None else None,
            rolling.max_unavailable if rolling is not None else None,
            spec.replicas,
        )
    enough = available >= spec.replicas - unavailable
    moment = format_time(now)
    conditions = [
        _condition(
            deployment,
            "Available",
            "True" if enough else "False",
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            moment,
        )
    ]
    next_change = None
    if deadline_seconds < _NO_DEADLINE_SECONDS:
        progressing, next_change = _progressing(deployment, counts, new, now, created, deadline_seconds)
        if progressing is not None:
            conditions.append(progressing)
    others = [
        each for each in deployment.status.conditions or () if each.type not in ("Available", "Progressing")
    ]
    return msgspec.structs.replace(counts, conditions=(*conditions, *others)), next_change


def _progressing(
    deployment: Deployment,
    counts: DeploymentStatus,
    new: ReplicaSet | None,
    now: datetime,
    created: str | None,
    deadline_seconds: float,
) -> tuple[WorkloadCondition | None, float | None]:
    """Return the condition Progressing, and the seconds until the progress deadline."""
    before = _found(deployment, "Progressing")
    moment = format_time(now)
    name = new.metadata.name if new is not None else created or ""

    def condition(status: str, reason: str, message: str, *, renew: bool = False) -> WorkloadCondition:
        return _condition(deployment, "Progressing", status, reason, message, moment, renew=renew)

    if deployment.spec.paused:
        return condition("Unknown", "DeploymentPaused", "Deployment is paused"), None
    if created is not None:
        text = f'Created new replica set "{created}"'
        return condition("True", "NewReplicaSetCreated", text, renew=True), deadline_seconds
    if _is_complete(deployment, counts):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return condition("True", "NewReplicaSetAvailable", text), None
    if before is None or before.reason == "DeploymentPaused":
        reason = "FoundNewReplicaSet" if before is None else "DeploymentResumed"
        return condition(
            "True" if before is None else "Unknown", reason, f'ReplicaSet "{name}" is being rolled out.'
        ), deadline_seconds
    restarted = deployment.status.observed_generation < counts.observed_generation
    if restarted or _has_moved(deployment.status, counts):
        text = f'ReplicaSet "{name}" is progressing.'
        return condition("True", "ReplicaSetUpdated", text, renew=True), deadline_seconds
    if before.reason == "NewReplicaSetAvailable":
        return before, None  # the rollout was complete: pods that fail later do not make it a stalled one
    since = parse_time(before.last_update_time) or now
    left = deadline_seconds - (now - since).total_seconds()
    if before.reason == "ProgressDeadlineExceeded" or left <= 0:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return condition("False", "ProgressDeadlineExceeded", text), None
    return before, left


def _is_complete(deployment: Deployment, counts: DeploymentStatus) -> bool:
    wanted = deployment.spec.replicas
    return counts.updated_replicas == counts.replicas == counts.available_replicas == wanted


def _has_moved(before: DeploymentStatus, now: DeploymentStatus) -> bool:
    old_before = before.replicas - before.updated_replicas
    return (
        now.updated_replicas > before.updated_replicas
        or now.replicas - now.updated_replicas < old_before
        or now.ready_replicas > before.ready_replicas
        or now.available_replicas > before.available_replicas
    )


def _found(deployment: Deployment, kind: str) -> WorkloadCondition | None:
    return next((each for each in deployment.status.conditions or () if each.type == kind), None)


def _condition(
    deployment: Deployment,
    kind: str,
    status: str,
    reason: str,
    message: str,
    moment: str,
    *,
    renew: bool = False,
) -> WorkloadCondition:
    """Return a condition; an unchanged one keeps its timestamps unless ``renew`` is set."""
    before = _found(deployment, kind)
    if before is not None and before.status == status:
        if before.reason == reason and before.message == message and not renew:
            return before
        since = before.last_transition_time
    else:
        since = moment
    return WorkloadCondition(kind, status, moment, since, reason, message)
