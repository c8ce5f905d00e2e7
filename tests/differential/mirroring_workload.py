"""A seeded workload of manually written Endpoints: the same seed gives the same workload on any machine.

Services without (and some with) selectors are created, changed and deleted; their Endpoints take every form that the API
server accepts; manual edits change the mirrored slices. The workload consists of values
(:mod:`tests.differential.operations`); this module does not talk to a cluster.
"""

import random
from collections.abc import Sequence

from tests.differential.mirroring_world import Json, Key, MirroringOptions, MirroringWorld, Steps, Weighted
from tests.differential.operations import Batch, Operation, SliceOf, Verb, document

HELD = -1
"""Index of a :class:`SliceOf` that refers to the slice kept by the finalizer :data:`HOLD`."""
HOLD = "differential.example/hold"
STRANGER = "stranger-"
"""Name prefix of slices that only this workload writes."""
OURS = "endpointslicemirroring-controller.k8s.io"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"


def generate(seed: int, operations: int, options: MirroringOptions | None = None) -> tuple[Batch, ...]:
    """Return at least ``operations`` operations (at most a few more) in batches; a longer workload starts like a shorter one."""
    world = MirroringWorld(options or MirroringOptions(), random.Random(seed))
    batches: list[Batch] = []
    total = 0
    while total < operations:
        batch = Batch(len(batches), _batch(world, is_first=not batches))
        batches.append(batch)
        total += len(batch.operations)
    return tuple(batches)


def _batch(world: MirroringWorld, *, is_first: bool) -> tuple[Operation, ...]:
    """Return the operations between two rests; those that target slices come first, while the clusters agree."""
    world.edited.clear()
    steps: list[Operation] = [*_begin(world)] if is_first else [*_release(world)]
    if world.options.external_edits and not is_first:
        for _ in range(world.chance.choice((0, 1, 1, 2))):
            steps += _choose(world, _EXTERNAL_EDITS)
        if world.options.stuck_cases and world.maybe(0.12):
            steps += _choose(world, _STUCK_CASES)
    size = len(steps) + world.chance.randint(*world.options.batch_operations)
    while len(steps) < size:
        steps += _choose(world, _LIFE)
    return tuple(steps)


def _choose(world: MirroringWorld, actions: Sequence[Weighted]) -> Steps:
    (_, action) = world.chance.choices(actions, weights=[weight for weight, _ in actions])[0]
    return action(world)


# ------------------------------------------------------------------------------------- services

_SERVICE_PORTS = [{"name": "http", "port": 80}]


def _put_service(world: MirroringWorld) -> Steps:
    """Create a service, usually without a selector, or change the selector, type or labels of one."""
    namespace, name = key = world.key()
    if key not in world.services:
        world.services[key] = selected = world.maybe(0.2)
        spec: Json = {"ports": _SERVICE_PORTS}
        if selected:
            spec["selector"] = {"app": "x"}
        elif world.maybe(0.2):
            spec["clusterIP"] = "None"
        elif world.maybe(0.15):
            spec = {"type": "ExternalName", "externalName": "example.com"}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        return (Operation("create", "services", namespace, name, document(body)),)
    if world.maybe(0.5):
        selected = world.services[key] = not world.services[key]
        patch: Json = {"spec": {"selector": {"app": "x"} if selected else None}}
    else:
        patch = {"metadata": {"labels": {"n": str(world.chance.randrange(3))}}}
    return (Operation("patch", "services", namespace, name, document(patch)),)


def _delete_service(world: MirroringWorld) -> Steps:
    """Delete a service; the API server deletes its Endpoints with it."""
    key = world.one_of(list(world.services))
    if key is None:
        return ()
    del world.services[key]
    world.endpoints.pop(key, None)
    return (Operation("delete", "services", *key),)


# ------------------------------------------------------------------------------------- Endpoints

