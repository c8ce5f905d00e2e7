"""Validation of containers."""

from tinykube.server.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from tinykube.server.json_access import get_int, get_list, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.environment_validation import environment_errors
from tinykube.server.registry.resource_validation import resource_errors

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_SCHEMES = ("HTTP", "HTTPS")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"


def containers_errors(
    field: str, containers: list[JsonObject], volumes: set[str], grace: int
) -> list[FieldError]:
    """Return the errors of a pod's containers."""
    if not containers:
        return [required(field)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += _common_errors(path, container, volumes)
        if get_str(container, "name") in names:
            errors.append(duplicate(f"{path}.name", container["name"]))
        names.add(get_str(container, "name"))
        errors += _life_errors(path, container, grace)
        errors += _restart_errors(path, container)
    return errors + _host_port_errors(field, containers)


def init_containers_errors(
    field: str, containers: list[JsonObject], others: list[JsonObject], volumes: set[str], grace: int
) -> list[FieldError]:
    """Return the errors of a pod's init containers, including sidecars."""
    names = {get_str(other, "name") for other in others}
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += _common_errors(path, container, volumes)
        errors += _restart_errors(path, container)
        if get_str(container, "name") in names:
            errors.append(duplicate(f"{path}.name", container["name"]))
        elif get_str(container, "name"):
            names.add(container["name"])
        errors += _host_port_errors(field, [container])
        if container.get("restartPolicy") == "Always":
            errors += _life_errors(path, container, grace)
            continue
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                errors.append(forbidden_field(f"{path}.{name}", _NOT_FOR_INIT))
    return errors


def _common_errors(path: str, container: JsonObject, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = get_str(container, "name")
    errors += validation.dns_label(f"{path}.name", name) if name else [required(f"{path}.name")]
    image = get_str(container, "image")
    if not image:
        errors.append(required(f"{path}.image"))
    policy = get_str(container, "terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    errors += _port_errors(f"{path}.ports", get_list(container, "ports"))
    errors += environment_errors(path, container)
    errors += _mount_errors(f"{path}.volumeMounts", get_list(container, "volumeMounts"), volumes)
    pull = get_str(container, "imagePullPolicy")
    if pull not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.imagePullPolicy", pull, _PULL_POLICIES))
    return errors + resource_errors(f"{path}.resources", get_object(container, "resources"))


def whitespace_errors(field: str, containers: list[JsonObject]) -> list[FieldError]:
    """Return errors for images with surrounding whitespace; only pods are checked."""
    return [
        invalid_value(f"{field}[{index}].image", image, "must not have leading or trailing whitespace")
        for index, container in enumerate(containers)
        if (image := get_str(container, "image")) != image.strip()
    ]


def _port_errors(path: str, ports: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"{path}[{index}]", get_str(port, "name")
        if name:
            problems = validation.port_name_problems(name)
            errors += validation.each(f"{field}.name", name, problems)
            if not problems and name in names:
                errors.append(duplicate(f"{field}.name", name))
            elif not problems:
                names.add(name)
        if not get_int(port, "containerPort"):
            errors.append(required(f"{field}.containerPort"))
        else:
            errors += validation.port_number(f"{field}.containerPort", port["containerPort"])
        if get_int(port, "hostPort"):
            errors += validation.port_number(f"{field}.hostPort", port["hostPort"])
        errors += validation.protocol(f"{field}.protocol", get_str(port, "protocol"))
    return errors


def _host_port_errors(path: str, containers: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for outer, container in enumerate(containers):
        for index, port in enumerate(get_list(container, "ports")):
            if not get_int(port, "hostPort"):
                continue
            key = f"{get_str(port, 'protocol')}/{get_str(port, 'hostIP')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{outer}].ports[{index}].hostPort", key))
            seen.add(key)
    return errors


def _mount_errors(path: str, mounts: list[JsonObject], volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        field, name, where = f"{path}[{index}]", get_str(mount, "name"), get_str(mount, "mountPath")
        if not name:
            errors.append(required(f"{field}.name"))
        if name not in volumes:
            errors.append(FieldError("FieldValueNotFound", f"{field}.name", f'Not found: "{name}"'))
        if not where:
            errors.append(required(f"{field}.mountPath"))
        if where in paths:
            errors.append(invalid_value(f"{field}.mountPath", where, "must be unique"))
        paths.add(where)
        for member_name in ("subPath", "subPathExpr"):
            below = get_str(mount, member_name)
            # kube-apiserver's path lacks the index, too.
            if below.startswith("/"):
                errors.append(invalid_value(f"{path}.{member_name}", below, "must be a relative path"))
            if ".." in below.split("/"):
                errors.append(invalid_value(f"{path}.{member_name}", below, "must not contain '..'"))
        if get_str(mount, "subPath") and get_str(mount, "subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid_value(f"{field}.subPathExpr", mount["subPathExpr"], detail))
    return errors


def _restart_errors(path: str, container: JsonObject) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), get_list(container, "restartPolicyRules")
    if policy is None:
        if not rules:
            return []
        detail = "must specify restartPolicy when restart rules are used"
        return [required(f"{path}.restartPolicy", detail)]
    if policy not in _RESTART_POLICIES:
        return [not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)]
    return []


def _life_errors(path: str, container: JsonObject, grace: int) -> list[FieldError]:
    errors: list[FieldError] = []
    lifecycle = get_object(container, "lifecycle")
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            errors += _handler_errors(f"{path}.lifecycle.{name}", lifecycle[name], grace)
    for name in _PROBES:
        if container.get(name) is not None:
            errors += _probe_errors(f"{path}.{name}", container[name], name, grace)
    return errors


def _probe_errors(path: str, probe: JsonObject, name: str, grace: int) -> list[FieldError]:
    errors = _handler_errors(path, probe, grace)
    for count in _PROBE_COUNTS:
        errors += validation.nonnegative(f"{path}.{count}", get_int(probe, count))
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        errors.append(invalid_value(f"{path}.terminationGracePeriodSeconds", own, "must be greater than 0"))
    if name == "readinessProbe":
        if own is not None:
            detail = "must not be set for readinessProbes"
            errors.append(invalid_value(f"{path}.terminationGracePeriodSeconds", own, detail))
    elif get_int(probe, "successThreshold") != 1:
        threshold = get_int(probe, "successThreshold")
        errors.append(invalid_value(f"{path}.successThreshold", threshold, "must be 1"))
    return errors


def _handler_errors(path: str, holder: JsonObject, grace: int) -> list[FieldError]:
    named = [name for name in _HANDLERS if holder.get(name) is not None]
    if not named:
        return [required(path, "must specify a handler type")]
    errors = _one_handler_errors(f"{path}.{named[0]}", named[0], holder[named[0]], grace)
    return errors + [
        forbidden_field(f"{path}.{name}", "may not specify more than 1 handler type") for name in named[1:]
    ]


def _one_handler_errors(path: str, name: str, handler: JsonObject, grace: int) -> list[FieldError]:
    if name == "exec":
        return [] if get_list(handler, "command") else [required(f"{path}.command")]
    if name == "sleep":
        seconds = get_int(handler, "seconds")
        if 0 <= seconds <= grace:
            return []
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid_value(path, seconds, detail)]
    errors = validation.port_number_or_name(f"{path}.port", handler.get("port") or 0)
    if name == "httpGet":
        if get_str(handler, "scheme") not in _SCHEMES:
            errors.append(not_supported(f"{path}.scheme", get_str(handler, "scheme"), _SCHEMES))
        for header in get_list(handler, "httpHeaders"):
            problems = validation.header_name_problems(get_str(header, "name"))
            errors += validation.each(f"{path}.httpHeaders", get_str(header, "name"), problems)
    return errors
