"""A controller with the official client: it labels every Deployment with its desired number of replicas."""

import threading
from typing import Any

from kubernetes.client.exceptions import ApiException

LABEL = "example.com/replicas"


def reconcile(apps: Any, name: str, namespace: str) -> bool:
    """Update the label of one Deployment; return whether it changed. A deleted Deployment needs no label."""
    try:
        deployment = apps.read_namespaced_deployment(name, namespace)
        wanted = str(deployment.spec.replicas)
        if (deployment.metadata.labels or {}).get(LABEL) == wanted:
            return False
        patch = {"metadata": {"labels": {LABEL: wanted}}}
        apps.patch_namespaced_deployment(name, namespace, patch)
    except ApiException as error:
        if error.status != 404:
            raise
        return False
    return True


def run(apps: Any, watch: Any, namespace: str, stop: threading.Event) -> None:
    """Update all labels of a namespace, until an event arrives after ``stop`` is set or the watch ends."""
    for event in watch.stream(apps.list_namespaced_deployment, namespace, timeout_seconds=30):
        if stop.is_set():
            return
        if event["type"] != "DELETED":
            reconcile(apps, event["object"].metadata.name, namespace)
