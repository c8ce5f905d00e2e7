"""Pods: built-in admission, status, generation, grace period, and the subresources ``binding`` and ``eviction``."""

from collections.abc import Sequence

from aiokube.api.times import format_time
from tinykube.server.errors import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    forbidden,
    forbidden_field,
)
from tinykube.server.json_access import (
    ensure_object,
    get_int,
    get_list,
    get_object,
    get_str,
    keep_only_status,
)
from tinykube.server.objects import GroupResource, JsonObject, StorageKey, labels_of, metadata_of
from tinykube.server.registry import validation
from tinykube.server.registry.container_validation import whitespace_errors
from tinykube.server.registry.definition import Definition, Request, Strategy, Subresource
from tinykube.server.registry.ips import address_warnings
from tinykube.server.registry.pod_defaults import default_pod
from tinykube.server.registry.pod_table import POD_COLUMNS
from tinykube.server.registry.pod_updates import (
    node_selector_errors,
    spec_update_errors,
    status_update_errors,
)
from tinykube.server.registry.pod_validation import pod_spec_errors
from tinykube.server.registry.pod_warnings import pod_warnings
from tinykube.server.registry.resource_validation import quality_of_service
from tinykube.server.registry.statuses import status_subresource

RESOURCE = GroupResource("", "pods")
_NODES = GroupResource("", "nodes")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300
_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPTION = "PreemptLowerPriority"
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_ENDED = ("Succeeded", "Failed")


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return get_str(toleration, "key") in (key, "") and get_str(toleration, "effect") in ("NoExecute", "")


def _add_tolerations(spec: JsonObject) -> None:
    """Add the default tolerations: five minutes on a not-ready or unreachable node."""
    tolerations = list(get_list(spec, "tolerations"))
    for key in _TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _set_priority(obj: JsonObject, spec: JsonObject) -> None:
    name = get_str(spec, "priorityClassName")
    if name and name not in _PRIORITIES:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(RESOURCE, get_str(metadata_of(obj), "name"), why)
    settled: tuple[tuple[str, str, object, object], ...] = (
        ("integer value of priority", "priority", spec.get("priority"), _PRIORITIES.get(name, 0)),
        ("string value of PreemptionPolicy", "preemptionPolicy", spec.get("preemptionPolicy"), _PREEMPTION),
    )
    for what, field, given, computed in settled:
        if given not in (None, computed):
            why = (
                f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed "
                f"{computed} from the given PriorityClass name"
            )
            raise forbidden(RESOURCE, get_str(metadata_of(obj), "name"), why)
        spec[field] = computed


def _topology_labels(request: Request, node: str) -> dict[str, str]:
    """Return the topology labels of a node; empty for an unknown node."""
    stored = request.storage.head(StorageKey(_NODES, "", node))
    return (
        {key: stored.labels[key] for key in _TOPOLOGY if key in stored.labels} if stored is not None else {}
    )