_PORTS: tuple[tuple[Json, ...], ...] = (
    ({"name": "http", "port": 80},),
    ({"name": "http", "port": 80}, {"name": "admin", "port": 9090}),
    ({"name": "admin", "port": 9090}, {"name": "http", "port": 80}),
    ({"port": 53, "protocol": "UDP"},),
    ({"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}),
    ({"name": "s", "port": 3, "protocol": "SCTP"},),
    (),
)
# In one subset only: upstream orders equal ones of several subsets by memory address (E-30.3).
_APP_PORTS: tuple[tuple[Json, ...], ...] = (
    ({"name": "grpc", "port": 443, "appProtocol": "kubernetes.io/h2c"},),
    ({"name": "ws", "port": 444, "appProtocol": "kubernetes.io/ws"}, {"name": "plain", "port": 445}),
)
_LABELS: tuple[Json, ...] = (
    {"team": "a"},
    {"team": "b"},
    {"team": None},
    {"service.kubernetes.io/headless": ""},
    {"service.kubernetes.io/headless": None},
    {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
    {SERVICE_NAME: "another"},
    {SERVICE_NAME: None},
    {MANAGED_BY: "somebody"},
    {MANAGED_BY: None},
)
_SKIPPING: tuple[Json, ...] = tuple(
    {"endpointslice.kubernetes.io/skip-mirror": value} for value in ("true", "false", "odd", None, None)
)
_ANNOTATIONS: tuple[Json, ...] = (
    {"example.com/note": "one"},
    {"example.com/note": "two"},
    {"example.com/note": None},
    {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
    {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    {"endpoints.kubernetes.io/over-capacity": "truncated"},
    {"endpoints.kubernetes.io/over-capacity": None},
)
_LEADING: tuple[Json, ...] = tuple(
    {"control-plane.alpha.kubernetes.io/leader": value} for value in ("{}", None, None)
)


def _address(world: MirroringWorld) -> Json:
    """Return an address, rarely a new one: used addresses reappear with another spelling, pod or node."""
    number = world.chance.randrange(1, 12)
    kind = world.chance.random()
    if kind < 0.6:
        address: Json = {"ip": f"10.9.0.{number}"}
    elif kind < 0.9:
        address = {"ip": f"fd00::{number:x}"}
    else:
        address = {"ip": world.chance.choice((f"FD00::{number:X}", f"fd00:0:0:0:0:0:0:{number:x}"))}
    if world.maybe(0.4):
        pod = world.chance.randrange(1, 4)
        target: Json = {"kind": "Pod", "namespace": "elsewhere", "name": f"pod-{pod}", "uid": f"uid-{pod}"}
        if world.maybe(0.3):
            target["resourceVersion"] = str(world.chance.randrange(1, 4))
        address["targetRef"] = target
    if world.maybe(0.3):
        address["nodeName"] = world.chance.choice(("node-1", "node-2"))
    if world.maybe(0.2):
        address["hostname"] = world.chance.choice(("db-0", "db-1"))
    return address


def _subset(world: MirroringWorld, number: int) -> Json:
    subset: Json = {"ports": list(world.chance.choice(_PORTS))}
    ready = [_address(world) for _ in range(world.chance.randrange(0, 5))]
    not_ready = [_address(world) for _ in range(world.chance.choice((0, 0, 1, 2)))]
    if number == 0 and world.maybe(0.3):
        subset["ports"] = list(world.chance.choice(_APP_PORTS))
    if not ready and not not_ready:
        ready = [_address(world)]
    if ready:
        subset["addresses"] = ready
    if not_ready:
        subset["notReadyAddresses"] = not_ready
    return subset


def _subsets(world: MirroringWorld) -> list[Json]:
    if world.options.crowds and world.maybe(0.04):
        return _crowd(world.chance.choice(world.options.crowds))
    return [_subset(world, number) for number in range(world.chance.choice((0, 1, 1, 1, 2, 2, 3)))]


def _crowd(count: int) -> list[Json]:
    ips = [{"ip": f"10.8.{number // 250}.{number % 250 + 1}"} for number in range(count)]
    return [{"addresses": ips, "ports": list(_PORTS[0])}]


def _begin(world: MirroringWorld) -> Steps:
    """Return the first operations of each workload: an Endpoints of maximum size."""
    if not world.options.crowds:
        return ()
    namespace, name = key = (world.options.namespace_names[0], "svc-0")
    world.services[key], world.endpoints[key] = False, _crowd(max(world.options.crowds))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": _SERVICE_PORTS},
    }
    item = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name},
        "subsets": world.endpoints[key],
    }
    return (
        Operation("create", "services", namespace, name, document(service)),
        Operation("create", "endpoints", namespace, name, document(item)),
    )


def _put_endpoints(world: MirroringWorld) -> Steps:
    """Create an Endpoints, or replace the subsets of one."""
    key = world.one_of(list(world.services)) if world.maybe(0.85) else None
    namespace, name = key = key or world.key()
    subsets = _subsets(world)
    if key not in world.endpoints:
        world.endpoints[key] = subsets
        metadata: Json = {"name": name}
        if world.maybe(0.5):
            metadata["labels"] = {k: v for k, v in world.chance.choice(_LABELS).items() if v is not None}
        if world.maybe(0.5):
            chosen = world.chance.choice(_ANNOTATIONS)
            metadata["annotations"] = {k: v for k, v in chosen.items() if v is not None}
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        return (Operation("create", "endpoints", namespace, name, document(body)),)
    world.endpoints[key] = subsets
    return (Operation("patch", "endpoints", namespace, name, document({"subsets": subsets})),)


def _flip_an_address(world: MirroringWorld) -> Steps:
    """Toggle the readiness of an address, remove an address, or add one."""
    key = world.one_of([key for key, subsets in world.endpoints.items() if subsets])
    if key is None:
        return ()
    subsets = [dict(subset) for subset in world.endpoints[key]]
    subset = world.chance.choice(subsets)
    ready, not_ready = list(subset.get("addresses", ())), list(subset.get("notReadyAddresses", ()))
    match world.chance.choice(("flip", "flip", "add", "remove")):
        case "flip" if ready:
            not_ready.append(ready.pop(world.chance.randrange(len(ready))))
        case "flip":
            ready.append(not_ready.pop(world.chance.randrange(len(not_ready))))
        case "remove" if len(ready) > 1:
            del ready[world.chance.randrange(len(ready))]
        case _:
            world.addresses += 1
            ready.append({"ip": f"10.7.{world.addresses // 250}.{world.addresses % 250 + 1}"})
    for name, addresses in (("addresses", ready), ("notReadyAddresses", not_ready)):
        subset.pop(name, None)
        if addresses:
            subset[name] = addresses
    world.endpoints[key] = subsets
    return (Operation("patch", "endpoints", *key, document({"subsets": subsets})),)


def _edit_metadata(world: MirroringWorld) -> Steps:
    """Change metadata that decides whether an Endpoints is mirrored, or that its slices carry."""
    key = world.one_of(list(world.endpoints))
    if key is None:
        return ()
    kind, choices = world.chance.choice(
        (("labels", _LABELS), ("labels", _SKIPPING), ("annotations", _ANNOTATIONS), ("annotations", _LEADING))
    )
    patch = {"metadata": {kind: world.chance.choice(choices)}}
    return (Operation("patch", "endpoints", *key, document(patch)),)


def _delete_endpoints(world: MirroringWorld) -> Steps:
    """Delete an Endpoints; sometimes recreate it immediately."""
    key = world.one_of(list(world.endpoints))
    if key is None:
        return ()
    subsets = world.endpoints.pop(key)
    delete = Operation("delete", "endpoints", *key)
    if world.maybe(0.6):
        return (delete,)
    world.endpoints[key] = subsets
    body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": key[1]}, "subsets": subsets}
    return delete, Operation("create", "endpoints", *key, document(body))


# ------------------------------------------------------------------------------------- external edits

_SLICE_EDITS: tuple[tuple[Json, str], ...] = (
    ({"endpoints": []}, ""),
    ({"endpoints": [{"addresses": ["10.66.6.6"]}, {"addresses": ["10.66.6.7"]}]}, ""),
    ({"ports": [{"name": "edited", "port": 1}]}, ""),
    ({"metadata": {"labels": {"edited": "yes"}}}, ""),
    ({"metadata": {"annotations": {"example.com/edited": "yes"}}}, "M-4"),
    ({"metadata": {"ownerReferences": None}}, "M-32"),
)


def _quarry(world: MirroringWorld) -> Key | None:
    """Return an Endpoints whose slices may be edited: each once per batch, as a second edit would depend on timing."""
    key = world.one_of([key for key in world.mirrored() if key not in world.edited | world.held])
    if key is not None:
        world.edited.add(key)
    return key


def _edit_slice(world: MirroringWorld) -> Steps:
    key = _quarry(world)
    if key is None:
        return ()
    patch, rule = world.chance.choice(_SLICE_EDITS)
    return (_on_slice(world, key, "patch", document(patch), rule=rule),)


def _delete_slice(world: MirroringWorld) -> Steps:
    key = _quarry(world)
    return (_on_slice(world, key, "delete"),) if key is not None else ()


def _put_stranger(world: MirroringWorld) -> Steps:
    """Create a slice beside those of an Endpoints: of another manager, without manager, or with the controller's label."""
    namespace, name = world.key()
    number = world.chance.randrange(4)
    if world.maybe(0.6):
        stranger = f"{STRANGER}{number}"
        if (namespace, stranger) in world.strangers:
            world.strangers.discard((namespace, stranger))
            return (Operation("delete", "endpointslices", namespace, stranger),)
        world.strangers.add((namespace, stranger))
        labels = {SERVICE_NAME: name}
        if world.maybe(0.5):
            labels[MANAGED_BY] = "somebody.example.com"
    else:
        world.posers += 1  # a reused name might still be terminating on one side
        stranger = f"posing-{world.posers}"
        labels = {SERVICE_NAME: name, MANAGED_BY: OURS}
    address_type, address = world.chance.choice(
        (("IPv4", "10.66.0.1"), ("IPv6", "fd00:66::1"), ("FQDN", "example.com"))
    )
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": stranger, "labels": labels},
        "addressType": address_type,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    return (Operation("create", "endpointslices", namespace, stranger, document(body)),)


def _give_away(world: MirroringWorld) -> Steps:
    """Relabel a slice to another manager."""
    key = _quarry(world)
    if key is None:
        return ()
    labels = world.chance.choice(({MANAGED_BY: "somebody.example.com"}, {SERVICE_NAME: "nobody"}))
    return (_on_slice(world, key, "patch", document({"metadata": {"labels": labels}}), rule="M-42"),)


def _hold(world: MirroringWorld) -> Steps:
    """Delete a slice that a finalizer keeps; :func:`_release` removes the finalizer."""
    key = _quarry(world)
    if key is None:
        return ()
    world.held.add(key)
    hold = document({"metadata": {"finalizers": [HOLD]}})
    return (
        _on_slice(world, key, "patch", hold, 0, rule="M-11"),
        _on_slice(world, key, "delete", "", 0, rule="M-11"),
    )


def _release(world: MirroringWorld) -> Steps:
    """Remove the finalizers added in earlier batches."""
    keys = sorted(key for key in world.held if world.maybe(0.5))
    world.held.difference_update(keys)
    world.edited.update(keys)
    release = document({"metadata": {"finalizers": None}})
    return [_on_slice(world, key, "patch", release, HELD, rule="M-11") for key in keys]


def _on_slice(
    world: MirroringWorld, key: Key, verb: Verb, body: str = "", index: int | None = None, *, rule: str = ""
) -> Operation:
    chosen = SliceOf(key[1], world.chance.randrange(4) if index is None else index)
    return Operation(verb, "endpointslices", key[0], chosen, body, rule=rule)


_LIFE: tuple[Weighted, ...] = (
    (4, _put_service),
    (1, _delete_service),
    (6, _put_endpoints),
    (5, _flip_an_address),
    (4, _edit_metadata),
    (2, _delete_endpoints),
)
_EXTERNAL_EDITS: tuple[Weighted, ...] = ((5, _edit_slice), (3, _delete_slice), (3, _put_stranger))
_STUCK_CASES: tuple[Weighted, ...] = ((1, _give_away), (1, _hold))
