"""Protobuf bodies: encoded here field by field, and decoded with the type descriptions."""

import struct
from typing import Any

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.schema.conform import conform
from tinykube.server.schema.decoder import TypedDecoder
from tinykube.server.schema.loader import UnknownTypeError, kind_type
from tinykube.server.schema.protobuf import decode_message, decode_protobuf
from tinykube.server.schema.protobuf_wire import ProtobufError


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes, content_type: str = "") -> bytes:
    meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, meta) + field(2, raw) + field(3, "") + field(4, content_type)


METADATA = field(1, "x") + field(2, "") + field(3, "") + field(7, 0) + field(8, b"")


def test_a_lease_is_decoded_with_times_and_numbers() -> None:
    moment = field(1, 1577836800) + field(2, 123456000)
    spec = field(1, "me") + field(2, 15) + field(3, moment) + field(5, 0)
    raw = field(1, METADATA) + field(2, spec)
    body = envelope("coordination.k8s.io/v1", "Lease", raw)
    document = decode_protobuf(body, "coordination.k8s.io", "v1", "Lease")
    conform(kind_type("coordination.k8s.io", "v1", "Lease"), document)
    assert document == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "x"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2020-01-01T00:00:00.123456Z",
            "leaseTransitions": 0,
        },
    }


def test_an_empty_time_message_is_null() -> None:
    event = decode_message(
        kind_type("", "v1", "Event"), field(1, METADATA) + field(6, b"") + field(7, field(1, 5))
    )
    assert event["metadata"]["creationTimestamp"] is None
    assert event["firstTimestamp"] is None
    assert event["lastTimestamp"] == "1970-01-01T00:00:05Z"


def test_negative_numbers_are_decoded() -> None:
    options = decode_message(kind_type("", "v1", "DeleteOptions"), field(1, -1))
    assert options == {"gracePeriodSeconds": -1}


def test_delete_options_are_decoded_with_the_group_version_they_are_sent_with() -> None:
    body = envelope("coordination.k8s.io/v1", "DeleteOptions", field(4, "Background"))
    document = decode_protobuf(body, "coordination.k8s.io", "v1", "Lease")
    assert document == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    }


def test_target_ports_are_numbers_or_names() -> None:
    by_number = field(3, 80) + field(4, field(1, 0) + field(2, 8080) + field(3, ""))
    by_name = field(3, 81) + field(4, field(1, 1) + field(2, 0) + field(3, "http"))
    raw = field(2, field(1, by_number) + field(1, by_name) + field(2, field(1, "app") + field(2, "web")))
    service = decode_message(kind_type("", "v1", "Service"), raw)
    assert service["spec"] == {
        "ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "http"}],
        "selector": {"app": "web"},
    }


def test_inlined_messages_are_flattened() -> None:
    volume = field(1, "v") + field(2, field(19, field(1, field(1, "config")) + field(3, 420)))
    probe = field(1, field(2, field(1, "/healthz"))) + field(2, 5)
    container = field(1, "c") + field(10, probe)
    pod = decode_message(kind_type("", "v1", "Pod"), field(2, field(1, volume) + field(2, container)))
    assert pod["spec"] == {
        "volumes": [{"name": "v", "configMap": {"name": "config", "defaultMode": 420}}],
        "containers": [
            {"name": "c", "livenessProbe": {"httpGet": {"path": "/healthz"}, "initialDelaySeconds": 5}}
        ],
    }


def test_bytes_quantities_embedded_json_and_nested_lists_have_their_json_forms() -> None:
    entry = field(1, "a") + field(2, b"\x00\x01\x02")
    secret = decode_message(kind_type("", "v1", "Secret"), field(2, entry))
    assert secret["data"] == {"a": "AAEC"}
    quantity = field(1, field(1, "cpu") + field(2, field(1, "100m")))
    container = field(1, "c") + field(8, quantity)
    pod = decode_message(kind_type("", "v1", "Pod"), field(2, field(2, container)))
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "100m"}}
    revision = decode_message(kind_type("apps", "v1", "ControllerRevision"), field(2, field(1, b'{"a":[1]}')))
    assert revision["data"] == {"a": [1]}
    extra = field(4, field(1, "scopes") + field(2, field(1, "r") + field(1, "w")))
    review = decode_message(
        kind_type("authentication.k8s.io", "v1", "SelfSubjectReview"), field(2, field(1, extra))
    )
    assert review["status"]["userInfo"]["extra"] == {"scopes": ["r", "w"]}


def test_json_schema_props_are_decoded_with_their_union_types() -> None:
    crd = kind_type("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    items = field(24, field(1, field(5, "string")))
    number = varint(11 << 3 | 1) + struct.pack("<d", 1.5)
    props = items + number + field(30, field(1, 1)) + field(8, field(1, b"3"))
    version = field(1, "v1") + field(4, field(1, props))
    document = decode_message(crd, field(2, field(7, version)))
    schema: Any = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == {
        "items": {"type": "string"},
        "minimum": 1.5,
        "additionalProperties": True,
        "default": 3,
    }


def test_unknown_fields_are_skipped() -> None:
    raw = field(1, METADATA) + field(99, "x") + field(100, 5) + varint(101 << 3 | 5) + b"abcd"
    assert decode_message(kind_type("", "v1", "ConfigMap"), raw)["metadata"]["name"] == "x"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\xff" * 11,
        b"\x00\x01",
        b"\x0b",
        field(1, 5),
        field(2, field(1, b"\xff\xfe") + field(2, "x")),
    ],
)
def test_invalid_messages_are_rejected(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode_message(kind_type("", "v1", "ConfigMap"), raw)


def test_a_truncated_string_is_rejected() -> None:
    for number in (1, 2):
        cut = varint(number << 3 | 2) + varint(10) + b"short"
        with pytest.raises(ProtobufError, match="unexpected EOF"):
            decode_message(kind_type("", "v1", "Secret"), field(1, cut) if number == 1 else cut)


def test_a_missing_prefix_is_rejected_with_400_and_an_unknown_kind_with_415() -> None:
    decoder = TypedDecoder()
    with pytest.raises(StatusError, match="expected prefix") as caught:
        decoder.protobuf(b"{}", "", "v1", "Pod")
    assert caught.value.code == 400
    with pytest.raises(StatusError, match="send it as application/json") as caught:
        decoder.protobuf(
            envelope("resource.k8s.io/v1", "ResourceClaim", b""), "resource.k8s.io", "v1", "ResourceClaim"
        )
    assert caught.value.code == 415
    with pytest.raises(UnknownTypeError):
        decode_protobuf(
            envelope("resource.k8s.io/v1", "ResourceClaim", b""), "resource.k8s.io", "v1", "ResourceClaim"
        )


def test_json_inside_the_envelope_is_decoded() -> None:
    body = envelope("v1", "ConfigMap", b'{"data":{"a":"1"}}', "application/json")
    assert decode_protobuf(body, "", "v1", "ConfigMap") == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "1"},
    }
