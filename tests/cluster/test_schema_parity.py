"""The type descriptions match a real kube-apiserver: published schemas, and its processing of documents."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.schema_support import Wire, wire_to
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.openapi import TypeOpenApi
from tinykube.server.schema.conform import conform
from tinykube.server.schema.defaults import apply_defaults
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import PACKAGES, kind_type, package
from tinykube.server.schema.openapi_schemas import Schemas
from tinykube.server.schema.openapi_v2 import swagger
from tinykube.server.schema.protobuf import decode_protobuf
from tinykube.testing.control_plane import ControlPlane

NAMESPACE = "schema-parity"


@pytest.fixture(scope="module")
def wire(control_plane: ControlPlane) -> Iterator[Wire]:
    with wire_to(control_plane) as connected:
        connected.made("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield connected


def without_prose(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_prose(item)
            for key, item in value.items()
            if not (key == "description" and isinstance(item, str))
        }
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    return value


def plain_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in canonical form: a single reference equals an ``allOf`` with one element."""
    for prop in schema.get("properties", {}).values():
        if "allOf" in prop:
            prop["$ref"] = prop.pop("allOf")[0]["$ref"]
    if "required" in schema:
        schema["required"].sort()
    return schema


@pytest.mark.parametrize("name", PACKAGES)
def test_every_type_has_the_schema_that_the_server_publishes(wire: Wire, name: str) -> None:
    described = package(name)
    in_core = name in ("core_v1", "meta_v1")
    path = "api/v1" if in_core else f"apis/{described.group}/{described.version}"
    _, document = wire.json("GET", f"/openapi/v3/{path}")
    published = without_prose(document["components"]["schemas"])
    version = "v1" if in_core else described.version
    schemas = Schemas("" if in_core else described.group, version)
    for kind in described.types.values():
        if kind.kind:
            schemas.reference(described.group, described.version, kind.name)
    compared = 0
    for full_name, ours in without_prose(schemas.collected).items():
        theirs = published.get(full_name)
        if theirs is None or full_name.endswith((".DeleteOptions", ".WatchEvent")):
            continue  # each document names other group versions for options
        assert plain_references(copy.deepcopy(ours)) == plain_references(theirs), full_name
        compared += 1
    assert compared > 0


def test_openapi_v2_has_the_definitions_that_the_server_publishes(wire: Wire) -> None:
    _, published = wire.json("GET", "/openapi/v2")
    theirs = without_prose(published["definitions"])
    registry = builtin_registry()
    source = TypeOpenApi()
    documents = [
        source.document(registry, group, version)
        for group, versions in registry.versions().items()
        for version in versions
    ]
    ours = without_prose(swagger(documents)["definitions"])
    assert len(ours) > 200
    for name, schema in ours.items():
        if not name.endswith((".DeleteOptions", ".WatchEvent")):  # they name all existing groups
            assert plain_references(copy.deepcopy(schema)) == plain_references(theirs[name]), name


def test_every_kind_published_under_a_supported_path_has_a_schema(wire: Wire) -> None:
    for path, group in (("apis/discovery.k8s.io/v1", "discovery.k8s.io"), ("apis/apps/v1", "apps")):
        _, document = wire.json("GET", f"/openapi/v3/{path}")
        for schema in document["components"]["schemas"].values():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                if (kind["group"], kind["version"]) == (group, "v1"):
                    kind_type(group, "v1", kind["kind"])


TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "volumes": [
            {"name": "v"},
            {"name": "c", "configMap": {"name": "x", "items": [{"key": "a", "path": "b", "mode": 0}]}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "t", "optional": False}}]}},
        ],
        "containers": [
            {
                "name": "a",
                "image": "b",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "envFrom": [{"configMapRef": {"name": "q"}, "prefix": "x"}],
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 0},
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
                "securityContext": {"runAsUser": 0, "privileged": False},
            }
        ],
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"}],
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "minimum": 1.5, "default": 3, "enum": [3, 4]},
        "b": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "object", "additionalProperties": {"type": "string"}},
        "d": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
