"""Operations on services in a workload.

Some operations make the controllers leave a service unchanged (ExternalName, no selector, E-11, E-12) or stop creating
objects for it (deletion, S-73). They freeze the published state, so they happen only at rest, where that state does not
depend on speed.
"""

from tests.differential.operations import Operation, document
from tests.differential.workload_world import (
    HOLD,
    Json,
    ServiceState,
    Steps,
    Weighted,
    World,
    merge_patch_for,
)

_PORTS: tuple[tuple[Json, ...], ...] = (
    ({"port": 80},),
    ({"name": "http", "port": 80, "targetPort": "http"},),
    (
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "metrics", "port": 9100, "targetPort": "metrics"},
    ),
    (
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns"},
    ),
    ({"name": "grpc", "port": 443, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"},),
    (
        {"name": "mesh", "port": 15_000, "targetPort": "mesh"},
        {"name": "http", "port": 80, "targetPort": "http"},
    ),
    ({"name": "nowhere", "port": 80, "targetPort": "nowhere"},),
    (
        {"name": "tcp", "port": 1, "appProtocol": "example.com/odd"},
        {"name": "udp", "port": 1, "protocol": "UDP"},
        {"name": "sctp", "port": 3, "protocol": "SCTP"},
    ),
)
_RESERVED_LABELS = (
    ("service.kubernetes.io/headless", "odd"),
    ("endpointslice.kubernetes.io/managed-by", "somebody"),
    ("kubernetes.io/service-name", "another"),
    ("endpoints.kubernetes.io/managed-by", "somebody"),
)
_FAMILIES: tuple[Json, ...] = (
    {},
    {},
    {"ipFamilies": ["IPv4"]},
    {"ipFamilies": ["IPv6"]},
    {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]},
    {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]},
)
DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")


def create_service(world: World) -> Steps:
    """Create a published service, often with a reused name."""
    sort = world.chance.choice(("plain",) * 6 + ("headless",) * 3 + ("portless",))
    return _create(world, sort)


def create_unpublished_service(world: World) -> Steps:
    """Create an unpublished service: ExternalName, or without a selector. At rest only."""
    return _create(world, world.chance.choice(("external", "selectorless")))


