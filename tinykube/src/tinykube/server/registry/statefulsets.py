"""StatefulSets: pods with stable names and volume claims; few fields are mutable."""

from collections.abc import Sequence
from typing import ClassVar

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from tinykube.server.json_access import (
    ensure_object,
    get_int,
    get_list,
    get_object,
    get_str,
    raw_json,
    set_if_empty,
)
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.registry.names import dns_label_problem
from tinykube.server.registry.pod_validation import template_errors, template_metadata_errors
from tinykube.server.registry.printing import AGE, NAME, column, template_columns
from tinykube.server.registry.resource_validation import quantity_errors
from tinykube.server.registry.scale import scale_subresource
from tinykube.server.registry.selector_validation import selector_errors, template_match_errors
from tinykube.server.registry.statuses import at_most, count_errors, not_decremented, status_subresource
from tinykube.server.registry.workloads import WorkloadStrategy, lasting_pod_errors

_CHANGEABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FROZEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_RETENTION = ("Retain", "Delete")
_EXCLUSIVE = "ReadWriteOncePod"
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _EXCLUSIVE)
_COUNTS = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)


def _update_errors(spec: JsonObject) -> list[FieldError]:
    update = get_object(spec, "updateStrategy")
    kind, rolling = get_str(update, "type"), update.get("rollingUpdate")
    field = "spec.updateStrategy.rollingUpdate"
    printed = None
    if rolling is not None:
        printed = {
            "Partition": get_int(rolling, "partition"),
            "MaxUnavailable": rolling.get("maxUnavailable"),
        }
    if kind not in ("RollingUpdate", "OnDelete"):
        shown = raw_json({"Type": kind, "RollingUpdate": printed})
        return [invalid_value("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    if kind == "OnDelete":
        return [invalid_value(field, raw_json(printed), "only allowed for updateStrategy 'RollingUpdate'")]
    errors = validation.nonnegative(f"{field}.partition", get_int(rolling, "partition"))
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        path = f"{field}.maxUnavailable"
        errors += validation.int_or_percent(path, unavailable)
        if not validation.int_or_percent_value(unavailable):
            errors.append(invalid_value(path, unavailable, "cannot be 0"))
        errors += validation.at_most_all(path, unavailable)
    return errors


def _claim_errors(field: str, spec: JsonObject) -> list[FieldError]:
    """Return the errors of a claim's required fields: access modes and size."""
    modes, path = get_list(spec, "accessModes"), f"{field}.accessModes"
    errors: list[FieldError] = []
    if not modes:
        errors.append(required(path, "at least 1 access mode is required"))
    errors += [not_supported(path, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if _EXCLUSIVE in modes and len({*modes}) > 1:
        errors.append(forbidden_field(path, "may not use ReadWriteOncePod with other access modes"))
    requests = get_object(get_object(spec, "resources"), "requests")
    if "storage" not in requests:
        errors.append(required(f"{field}.resources[storage]"))
    else:
        errors += quantity_errors(f"{field}.resources[storage]", "storage", requests["storage"])
    return errors


def _template(spec: JsonObject) -> JsonObject:
    """Return the template with the hostname and volumes of its pods, for validation."""
    template = get_object(spec, "template")
    pod_spec = {
        name: value
        for name, value in get_object(template, "spec").items()
        if name not in ("hostname", "subdomain")
    }
    claims = [
        get_str(get_object(claim, "metadata"), "name") for claim in get_list(spec, "volumeClaimTemplates")
    ]
    if claims:
        named = dict.fromkeys(claims)  # one volume per name, even if it is claimed repeatedly
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in named]
        others = [volume for volume in get_list(pod_spec, "volumes") if get_str(volume, "name") not in claims]
        pod_spec["volumes"] = [*volumes, *others]
    return {**template, "spec": pod_spec}


class _StatefulSetStrategy(WorkloadStrategy):
    empty_status: ClassVar[JsonObject] = {"replicas": 0, "availableReplicas": 0}

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        set_if_empty(spec, "podManagementPolicy", "OrderedReady")
        update = ensure_object(spec, "updateStrategy")
        if not get_str(update, "type"):
            update["type"] = "RollingUpdate"
            ensure_object(update, "rollingUpdate")
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            set_if_empty(update["rollingUpdate"], "partition", 0)
        retention = ensure_object(spec, "persistentVolumeClaimRetentionPolicy")
        for name in ("whenDeleted", "whenScaled"):
            set_if_empty(retention, name, "Retain")
        set_if_empty(spec, "replicas", 1)
        set_if_empty(spec, "revisionHistoryLimit", 10)
        for claim in get_list(spec, "volumeClaimTemplates"):
            set_if_empty(claim, "kind", "PersistentVolumeClaim")
            set_if_empty(claim, "apiVersion", "v1")
            ensure_object(claim, "spec").setdefault("volumeMode", "Filesystem")
            set_if_empty(ensure_object(claim, "status"), "phase", "Pending")

    def validate_name(self, name: str) -> str:
        return dns_label_problem(name)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        errors: list[FieldError] = []
        policy = get_str(spec, "podManagementPolicy")
        if policy not in ("OrderedReady", "Parallel"):
            detail = "must be 'OrderedReady' or 'Parallel'"
            errors.append(invalid_value("spec.podManagementPolicy", policy, detail))
        errors += _update_errors(spec)
        for name, value in get_object(spec, "persistentVolumeClaimRetentionPolicy").items():
            if value not in _RETENTION:
                field = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                errors.append(not_supported(field, value, _RETENTION))
        # Claim templates are immutable: stored ones are not validated again.
        if not metadata_of(obj).get("resourceVersion"):
            for index, claim in enumerate(get_list(spec, "volumeClaimTemplates")):
                path = f"spec.volumeClaimTemplates[{index}].spec"
                errors += _claim_errors(path, get_object(claim, "spec"))
        for name in ("replicas", "minReadySeconds"):
            errors += validation.nonnegative(f"spec.{name}", get_int(spec, name))
        errors += validation.nonnegative(
            "spec.ordinals.start", get_int(get_object(spec, "ordinals"), "start")
        )
        if get_str(spec, "serviceName"):
            errors += validation.dns_label("spec.serviceName", spec["serviceName"])
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        else:
            errors += selector_errors("spec.selector", spec["selector"], "statefulset")
        wrong, judged = template_match_errors(spec, unreadable="", missing_matches=True)
        errors += wrong
        if judged:
            errors += template_errors("spec.template", _template(spec))
            # kube-apiserver validates these twice, and reports errors twice.
            errors += template_metadata_errors("spec.template", get_object(spec, "template"))
        pod_spec = get_object(get_object(spec, "template"), "spec")
        return errors + lasting_pod_errors("spec.template.spec", pod_spec, "StatefulSet")

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        found = [*super().warnings(request, obj)]
        if get_int(get_object(obj, "spec"), "revisionHistoryLimit") < 0:
            found.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
            )
        return found

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        spec, before = get_object(obj, "spec"), get_object(old, "spec")
        errors: list[FieldError] = []
        if any(spec.get(name) != before.get(name) for name in {*spec, *before} - {*_CHANGEABLE}):
            errors.append(forbidden_field("spec", _FROZEN))
        status, old_status = get_object(obj, "status"), get_object(old, "status")
        if status != old_status:
            errors += count_errors(status, _COUNTS)
            for name in ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"):
                errors += at_most(status, name, "replicas", "cannot be greater than status.replicas")
            detail = "cannot be greater than status.readyReplicas"
            errors += at_most(status, "availableReplicas", "readyReplicas", detail)
            errors += not_decremented(status, old_status, "collisionCount")
        return errors


def _ready(obj: JsonObject) -> str:
    ready = get_int(get_object(obj, "status"), "readyReplicas")
    return f"{ready}/{get_int(get_object(obj, 'spec'), 'replicas')}"


STATEFUL_SETS = Definition(
    group="apps",
    version="v1",
    plural="statefulsets",
    kind="StatefulSet",
    singular="statefulset",
    namespaced=True,
    short_names=("sts",),
    categories=("all",),
    strategy=_StatefulSetStrategy(),
    subresources=(scale_subresource("statefulsets"), status_subresource("StatefulSet")),
    columns=(NAME, column("Ready", _ready), AGE, *template_columns()),
)
