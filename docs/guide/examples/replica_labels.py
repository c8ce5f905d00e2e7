"""A controller with the official client: every Deployment has a label with the number of replicas it wants."""

import threading
from typing import Any

LABEL = "example.com/replicas"


def reconcile(apps: Any, name: str, namespace: str) -> bool:
    """Bring the label of one Deployment up to date; tell whether there was anything to do."""
    deployment = apps.read_namespaced_deployment(name, namespace)
    wanted = str(deployment.spec.replicas)
    if (deployment.metadata.labels or {}).get(LABEL) == wanted:
        return False
    patch = {"metadata": {"labels": {LABEL: wanted}}}
    apps.patch_namespaced_deployment(name, namespace, patch)
    return True


def run(apps: Any, watch: Any, namespace: str, stop: threading.Event) -> None:
    """Keep all labels of a namespace up to date until ``stop`` is set and one more change comes, or the watch ends."""
    for event in watch.stream(apps.list_namespaced_deployment, namespace, timeout_seconds=30):
        if stop.is_set():
            return
        if event["type"] != "DELETED":
            reconcile(apps, event["object"].metadata.name, namespace)