CORE = f"/api/v1/namespaces/{NAMESPACE}"
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
OBJECTS: list[tuple[str, str, str, dict[str, Any]]] = [
    (f"{CORE}/services", "", "Service", {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}}),
    (f"{CORE}/pods", "", "Pod", {"spec": TEMPLATE["spec"]}),
    (f"{CORE}/secrets", "", "Secret", {"data": {"a": "AAEC", "e": ""}, "stringData": {"x": "y"}}),
    (f"{CORE}/configmaps", "", "ConfigMap", {"binaryData": {"a": "AAEC"}, "immutable": False}),
    (
        f"{CORE}/events",
        "",
        "Event",
        {"involvedObject": {"namespace": NAMESPACE}, "firstTimestamp": "2020-01-01T00:00:00Z", "count": 3},
    ),
    (
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
        "discovery.k8s.io",
        "EndpointSlice",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}, "hints": {}}],
            "ports": [{"port": 0, "name": ""}, {"name": "x", "port": 5}],
        },
    ),
    (
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
        "coordination.k8s.io",
        "Lease",
        {"spec": {"holderIdentity": "", "leaseTransitions": 0, "renewTime": "2020-01-01T00:00:00.100000Z"}},
    ),
    (
        f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
        "apps",
        "Deployment",
        {"spec": {"replicas": 0, **SELECTED}},
    ),
    (
        f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets",
        "apps",
        "StatefulSet",
        {"spec": {**SELECTED, "serviceName": "x"}},
    ),
    (f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", "apps", "DaemonSet", {"spec": SELECTED}),
    (
        f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions",
        "apps",
        "ControllerRevision",
        {"revision": 1, "data": {"spec": {"a": [1, None, {"b": 0}]}}},
    ),
    ("/api/v1/nodes", "", "Node", {"spec": {"podCIDR": "10.0.0.0/24"}}),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        {
            "spec": {
                "group": "parity.example.com",
                "scope": "Namespaced",
                "names": {"plural": "foos", "kind": "Foo"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
                ],
            }
        },
    ),
]


@pytest.mark.parametrize(("path", "group", "kind", "body"), OBJECTS, ids=[one[2] for one in OBJECTS])
def test_json_and_protobuf_decode_to_the_same_object(
    wire: Wire, path: str, group: str, kind: str, body: dict[str, Any]
) -> None:
    name = "foos.parity.example.com" if kind == "CustomResourceDefinition" else "schema-parity-one"
    wire.made(path, {"metadata": {"name": name, "labels": {"a": ""}, "annotations": {}}, **body})
    _, document = wire.json("GET", f"{path}/{name}")
    code, raw = wire.send("GET", f"{path}/{name}", accept="application/vnd.kubernetes.protobuf")
    assert code == 200
    described = kind_type(group, "v1", kind)
    conformed = copy.deepcopy(document)
    assert conform(described, conformed) == []
    assert conformed == document
    read = decode_protobuf(raw, group, "v1", kind)
    assert conform(described, read) == []
    # The status of some kinds changes between the two reads.
    for one in (read, document):
        one["metadata"].pop("resourceVersion")
        one["metadata"].pop("managedFields", None)
        one.pop("status", None)
    assert read == document
    wire.json("DELETE", f"{path}/{name}?gracePeriodSeconds=0")


