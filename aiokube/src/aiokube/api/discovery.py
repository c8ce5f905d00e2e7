"""EndpointSlice (discovery.k8s.io/v1) with all fields, for reading and writing."""

from typing import Any

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference, OwnerReference, StrictObjectMeta
from aiokube.api.resource import UNKNOWN, Resource
from aiokube.api.unknown_fields import Schema, UnknownFields, owner_identity, port_identity

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY_ENDPOINTSLICE_CONTROLLER = "endpointslice-controller.k8s.io"
MANAGED_BY_MIRRORING_CONTROLLER = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR_LABEL = "endpointslice.kubernetes.io/skip-mirror"


class EndpointConditions(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """The conditions of an endpoint; None means unknown."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


CONDITIONS: tuple[str, ...] = EndpointConditions.__struct_fields__
"""The names of the conditions, in display order."""


class ForZone(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A zone whose consumers should use the endpoint."""

    name: str = ""


class ForNode(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A node whose consumers should use the endpoint."""

    name: str = ""


class EndpointHints(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """The zones and nodes whose clients should use an endpoint."""

    for_zones: tuple[ForZone, ...] | None = None
    for_nodes: tuple[ForNode, ...] | None = None


class Endpoint(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """One endpoint: the addresses of one pod in one IP family, with conditions and topology."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    deprecated_topology: dict[str, str] | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """A port of every endpoint in a slice."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A subset of a service's endpoints, with one address type and one list of ports.

    All fields are always written, because older servers require ``endpoints``.
    """

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None
    kind: str | None = "EndpointSlice"
    api_version: str | None = "discovery.k8s.io/v1"
    unknown: UnknownFields | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=UNKNOWN)
    """Fields from a newer server that this type does not know; sent back with an update."""


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False, forbid_unknown_fields=True):
    metadata: StrictObjectMeta = StrictObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None
    kind: str | None = "EndpointSlice"
    api_version: str | None = "discovery.k8s.io/v1"


def _project(wire: _Wire) -> EndpointSlice:
    return EndpointSlice(
        wire.metadata.relaxed(), wire.address_type, wire.endpoints, wire.ports, wire.kind, wire.api_version
    )


def _identity_of_endpoint(endpoint: dict[str, Any]) -> str:
    target = endpoint.get("targetRef") or {}
    return f"{target.get('namespace')}/{target.get('name')} {' '.join(endpoint.get('addresses') or ())}"


ENDPOINT_SLICES: Resource[EndpointSlice] = Resource(
    group="discovery.k8s.io",
    version="v1",
    plural="endpointslices",
    kind="EndpointSlice",
    wire=_Wire,
    project=_project,
    schema=Schema(
        _Wire,
        {
            Endpoint: _identity_of_endpoint,
            EndpointPort: port_identity,
            ForZone: lambda zone: str(zone.get("name")),
            ForNode: lambda node: str(node.get("name")),
            OwnerReference: owner_identity,
        },
        dropped=frozenset({"managedFields"}),
    ),
)
