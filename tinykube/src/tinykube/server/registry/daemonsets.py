"""DaemonSets. Template changes are counted in the deprecated template-generation annotation."""

from collections.abc import Sequence
from typing import ClassVar

from tinykube.server.errors import FieldError, invalid_value, not_supported, required
from tinykube.server.json_access import ensure_object, get_int, get_object, get_str, raw_json, set_if_empty
from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request
from tinykube.server.registry.pod_validation import template_errors
from tinykube.server.registry.printing import (
    AGE,
    NAME,
    NONE,
    column,
    format_labels,
    selector_text,
    template_columns,
)
from tinykube.server.registry.selector_validation import selector_errors, template_match_errors
from tinykube.server.registry.statuses import count_errors, not_decremented, status_subresource
from tinykube.server.registry.workloads import WorkloadStrategy, immutable_selector, lasting_pod_errors

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_ALWAYS_THERE = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_COUNTS = (
    *_ALWAYS_THERE,
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def _template_generation(obj: JsonObject) -> int:
    text = (metadata_of(obj).get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return int(text) if text.isdecimal() else 0


def _set_template_generation(obj: JsonObject, generation: int) -> None:
    ensure_object(metadata_of(obj), "annotations")[_TEMPLATE_GENERATION] = str(generation)


def _rolling_errors(field: str, rolling: JsonObject) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    named = (("maxUnavailable", unavailable), ("maxSurge", surge))
    errors = [error for name, value in named for error in validation.int_or_percent(f"{field}.{name}", value)]
    errors += [error for name, value in named for error in validation.at_most_all(f"{field}.{name}", value)]
    some_unavailable = bool(validation.int_or_percent_value(unavailable))
    some_surge = bool(validation.int_or_percent_value(surge))
    if some_unavailable and some_surge:
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid_value(f"{field}.maxSurge", surge, detail))
    elif not some_unavailable and not some_surge:
        errors.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _update_errors(update: JsonObject) -> list[FieldError]:
    kind, rolling = get_str(update, "type"), update.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind == "RollingUpdate":
        return _rolling_errors("spec.updateStrategy.rollingUpdate", rolling or {})
    printed = None
    if rolling is not None:
        printed = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    shown = raw_json({"Type": kind, "RollingUpdate": printed})
    return [not_supported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))]


class _DaemonSetStrategy(WorkloadStrategy):
    empty_status: ClassVar[JsonObject] = dict.fromkeys(_ALWAYS_THERE, 0)

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        update = ensure_object(spec, "updateStrategy")
        set_if_empty(update, "type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            rolling = ensure_object(update, "rollingUpdate")
            for name, value in (("maxUnavailable", 1), ("maxSurge", 0)):
                if rolling.get(name) is None:
                    rolling[name] = value
        set_if_empty(spec, "revisionHistoryLimit", 10)

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        super().prepare_for_create(request, obj)
        _set_template_generation(obj, max(_template_generation(obj), 1))

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        super().prepare_for_update(request, obj, old)
        changed = obj["spec"]["template"] != get_object(old, "spec").get("template")
        _set_template_generation(obj, _template_generation(old) + changed)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        selector, template = spec.get("selector"), get_object(spec, "template")
        errors: list[FieldError] = []
        of_selector = selector_errors("spec.selector", selector, "daemonset")
        wrong, _ = template_match_errors(spec, unreadable=None, missing_matches=True)
        errors += [*of_selector, *wrong]
        errors += template_errors("spec.template", template)
        errors += lasting_pod_errors("spec.template.spec", get_object(template, "spec"), "DaemonSet")
        errors += validation.nonnegative("spec.minReadySeconds", get_int(spec, "minReadySeconds"))
        errors += _update_errors(get_object(spec, "updateStrategy"))
        return errors + validation.nonnegative(
            "spec.revisionHistoryLimit", get_int(spec, "revisionHistoryLimit")
        )

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        errors = immutable_selector(obj, old)
        status, before = get_object(obj, "status"), get_object(old, "status")
        if status != before:
            errors += count_errors(status, _COUNTS) + not_decremented(status, before, "collisionCount")
        return errors


def _node_selector(obj: JsonObject) -> str:
    return format_labels(
        get_object(get_object(get_object(obj, "spec"), "template"), "spec").get("nodeSelector")
    )


DAEMON_SETS = Definition(
    group="apps",
    version="v1",
    plural="daemonsets",
    kind="DaemonSet",
    singular="daemonset",
    namespaced=True,
    short_names=("ds",),
    categories=("all",),
    strategy=_DaemonSetStrategy(),
    subresources=(status_subresource("DaemonSet"),),
    columns=(
        NAME,
        column(
            "Desired",
            lambda obj: get_int(get_object(obj, "status"), "desiredNumberScheduled"),
            kind="integer",
        ),
        column(
            "Current",
            lambda obj: get_int(get_object(obj, "status"), "currentNumberScheduled"),
            kind="integer",
        ),
        column("Ready", lambda obj: get_int(get_object(obj, "status"), "numberReady"), kind="integer"),
        column(
            "Up-to-date",
            lambda obj: get_int(get_object(obj, "status"), "updatedNumberScheduled"),
            kind="integer",
        ),
        column(
            "Available", lambda obj: get_int(get_object(obj, "status"), "numberAvailable"), kind="integer"
        ),
        column("Node Selector", _node_selector),
        AGE,
        *template_columns(),
        column(
            "Selector", lambda obj: selector_text(get_object(obj, "spec").get("selector")) or NONE, wide=True
        ),
    ),
)