RICH_SPEC: dict[str, Any] = {
    "volumes": [
        {"name": "nothing"},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": "/x"}},
        {
            "name": "down",
            "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
        {
            "name": "all",
            "projected": {"sources": [{"downwardAPI": {"items": []}}, {"configMap": {"name": "c"}}]},
        },
        {"name": "iscsi", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2020-01.a.b:c", "lun": 0}},
        {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "azure", "azureDisk": {"diskName": "d", "diskURI": "https://x/y.vhd"}},
        {"name": "scale", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {}, "volumeName": "v"}},
        {
            "name": "eph",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        },
    ],
    "initContainers": [{"name": "i", "image": "x:1", "resources": {"requests": {"cpu": "0.1", "memory": 1}}}],
    "containers": [
        {
            "name": "a",
            "image": "x:1",
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 5}},
            "startupProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3},
            "lifecycle": {"postStart": {"httpGet": {"port": "x", "path": "/y"}}},
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "C", "value": ""},
            ],
        }
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
    ],
}
RICH: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": RICH_SPEC}
CHOSEN: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}, "template": RICH}
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
DEFAULTED: list[tuple[str, str, str, dict[str, Any]]] = [
    (f"{APPS}/deployments", "apps", "Deployment", {"spec": CHOSEN}),
    (f"{APPS}/deployments", "apps", "Deployment", {"spec": {**CHOSEN, "strategy": {"type": "Recreate"}}}),
    (f"{APPS}/replicasets", "apps", "ReplicaSet", {"spec": CHOSEN}),
    (f"{APPS}/daemonsets", "apps", "DaemonSet", {"spec": CHOSEN}),
    (f"{APPS}/daemonsets", "apps", "DaemonSet", {"spec": {**CHOSEN, "updateStrategy": {"type": "OnDelete"}}}),
    (f"{APPS}/statefulsets", "apps", "StatefulSet", {"spec": CHOSEN}),
    (
        f"{APPS}/statefulsets",
        "apps",
        "StatefulSet",
        {"spec": {**CHOSEN, "updateStrategy": {"type": "RollingUpdate"}}},
    ),
    (f"{CORE}/podtemplates", "", "PodTemplate", {"template": RICH}),
    (f"{CORE}/secrets", "", "Secret", {}),
    (
        f"{CORE}/persistentvolumeclaims",
        "",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5Gi"}}}},
    ),
    (
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ),
    (
        f"{CORE}/endpoints",
        "",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ),
]


@pytest.mark.parametrize(("path", "group", "kind", "body"), DEFAULTED)
def test_fixed_defaults_match_the_server(
    wire: Wire, path: str, group: str, kind: str, body: dict[str, Any]
) -> None:
    code, answer = wire.json("POST", f"{path}?dryRun=All", {"metadata": {"name": "x"}, **body})
    assert code == 201, answer["message"]
    ours = copy.deepcopy(body)
    conform(kind_type(group, "v1", kind), ours)
    apply_defaults(kind_type(group, "v1", kind), ours)
    for document in (ours, answer):
        for name in ("apiVersion", "kind", "metadata"):
            document.pop(name, None)
        holder = document if kind == "PodTemplate" else document.get("spec", {})
        spec = holder.get("template", {}).get("spec", {})
        for one in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            one.pop("imagePullPolicy", None)  # depends on the image
    assert ours == answer


WRONG: list[dict[str, Any]] = [
    {"spec": {"ports": [{"port": "a"}]}},
    {"spec": {"ports": {}}},
    {"spec": {"ports": [[]]}},
    {"spec": {"ports": [{"port": 2**31}]}},
    {"spec": {"ports": [{"port": 1.5}]}},
    {"spec": {"ports": [{"port": 80, "appProtocol": {}}]}},
    {"spec": {"selector": {"a": []}}},
    {"spec": {"externalIPs": ["a", 5]}},
    {"spec": {"publishNotReadyAddresses": "true"}},
    {"spec": {"sessionAffinityConfig": {"clientIP": 5}}},
    {"spec": 5},
    {"metadata": {"generation": "1"}},
    {"metadata": {"annotations": {"a": True}}},
    {"metadata": {"ownerReferences": [{"controller": 1}]}},
    {"metadata": {"creationTimestamp": "2020-01-01"}},
    {"metadata": {"creationTimestamp": {}}},
    {"metadata": {"managedFields": [{"time": "x"}]}},
    {"spec": {"foo": 1, "ports": [{"port": 80, "bar": {"a": 1}}]}, "metadata": {"name": "x", "baz": []}},
]


@pytest.mark.parametrize("body", WRONG, ids=[json.dumps(one)[:60] for one in WRONG])
def test_errors_have_the_wording_of_the_server(wire: Wire, body: dict[str, Any]) -> None:
    code, answer = wire.json("POST", f"{CORE}/services?dryRun=All&fieldValidation=Strict", body)
    assert code == 400
    try:
        problems = conform(kind_type("", "v1", "Service"), copy.deepcopy(body))
    except ConformError as error:
        said = str(error)
    else:
        said = "strict decoding error: " + ", ".join(problems)
    assert answer["message"] == f'Service in version "v1" cannot be handled as a Service: {said}'
