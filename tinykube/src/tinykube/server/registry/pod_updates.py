"""Validation of pod updates: immutable fields, and the status."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, required
from tinykube.server.json_access import get_int, get_list, get_object, get_str, raw_json
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.ips import address_errors, is_dual_stack
from tinykube.server.registry.pod_validation import toleration_errors

_LARGEST_INT32 = 2**31 - 1
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_CONTAINER_LISTS = ("containers", "initContainers")


def spec_update_errors(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return the errors of a spec update."""
    errors: list[FieldError] = []
    for name in _CONTAINER_LISTS:
        field = f"spec.{name}"
        if len(get_list(spec, name)) != len(get_list(old, name)):
            return [*errors, forbidden_field(field, "pod updates may not add or remove containers")]
        for index, container in enumerate(get_list(spec, name)):
            image = get_str(container, "image")
            if not image:
                errors.append(required(f"{field}[{index}].image"))
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                errors.append(invalid_value(f"{field}[{index}].image", image, detail))
    wrong, ends_here = _deadline_errors(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    errors += wrong
    if ends_here:
        return errors
    errors += _toleration_step_errors(get_list(spec, "tolerations"), get_list(old, "tolerations"))
    errors += _gate_step_errors(get_list(spec, "schedulingGates"), get_list(old, "schedulingGates"))
    frozen = _with_the_changeable_of(spec, old)
    if frozen != old:
        changed = _differences(old, frozen)
        text_of = f"pod updates may not change fields other than {_CHANGEABLE}\n{changed}"
        errors.append(forbidden_field("spec", text_of))
    return errors


def _deadline_errors(deadline: int | None, old: int | None) -> tuple[list[FieldError], bool]:
    field = "spec.activeDeadlineSeconds"
    if deadline is None:
        if old is None:
            return [], False
        return [invalid_value(field, None, "must not update from a positive integer to nil value")], False
    if not 0 <= deadline <= _LARGEST_INT32:
        return [invalid_value(field, deadline, f"must be between 0 and {_LARGEST_INT32}, inclusive")], True
    if old is not None and old < deadline:
        return [invalid_value(field, deadline, "must be less than or equal to previous value")], True
    return [], False


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _toleration_step_errors(new: list[JsonObject], old: list[JsonObject]) -> list[FieldError]:
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden_field("spec.tolerations", detail)]
    return toleration_errors("spec.tolerations", new)


def _gate_step_errors(new: list[JsonObject], old: list[JsonObject]) -> list[FieldError]:
    known = {get_str(gate, "name") for gate in old}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for index, gate in enumerate(new)
        if (name := get_str(gate, "name")) not in known
    ]


def _with_the_changeable_of(spec: JsonObject, old: JsonObject) -> JsonObject:
    """Return the new spec with all mutable fields restored; it equals the old spec if nothing else changed."""
    result = dict(spec)
    for name in _CONTAINER_LISTS:
        if name in spec:
            result[name] = [
                {**container, "image": before.get("image")}
                for container, before in zip(get_list(spec, name), get_list(old, name), strict=True)
            ]
    names = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if get_int(old, "terminationGracePeriodSeconds") < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        names.append("terminationGracePeriodSeconds")
    if get_list(old, "schedulingGates"):
        names += ["nodeSelector", "affinity"]  # a gated pod may still be restricted to fewer nodes
    for name in names:
        if name in old:
            result[name] = old[name]
        else:
            result.pop(name, None)
    return result


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the old and new value of each field that differs, one per line."""
    lines = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before != after:
            lines.append(f"- {name}: {_shown(before)}\n+ {name}: {_shown(after)}")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return bytes(raw_json(value)).decode()


def node_selector_errors(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return errors if a gated pod's node selector lost or changed terms."""
    before, after = get_object(old, "nodeSelector"), get_object(spec, "nodeSelector")
    if all(after.get(key) == value for key, value in before.items()):
        return []
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid_value("spec.nodeSelector", raw_json(after), detail)]


def status_update_errors(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return the errors of a status update."""
    status, before = get_object(obj, "status"), get_object(old, "status")
    errors: list[FieldError] = []
    for index, condition in enumerate(get_list(status, "conditions")):
        kind = get_str(condition, "type")
        if kind not in _SYSTEM_CONDITIONS:
            errors += validation.qualified_name(f"status.conditions[{index}].Type", kind)
    nominated = get_str(status, "nominatedNodeName")
    if nominated and nominated != get_str(before, "nominatedNodeName"):
        errors += validation.dns_subdomain("status.nominatedNodeName", nominated)
        if get_str(get_object(obj, "spec"), "nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            errors.append(forbidden_field("status.nominatedNodeName", detail))
    errors += validation.immutable(
        "status.qosClass", get_str(status, "qosClass"), get_str(before, "qosClass")
    )
    policy = get_str(get_object(old, "spec"), "restartPolicy")
    for name in ("containerStatuses", "initContainerStatuses"):
        errors += _restart_errors(f"status.{name}", get_list(status, name), get_list(before, name), policy)
    errors += _ip_errors(
        "status.podIPs", [get_str(ip, "ip") for ip in get_list(status, "podIPs")], get_list(status, "podIPs")
    )
    hosts = [get_str(ip, "ip") for ip in get_list(status, "hostIPs")]
    if hosts and get_str(status, "hostIP") != hosts[0]:
        errors.append(invalid_value("status.hostIPs[0].ip", hosts[0], "must be equal to `hostIP`"))
    return errors + _ip_errors("status.hostIPs", hosts, get_list(status, "hostIPs"))


def _restart_errors(
    field: str, new: Sequence[JsonObject], old: Sequence[JsonObject], policy: str
) -> list[FieldError]:
    """Return errors for permanently terminated containers that run again."""
    if policy == "Always":
        return []
    running = {get_str(status, "name") for status in new if "terminated" not in get_object(status, "state")}
    return [
        forbidden_field(f"{field}[{index}].state", "may not be transitioned to non-terminated state")
        for index, status in enumerate(old)
        if (ended := get_object(status, "state").get("terminated")) is not None
        and get_str(status, "name") in running
        and not (policy == "OnFailure" and get_int(ended, "exitCode"))
    ]


def _ip_errors(field: str, ips: list[str], shown: Sequence[JsonObject]) -> list[FieldError]:
    errors = [error for index, ip in enumerate(ips) for error in address_errors(f"{field}[{index}]", ip)]
    if len(ips) > 2 or (len(ips) == 2 and not is_dual_stack(ips)):
        listed = raw_json([{"IP": get_str(entry, "ip")} for entry in shown])
        errors.append(invalid_value(field, listed, "may specify no more than one IP for each IP family"))
    return errors