def _create(world: World, sort: str) -> Steps:
    namespace = world.chance.choice(world.options.namespace_names)
    options = world.options
    taken = [name for (where, name) in world.services if where == namespace]
    name = world.free_name("svc", options.services // options.namespaces + 3, taken)
    if name is None or len(world.services) >= options.services:
        return ()
    held = world.maybe(0.1)
    service = ServiceState(namespace, name, _labels(world), selector=world.labels(), held=held)
    spec: Json = dict(world.chance.choice(_FAMILIES))
    spec["ports"] = world.chance.choice(_PORTS)
    match sort:
        case "headless":
            spec["clusterIP"] = "None"
            service.headless = True
        case "portless":
            spec["clusterIP"] = "None"
            del spec["ports"]
            service.headless = True
        case "external":
            spec = {"externalName": "example.com", "ports": spec["ports"]}
            service.type = "ExternalName"
        case "selectorless":
            service.selector = None
        case _ if world.maybe(0.2):
            service.type = world.chance.choice(("NodePort", "LoadBalancer"))
    spec["type"] = service.type
    if service.selector:
        spec["selector"] = service.selector
    if world.maybe(0.25):
        service.publishes_not_ready = spec["publishNotReadyAddresses"] = True
    if world.maybe(0.15) and service.type != "ExternalName":
        spec["trafficDistribution"] = world.chance.choice(DISTRIBUTIONS)
    metadata: Json = {
        "name": name,
        "labels": service.labels,
        "annotations": {"example.com/note": "kept here"},
    }
    if service.held:
        metadata["finalizers"] = [HOLD]
    world.services[namespace, name] = service
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    return (Operation("create", "services", namespace, name, document(body)),)


def delete_service(world: World) -> Steps:
    """Delete a service; its slices stay without a garbage collector, and may later belong to another service."""
    service = world.one_of(world.services.values(), lambda service: not service.held)
    if service is None:
        return ()
    del world.services[service.namespace, service.name]
    return (Operation("delete", "services", service.namespace, service.name),)


def delete_held_service(world: World) -> Steps:
    """Delete a service kept by a finalizer, and change it while it is terminating. At rest only, as the last operation."""
    service = world.one_of(world.services.values(), lambda service: service.held and not service.terminating)
    if service is None:
        return ()
    service.terminating = True
    service.labels = {"team": "going"}
    change = document({"metadata": {"labels": service.labels}})
    return (
        Operation("delete", "services", service.namespace, service.name),
        Operation("patch", "services", service.namespace, service.name, change),
    )


def end_terminating_service(world: World) -> Steps:
    """Remove the finalizer of a terminating service."""
    service = world.one_of(world.services.values(), lambda service: service.terminating)
    if service is None:
        return ()
    del world.services[service.namespace, service.name]
    return (_patch(service, {"metadata": {"finalizers": None}}),)


def change_selector(world: World) -> Steps:
    """Select other pods."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    old, service.selector = service.selector or {}, world.labels()
    return (_patch(service, {"spec": {"selector": merge_patch_for(old, service.selector)}}),)


def remove_selector(world: World) -> Steps:
    """Remove the selector, which leaves the published objects unchanged (E-12). At rest only."""
    service = world.one_of(world.services.values(), lambda service: service.selector is not None)
    if service is None:
        return ()
    service.selector = None
    return (_patch(service, {"spec": {"selector": None}}),)


def change_ports(world: World) -> Steps:
    """Publish other ports; a headless service may have no ports."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    ports = None if service.headless and world.maybe(0.3) else world.chance.choice(_PORTS)
    return (_patch(service, {"spec": {"ports": ports}}),)


def change_labels(world: World) -> Steps:
    """Change a service's labels; sometimes to one reserved for the controllers."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    old, service.labels = service.labels, _labels(world)
    change = merge_patch_for(old, service.labels)
    return (_patch(service, {"metadata": {"labels": change}}),) if change else ()


def change_type(world: World) -> Steps:
    """Turn an ExternalName service back into a normal one, or toggle between ClusterIP and NodePort."""
    service = world.one_of(world.services.values(), lambda service: not service.headless)
    if service is None:
        return ()
    if service.type == "ExternalName":
        service.type = "ClusterIP"
        spec: Json = {"type": "ClusterIP", "externalName": None, "ports": world.chance.choice(_PORTS)}
    else:
        service.type = "NodePort" if service.type == "ClusterIP" else "ClusterIP"
        spec = {"type": service.type}
    return (_patch(service, {"spec": spec}),)


def become_alias(world: World) -> Steps:
    """Change a service to ExternalName, which leaves the published objects unchanged (E-11). At rest only."""
    service = world.one_of(world.services.values(), lambda service: service.type != "ExternalName")
    if service is None:
        return ()
    service.type, service.headless = "ExternalName", False
    spec = {"type": "ExternalName", "externalName": "example.com", "trafficDistribution": None}
    return (_patch(service, {"spec": spec}),)


def change_families(world: World) -> Steps:
    """Make a service dual-stack or single-stack."""
    service = world.one_of(world.services.values(), lambda service: service.type != "ExternalName")
    if service is None:
        return ()
    if world.maybe(0.5):
        return (_patch(service, {"spec": {"ipFamilyPolicy": "PreferDualStack"}}),)
    return (_patch(service, {"spec": {"ipFamilyPolicy": "SingleStack"}}),)


def flip_publish_not_ready(world: World) -> Steps:
    """Toggle publishNotReadyAddresses."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    service.publishes_not_ready = not service.publishes_not_ready
    return (_patch(service, {"spec": {"publishNotReadyAddresses": service.publishes_not_ready}}),)


def change_distribution(world: World) -> Steps:
    """Toggle the preference for close endpoints."""
    service = world.one_of(world.services.values(), lambda service: service.type != "ExternalName")
    if service is None:
        return ()
    preference = world.chance.choice((*DISTRIBUTIONS, None))
    return (_patch(service, {"spec": {"trafficDistribution": preference}}),)


def annotate_service(world: World) -> Steps:
    """Write an annotation that has no effect."""
    service = world.one_of(world.services.values())
    if service is None:
        return ()
    return (_patch(service, {"metadata": {"annotations": {"example.com/note": world.next_time()}}}),)


SERVICE_ACTIONS: tuple[Weighted, ...] = (
    (12, create_service),
    (4, delete_service),
    (4, change_selector),
    (4, change_ports),
    (4, change_labels),
    (2, change_type),
    (2, change_families),
    (2, flip_publish_not_ready),
    (1, change_distribution),
    (1, annotate_service),
)
FREEZING: tuple[Weighted, ...] = (
    (2, create_unpublished_service),
    (2, remove_selector),
    (2, become_alias),
)


def _labels(world: World) -> dict[str, str]:
    labels = {"team": world.chance.choice(("red", "green", "blue"))}
    if world.maybe(0.3):
        labels["example.com/exposed"] = world.chance.choice(("yes", "no"))
    if world.maybe(0.12):
        key, value = world.chance.choice(_RESERVED_LABELS)
        labels[key] = value
    return labels


def _patch(service: ServiceState, body: Json) -> Operation:
    return Operation("patch", "services", service.namespace, service.name, document(body))
