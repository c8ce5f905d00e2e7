"""Edits by people and other programs to objects that the controllers own, and slices beside them."""

from tests.differential.normalise import HAND_MADE
from tests.differential.operations import Operation, SliceOf, Verb, document
from tests.differential.workload_world import HOLD, Json, ServiceState, Steps, Weighted, World

_OURS = "endpointslice-controller.k8s.io"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SERVICE_NAME = "kubernetes.io/service-name"

_SLICE_EDITS: tuple[tuple[Json, str], ...] = (
    ({"endpoints": []}, ""),
    ({"ports": [{"name": "edited", "port": 1}]}, ""),
    ({"metadata": {"labels": {"edited": "yes"}}}, ""),
    ({"metadata": {"labels": {"team": None}}}, ""),
    ({"metadata": {"ownerReferences": None}}, "S-3"),  # does not raise the generation, so it is overlooked
    ({"metadata": {"annotations": {"example.com/edited": "yes"}}}, ""),
)
_SUBSET = {"addresses": [{"ip": "10.255.0.9"}], "ports": [{"name": "edited", "port": 1, "protocol": "TCP"}]}
_ENDPOINTS_EDITS: tuple[Json, ...] = (
    {"subsets": None},
    {"subsets": [_SUBSET]},
    {"metadata": {"labels": {"edited": "yes"}}},
    {"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "somebody"}}},
    {"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}},
    {"metadata": {"annotations": {"example.com/edited": "yes"}}},
)


def edit_slice(world: World) -> Steps:
    """Edit a slice that a controller made."""
    service = _published(world)
    if service is None:
        return ()
    body, rule = world.chance.choice(_SLICE_EDITS)
    return (_on_slice(world, service, "patch", document(body), rule=rule),)


def delete_slice(world: World) -> Steps:
    """Delete a slice that a controller made."""
    service = _published(world)
    return (_on_slice(world, service, "delete", rule="S-3"),) if service else ()


def edit_endpoints(world: World) -> Steps:
    """Edit the Endpoints of a service."""
    service = _published(world)
    if service is None:
        return ()
    body = document(world.chance.choice(_ENDPOINTS_EDITS))
    return (Operation("patch", "endpoints", service.namespace, service.name, body, rule="E-3"),)


def delete_endpoints(world: World) -> Steps:
    """Delete the Endpoints of a service."""
    service = _published(world)
    return (Operation("delete", "endpoints", service.namespace, service.name),) if service else ()


def create_foreign_slice(world: World) -> Steps:
    """Create a slice beside those of a service: of another manager, without manager, or with the controller's label."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    old = world.one_of(sorted(world.foreign_slices))
    if old is not None and world.maybe(0.3):
        world.foreign_slices.discard(old)
        return (Operation("delete", "endpointslices", *old),)
    world.slices_made += 1
    name = (
        f"{HAND_MADE}{world.slices_made}"  # names are not reused: the controller may have adopted the slice
    )
    labels = {_SERVICE_NAME: service.name}
    metadata: Json = {"name": name, "labels": labels}
    match world.chance.choice(("somebody", "nobody", "posing", "posing", "owned")):
        case "somebody":
            labels[_MANAGED_BY] = "somebody.example.com"
            world.foreign_slices.add((service.namespace, name))
        case "nobody":
            world.foreign_slices.add((service.namespace, name))
        case "posing":
            labels[_MANAGED_BY] = _OURS
        case _:
            labels[_MANAGED_BY] = _OURS
            owner = {"apiVersion": "v1", "kind": "Service", "name": service.name}
            metadata["ownerReferences"] = [{**owner, "uid": f"$(uid:{service.name})"}]
    address_type, address = world.chance.choice(
        (("IPv4", "10.255.0.1"), ("IPv6", "fd00:ffff::1"), ("FQDN", "example.com"))
    )
    body: Json = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": address_type,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "foreign", "port": 4711}],
    }
    return (Operation("create", "endpointslices", service.namespace, name, document(body)),)


def relabel_slice(world: World) -> Steps:
    """Relabel a slice to another owner: upstream gets stuck (S-113)."""
    service = _published(world)
    if service is None:
        return ()
    body = document({"metadata": {"labels": {_MANAGED_BY: "somebody.example.com"}}})
    return (_on_slice(world, service, "patch", body, rule="S-113"),)


def hold_slice(world: World) -> Steps:
    """Delete a slice that a finalizer keeps: upstream waits for it (2.3)."""
    service = _published(world)
    if service is None:
        return ()
    index = world.chance.randrange(4)
    return (
        _on_slice(world, service, "patch", document({"metadata": {"finalizers": [HOLD]}}), index, rule="2.3"),
        _on_slice(world, service, "delete", "", index, rule="2.3"),
    )


EXTERNAL_EDITS: tuple[Weighted, ...] = (
    (6, edit_slice),
    (4, delete_slice),
    (5, edit_endpoints),
    (3, delete_endpoints),
    (5, create_foreign_slice),
)
STUCK_CASES: tuple[Weighted, ...] = ((1, relabel_slice), (1, hold_slice))


def _published(world: World) -> ServiceState | None:
    """Return a service with published objects: each once per batch, while they are unchanged."""
    service = world.one_of(
        world.services.values(),
        lambda service: (
            service.selector is not None
            and service.type != "ExternalName"
            and (service.namespace, service.name) not in world.edited
        ),
    )
    if service is not None:
        world.edited.add((service.namespace, service.name))
    return service


def _on_slice(
    world: World,
    service: ServiceState,
    verb: Verb,
    body: str = "",
    index: int | None = None,
    *,
    rule: str = "",
) -> Operation:
    chosen = SliceOf(service.name, world.chance.randrange(4) if index is None else index)
    return Operation(verb, "endpointslices", service.namespace, chosen, body, rule=rule)
