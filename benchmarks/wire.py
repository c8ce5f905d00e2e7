"""Pods as encoded by a server, including ``managedFields``: input of the decoding benchmarks."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.objects import BenchmarkPod, pod_document, status_body

_CREATED = "2026-01-01T00:00:00Z"
# Defaults added by the server.
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_SPEC_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ],
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}


def pod_event(pod: BenchmarkPod, *, ready: bool, resource_version: int) -> bytes:
    """Return the watch event line of a pod of about 9 KB."""
    document = pod_document(pod.key.name, pod.service.name, pod.node)
    spec = document["spec"]
    spec |= _SPEC_DEFAULTS
    spec["containers"] = [container | _CONTAINER_DEFAULTS for container in spec["containers"]]
    status = json.loads(status_body(pod))["status"]
    for condition in status["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "True" if ready else "False"
    managed = [
        _managed("kubectl", _fields(document["metadata"] | {"spec": spec})),
        _managed("kubelet", _fields({"status": status})),
    ]
    document["metadata"] |= {
        "namespace": pod.key.namespace,
        "uid": f"uid-of-{pod.key.name}",
        "resourceVersion": str(resource_version),
        "creationTimestamp": _CREATED,
        "managedFields": managed,
    }
    return msgspec.json.encode({"type": "MODIFIED", "object": document | {"status": status}})


def _managed(manager: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _fields(value: Any) -> dict[str, Any]:
    """Return the owned fields of a value in ``fieldsV1`` encoding."""
    if isinstance(value, dict):
        return {f"f:{key}": _fields(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        named = [
            (json.dumps(dict([next(iter(item.items()))]), separators=(",", ":")), item) for item in value
        ]
        return {".": {}} | {f"k:{key}": {".": {}} | _fields(item) for key, item in named}
    return {}
