"""How bytes become documents and documents bytes; which bodies are taken."""

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
    """Reads bodies. Each method raises a StatusError of 400 for what cannot be read."""

    def json(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value, and what strict decoding finds wrong with it (members that are there twice)."""
        ...

    def patch(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of a patch in JSON, and what strict decoding finds wrong with it."""
        ...

    def yaml(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value, and what strict decoding finds wrong with it."""
        ...

    def protobuf(self, body: bytes, group: str, version: str, kind: str) -> JsonObject:
        """Return the document of a protobuf body. Raises 415 where the type is not known in protobuf."""
        ...


def media_type(content_type: str) -> str:
    """Return a Content-Type without its parameters; JSON where there is none."""
    return content_type.partition(";")[0].strip().lower() or JSON_TYPE


def decode_object(
    decoder: Decoder, body: bytes, content_type: str, group: str, version: str, kind: str
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the object of a body, and what strict decoding finds wrong. Raises 400 and 415."""
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
    """415: the body is of a kind that is not taken."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def encode_json(document: object, *, pretty: bool = False) -> bytes:
    """Return JSON, with a line break at its end."""
    encoded = _ENCODER.encode(document)
    if pretty:
        encoded = msgspec.json.format(encoded, indent=2)
    return encoded + b"\n"


def encode_yaml(document: object) -> bytes:
    """Return YAML, as block style with its members sorted, as the real server does."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        document, Dumper=dumper, sort_keys=True, default_flow_style=False, allow_unicode=True
    )
    return text.encode()
