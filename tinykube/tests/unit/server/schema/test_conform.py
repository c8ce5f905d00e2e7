"""Documents conform to their types; error messages are those of a real kube-apiserver 1.36."""

import copy
from typing import Any

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.schema.conform import conform
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import kind_type
from tinykube.server.schema.service import TypeSchema

SERVICE = kind_type("", "v1", "Service")
POD = kind_type("", "v1", "Pod")


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            service(ports=[{"port": "a"}]),
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            service(ports="a"),
            "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            service(ports=["a"]),
            "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type v1.ServicePort",
        ),
        (
            service(ports=[{"port": 99999999999}]),
            "json: cannot unmarshal number 99999999999 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            service(ports=[{"port": 80, "protocol": 5}]),
            "json: cannot unmarshal number into Go struct field ServicePort.spec.ports.protocol of type v1.Protocol",
        ),
        (
            service(selector={"a": 5}),
            "json: cannot unmarshal number into Go struct field ServiceSpec.spec.selector of type string",
        ),
        (
            service(selector=[1]),
            "json: cannot unmarshal array into Go struct field ServiceSpec.spec.selector of type map[string]string",
        ),
        (
            service(type=True),
            "json: cannot unmarshal bool into Go struct field ServiceSpec.spec.type of type v1.ServiceType",
        ),
        (
            {"metadata": "x"},
            "json: cannot unmarshal string into Go struct field Service.metadata of type v1.ObjectMeta",
        ),
        (
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Service.spec of type v1.ServiceSpec",
        ),
        (
            service(ports=[{"port": 80, "targetPort": True}]),
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            {"metadata": {"creationTimestamp": "abc"}},
            'parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"',
        ),
    ],
)
def test_wrong_types_are_rejected_with_the_messages_of_kube_apiserver(
    document: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConformError) as caught:
        conform(SERVICE, document)
    assert str(caught.value) == text


def test_a_type_error_is_a_bad_request() -> None:
    with pytest.raises(StatusError) as caught:
        TypeSchema().conform("", "v1", "Service", service(ports="a"))
    assert caught.value.code == 400
    assert caught.value.message.startswith('Service in version "v1" cannot be handled as a Service: json: ')


def test_unknown_fields_are_dropped_and_reported_with_their_paths() -> None:
    document = service(ports=[{"port": 80, "foo": 1}], bar=2, Selector={"a": "b"})
    assert conform(SERVICE, document) == [
        'unknown field "spec.ports[0].foo"',
        'unknown field "spec.bar"',
        'unknown field "spec.Selector"',
    ]
    assert document["spec"] == {"ports": [{"port": 80, "targetPort": 0}]}


def test_an_unknown_top_level_field_has_no_path_prefix() -> None:
    assert conform(SERVICE, {"foo": {}}) == ['unknown field "foo"']


def test_null_is_dropped_from_objects_and_becomes_a_zero_value_in_lists_and_maps() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "x", "labels": {"a": None}, "finalizers": [None]},
        "spec": {"ports": [None, {"port": 80, "name": None}], "type": None},
    }
    assert conform(SERVICE, document) == []
    assert document["metadata"]["labels"] == {"a": ""}
    assert document["metadata"]["finalizers"] == [""]
    assert document["spec"] == {"ports": [{"port": 0, "targetPort": 0}, {"port": 80, "targetPort": 0}]}


def test_empty_optional_values_are_dropped_and_required_structs_are_added() -> None:
    document = {
        "metadata": {"name": "x", "labels": {}},
        "spec": {
            "containers": [{"name": "a", "command": [], "env": None, "stdin": False, "securityContext": {}}],
            "hostNetwork": False,
            "nodeSelector": {},
        },
    }
    assert conform(POD, document) == []
    assert document == {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "a", "resources": {}, "securityContext": {}}]},
        "status": {},
    }


def test_zero_values_of_pointer_fields_are_kept() -> None:
    document = {
        "addressType": "IPv4",
        "ports": [{"port": 0, "name": ""}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}, "hints": {}}],
    }
    conform(kind_type("discovery.k8s.io", "v1", "EndpointSlice"), document)
    assert document["ports"] == [{"port": 0, "name": ""}]
    assert document["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}, "hints": {}}]


def test_an_empty_required_list_becomes_null() -> None:
    document: dict[str, Any] = {"addressType": "IPv4", "endpoints": [], "metadata": {}}
    conform(kind_type("discovery.k8s.io", "v1", "EndpointSlice"), document)
    assert document == {"addressType": "IPv4", "endpoints": None, "ports": None, "metadata": {}}


def test_missing_times_of_an_event_become_null() -> None:
    document: dict[str, Any] = {"involvedObject": {}, "firstTimestamp": "2020-01-01T00:00:00.9+02:00"}
    conform(kind_type("", "v1", "Event"), document)
    assert document == {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": "2019-12-31T22:00:00Z",
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_resource_lists_are_rounded_up_to_milli_units_and_other_quantities_are_not() -> None:
    document = {
        "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "0.1m", "memory": "1024Mi"}}}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "0.1m"}}],
        }
    }
    conform(POD, document)
    spec: Any = document["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "1m", "memory": "1Gi"}
    assert spec["volumes"][0]["emptyDir"]["sizeLimit"] == "100u"


def test_base64_is_validated_and_normalised() -> None:
    secret = kind_type("", "v1", "Secret")
    document = {"data": {"a": "YW\n==", "b": [1, 2], "c": None}}
    conform(secret, document)
    assert document["data"] == {"a": "YQ==", "b": "AQI=", "c": ""}
    for text, position in (("!!", 0), ("YQ", 0), ("YWJjZA", 4), ("YWJjZ!==", 5)):
        with pytest.raises(ConformError, match=f"illegal base64 data at input byte {position}$"):
            conform(secret, {"data": {"a": text}})


def test_managed_fields_and_embedded_objects_are_kept_unchanged() -> None:
    fields: dict[str, Any] = {"f:spec": {"f:ports": {'k:{"port":80}': {".": {}}}}}
    document = {"metadata": {"managedFields": [{"manager": "m", "fieldsV1": copy.deepcopy(fields)}]}}
    assert conform(SERVICE, document) == []
    assert document["metadata"]["managedFields"][0]["fieldsV1"] == fields
    revision = {"data": {"spec": {"anything": [None, 0, ""]}}, "revision": 0}
    conform(kind_type("apps", "v1", "ControllerRevision"), revision)
    assert revision["data"] == {"spec": {"anything": [None, 0, ""]}}


def test_recursive_types_are_checked_at_every_level() -> None:
    schema = {"properties": {"a": {"properties": {"b": {"tipe": "string", "type": "string"}}}}}
    document = {
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    assert conform(kind_type("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), document) == [
        'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.a.properties.b.tipe"'
    ]


def test_conforming_is_idempotent() -> None:
    document = {
        "metadata": {"name": "x", "creationTimestamp": None},
        "spec": {
            "containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": "http"}}}],
            "volumes": [{"name": "v"}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    conform(POD, document)
    once = copy.deepcopy(document)
    assert conform(POD, document) == []
    assert document == once


def test_a_deeply_nested_document_is_a_bad_request() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(800):
        schema = {"properties": {"a": schema}}
    document = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    with pytest.raises(StatusError, match="nested too deeply") as caught:
        TypeSchema().conform("apiextensions.k8s.io", "v1", "CustomResourceDefinition", document)
    assert caught.value.code == 400
