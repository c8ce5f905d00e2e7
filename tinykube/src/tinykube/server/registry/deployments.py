"""Deployments: a rolling update of 25 % by default."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from tinykube.server.json_access import ensure_object, get_int, get_object, get_str, raw_json, set_if_empty
from tinykube.server.objects import JsonObject, labels_of, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.registry.pod_validation import template_errors
from tinykube.server.registry.printing import AGE, NAME, column, selector_text, template_columns
from tinykube.server.registry.scale import scale_subresource
from tinykube.server.registry.selector_validation import selector_errors, template_match_errors
from tinykube.server.registry.statuses import at_most, count_errors, not_decremented, status_subresource
from tinykube.server.registry.workloads import WorkloadStrategy, immutable_selector, lasting_pod_errors

_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)
_TYPES = ("Recreate", "RollingUpdate")


def replicated_template_errors(spec: JsonObject) -> list[FieldError]:
    """Return the errors of the selector and template, as for Deployments and ReplicaSets."""
    if spec.get("selector") is None:
        errors = [required("spec.selector")]
    else:
        errors = selector_errors("spec.selector", spec["selector"], "deployment")
    wrong, judged = template_match_errors(spec, unreadable="invalid label selector", missing_matches=True)
    errors += wrong
    if judged:
        template = get_object(spec, "template")
        errors += template_errors("spec.template", template)
        errors += lasting_pod_errors("spec.template.spec", get_object(template, "spec"), "ReplicaSet")
    return errors


def _rolling_errors(field: str, rolling: JsonObject) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = validation.int_or_percent(f"{field}.maxUnavailable", unavailable)
    errors += validation.int_or_percent(f"{field}.maxSurge", surge)
    if not validation.int_or_percent_value(unavailable) and not validation.int_or_percent_value(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid_value(f"{field}.maxUnavailable", unavailable, detail))
    return errors + validation.at_most_all(f"{field}.maxUnavailable", unavailable)


def _strategy_errors(strategy: JsonObject) -> list[FieldError]:
    kind, rolling = get_str(strategy, "type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field("spec.strategy.rollingUpdate", detail)]
    if kind == "RollingUpdate":
        return _rolling_errors("spec.strategy.rollingUpdate", rolling or {})
    printed = None
    if rolling is not None:
        printed = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return [not_supported("spec.strategy", raw_json({"Type": kind, "RollingUpdate": printed}), _TYPES)]


class _DeploymentStrategy(WorkloadStrategy):
    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        set_if_empty(spec, "replicas", 1)
        strategy = ensure_object(spec, "strategy")
        set_if_empty(strategy, "type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = ensure_object(strategy, "rollingUpdate")
            for name in ("maxUnavailable", "maxSurge"):
                if rolling.get(name) is None:
                    rolling[name] = "25%"
        set_if_empty(spec, "revisionHistoryLimit", 10)
        set_if_empty(spec, "progressDeadlineSeconds", 600)

    def counts(self, obj: JsonObject, old: JsonObject) -> bool:
        # Annotation changes count: rollbacks used to be requested by annotation.
        annotations, before = metadata_of(obj).get("annotations"), metadata_of(old).get("annotations")
        return super().counts(obj, old) or (annotations or {}) != (before or {})

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        super().prepare_for_status_update(request, obj, old)
        metadata_of(obj).pop("labels", None)
        if labels := labels_of(old):
            metadata_of(obj)["labels"] = labels

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        errors = validation.nonnegative("spec.replicas", get_int(spec, "replicas"))
        errors += replicated_template_errors(spec)
        errors += _strategy_errors(get_object(spec, "strategy"))
        ready_seconds, deadline = get_int(spec, "minReadySeconds"), get_int(spec, "progressDeadlineSeconds")
        errors += validation.nonnegative("spec.minReadySeconds", ready_seconds)
        errors += validation.nonnegative("spec.revisionHistoryLimit", get_int(spec, "revisionHistoryLimit"))
        errors += validation.nonnegative("spec.progressDeadlineSeconds", deadline)
        if deadline <= ready_seconds:
            detail = "must be greater than minReadySeconds"
            errors.append(invalid_value("spec.progressDeadlineSeconds", deadline, detail))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        errors = immutable_selector(obj, old)
        status, before = get_object(obj, "status"), get_object(old, "status")
        if status != before:
            errors += count_errors(status, _COUNTS)
            for name in ("updatedReplicas", "readyReplicas", "availableReplicas"):
                errors += at_most(status, name, "replicas", "cannot be greater than status.replicas")
            errors += at_most(
                status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"
            )
            errors += not_decremented(status, before, "collisionCount")
        return errors


def _ready(obj: JsonObject) -> str:
    ready = get_int(get_object(obj, "status"), "readyReplicas")
    return f"{ready}/{get_int(get_object(obj, 'spec'), 'replicas')}"


def _selector(obj: JsonObject) -> str:
    return selector_text(get_object(obj, "spec").get("selector"))


DEPLOYMENTS = Definition(
    group="apps",
    version="v1",
    plural="deployments",
    kind="Deployment",
    singular="deployment",
    namespaced=True,
    short_names=("deploy",),
    categories=("all",),
    strategy=_DeploymentStrategy(),
    subresources=(scale_subresource("deployments"), status_subresource("Deployment")),
    columns=(
        NAME,
        column("Ready", _ready),
        column("Up-to-date", lambda obj: get_int(get_object(obj, "status"), "updatedReplicas")),
        column("Available", lambda obj: get_int(get_object(obj, "status"), "availableReplicas")),
        AGE,
        *template_columns(),
        column("Selector", _selector, wide=True),
    ),
)
