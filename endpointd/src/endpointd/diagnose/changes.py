"""Compute the writes that the three controllers would make for a snapshot, without making them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    MANAGED_BY_MIRRORING_CONTROLLER,
    Endpoint,
    EndpointSlice,
)
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, key_of
from endpointd.controllers.endpoints import plan as endpoints_plan
from endpointd.controllers.endpoints.state import ServiceState as EndpointsState
from endpointd.controllers.endpointslice.state import ServiceState as SliceState
from endpointd.controllers.endpointslice.topology import ZoneTable
from endpointd.controllers.indexes import service_name_of
from endpointd.controllers.mirroring.desired import is_mirrorable, mirror, wants_mirroring
from endpointd.controllers.mirroring.plan import plan_clean_up, plan_mirror
from endpointd.diagnose.snapshot import ClusterIndex

ControllerName = Literal["endpoints", "endpointslice", "mirroring"]
ALL_CONTROLLERS: frozenset[ControllerName] = frozenset(("endpoints", "endpointslice", "mirroring"))
Operation = Literal["create", "update", "delete"]
Published = Endpoints | EndpointSlice


class Settings(msgspec.Struct, frozen=True):
    """The flags that the plans depend on, with their defaults."""

    max_endpoints_per_slice: int = 100
    mirroring_max_endpoints_per_subset: int = 1000


class ObjectChange(msgspec.Struct, frozen=True, gc=False):
    """One write that a controller would make. ``before`` is None for a create, ``after`` for a delete."""

    controller: ControllerName
    operation: Operation
    service: ObjectKey
    before: Published | None
    after: Published | None

    @property
    def kind(self) -> str:
        """``Endpoints`` or ``EndpointSlice``."""
        return "Endpoints" if self.controller == "endpoints" else "EndpointSlice"

    @property
    def name(self) -> str:
        """The object's name; for a create, the base of the server-generated name: ``web-*``."""
        item = self.before if self.before is not None else self.after
        if item is None:
            return ""
        return item.metadata.name or f"{item.metadata.generate_name}*"


def changes_of_all(
    index: ClusterIndex,
    settings: Settings | None = None,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
) -> Iterator[ObjectChange]:
    """Yield every write that the controllers would make now, by service. O(cluster).

    Empty if and only if a controller that starts now would write nothing. Trigger times are omitted: they are
    no reason to write.
    """
    settings = settings or Settings()
    ratios = zone_ratios(index)
    for key in _keys(index):
        yield from changes_of(index, key, settings, controllers, ratios)


def changes_of(
    index: ClusterIndex,
    key: ObjectKey,
    settings: Settings,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
    ratios: Mapping[str, float] | None = None,
) -> Iterator[ObjectChange]:
    """Yield the writes for one key: a service, an Endpoints, or leftovers of either.

    A controller with unknown inputs yields no writes, because its writes are unknown, too.
    """
    if "endpointslice" in controllers and not unknown_inputs(index, "endpointslice"):
        yield from _slice_changes(index, key, settings, ratios)
    if "endpoints" in controllers and not unknown_inputs(index, "endpoints"):
        yield from _endpoints_changes(index, key)
    if "mirroring" in controllers and not unknown_inputs(index, "mirroring"):
        yield from _mirroring_changes(index, key, settings)


_INPUTS: dict[ControllerName, tuple[str, ...]] = {
    "endpointslice": ("services", "pods", "endpointslices"),
    "endpoints": ("services", "pods", "endpoints"),
    "mirroring": ("services", "endpoints", "endpointslices"),
}


def unknown_inputs(index: ClusterIndex, controller: ControllerName) -> tuple[str, ...]:
    """Return the unknown collections that a controller's plan depends on; with any of them, nothing is planned.

    Nodes are not required: without them, zones and hints are taken from the published slices, see
    :func:`slice_state`.
    """
    return tuple(name for name in _INPUTS[controller] if not index.could_read(name))


def zone_ratios(index: ClusterIndex) -> Mapping[str, float] | None:
    """Return each zone's share of the CPU, or None if hints cannot be allocated."""
    zones = ZoneTable()
    for node in index.nodes.values():
        zones.set_node(node.metadata.name, node)
    return zones.ratios


def _keys(index: ClusterIndex) -> list[ObjectKey]:
    keys = {key_of(service) for service in index.services.values()}
    keys.update(key_of(item) for item in index.endpoints.values())
    keys.update(index.slices_by_service)
    return sorted(keys)


def managed_by(endpoint_slice: EndpointSlice) -> str:
    """Return the manager of a slice from its label, or ``""``."""
    return (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL, "")


