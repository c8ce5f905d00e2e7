"""ReplicaSets."""

from collections.abc import Sequence
from typing import ClassVar

from tinykube.server.errors import FieldError
from tinykube.server.json_access import get_int, get_object, set_if_empty
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.registry.deployments import replicated_template_errors
from tinykube.server.registry.printing import AGE, NAME, NONE, column, selector_text, template_columns
from tinykube.server.registry.scale import scale_subresource
from tinykube.server.registry.statuses import at_most, count_errors, status_subresource
from tinykube.server.registry.workloads import WorkloadStrategy, immutable_selector

_COUNTS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)


class _ReplicaSetStrategy(WorkloadStrategy):
    empty_status: ClassVar[JsonObject] = {"replicas": 0}

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        set_if_empty(obj["spec"], "replicas", 1)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        errors = validation.nonnegative("spec.replicas", get_int(spec, "replicas"))
        errors += validation.nonnegative("spec.minReadySeconds", get_int(spec, "minReadySeconds"))
        return errors + replicated_template_errors(spec)

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        errors = immutable_selector(obj, old)
        status = get_object(obj, "status")
        if status != get_object(old, "status"):
            errors += count_errors(status, _COUNTS)
            for name in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
                errors += at_most(status, name, "replicas", "cannot be greater than status.replicas")
            errors += at_most(
                status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"
            )
        return errors


REPLICA_SETS = Definition(
    group="apps",
    version="v1",
    plural="replicasets",
    kind="ReplicaSet",
    singular="replicaset",
    namespaced=True,
    short_names=("rs",),
    categories=("all",),
    strategy=_ReplicaSetStrategy(),
    subresources=(scale_subresource("replicasets"), status_subresource("ReplicaSet")),
    columns=(
        NAME,
        column("Desired", lambda obj: get_int(get_object(obj, "spec"), "replicas"), kind="integer"),
        column("Current", lambda obj: get_int(get_object(obj, "status"), "replicas"), kind="integer"),
        column("Ready", lambda obj: get_int(get_object(obj, "status"), "readyReplicas"), kind="integer"),
        AGE,
        *template_columns(),
        column(
            "Selector", lambda obj: selector_text(get_object(obj, "spec").get("selector")) or NONE, wide=True
        ),
    ),
)
