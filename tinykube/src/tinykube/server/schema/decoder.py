"""Decode request bodies in JSON, YAML and protobuf; errors are API responses."""

from typing import Any

from tinykube.server.errors import StatusError, bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.schema.json_text import SyntaxProblemError, decode_json
from tinykube.server.schema.loader import UnknownTypeError
from tinykube.server.schema.protobuf import decode_protobuf
from tinykube.server.schema.protobuf_wire import ProtobufError

_EXCERPT_BYTES = 30


class TypedDecoder:
    """Decodes bodies (:class:`tinykube.server.http.codec.Decoder`). Stateless.

    Each method raises a StatusError of 400 for malformed bodies.
    """

    def json(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value, and duplicate members: ``duplicate field "data.a"``."""
        try:
            return decode_json(body)
        except SyntaxProblemError as error:
            raise bad_request(
                f"couldn't get version/kind; json parse error: {error} ({_excerpt(body)})"
            ) from None

    def patch(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of a patch, and duplicate members."""
        try:
            return decode_json(body)
        except SyntaxProblemError as error:
            raise bad_request(f"error decoding patch: {error}") from None

    def yaml(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of the first document, and duplicate keys. JSON is decoded as JSON."""
        try:
            return decode_json(body)
        except SyntaxProblemError:
            pass  # not JSON: decode it as YAML
        from tinykube.server.schema.yaml_text import YamlProblemError, decode_yaml

        try:
            return decode_yaml(body)
        except YamlProblemError as error:
            raise bad_request(f"{error} ({_excerpt(body)})") from None

    def protobuf(self, body: bytes, group: str, version: str, kind: str) -> JsonObject:
        """Return the document, not yet conformed. Raises 415 if the type has no description."""
        try:
            return decode_protobuf(body, group, version, kind)
        except ProtobufError as error:
            raise bad_request(str(error)) from None
        except UnknownTypeError as error:
            raise StatusError(
                415, "UnsupportedMediaType", f"{error}: send it as application/json or application/yaml"
            ) from None


def _excerpt(body: bytes) -> str:
    """Return the excerpt for errors: the start of the body, in hexadecimal unless it looks like an object."""
    if not body:
        return "<empty>"
    head = body[:_EXCERPT_BYTES]
    text = head.decode("utf-8", "replace") if body.startswith(b"{") else head.hex()
    return f"{text} ..." if len(body) > _EXCERPT_BYTES else text
