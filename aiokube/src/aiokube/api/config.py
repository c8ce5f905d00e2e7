"""ConfigMaps and Secrets (v1) with all fields, also of newer servers. Binary values are ``bytes``."""

import msgspec

from aiokube.api.meta import ObjectMeta, OwnerReference, StrictObjectMeta
from aiokube.api.resource import UNKNOWN, Resource
from aiokube.api.unknown_fields import Schema, UnknownFields, owner_identity


class ConfigMap(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Configuration as text (``data``) and bytes (``binary_data``); no key may be in both."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None
    immutable: bool | None = None
    kind: str | None = "ConfigMap"
    api_version: str | None = "v1"
    unknown: UnknownFields | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=UNKNOWN)
    """Fields from a newer server that this type does not know; sent back with an update."""


class Secret(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Confidential values by key: base64 in JSON, ``bytes`` here. ``string_data`` is write-only."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, bytes] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None
    immutable: bool | None = None
    kind: str | None = "Secret"
    api_version: str | None = "v1"
    unknown: UnknownFields | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=UNKNOWN)
    """Fields from a newer server that this type does not know; sent back with an update."""

    def __repr__(self) -> str:
        """Return the name and keys of the secret without its values."""
        return f"Secret({self.metadata.key}, keys={sorted(self.data or {})})"


class _ConfigMapWire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    metadata: StrictObjectMeta = StrictObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None
    immutable: bool | None = None
    kind: str | None = "ConfigMap"
    api_version: str | None = "v1"


class _SecretWire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    metadata: StrictObjectMeta = StrictObjectMeta()
    data: dict[str, bytes] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None
    immutable: bool | None = None
    kind: str | None = "Secret"
    api_version: str | None = "v1"


def _config_map(wire: _ConfigMapWire) -> ConfigMap:
    return ConfigMap(wire.metadata.relaxed(), wire.data, wire.binary_data, wire.immutable)


def _secret(wire: _SecretWire) -> Secret:
    return Secret(wire.metadata.relaxed(), wire.data, wire.string_data, wire.type, wire.immutable)


def _schema(wire: type[msgspec.Struct]) -> Schema:
    return Schema(wire, {OwnerReference: owner_identity}, dropped=frozenset({"managedFields"}))


CONFIG_MAPS: Resource[ConfigMap] = Resource(
    group="",
    version="v1",
    plural="configmaps",
    kind="ConfigMap",
    wire=_ConfigMapWire,
    project=_config_map,
    schema=_schema(_ConfigMapWire),
)
SECRETS: Resource[Secret] = Resource(
    group="",
    version="v1",
    plural="secrets",
    kind="Secret",
    wire=_SecretWire,
    project=_secret,
    schema=_schema(_SecretWire),
)
