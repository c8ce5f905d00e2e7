# ruff: noqa: D103, S101 - a test
"""The controller of ``replica_labels.py`` against a real API, without a cluster."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from docs.guide.examples import replica_labels
from tinykube.testing.api_server import ThreadApiServer

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.example/web:1}]}
"""


@pytest.fixture
def apps(api_server: ThreadApiServer) -> Iterator[Any]:
    kubernetes = pytest.importorskip("kubernetes")
    kubernetes.config.load_kube_config(str(api_server.kubeconfig_path))
    with kubernetes.client.ApiClient() as client:
        yield kubernetes.client.AppsV1Api(client)


def label(api_server: ThreadApiServer) -> str | None:
    labels = api_server.get("apps/v1", "Deployment", "web")["metadata"].get("labels") or {}
    found: str | None = labels.get(replica_labels.LABEL)
    return found


def test_one_deployment_is_labelled_once(api_server: ThreadApiServer, apps: Any) -> None:
    api_server.apply(DEPLOYMENT)
    assert replica_labels.reconcile(apps, "web", "default")
    assert label(api_server) == "2"
    assert not replica_labels.reconcile(apps, "web", "default"), "the second time there is nothing to do"


def test_a_deleted_deployment_is_ignored(apps: Any) -> None:
    assert not replica_labels.reconcile(apps, "web", "default")


def test_the_label_follows_the_deployment(api_server: ThreadApiServer, apps: Any) -> None:
    watch = pytest.importorskip("kubernetes").watch.Watch()
    stop, done = threading.Event(), threading.Event()

    def run() -> None:
        replica_labels.run(apps, watch, "default", stop)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    api_server.apply(DEPLOYMENT)
    wait_for(lambda: label(api_server) == "2")
    api_server.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5}}
    )
    wait_for(lambda: label(api_server) == "5")
    stop.set()
    api_server.delete("apps/v1", "Deployment", "web")
    assert done.wait(5)


def wait_for(condition: Any) -> None:
    """Look a hundred times a second, for five seconds."""
    for _ in range(500):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it has not come to that")
