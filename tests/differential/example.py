"""Nodes and pods as operations, for a cluster without kubelet and scheduler."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.differential.operations import Operation, document

_STARTED = "2024-01-01T00:00:00Z"


def node(name: str, zone: str, *, cpu: str = "4") -> tuple[Operation, ...]:
    """Return the operations that create a ready node in a zone."""
    labels = {"topology.kubernetes.io/zone": zone}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    status = {"conditions": [_condition(ready=True)], "allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}
    return (
        Operation("create", "nodes", "", name, document(body)),
        Operation("patch-status", "nodes", "", name, document({"status": status})),
    )


def pod(
    namespace: str,
    name: str,
    labels: Mapping[str, str],
    *,
    node: str,
    ips: Sequence[str],
    ready: bool = True,
    ports: Sequence[tuple[str, int, str]] = (),
) -> tuple[Operation, ...]:
    """Return the operations that create a running pod with these addresses and named ports (name, number, protocol)."""
    containers = [
        {
            "name": f"c{i}",
            "image": "registry.invalid/none",
            "ports": [{"name": port, "containerPort": number, "protocol": protocol}],
        }
        for i, (port, number, protocol) in enumerate(ports or [("http", 8080, "TCP")])
    ]
    metadata = {"name": name, "labels": dict(labels)}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": containers},
    }
    return (
        Operation("create", "pods", namespace, name, document(body)),
        pod_runs(namespace, name, ips, ready=ready),
    )


def pod_runs(namespace: str, name: str, ips: Sequence[str], *, ready: bool) -> Operation:
    """Return the status update of a kubelet for a running pod."""
    status: dict[str, Any] = {
        "phase": "Running",
        "podIP": ips[0],
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [_condition(ready=ready)],
    }
    return Operation("patch-status", "pods", namespace, name, document({"status": status}))


def pod_goes(namespace: str, name: str) -> Operation:
    """Return the operation that deletes a pod without grace period."""
    return Operation("delete", "pods", namespace, name, grace_seconds=0)


def _condition(*, ready: bool) -> dict[str, str]:
    return {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": _STARTED}
