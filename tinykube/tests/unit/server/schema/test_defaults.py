"""The static defaults of kinds, as set by a real kube-apiserver 1.36."""

import copy
from typing import Any

from tinykube.server.schema.conform import conform
from tinykube.server.schema.defaults import apply_defaults
from tinykube.server.schema.loader import kind_type


def defaulted(group: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    described = kind_type(group, "v1", kind)
    conform(described, document)
    apply_defaults(described, document)
    again = copy.deepcopy(document)
    apply_defaults(described, again)
    assert again == document
    return document


def test_pod_defaults_are_set() -> None:
    pod = defaulted("", "Pod", {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}})
    assert pod["spec"] == {
        "containers": [
            {
                "name": "a",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
    }


def test_service_links_are_defaulted_in_pods_but_not_in_templates() -> None:
    template = {"spec": {"containers": [{"name": "a"}]}}
    deployment = defaulted("apps", "Deployment", {"spec": {"selector": {}, "template": template}})
    assert deployment["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "enableServiceLinks" not in deployment["spec"]["template"]["spec"]


def test_probe_defaults_are_set_only_on_existing_probes() -> None:
    probe = {"grpc": {"port": 5}}
    pod = defaulted(
        "", "Pod", {"spec": {"containers": [{"name": "a", "livenessProbe": probe}, {"name": "b"}]}}
    )
    first, second = pod["spec"]["containers"]
    assert first["livenessProbe"] == {
        "grpc": {"port": 5, "service": ""},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert "livenessProbe" not in second


def test_a_volume_without_a_source_is_an_empty_dir() -> None:
    volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "c"}}]
    pod = defaulted("", "Pod", {"spec": {"containers": [], "volumes": volumes}})
    assert pod["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "c", "defaultMode": 420}},
    ]


def test_only_rolling_update_deployments_get_rolling_update_parameters() -> None:
    rolling = defaulted("apps", "Deployment", {"spec": {}})["spec"]["strategy"]
    assert rolling == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    recreate = defaulted("apps", "Deployment", {"spec": {"strategy": {"type": "Recreate"}}})
    assert recreate["spec"]["strategy"] == {"type": "Recreate"}


def test_the_partition_is_defaulted_only_without_an_update_strategy() -> None:
    spec = defaulted("apps", "StatefulSet", {"spec": {}})["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    given = defaulted("apps", "StatefulSet", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})
    assert given["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_given_values_are_not_overwritten_by_defaults() -> None:
    slice_ = defaulted(
        "discovery.k8s.io", "EndpointSlice", {"ports": [{"port": 80, "name": "a", "protocol": "UDP"}, {}]}
    )
    assert slice_["ports"] == [
        {"port": 80, "name": "a", "protocol": "UDP"},
        {"name": "", "protocol": "TCP"},
    ]
    assert defaulted("apps", "Deployment", {"spec": {"replicas": 0}})["spec"]["replicas"] == 0


def test_documents_do_not_share_default_values() -> None:
    first = defaulted("", "Pod", {"spec": {"containers": []}})
    first["spec"]["securityContext"]["runAsUser"] = 1
    second = defaulted("", "Pod", {"spec": {"containers": []}})
    assert second["spec"]["securityContext"] == {}
