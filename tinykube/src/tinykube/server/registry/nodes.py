"""Nodes: the initial taint, unique taints, fields that are set once."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, duplicate, forbidden_field, invalid_value
from tinykube.server.json_access import (
    align_list_with_field,
    ensure_object,
    get_list,
    get_object,
    get_str,
    keep_only_status,
    raw_json,
    string_list,
)
from tinykube.server.objects import JsonObject, labels_of
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.ips import family_of, network_errors
from tinykube.server.registry.pod_validation import effect_errors
from tinykube.server.registry.printing import AGE, NAME, NONE, UNKNOWN, column
from tinykube.server.registry.resource_validation import quantity_errors
from tinykube.server.registry.statuses import status_subresource

_NOT_READY = "node.kubernetes.io/not-ready"
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _taint_errors(taints: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # kube-apiserver's path names metadata, and clients read it.
        field = f"metadata.taints[{index}]"
        key, value, effect = get_str(taint, "key"), get_str(taint, "value"), get_str(taint, "effect")
        errors += validation.qualified_name(f"{field}.key", key)
        problems = validation.label_value_problems(value)
        if problems:
            errors.append(invalid_value(f"{field}.value", value, ";".join(problems)))
        errors += effect_errors(f"{field}.effect", effect)
        if (key, effect) in seen:
            shown = raw_json(
                {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            )
            again = duplicate(field, shown)
            errors.append(
                FieldError(
                    again.reason, field, f"{again.message}: taints must be unique by key and effect pair"
                )
            )
        seen.add((key, effect))
    return errors


def _network_errors(networks: list[str]) -> list[FieldError]:
    field = "spec.podCIDRs"
    errors: list[FieldError] = []
    wrong: list[int] = []
    for index, network in enumerate(networks):
        found = network_errors(f"{field}[{index}]", network)
        errors += found
        if found:
            wrong.append(index)
    if len(networks) < 2:
        return errors
    if wrong:
        why = f"invalid CIDR[{wrong[0]}]: <nil> (invalid CIDR address: {networks[wrong[0]]})"
        text_of = f"invalid PodCIDRs. failed to check with dual stack with error:{why}"
        errors.append(FieldError("InternalError", field, f"Internal error: {text_of}"))
    families = {family_of(network.partition("/")[0]) for network in networks}
    if wrong or len(networks) > 2 or len(families) < 2:
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid_value(field, string_list(networks), detail))
    return errors


class _NodeStrategy(Strategy):
    """A new node has the not-ready taint until a controller removes it."""

    def default(self, obj: JsonObject) -> None:
        align_list_with_field(ensure_object(obj, "spec"), "podCIDR", "podCIDRs")
        status = ensure_object(obj, "status")
        if status.get("allocatable") is None and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])
        ensure_object(status, "daemonEndpoints").setdefault("kubeletEndpoint", {"Port": 0})
        info = ensure_object(status, "nodeInfo")
        for name in _NODE_INFO:
            info.setdefault(name, "")

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        spec = obj["spec"]
        taints = get_list(spec, "taints")
        if not any(
            get_str(taint, "key") == _NOT_READY and get_str(taint, "effect") == "NoSchedule"
            for taint in taints
        ):
            spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        obj["status"] = old["status"]

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec, status = get_object(obj, "spec"), get_object(obj, "status")
        errors = _taint_errors(get_list(spec, "taints"))
        for name in ("capacity", "allocatable"):
            for resource, quantity in sorted(get_object(status, name).items()):
                errors += quantity_errors(f"status.{name}.{resource}", resource, quantity)
        return errors + _network_errors(get_list(spec, "podCIDRs"))

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        spec, old_spec = get_object(obj, "spec"), get_object(old, "spec")
        errors: list[FieldError] = []
        addresses = get_list(get_object(obj, "status"), "addresses")
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                shown = raw_json({"Type": get_str(address, "type"), "Address": get_str(address, "address")})
                errors.append(duplicate(f"status.addresses[{index}]", shown))
        text_of = 'node updates may not change {} except from "" to valid'
        if get_list(old_spec, "podCIDRs") and get_list(old_spec, "podCIDRs") != get_list(spec, "podCIDRs"):
            errors.append(forbidden_field("spec.podCIDRs", text_of.format("podCIDR")))
        if get_str(old_spec, "providerID") and get_str(old_spec, "providerID") != get_str(spec, "providerID"):
            errors.append(forbidden_field("spec.providerID", text_of.format("providerID")))
        return errors

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        if get_str(get_object(obj, "spec"), "externalID"):
            return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
        return ()


def _status(obj: JsonObject) -> str:
    conditions = {
        get_str(one, "type"): get_str(one, "status")
        for one in get_list(get_object(obj, "status"), "conditions")
    }
    shown = "Unknown"
    if "Ready" in conditions:
        shown = "Ready" if conditions["Ready"] == "True" else "NotReady"
    return shown + (",SchedulingDisabled" if get_object(obj, "spec").get("unschedulable") else "")


def _roles(obj: JsonObject) -> str:
    roles = {
        key.removeprefix(_ROLE_PREFIX) if key.startswith(_ROLE_PREFIX) else value
        for key, value in labels_of(obj).items()
        if key.startswith(_ROLE_PREFIX) or key == _ROLE_LABEL
    }
    return ",".join(sorted(roles - {""})) or NONE


def _address(obj: JsonObject, kind: str) -> str:
    for address in get_list(get_object(obj, "status"), "addresses"):
        if get_str(address, "type") == kind:
            return get_str(address, "address")
    return NONE


def _info(obj: JsonObject, name: str) -> str:
    return get_str(get_object(get_object(obj, "status"), "nodeInfo"), name)


def _kernel(obj: JsonObject) -> str:
    architecture = _info(obj, "architecture")
    return (_info(obj, "kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


NODES = Definition(
    group="",
    version="v1",
    plural="nodes",
    kind="Node",
    singular="node",
    namespaced=False,
    short_names=("no",),
    strategy=_NodeStrategy(),
    subresources=(status_subresource("Node"),),
    columns=(
        NAME,
        column("Status", _status),
        column("Roles", _roles),
        AGE,
        column("Version", lambda obj: _info(obj, "kubeletVersion")),
        column("Internal-IP", lambda obj: _address(obj, "InternalIP"), wide=True),
        column("External-IP", lambda obj: _address(obj, "ExternalIP"), wide=True),
        column("OS-Image", lambda obj: _info(obj, "osImage") or UNKNOWN, wide=True),
        column("Kernel-Version", _kernel, wide=True),
        column("Container-Runtime", lambda obj: _info(obj, "containerRuntimeVersion") or UNKNOWN, wide=True),
    ),
    fields=lambda obj: {
        "spec.unschedulable": "true" if get_object(obj, "spec").get("unschedulable") else "false"
    },
    field_names=("spec.unschedulable",),
)
