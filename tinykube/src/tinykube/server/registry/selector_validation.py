"""Label selectors of workloads: validation, and the check that they match their own template."""

from collections.abc import Mapping

import msgspec

from aiokube.api.selectors import LabelSelector, SelectorError, selector_of
from tinykube.server.errors import FieldError, forbidden_field, invalid_value, required
from tinykube.server.json_access import get_list, get_object, get_str, raw_json, sorted_map
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation


def shown(selector: JsonObject | None) -> msgspec.Raw:
    """Return a selector as errors print it."""
    if selector is None:
        return raw_json(None)
    printed: JsonObject = {}
    if selector.get("matchLabels"):
        printed["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        printed["matchExpressions"] = [
            {name: expression[name] for name in ("key", "operator", "values") if name in expression}
            for expression in selector["matchExpressions"]
        ]
    return raw_json(printed)


def selector_errors(field: str, selector: JsonObject | None, kind: str) -> list[FieldError]:
    """Return the errors of a selector; an empty one, which matches everything, is rejected."""
    if selector is None:
        return []
    errors = validation.labels(f"{field}.matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(get_list(selector, "matchExpressions")):
        errors += _expression_errors(f"{field}.matchExpressions[{index}]", expression)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid_value(field, shown(selector), f"empty selector is invalid for {kind}"))
    return errors


def _expression_errors(field: str, expression: JsonObject) -> list[FieldError]:
    operator, values = get_str(expression, "operator"), get_list(expression, "values")
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{field}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{field}.values", detail))
    else:
        errors.append(invalid_value(f"{field}.operator", operator, "not a valid selector operator"))
    errors += validation.qualified_name(f"{field}.key", get_str(expression, "key"))
    for index, value in enumerate(values):
        errors += validation.each(f"{field}.values[{index}]", value, validation.label_value_problems(value))
    return errors


def matches(selector: JsonObject | None, labels: Mapping[str, str]) -> bool | None:
    """Return whether a selector matches labels; None if it is invalid."""
    if selector is None:
        return False
    try:
        found = selector_of(msgspec.convert(selector, LabelSelector, strict=False))
    except (SelectorError, msgspec.ValidationError):
        return None
    return found.matches(labels)


def template_match_errors(
    spec: JsonObject, *, unreadable: str | None, missing_matches: bool
) -> tuple[list[FieldError], bool]:
    """Return errors if the selector does not match the template's labels.

    ``unreadable`` is the message for an invalid selector; None suppresses it. ``missing_matches``: a missing
    or empty selector is accepted. The second value is whether the template itself must be validated.
    """
    selector = spec.get("selector")
    labels = get_object(get_object(spec, "template"), "metadata").get("labels") or {}
    found = matches(selector, labels)
    if found is None:
        if unreadable is None:
            return [], True
        message = f"Invalid value: {bytes(shown(selector)).decode()}" + (
            f": {unreadable}" if unreadable else ""
        )
        return [FieldError("FieldValueInvalid", "spec.selector", message)], False
    if found or (missing_matches and selector is not None and not any(selector.values())):
        return [], True
    detail = "`selector` does not match template `labels`"
    return [invalid_value("spec.template.metadata.labels", sorted_map(labels), detail)], True
