# ruff: noqa: S101 - a test
"""A retry after a lost response creates nothing twice: the example of docs/guide/injecting-faults.md."""

from typing import Any

import kubernetes
import pytest
import urllib3

from tinykube import ThreadApiServer


def create_once(api: kubernetes.client.CoreV1Api, name: str) -> Any:
    """Create a ConfigMap; resolve a lost response or a conflict by reading."""
    body: Any = {"metadata": {"name": name}}
    for _ in range(3):
        try:
            return api.create_namespaced_config_map("default", body)
        except urllib3.exceptions.HTTPError:
            continue  # the object may exist: the next attempt shows
        except kubernetes.client.ApiException as error:
            if error.status != 409:
                raise
            return api.read_namespaced_config_map(name, "default")
    raise TimeoutError(f"ConfigMap {name} could not be created")


def client_of(api_server: ThreadApiServer) -> kubernetes.client.CoreV1Api:
    """Return a client that leaves retries to the caller."""
    configuration = kubernetes.client.Configuration()
    load: Any = kubernetes.config.load_kube_config  # not typed
    load(str(api_server.kubeconfig_path), client_configuration=configuration)
    configuration.retries = False
    return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))


def test_a_retry_after_a_lost_answer_creates_nothing_twice(api_server: ThreadApiServer) -> None:
    """The first create succeeds, and its answer is lost."""
    api_server.faults.lose_answer(verb="create", resource="configmaps", times=1)
    create_once(client_of(api_server), "settings")  # the server has created it, the client cannot know
    assert [one["metadata"]["name"] for one in api_server.list_all("v1", "ConfigMap")] == ["settings"]


def test_a_refused_create_is_reported(api_server: ThreadApiServer) -> None:
    """A refusal that a retry does not cure reaches the caller."""
    with (
        api_server.faults.refuse(403, verb="create"),
        pytest.raises(kubernetes.client.ApiException, match="403"),
    ):
        create_once(client_of(api_server), "settings")