def slice_state(
    index: ClusterIndex, key: ObjectKey, ratios: Mapping[str, float] | None = None
) -> SliceState | None:
    """Return the desired state of a service's slices, or None if the service selects no pods (S-10 to S-12).

    If nodes are unknown, zones and hints are ignored on both sides, and a node counts as existing if a slice
    names it or the service has no slices: a pod on any other node may correctly be unpublished.
    """
    service = index.services.get(key)
    if service is None or not service.selector or service.is_external_name:
        return None
    ours = [
        endpoint_slice
        for endpoint_slice in index.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
    ]
    pods = index.membership.pods_of(key)
    if index.could_read("nodes"):
        return SliceState.build(service, index.zone_of, pods, ours, lambda: ratios)
    service = msgspec.structs.replace(service, traffic_distribution=None, topology_mode=None)

    def zone_of(node_name: str) -> str | None:
        return "" if not ours or index.is_node_published(node_name) else None

    return SliceState.build(service, zone_of, pods, map(_without_topology, ours))


def _without_topology(endpoint_slice: EndpointSlice) -> EndpointSlice:
    endpoints = tuple(
        msgspec.structs.replace(endpoint, zone=None, hints=None)
        for endpoint in endpoint_slice.endpoints or ()
    )
    return msgspec.structs.replace(endpoint_slice, endpoints=endpoints or None)


def _with_topology(endpoint_slice: EndpointSlice, published: Iterable[EndpointSlice]) -> EndpointSlice:
    """Return a planned slice with the published zones and hints of its endpoints."""
    published_endpoints = {
        (endpoint.addresses, endpoint.target_ref.name if endpoint.target_ref else None): endpoint
        for one in published
        for endpoint in one.endpoints or ()
    }

    def completed(endpoint: Endpoint) -> Endpoint:
        name = endpoint.target_ref.name if endpoint.target_ref else None
        old = published_endpoints.get((endpoint.addresses, name))
        return endpoint if old is None else msgspec.structs.replace(endpoint, zone=old.zone, hints=old.hints)

    return msgspec.structs.replace(
        endpoint_slice, endpoints=tuple(map(completed, endpoint_slice.endpoints or ())) or None
    )


def _slice_changes(
    index: ClusterIndex, key: ObjectKey, settings: Settings, ratios: Mapping[str, float] | None
) -> Iterator[ObjectChange]:
    state = slice_state(index, key, ratios)
    if state is None:
        return
    plan = state.plan(settings.max_endpoints_per_slice, None)
    published = () if index.could_read("nodes") else index.slices_by_service.get(key, ())
    for _, address_type_plan in plan.address_type_plans:
        create, update = address_type_plan.create, address_type_plan.update
        if published:
            create = tuple(_with_topology(endpoint_slice, published) for endpoint_slice in create)
            update = tuple(_with_topology(endpoint_slice, published) for endpoint_slice in update)
        yield from _writes(index, "endpointslice", key, create, update, address_type_plan.delete)
    yield from _writes(index, "endpointslice", key, (), (), tuple(plan.strays))


def _writes(
    index: ClusterIndex,
    controller: ControllerName,
    key: ObjectKey,
    create: tuple[EndpointSlice, ...],
    update: tuple[EndpointSlice, ...],
    delete: tuple[EndpointSlice, ...],
) -> Iterator[ObjectChange]:
    for endpoint_slice in create:
        yield ObjectChange(controller, "create", key, None, endpoint_slice)
    for endpoint_slice in update:
        yield ObjectChange(
            controller, "update", key, index.slices.get(key_of(endpoint_slice)), endpoint_slice
        )
    for endpoint_slice in delete:
        yield ObjectChange(
            controller, "delete", key, index.slices.get(key_of(endpoint_slice)) or endpoint_slice, None
        )


def _endpoints_changes(index: ClusterIndex, key: ObjectKey) -> Iterator[ObjectChange]:
    service = index.services.get(key)
    observed = index.endpoints.get(key)
    if service is None:
        plan = endpoints_plan.plan_without_service(observed)
    elif not endpoints_plan.is_published(service):
        return
    else:
        plan = EndpointsState(service, index.membership.pods_of(key)).plan(observed, None)
    match plan:
        case endpoints_plan.Create(body=body):
            yield ObjectChange("endpoints", "create", key, None, body)
        case endpoints_plan.Update(body=body):
            yield ObjectChange("endpoints", "update", key, observed, body)
        case endpoints_plan.Delete():
            yield ObjectChange("endpoints", "delete", key, observed, None)
        case endpoints_plan.Nothing():
            return


def _mirroring_changes(index: ClusterIndex, key: ObjectKey, settings: Settings) -> Iterator[ObjectChange]:
    item = index.endpoints.get(key)
    service = index.services.get(key)
    slices = [
        endpoint_slice
        for endpoint_slice in index.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_MIRRORING_CONTROLLER
        and service_name_of(endpoint_slice) == key
    ]
    if item is None or not is_mirrorable(item) or service is None or not wants_mirroring(service):
        yield from _writes(index, "mirroring", key, (), (), plan_clean_up(slices))
        return
    mirrored = mirror(item, settings.mirroring_max_endpoints_per_subset)
    plan = plan_mirror(item, mirrored, slices)
    yield from _writes(index, "mirroring", key, plan.create, plan.update, plan.delete)
