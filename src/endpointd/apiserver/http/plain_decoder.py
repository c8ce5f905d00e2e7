"""Bodies read without a schema: JSON and YAML; what stands twice goes unnoticed."""

from typing import Any

import msgspec

from endpointd.apiserver.errors import bad_request
from endpointd.apiserver.http.codec import JSON_TYPE, YAML_TYPE, unsupported
from endpointd.apiserver.objects import JsonObject


class PlainDecoder:
    """A :class:`~endpointd.apiserver.http.codec.Decoder` that knows no types."""

    def json(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of a JSON text."""
        try:
            return msgspec.json.decode(body), ()
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None

    def yaml(self, body: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the value of a YAML text."""
        import yaml

        try:
            return yaml.load(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), ()  # noqa: S506 - safe ones
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise bad_request(f"error converting YAML to JSON: yaml: {error}") from None

    def protobuf(self, body: bytes, group: str, version: str, kind: str) -> JsonObject:
        """Refuse: protobuf cannot be read without types."""
        raise unsupported("", (JSON_TYPE, YAML_TYPE))
