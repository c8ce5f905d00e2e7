"""What the controllers would write now: the plans of all three, made from a snapshot and carried out by nobody."""

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
    """One write that a controller would make. ``before`` of a creation and ``after`` of a deletion are None."""

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
        """The object's name; for a creation the base of what the server will make up: ``web-*``."""
        item = self.before if self.before is not None else self.after
        if item is None:
            return ""
        return item.metadata.name or f"{item.metadata.generate_name}*"


def changes_of_all(
    world: ClusterIndex,
    settings: Settings | None = None,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
) -> Iterator[ObjectChange]:
    """Return every write that would be made now, by service; O(the cluster).

    Empty exactly where a controller that starts now would write nothing. Times of triggers are left out: they are no
    reason to write.
    """
    settings = settings or Settings()
    ratios = zone_ratios(world)
    for key in _keys(world):
        yield from changes_of(world, key, settings, controllers, ratios)


def changes_of(
    world: ClusterIndex,
    key: ObjectKey,
    settings: Settings,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
    ratios: Mapping[str, float] | None = None,
) -> Iterator[ObjectChange]:
    """Return the writes for one name: a service, an Endpoints, or what is left of either.

    A controller whose inputs are unknown has no writes: what it would do is unknown, too.
    """
    if "endpointslice" in controllers and not unknown_inputs(world, "endpointslice"):
        yield from _slice_changes(world, key, settings, ratios)
    if "endpoints" in controllers and not unknown_inputs(world, "endpoints"):
        yield from _endpoints_changes(world, key)
    if "mirroring" in controllers and not unknown_inputs(world, "mirroring"):
        yield from _mirroring_changes(world, key, settings)


_INPUTS: dict[ControllerName, tuple[str, ...]] = {
    "endpointslice": ("services", "pods", "endpointslices"),
    "endpoints": ("services", "pods", "endpoints"),
    "mirroring": ("services", "endpoints", "endpointslices"),
}


def unknown_inputs(world: ClusterIndex, controller: ControllerName) -> tuple[str, ...]:
    """Return the collections that a controller's plans depend on and that are unknown: with any of them, nothing is planned.

    Nodes are not among them: without nodes, zones and hints are taken from what is published, see :func:`slice_state`.
    """
    return tuple(name for name in _INPUTS[controller] if not world.could_read(name))


def zone_ratios(world: ClusterIndex) -> Mapping[str, float] | None:
    """Return what part of the CPU each zone has, None where hints cannot be shared out."""
    zones = ZoneTable()
    for node in world.nodes.values():
        zones.set_node(node.metadata.name, node)
    return zones.ratios


def _keys(world: ClusterIndex) -> list[ObjectKey]:
    keys = {key_of(service) for service in world.services.values()}
    keys.update(key_of(item) for item in world.endpoints.values())
    keys.update(world.slices_by_service)
    return sorted(keys)


def managed_by(endpoint_slice: EndpointSlice) -> str:
    """Return who looks after a slice, ``""`` where nobody says so."""
    return (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL, "")


def slice_state(
    world: ClusterIndex, key: ObjectKey, ratios: Mapping[str, float] | None = None
) -> SliceState | None:
    """Return what a service's slices should be, None where they are nobody's to select (S-10 to S-12).

    Where nodes are unknown, zones and hints are left out on both sides, and a node is taken to exist where a slice names
    it or the service has no slices at all: a pod on any other node may rightly be unpublished.
    """
    service = world.services.get(key)
    if service is None or not service.selector or service.is_external_name:
        return None
    ours = [
        endpoint_slice
        for endpoint_slice in world.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
    ]
    pods = world.membership.pods_of(key)
    if world.could_read("nodes"):
        return SliceState.build(service, world.zone_of, pods, ours, lambda: ratios)
    service = msgspec.structs.replace(service, traffic_distribution=None, topology_mode=None)

    def zone_of(node_name: str) -> str | None:
        return "" if not ours or world.is_node_published(node_name) else None

    return SliceState.build(service, zone_of, pods, map(_without_topology, ours))


