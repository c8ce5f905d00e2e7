"""Decode and encode bodies, and check their content type."""

from typing import Any, Protocol

import msgspec

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"
DELETE_OPTIONS = "DeleteOptions"
LARGEST_BODY_BYTES = 3 * 1024 * 1024

_ENCODER = msgspec.json.Encoder()


class Decoder(Protocol):
    """Decodes bodies. Each method raises a StatusError of 400 for malformed bodies."""

    def json(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value, and the findings of strict decoding (duplicate members)."""
        ...

    def patch(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of a JSON patch, and the findings of strict decoding."""
        ...

    def yaml(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value, and the findings of strict decoding."""
        ...

    def protobuf(self, body: bytes, group: str, version: str, kind: str) -> JsonObject:
        """Decode a protobuf body. Raises 415 for a type without a protobuf description."""
        ...


def media_type(content_type: str) -> str:
    """Return a Content-Type without its parameters; JSON by default."""
    return content_type.partition(";")[0].strip().lower() or JSON_TYPE


def decode_object(
    decoder: Decoder, body: bytes, content_type: str, group: str, version: str, kind: str
) -> tuple[JsonObject, tuple[str, ...]]:
    """Decode an object; return it with the findings of strict decoding. Raises 400 and 415."""
    media = media_type(content_type)
    if media not in (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE):
        raise unsupported(content_type, (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE))
    try:
        if media == PROTOBUF_TYPE:
            return decoder.protobuf(body, group, version, kind), ()
        value, problems = decoder.json(body) if media == JSON_TYPE else decoder.yaml(body)
    except StatusError as error:
        if error.code != 400 or kind == DELETE_OPTIONS:
            raise
        raise _unrecognized(kind, error.message) from None
    if not isinstance(value, dict):
        raise _unrecognized(kind, "couldn't get version/kind; json parse error: an object is wanted")
    return value, problems


def _unrecognized(kind: str, why: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why}")


def unsupported(content_type: str, accepted: tuple[str, ...]) -> StatusError:
    """415: the content type of the body is not supported."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def encode_json(document: object, *, pretty: bool = False) -> bytes:
    """Encode JSON with a trailing newline."""
    encoded = _ENCODER.encode(document)
    if pretty:
        encoded = msgspec.json.format(encoded, indent=2)
    return encoded + b"\n"


def encode_yaml(document: object) -> bytes:
    """Encode YAML in block style with sorted members, as kube-apiserver does."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        document, Dumper=dumper, sort_keys=True, default_flow_style=False, allow_unicode=True
    )
    return text.encode()
