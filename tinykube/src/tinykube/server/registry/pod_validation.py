"""Validation of pod specs and templates."""

from tinykube.server.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from tinykube.server.json_access import get_int, get_list, get_object, get_str, string_list
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.container_validation import containers_errors, init_containers_errors
from tinykube.server.registry.ips import address_errors
from tinykube.server.registry.volume_validation import volume_errors

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LARGEST_INT32 = 2**31 - 1
_MOST_NAMESERVERS = 3


def pod_spec_errors(field: str, spec: JsonObject, *, is_pod: bool) -> list[FieldError]:
    """Return the errors of a spec at ``field``; some rules apply only to pods, not to templates."""
    grace = get_int(spec, "terminationGracePeriodSeconds")
    volumes = get_list(spec, "volumes")
    mountable, errors = volume_errors(f"{field}.volumes", volumes)
    containers = get_list(spec, "containers")
    errors += containers_errors(f"{field}.containers", containers, mountable, grace)
    errors += init_containers_errors(
        f"{field}.initContainers", get_list(spec, "initContainers"), containers, mountable, grace
    )
    if spec.get("hostNetwork"):
        errors += _host_network_errors(f"{field}.containers", containers, is_pod=is_pod)
    for name, known in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        if get_str(spec, name) not in known:
            errors.append(not_supported(f"{field}.{name}", get_str(spec, name), known))
    errors += validation.labels(f"{field}.nodeSelector", spec.get("nodeSelector"))
    errors += _dns_errors(f"{field}.dnsConfig", spec)
    errors += _gate_errors(field, spec)
    errors += _name_errors(field, spec)
    errors += toleration_errors(f"{field}.tolerations", get_list(spec, "tolerations"))
    for index, alias in enumerate(get_list(spec, "hostAliases")):
        errors += address_errors(f"{field}.hostAliases[{index}].ip", get_str(alias, "ip"))
        for inner, name in enumerate(get_list(alias, "hostnames")):
            errors += validation.dns_subdomain(f"{field}.hostAliases[{index}].hostnames[{inner}]", name)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported(f"{field}.preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return errors


def _host_network_errors(field: str, containers: list[JsonObject], *, is_pod: bool) -> list[FieldError]:
    return [
        invalid_value(
            f"{field}[{outer}].ports[{index}].hostPort",
            get_int(port, "hostPort"),
            "must match `containerPort` when `hostNetwork` is true",
        )
        for outer, container in enumerate(containers)
        for index, port in enumerate(get_list(container, "ports"))
        if (is_pod or get_int(port, "hostPort"))
        and get_int(port, "hostPort") != get_int(port, "containerPort")
    ]


def _dns_errors(field: str, spec: JsonObject) -> list[FieldError]:
    config = spec.get("dnsConfig")
    servers = get_list(config or {}, "nameservers")
    if get_str(spec, "dnsPolicy") == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", detail)]
    errors: list[FieldError] = []
    if len(servers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        errors.append(invalid_value(f"{field}.nameservers", string_list(servers), detail))
    for index, server in enumerate(servers):
        errors += address_errors(f"{field}.nameservers[{index}]", server)
    return errors


def _gate_errors(field: str, spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(get_list(spec, "readinessGates")):
        path = f"{field}.readinessGates[{index}].conditionType"
        errors += validation.qualified_name(path, get_str(gate, "conditionType"))
    seen: set[str] = set()
    for index, gate in enumerate(get_list(spec, "schedulingGates")):
        path, name = f"{field}.schedulingGates[{index}]", get_str(gate, "name")
        errors += validation.qualified_name(path, name)
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
    return errors


def _name_errors(field: str, spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("serviceAccountName", "nodeName"):
        if get_str(spec, name):
            errors += validation.dns_subdomain(f"{field}.{name}", spec[name])
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LARGEST_INT32:
        detail = f"must be between 1 and {_LARGEST_INT32}, inclusive"
        errors.append(invalid_value(f"{field}.activeDeadlineSeconds", deadline, detail))
    for name in ("hostname", "subdomain"):
        if get_str(spec, name):
            errors += validation.dns_label(f"{field}.{name}", spec[name])
    for name in ("priorityClassName", "runtimeClassName"):
        if get_str(spec, name):
            errors += validation.dns_subdomain(f"{field}.{name}", spec[name])
    return errors


def toleration_errors(path: str, tolerations: list[JsonObject]) -> list[FieldError]:
    """Return the errors of tolerations."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        field = f"{path}[{index}]"
        key, operator = get_str(toleration, "key"), get_str(toleration, "operator")
        value, effect = get_str(toleration, "value"), get_str(toleration, "effect")
        if key:
            errors += validation.qualified_name(f"{field}.key", key)
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            errors.append(invalid_value(f"{field}.operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid_value(f"{field}.effect", effect, detail))
        if operator in ("Equal", ""):
            problems = validation.label_value_problems(value)
            if problems:
                errors.append(invalid_value(f"{field}.operator", value, ";".join(problems)))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                errors.append(invalid_value(f"{field}.operator", value, detail))
        elif operator in ("Lt", "Gt"):
            known = ("Equal", "Exists", "Gt", "Lt")
            errors.append(not_supported(f"{field}.operator", operator, known))
        else:
            errors.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
        if effect:
            errors += effect_errors(f"{field}.effect", effect)
    return errors


def effect_errors(field: str, effect: str) -> list[FieldError]:
    """Return the errors of the effect of a taint or toleration."""
    if not effect:
        return [required(field)]
    return [] if effect in _EFFECTS else [not_supported(field, effect, _EFFECTS)]


def template_metadata_errors(field: str, template: JsonObject) -> list[FieldError]:
    """Return the errors of a pod template's labels and annotations."""
    metadata = get_object(template, "metadata")
    errors = validation.labels(f"{field}.labels", metadata.get("labels"))
    for key in sorted(metadata.get("annotations") or {}):
        problems = validation.qualified_name_problems(key.lower())
        errors += validation.each(f"{field}.annotations", key, problems)
    return errors


def template_errors(field: str, template: JsonObject) -> list[FieldError]:
    """Return the errors of a pod template."""
    spec = get_object(template, "spec")
    errors = template_metadata_errors(field, template)
    errors += pod_spec_errors(f"{field}.spec", spec, is_pod=False)
    if get_list(spec, "ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden_field(f"{field}.spec.ephemeralContainers", detail))
    return errors