def _without_topology(endpoint_slice: EndpointSlice) -> EndpointSlice:
    endpoints = tuple(
        msgspec.structs.replace(endpoint, zone=None, hints=None)
        for endpoint in endpoint_slice.endpoints or ()
    )
    return msgspec.structs.replace(endpoint_slice, endpoints=endpoints or None)


def _with_topology(endpoint_slice: EndpointSlice, published: Iterable[EndpointSlice]) -> EndpointSlice:
    """Return a planned slice with the zones and hints that its endpoints are published with."""
    known = {
        (endpoint.addresses, endpoint.target_ref.name if endpoint.target_ref else None): endpoint
        for one in published
        for endpoint in one.endpoints or ()
    }

    def completed(endpoint: Endpoint) -> Endpoint:
        name = endpoint.target_ref.name if endpoint.target_ref else None
        old = known.get((endpoint.addresses, name))
        return endpoint if old is None else msgspec.structs.replace(endpoint, zone=old.zone, hints=old.hints)

    return msgspec.structs.replace(
        endpoint_slice, endpoints=tuple(map(completed, endpoint_slice.endpoints or ())) or None
    )


def _slice_changes(
    world: ClusterIndex, key: ObjectKey, settings: Settings, ratios: Mapping[str, float] | None
) -> Iterator[ObjectChange]:
    state = slice_state(world, key, ratios)
    if state is None:
        return
    plan = state.plan(settings.max_endpoints_per_slice, None)
    published = () if world.could_read("nodes") else world.slices_by_service.get(key, ())
    for _, family in plan.families:
        create, update = family.create, family.update
        if published:
            create = tuple(_with_topology(endpoint_slice, published) for endpoint_slice in create)
            update = tuple(_with_topology(endpoint_slice, published) for endpoint_slice in update)
        yield from _writes(world, "endpointslice", key, create, update, family.delete)
    yield from _writes(world, "endpointslice", key, (), (), tuple(plan.strays))


def _writes(
    world: ClusterIndex,
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
            controller, "update", key, world.slices.get(key_of(endpoint_slice)), endpoint_slice
        )
    for endpoint_slice in delete:
        yield ObjectChange(
            controller, "delete", key, world.slices.get(key_of(endpoint_slice)) or endpoint_slice, None
        )


def _endpoints_changes(world: ClusterIndex, key: ObjectKey) -> Iterator[ObjectChange]:
    service = world.services.get(key)
    observed = world.endpoints.get(key)
    if service is None:
        plan = endpoints_plan.plan_without_service(observed)
    elif not endpoints_plan.is_published(service):
        return
    else:
        plan = EndpointsState(service, world.membership.pods_of(key)).plan(observed, None)
    match plan:
        case endpoints_plan.Create(body=body):
            yield ObjectChange("endpoints", "create", key, None, body)
        case endpoints_plan.Update(body=body):
            yield ObjectChange("endpoints", "update", key, observed, body)
        case endpoints_plan.Delete():
            yield ObjectChange("endpoints", "delete", key, observed, None)
        case endpoints_plan.Nothing():
            return


def _mirroring_changes(world: ClusterIndex, key: ObjectKey, settings: Settings) -> Iterator[ObjectChange]:
    item = world.endpoints.get(key)
    service = world.services.get(key)
    slices = [
        endpoint_slice
        for endpoint_slice in world.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_MIRRORING_CONTROLLER
        and service_name_of(endpoint_slice) == key
    ]
    if item is None or not is_mirrorable(item) or service is None or not wants_mirroring(service):
        yield from _writes(world, "mirroring", key, (), (), plan_clean_up(slices))
        return
    mirrored = mirror(item, settings.mirroring_max_endpoints_per_subset)
    plan = plan_mirror(item, mirrored, slices)
    yield from _writes(world, "mirroring", key, plan.create, plan.update, plan.delete)
