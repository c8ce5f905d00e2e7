"""The objects of a workload as JSON: nodes, services, and pods of about 9 KB as stored.

Encoded once per size, so that the load generator does little work while it measures.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from aiokube.api.meta import ObjectKey
from benchmarks.sizes import Size

NODES = 50
ZONES = ("zone-a", "zone-b", "zone-c")

_ENVIRONMENT_VARIABLES = 10
_STARTED = "2026-01-01T00:00:00Z"
_NAME = "\x00name"
_APP = "\x00app"
_NODE = "\x00node"


class BenchmarkPod(msgspec.Struct, frozen=True):
    """One pod of a workload."""

    key: ObjectKey
    service: ObjectKey
    address: str
    node: str


class Workload:
    """All objects of one size. ``services_per_namespace`` 0 puts all services into one namespace."""

    def __init__(self, size: Size, services_per_namespace: int = 0) -> None:
        self.size = size
        self.services = tuple(
            ObjectKey(
                f"bench-{number // services_per_namespace if services_per_namespace else 0}",
                f"service-{number}",
            )
            for number in range(size.services)
        )
        self.namespaces = tuple(dict.fromkeys(service.namespace for service in self.services))
        self.pods = tuple(self._pods())
        self._pod = Template(pod_document(_NAME, _APP, _NODE))

    def _pods(self) -> Iterator[BenchmarkPod]:
        number = 0
        for service in self.services:
            for replica in range(self.size.pods_per_service):
                number += 1
                key = ObjectKey(service.namespace, f"{service.name}-7f9c6d5b48-{replica:05d}")
                yield BenchmarkPod(key, service, address_of(number), node_name(number % NODES))

    def pod_body(self, pod: BenchmarkPod) -> bytes:
        """Return the body that creates a pod."""
        return self._pod.fill({_NAME: pod.key.name, _APP: pod.service.name, _NODE: pod.node})


class Template:
    """A JSON document with placeholders: strings that are keys of the inserted values."""

    def __init__(self, document: dict[str, Any]) -> None:
        text = msgspec.json.encode(document).decode()
        self._pieces = text.split('"\\u0000')
        self._names = ["\x00" + piece.partition('"')[0] for piece in self._pieces[1:]]
        self._rests = [piece.partition('"')[2] for piece in self._pieces[1:]]

    def fill(self, values: dict[str, str]) -> bytes:
        """Return the document with all placeholders replaced. Raises KeyError for a missing value."""
        parts = [self._pieces[0]]
        for name, rest in zip(self._names, self._rests, strict=True):
            parts += ('"', values[name], '"', rest)
        return "".join(parts).encode()


def address_of(number: int) -> str:
    """Return the unique address of a pod number below 2**24."""
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:03d}"


def node_documents() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield each node's name, the body that creates it and the status that makes it ready."""
    for number in range(NODES):
        name = node_name(number)
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        resources = {"cpu": "16", "memory": "64Gi", "pods": "500"}
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": _STARTED}]
        status = {"conditions": conditions, "allocatable": resources, "capacity": resources}
        yield name, msgspec.json.encode(node), msgspec.json.encode({"status": status})


def service_body(service: ObjectKey) -> bytes:
    """Return the body that creates a service with a numeric and a named target port."""
    ports = [
        {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP"},
    ]
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service.name, "labels": {"app": service.name, "team": "benchmarks"}},
        "spec": {"selector": {"app": service.name}, "ports": ports},
    }
    return msgspec.json.encode(document)


def pod_document(name: str, app: str, node: str) -> dict[str, Any]:
    """Return a pod as a Deployment's would be: two containers, environment, volumes, probes."""
    metadata = {
        "name": name,
        "labels": {
            "app": app,
            "app.kubernetes.io/component": "server",
            "app.kubernetes.io/version": "1.42.0",
            "pod-template-hash": "7f9c6d5b48",
        },
        "annotations": {"example.com/config-checksum": "9d5ed678fe57bcca610140957afab571"},
    }
    mounts = [
        {"name": "config", "mountPath": "/etc/server", "readOnly": True},
        {"name": "cache", "mountPath": "/var/cache/server"},
    ]
    server = {
        **_container("server", [("http", 8080), ("metrics", 9102)]),
        "volumeMounts": mounts,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/alive", "port": "http"}, "initialDelaySeconds": 10},
    }
    sidecar = {**_container("proxy", [("admin", 15000)]), "volumeMounts": mounts[1:]}
    spec = {
        "nodeName": node,
        "containers": [server, sidecar],
        "volumes": [
            {"name": "config", "configMap": {"name": "server-config"}},
            {"name": "cache", "emptyDir": {}},
        ],
        "terminationGracePeriodSeconds": 30,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(name: str, ports: list[tuple[str, int]]) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.42.0",
        "ports": [{"name": port, "containerPort": number} for port, number in ports],
        "env": [
            {"name": f"{name.upper()}_SETTING_{number:02d}", "value": f"value-{number:02d}-of-{name}"}
            for number in range(_ENVIRONMENT_VARIABLES)
        ],
        "resources": {
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }


def status_body(pod: BenchmarkPod) -> bytes:
    """Return the status patch of a kubelet for a running, ready pod."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": _STARTED}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    containers = [
        {
            "name": name,
            "image": f"registry.example.com/team/{name}:1.42.0",
            "imageID": f"registry.example.com/team/{name}@sha256:{'0' * 64}",
            "containerID": f"containerd://{pod.address.replace('.', ''):0>64}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _STARTED}},
        }
        for name in ("server", "proxy")
    ]
    status = {
        "phase": "Running",
        "podIP": pod.address,
        "podIPs": [{"ip": pod.address}],
        "hostIP": "192.0.2.10",
        "startTime": _STARTED,
        "conditions": conditions,
        "containerStatuses": containers,
    }
    return msgspec.json.encode({"status": status})


def readiness_body(*, ready: bool, at: str) -> bytes:
    """Return the status patch of a kubelet for a readiness change; ``at`` is RFC 3339 in whole seconds."""
    status = "True" if ready else "False"
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": at} for kind in ("Ready", "ContainersReady")
    ]
    return msgspec.json.encode({"status": {"conditions": conditions}})
