"""Read-only projections of the workloads in apps/v1, and of ControllerRevisions.

Specs are changed with patches. Statuses have all counts and conditions that controllers write, and encode
every field, so that a merge patch of a status replaces the previous values.
"""

from typing import Any

import msgspec

from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import Resource
from aiokube.api.selectors import LabelSelector

Template = dict[str, Any]
"""A pod template as JSON; it is copied unchanged, so it keeps all fields."""

IntOrPercent = int | str


class WorkloadCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One condition of a workload's status; times are RFC 3339."""

    type: str = ""
    status: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


# ------------------------------------------------------------------------------------------- Deployment


class RollingUpdateDeployment(msgspec.Struct, frozen=True, rename="camel"):
    """Limits on the number of pods above and below ``replicas`` during a rolling update."""

    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class DeploymentStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """``RollingUpdate`` or ``Recreate``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The desired state of a Deployment."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: Template = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int = 600


class DeploymentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The observed state of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[WorkloadCondition, ...] | None = None


class Deployment(msgspec.Struct, frozen=True, rename="camel"):
    """A Deployment."""

    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


# ------------------------------------------------------------------------------------------- ReplicaSet


class ReplicaSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The desired state of a ReplicaSet."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: Template = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The observed state of a ReplicaSet."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


class ReplicaSet(msgspec.Struct, frozen=True, rename="camel"):
    """A ReplicaSet."""

    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


# ------------------------------------------------------------------------------------------ StatefulSet


class RollingUpdateStatefulSet(msgspec.Struct, frozen=True, rename="camel"):
    """The rolling update of a StatefulSet: pods below ``partition`` keep their revision."""

    partition: int = 0


class StatefulSetStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """``RollingUpdate`` or ``OnDelete``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateStatefulSet | None = None


class StatefulSetOrdinals(msgspec.Struct, frozen=True, rename="camel"):
    """The first ordinal of a StatefulSet."""

    start: int = 0


class StatefulSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The desired state of a StatefulSet."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: Template = {}
    volume_claim_templates: tuple[dict[str, Any], ...] | None = None
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: StatefulSetStrategy = StatefulSetStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The observed state of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(msgspec.Struct, frozen=True, rename="camel"):
    """A StatefulSet."""

    metadata: ObjectMeta
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


# -------------------------------------------------------------------------------------------- DaemonSet


class RollingUpdateDaemonSet(msgspec.Struct, frozen=True, rename="camel"):
    """Limits on the number of nodes with no pod, or with two, during an update."""

    max_unavailable: IntOrPercent | None = None
    max_surge: IntOrPercent | None = None


class DaemonSetStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """``RollingUpdate`` or ``OnDelete``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The desired state of a DaemonSet."""

    selector: LabelSelector | None = None
    template: Template = {}
    update_strategy: DaemonSetStrategy = DaemonSetStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The observed state of a DaemonSet."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0


class DaemonSet(msgspec.Struct, frozen=True, rename="camel"):
    """A DaemonSet."""

    metadata: ObjectMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(msgspec.Struct, frozen=True, rename="camel"):
    """A revision of a StatefulSet's or DaemonSet's template; ``data`` is the patch that restores it."""

    metadata: ObjectMeta
    revision: int = 0
    data: dict[str, Any] | None = None


def _apps(plural: str, kind: str, wire: Any) -> Resource[Any]:
    return Resource(group="apps", version="v1", plural=plural, kind=kind, wire=wire)


DEPLOYMENTS: Resource[Deployment] = _apps("deployments", "Deployment", Deployment)
REPLICA_SETS: Resource[ReplicaSet] = _apps("replicasets", "ReplicaSet", ReplicaSet)
STATEFUL_SETS: Resource[StatefulSet] = _apps("statefulsets", "StatefulSet", StatefulSet)
DAEMON_SETS: Resource[DaemonSet] = _apps("daemonsets", "DaemonSet", DaemonSet)
CONTROLLER_REVISIONS: Resource[ControllerRevision] = _apps(
    "controllerrevisions", "ControllerRevision", ControllerRevision
)
