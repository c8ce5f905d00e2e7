"""The common kinds with all fields: encoding and decoding under the API's names."""

import json
from typing import Any

import msgspec
import pytest

from aiokube.api import kinds
from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import Resource
from aiokube.api.selectors import LabelSelector

RESOURCES = [value for value in vars(kinds).values() if isinstance(value, Resource)]

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "managedFields": [{"manager": "x"}]},
    "spec": {
        "hostPID": True,
        "setHostnameAsFQDN": False,
        "containers": [
            {
                "name": "web",
                "image": "registry.example/web:1",
                "resources": {"limits": {"cpu": "500m"}},
                "readinessProbe": {"httpGet": {"port": "http", "path": "/ready"}},
                "ports": [{"name": "http", "containerPort": 8080}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        "newFieldOfALaterRelease": 1,
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
}


def test_all_pod_fields_are_available_under_python_names() -> None:
    pod = kinds.PODS.decode(msgspec.json.encode(POD))
    (container,) = pod.spec.containers or ()
    assert container.readiness_probe is not None
    assert container.readiness_probe.http_get is not None
    assert (container.readiness_probe.http_get.port, container.resources.limits) == ("http", {"cpu": "500m"})
    assert (pod.spec.host_pid, pod.spec.set_hostname_as_fqdn) == (True, False)
    assert (pod.status.pod_ip, [entry.ip for entry in pod.status.pod_ips or ()]) == ("10.0.0.1", ["10.0.0.1"])


def test_a_pod_is_encoded_with_the_field_names_of_the_api() -> None:
    pod = kinds.PODS.decode(msgspec.json.encode(POD))
    written = json.loads(msgspec.json.encode(pod))
    assert written["spec"]["containers"] == POD["spec"]["containers"]
    assert written["spec"]["volumes"] == POD["spec"]["volumes"]
    assert written["status"] == POD["status"]


def test_an_applied_deployment_contains_only_set_fields() -> None:
    container = kinds.Container(name="web", image="registry.example/web:1")
    deployment = kinds.Deployment(
        ObjectMeta(name="web", namespace="shop"),
        kinds.DeploymentSpec(
            replicas=2,
            selector=LabelSelector(match_labels={"app": "web"}),
            template=kinds.PodTemplateSpec(
                ObjectMeta(labels={"app": "web"}), kinds.PodSpec(containers=(container,))
            ),
        ),
    )
    assert json.loads(kinds.DEPLOYMENTS.encode_for_apply(deployment)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    }


@pytest.mark.parametrize("resource", RESOURCES, ids=str)
def test_each_kind_decodes_from_an_empty_object_and_cannot_be_updated(resource: Resource[Any]) -> None:
    assert resource.decode(b"{}") == resource.wire()
    with pytest.raises(TypeError, match=r"Client\.apply"):
        resource.require_complete()