class _PodStrategy(Strategy):
    """A new pod is Pending with no other status; later its spec is almost immutable."""

    def default(self, obj: JsonObject) -> None:
        default_pod(obj)

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        spec, metadata = obj["spec"], metadata_of(obj)
        _set_priority(obj, spec)
        _add_tolerations(spec)
        if get_str(spec, "nodeName") and (labels := _topology_labels(request, spec["nodeName"])):
            ensure_object(metadata, "labels").update(labels)
        metadata["generation"] = 1
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if get_list(spec, "schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": format_time(request.clock.wall()),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        spec, old_spec = obj["spec"], get_object(old, "spec")
        for name in ("priority", "preemptionPolicy"):
            if spec.get(name) is None and old_spec.get(name) is not None:
                spec[name] = old_spec[name]
        _add_tolerations(spec)
        obj["status"] = old["status"]
        generation = get_int(metadata_of(old), "generation")
        metadata_of(obj)["generation"] = generation + (spec != old_spec)

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        keep_only_status(obj, old)
        metadata, old_metadata = metadata_of(obj), metadata_of(old)
        metadata.pop("ownerReferences", None)
        if "ownerReferences" in old_metadata:
            metadata["ownerReferences"] = old_metadata["ownerReferences"]
        status, before = obj["status"], get_object(old, "status")
        if not get_str(status, "qosClass") and get_str(before, "qosClass"):
            status["qosClass"] = before["qosClass"]
        if not get_int(status, "observedGeneration") and before.get("observedGeneration"):
            status["observedGeneration"] = before["observedGeneration"]
        _keep_observed_generations(status, before)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        spec = get_object(obj, "spec")
        errors = pod_spec_errors("spec", spec, is_pod=True)
        for name in ("containers", "initContainers"):
            errors += whitespace_errors(f"spec.{name}", get_list(spec, name))
        if get_str(spec, "nodeName") and get_list(spec, "schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden_field("spec.nodeName", detail))
        return errors

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        spec, old_spec = get_object(obj, "spec"), get_object(old, "spec")
        errors: list[FieldError] = []
        if spec != old_spec:
            errors += spec_update_errors(spec, old_spec)
            if get_list(old_spec, "schedulingGates"):
                errors += node_selector_errors(spec, old_spec)
        if get_object(obj, "status") != get_object(old, "status"):
            errors += status_update_errors(obj, old)
        return errors

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        metadata, status = metadata_of(obj), get_object(obj, "status")
        if metadata.get("resourceVersion"):
            return [
                warning
                for name in ("podIPs", "hostIPs")
                for index, ip in enumerate(get_list(status, name))
                for warning in address_warnings(f"status.{name}[{index}].ip", get_str(ip, "ip"))
            ]
        found = pod_warnings("spec", get_object(obj, "spec"))
        problems = validation.dns_label_problems(get_str(metadata, "name"))
        if problems:
            found.append(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label "
                f"is recommended: [{' '.join(problems)}]"
            )
        return found

    def grace_period_seconds(self, obj: JsonObject, asked: int | None) -> int:
        spec = get_object(obj, "spec")
        if not get_str(spec, "nodeName") or get_str(get_object(obj, "status"), "phase") in _ENDED:
            return 0
        seconds = get_int(spec, "terminationGracePeriodSeconds") if asked is None else asked
        return 1 if seconds < 0 else seconds


def _keep_observed_generations(status: JsonObject, before: JsonObject) -> None:
    """Keep the observedGeneration of conditions that a writer without knowledge of it has updated."""
    known = {
        get_str(condition, "type"): condition["observedGeneration"]
        for condition in get_list(before, "conditions")
        if condition.get("observedGeneration")
    }
    for condition in get_list(status, "conditions"):
        generation = known.get(get_str(condition, "type"))
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _set_condition(request: Request, obj: JsonObject, condition: JsonObject) -> None:
    """Set a condition by type; its transition time changes only with its status."""
    conditions = get_list(ensure_object(obj, "status"), "conditions")
    kept = [one for one in conditions if get_str(one, "type") != condition["type"]]
    before = next((one for one in conditions if get_str(one, "type") == condition["type"]), None)
    changed = before is None or get_str(before, "status") != condition["status"]
    time = format_time(request.clock.wall()) if changed else (before or {}).get("lastTransitionTime")
    entry = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": time,
    }
    entry.update({key: value for key, value in condition.items() if key in ("reason", "message")})
    obj["status"]["conditions"] = [*kept, entry]


class Binding:
    """``POST .../binding``: bind a pod to a node, once."""

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the pod (no client reads this subresource)."""
        return obj

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Set the node and PodScheduled. Raises 400 for a bad target, 409 for a pod that is bound or being deleted."""
        metadata, spec, target = metadata_of(obj), ensure_object(obj, "spec"), get_object(body, "target")
        name, machine = get_str(metadata, "name"), get_str(target, "name")
        if get_str(metadata_of(body), "name") not in ("", name):
            raise bad_request("name in URL does not match name in Binding object")
        kind = get_str(target, "kind")
        if kind not in ("", "Node") or not machine:
            raise _bad_target(kind, machine)
        why = ""
        if "deletionTimestamp" in metadata:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif get_str(spec, "nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        elif get_list(spec, "schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            raise conflict(GroupResource("", "pods/binding"), name, why)
        spec["nodeName"] = machine
        if annotations := metadata_of(body).get("annotations"):
            ensure_object(metadata, "annotations").update(annotations)
        copied = {**labels_of(body), **_topology_labels(request, machine)}
        if copied:
            ensure_object(metadata, "labels").update(copied)
        ensure_object(obj, "status").pop("nominatedNodeName", None)
        _set_condition(request, obj, {"type": "PodScheduled", "status": "True"})
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _bad_target(kind: str, machine: str) -> StatusError:
    errors = []
    if kind not in ("", "Node"):
        errors.append(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not machine:
        errors.append("target.name: Required value")
    text_of = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return StatusError(500, "", text_of)


class Eviction:
    """``POST .../eviction``: record the reason of a deletion, which the verbs then perform.

    There are no disruption budgets that could reject it.
    """

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the pod (no client reads this subresource)."""
        return obj

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Set the condition DisruptionTarget.

        Raises 400 for another pod's name, 409 for failed preconditions.
        """
        metadata = metadata_of(obj)
        name = get_str(metadata, "name")
        if get_str(metadata_of(body), "name") not in ("", name):
            raise bad_request("name in URL does not match name in Eviction object")
        options = get_object(body, "deleteOptions")
        uid = get_str(get_object(options, "preconditions"), "uid")
        if uid and uid != metadata.get("uid"):
            why = f"the UID in the precondition ({uid}) does not match the UID in record ({metadata.get('uid')}). The object might have been deleted and then recreated"
            raise conflict(GroupResource("", "Pod"), name, why)
        _set_condition(
            request,
            obj,
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            },
        )
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _fields(obj: JsonObject) -> dict[str, str]:
    spec, status = get_object(obj, "spec"), get_object(obj, "status")
    ips = get_list(status, "podIPs")
    return {
        "spec.nodeName": get_str(spec, "nodeName"),
        "spec.restartPolicy": get_str(spec, "restartPolicy"),
        "spec.schedulerName": get_str(spec, "schedulerName"),
        "spec.serviceAccountName": get_str(spec, "serviceAccountName"),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": get_str(status, "phase"),
        "status.podIP": get_str(ips[0], "ip") if ips else get_str(status, "podIP"),
        "status.nominatedNodeName": get_str(status, "nominatedNodeName"),
    }


PODS = Definition(
    group="",
    version="v1",
    plural="pods",
    kind="Pod",
    singular="pod",
    namespaced=True,
    short_names=("po",),
    categories=("all",),
    strategy=_PodStrategy(),
    subresources=(
        Subresource(name="binding", verbs=("create",), kind="Binding", handler=Binding()),
        Subresource(
            name="eviction",
            verbs=("create",),
            group="policy",
            version="v1",
            kind="Eviction",
            handler=Eviction(),
        ),
        status_subresource("Pod"),
    ),
    columns=POD_COLUMNS,
    fields=_fields,
    field_names=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    returns_object_on_delete=True,
    graceful=True,
)
