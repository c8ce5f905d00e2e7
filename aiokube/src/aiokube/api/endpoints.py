"""Endpoints (v1) with all fields, for reading and writing."""

from typing import Any

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference, OwnerReference, StrictObjectMeta
from aiokube.api.resource import UNKNOWN, Resource
from aiokube.api.unknown_fields import Schema, UnknownFields, owner_identity, port_identity

MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"
MANAGED_BY_US = "endpoint-controller"
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"
LAST_CHANGE_TRIGGER_TIME_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS_LABEL = "service.kubernetes.io/headless"
LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"


class EndpointAddress(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """One address. ``node_name`` of a pod is always written, even if it is ``""`` (E-15.4)."""

    ip: str = ""
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """A port of every address in a subset."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointSubset(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False, forbid_unknown_fields=True
):
    """The Cartesian product of addresses and ports."""

    addresses: tuple[EndpointAddress, ...] | None = None
    not_ready_addresses: tuple[EndpointAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class Endpoints(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The addresses of a service in one object, at most 1,000 (E-40)."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] | None = None
    # Defaults, because items of a list lack them: an object is equal whether it comes from a list or a watch.
    kind: str | None = "Endpoints"
    api_version: str | None = "v1"
    unknown: UnknownFields | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=UNKNOWN)
    """Fields from a newer server that this type does not know; sent back with an update."""


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False, forbid_unknown_fields=True):
    metadata: StrictObjectMeta = StrictObjectMeta()
    subsets: tuple[EndpointSubset, ...] | None = None
    kind: str | None = "Endpoints"
    api_version: str | None = "v1"


def _project(wire: _Wire) -> Endpoints:
    return Endpoints(wire.metadata.relaxed(), wire.subsets, wire.kind, wire.api_version)


def _identity_of_address(address: dict[str, Any]) -> str:
    target = address.get("targetRef") or {}
    return f"{address.get('ip')} {target.get('namespace')}/{target.get('name')}"


ENDPOINTS: Resource[Endpoints] = Resource(
    group="",
    version="v1",
    plural="endpoints",
    kind="Endpoints",
    wire=_Wire,
    project=_project,
    schema=Schema(
        _Wire,
        {
            EndpointSubset: lambda subset: " ".join(map(port_identity, subset.get("ports") or ())),
            EndpointAddress: _identity_of_address,
            EndpointPort: port_identity,
            OwnerReference: owner_identity,
        },
        dropped=frozenset({"managedFields"}),
    ),
)
