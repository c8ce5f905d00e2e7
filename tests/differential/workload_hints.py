"""A seeded zone workload: services that prefer close endpoints, and nodes that are added, removed and changed.

The workload consists of values, as in :mod:`tests.differential.workload`; this module does not talk to a cluster. One
step is one event (a burst of pods, for example), however many requests it needs.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.differential.operations import Operation, document
from tests.differential.workload_services import DISTRIBUTIONS

ZONES = ("zone-a", "zone-b", "zone-c", "zone-d")
MODE = "service.kubernetes.io/topology-mode"
DEPRECATED_MODE = "service.kubernetes.io/topology-aware-hints"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

_ZONE_LABEL = "topology.kubernetes.io/zone"
_MODES = ("Auto", "Auto", "Auto", "auto", "Disabled", "aUto", None, None)
_MODE_KEYS = ((MODE,), (MODE,), (DEPRECATED_MODE,), (MODE, DEPRECATED_MODE))
_CPUS = ("500m", "1", "2", "3500m", "8")
_NODES_AT_LEAST = 2

Steps = Iterable["Step"]


class Step(msgspec.Struct, frozen=True):
    """One event as ordered requests. Neighbours with the same verb and resource are independent."""

    words: str
    operations: tuple[Operation, ...]


class StepBatch(msgspec.Struct, frozen=True):
    """Consecutive steps; the controllers come to rest before and after a batch."""

    number: int
    steps: tuple[Step, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which upstream's controllers may overlook parts of this batch."""
        return tuple(sorted({op.rule for step in self.steps for op in step.operations if op.rule}))


class HintOptions(msgspec.Struct, frozen=True):
    """Size of a workload. ``prefix`` starts the names of its namespace and nodes."""

    prefix: str = "h"
    services: int = 6
    nodes: int = 9
    pods: int = 380
    burst: tuple[int, int] = (60, 250)
    batch_steps: tuple[int, int] = (6, 16)

    @property
    def namespace(self) -> str:
        """The namespace of the workload; it must exist before the workload starts."""
        return f"{self.prefix}-hints"


@dataclass(slots=True)
class _Node:
    name: str
    zone: str | None
    ready: bool
    cpu: str | None
    control_plane: bool


@dataclass(slots=True)
class _Service:
    name: str
    dual_stack: bool
    pods: dict[str, bool] = field(default_factory=dict)  # name to readiness
    publishes_not_ready: bool = False


@dataclass(slots=True)
class _World:
    options: HintOptions
    chance: random.Random
    nodes: dict[str, _Node] = field(default_factory=dict)
    services: dict[str, _Service] = field(default_factory=dict)
    addresses: int = 0

    @property
    def pods(self) -> int:
        return sum(len(service.pods) for service in self.services.values())

    def a_service(self) -> _Service:
        return self.chance.choice(sorted(self.services.values(), key=lambda service: service.name))

    def a_node(self) -> _Node:
        return self.chance.choice(sorted(self.nodes.values(), key=lambda node: node.name))


def generate(seed: int, steps: int, options: HintOptions | None = None) -> tuple[StepBatch, ...]:
    """Return exactly ``steps`` steps in batches; equal arguments give equal values, and a longer workload starts alike.

    Every request is valid after the previous ones on a cluster without other nodes, except contradictory annotations,
    which are rejected.
    """
    world = _World(options or HintOptions(), random.Random(seed))
    batches = [StepBatch(0, tuple(_beginning(world))[:steps])]
    total = len(batches[0].steps)
    while total < steps:
        size = world.chance.randint(*world.options.batch_steps)
        done: list[Step] = []
        while len(done) < size:
            (action,) = world.chance.choices(_CHOICES, weights=_WEIGHTS)
            done += action(world)
        batches.append(StepBatch(len(batches), tuple(done[: steps - total])))
        total += len(batches[-1].steps)
    return tuple(batches)


def steps_in(batches: Iterable[StepBatch]) -> int:
    """Return the number of steps."""
    return sum(len(batch.steps) for batch in batches)


def _beginning(world: _World) -> Steps:
    for zone in (*ZONES[:3], *ZONES[:3]):
        yield from _create_node(world, _Node(_free_node(world), zone, True, "2", False))
    for number in range(world.options.services):
        yield from _create_service(world, f"svc-{number}")
    for _ in range(world.options.services):
        yield from _scale_up(world)


# ----------------------------------------------------------------------------------------------- pods


def _add_pods(world: _World, service: _Service, count: int, words: str) -> Steps:
    count = min(count, world.options.pods - world.pods)
    if count <= 0:
        return
    namespace = world.options.namespace
    nodes = sorted(world.nodes)
    zonal = world.chance.sample(nodes, k=min(len(nodes), world.chance.choice((1, 3, len(nodes)))))
    creates: list[Operation] = []
    statuses: list[Operation] = []
    for _ in range(count):
        world.addresses += 1
        name = f"{service.name}-{world.addresses}"
        ready = service.pods[name] = world.chance.random() < 0.85
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": service.name}},
            "spec": {
                "nodeName": world.chance.choice(zonal),
                "containers": [{"name": "main", "image": "example.com/none"}],
            },
        }
        creates.append(Operation("create", "pods", namespace, name, document(body)))
        number = world.addresses
        ips = (f"10.{30 + number // 65_536}.{number // 256 % 256}.{number % 256}", f"fd00:2::{number:x}")
        statuses.append(_pod_status(namespace, name, ready=ready, ips=ips))
    yield Step(f"{words} {service.name} by {count}", (*creates, *statuses))


def _pod_status(namespace: str, name: str, *, ready: bool, ips: Sequence[str] = ()) -> Operation:
    status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    if ips:
        status |= {"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    return Operation("patch-status", "pods", namespace, name, document({"status": status}))


def _scale_up(world: _World) -> Steps:
    yield from _add_pods(world, world.a_service(), world.chance.choice((1, 2, 3, 4, 6, 9)), "scale up")


def _burst(world: _World) -> Steps:
    yield from _add_pods(world, world.a_service(), world.chance.randint(*world.options.burst), "burst")


def _remove_pods(world: _World, service: _Service, names: Sequence[str], words: str) -> Steps:
    if not names:
        return
    for name in names:
        del service.pods[name]
    namespace = world.options.namespace
    gone = tuple(Operation("delete", "pods", namespace, name, grace_seconds=0) for name in names)
    yield Step(f"{words} {service.name} by {len(names)}", gone)


def _scale_down(world: _World) -> Steps:
    service = world.a_service()
    count = min(len(service.pods), world.chance.choice((1, 2, 5, 20)))
    yield from _remove_pods(world, service, world.chance.sample(sorted(service.pods), count), "scale down")


def _scale_to_nothing(world: _World) -> Steps:
    service = world.a_service()
    yield from _remove_pods(world, service, sorted(service.pods), "scale to nothing:")


def _flip_pods(world: _World) -> Steps:
    service = world.a_service()
    count = min(len(service.pods), world.chance.choice((1, 1, 2, 5)))
    if not count:
        return
    operations = []
    for name in world.chance.sample(sorted(service.pods), count):
        service.pods[name] = not service.pods[name]
        operations.append(_pod_status(world.options.namespace, name, ready=service.pods[name]))
    yield Step(f"readiness of {count} of {service.name}", tuple(operations))


# ------------------------------------------------------------------------------------------- services


def _create_service(world: _World, name: str, pods: dict[str, bool] | None = None) -> Steps:
    service = _Service(name, world.chance.random() < 0.4, pods or {})
    world.services[name] = service
    both = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}
    spec: dict[str, Any] = {"ports": [{"port": 80}], "selector": {"app": name}}
    spec |= both if service.dual_stack else {"ipFamilies": [world.chance.choice(("IPv4", "IPv4", "IPv6"))]}
    distribution = world.chance.choice((*DISTRIBUTIONS, None))
    if distribution is not None:
        spec["trafficDistribution"] = distribution
    annotations = {key: value for key, value in _modes(world).items() if value is not None}
    metadata = {"name": name, "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    words = f"create {name}, {distribution}, {annotations}"
    yield Step(words, (Operation("create", "services", world.options.namespace, name, document(body)),))


def _recreate_service(world: _World) -> Steps:
    service = world.services.pop(world.a_service().name)
    gone = Operation("delete", "services", world.options.namespace, service.name)
    yield Step(f"delete {service.name}", (gone,))
    yield from _create_service(world, service.name, service.pods)


def _modes(world: _World) -> dict[str, str | None]:
    """Return the annotation under either key or both, which the API server requires to be equal."""
    mode, keys = world.chance.choice(_MODES), world.chance.choice(_MODE_KEYS)
    return {key: mode if key in keys else None for key in (MODE, DEPRECATED_MODE)}


def _change_mode(world: _World) -> Steps:
    modes = _modes(world)
    if world.chance.random() < 0.1:  # usually rejected
        modes[DEPRECATED_MODE] = "Auto"
    yield _patch_service(
        world, world.a_service(), f"annotations {modes}", {"metadata": {"annotations": modes}}
    )


def _change_distribution(world: _World) -> Steps:
    distribution = world.chance.choice((*DISTRIBUTIONS, None))
    body = {"spec": {"trafficDistribution": distribution}}
    yield _patch_service(world, world.a_service(), f"trafficDistribution {distribution}", body)


def _change_families(world: _World) -> Steps:
    service = world.a_service()
    service.dual_stack = not service.dual_stack
    policy = "PreferDualStack" if service.dual_stack else "SingleStack"
    yield _patch_service(world, service, policy, {"spec": {"ipFamilyPolicy": policy}})


def _flip_publish_not_ready(world: _World) -> Steps:
    service = world.a_service()
    service.publishes_not_ready = not service.publishes_not_ready
    words = f"publishNotReadyAddresses {service.publishes_not_ready}"
    yield _patch_service(
        world, service, words, {"spec": {"publishNotReadyAddresses": service.publishes_not_ready}}
    )


def _patch_service(world: _World, service: _Service, words: str, body: dict[str, Any]) -> Step:
    operation = Operation("patch", "services", world.options.namespace, service.name, document(body))
    return Step(f"{service.name}: {words}", (operation,))


# ---------------------------------------------------------------------------------------------- nodes


def _free_node(world: _World) -> str:
    names = [f"{world.options.prefix}-node-{number}" for number in range(world.options.nodes)]
    free = [name for name in names if name not in world.nodes]
    return world.chance.choice(free)


def _create_node(world: _World, node: _Node) -> Steps:
    world.nodes[node.name] = node
    labels = {_ZONE_LABEL: node.zone} if node.zone else {}
    if node.control_plane:
        labels[CONTROL_PLANE] = ""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
    created = Operation("create", "nodes", "", node.name, document(body), rule="S-31.4")
    words = f"create {node.name} in {node.zone}, cpu {node.cpu}, ready {node.ready}"
    yield Step(words, (created, _node_status(node)))


def _node_status(node: _Node, rule: str = "S-93") -> Operation:
    conditions = [{"type": "Ready", "status": "True" if node.ready else "False"}]
    status = {"conditions": conditions, "allocatable": {"cpu": node.cpu}, "capacity": {"cpu": node.cpu}}
    return Operation("patch-status", "nodes", "", node.name, document({"status": status}), rule=rule)


def _add_node(world: _World) -> Steps:
    if len(world.nodes) >= world.options.nodes:
        return
    chance = world.chance
    zone = None if chance.random() < 0.1 else chance.choice(ZONES)
    cpu = None if chance.random() < 0.05 else chance.choice(_CPUS)
    node = _Node(_free_node(world), zone, chance.random() < 0.8, cpu, chance.random() < 0.15)
    yield from _create_node(world, node)


def _delete_node(world: _World) -> Steps:
    if len(world.nodes) <= _NODES_AT_LEAST:
        return
    node = world.nodes.pop(world.a_node().name)
    yield Step(f"delete {node.name}", (Operation("delete", "nodes", "", node.name, rule="S-4"),))


def _recreate_node(world: _World) -> Steps:
    node = world.nodes.pop(world.a_node().name)
    yield Step(f"delete {node.name}", (Operation("delete", "nodes", "", node.name, rule="S-4"),))
    node.zone = world.chance.choice(ZONES)
    yield from _create_node(world, node)


def _change_zone(world: _World) -> Steps:
    node = world.a_node()
    node.zone = None if world.chance.random() < 0.1 else world.chance.choice(ZONES)
    yield _patch_labels(node, {_ZONE_LABEL: node.zone}, f"{node.name} to {node.zone}")


def _join_or_leave_control_plane(world: _World) -> Steps:
    node = world.a_node()
    node.control_plane = not node.control_plane
    yield _patch_labels(node, {CONTROL_PLANE: "" if node.control_plane else None}, f"role of {node.name}")


def _patch_labels(node: _Node, labels: dict[str, str | None], words: str) -> Step:
    body = document({"metadata": {"labels": labels}})
    return Step(words, (Operation("patch", "nodes", "", node.name, body, rule="S-4"),))


def _flip_node(world: _World) -> Steps:
    node = world.a_node()
    node.ready = not node.ready
    yield Step(f"{node.name} ready {node.ready}", (_node_status(node),))


def _change_cpu(world: _World) -> Steps:
    node = world.a_node()
    node.cpu = None if world.chance.random() < 0.06 else world.chance.choice(_CPUS)
    yield Step(f"{node.name} cpu {node.cpu}", (_node_status(node, rule="S-5"),))


def _complete_nodes(world: _World) -> Steps:
    """Add missing properties to every node and make it ready, so that hints become possible again."""
    for node in sorted(world.nodes.values(), key=lambda node: node.name):
        if node.zone is None:
            node.zone = world.chance.choice(ZONES[:3])
            yield _patch_labels(node, {_ZONE_LABEL: node.zone}, f"{node.name} to {node.zone}")
        if node.cpu is None or not node.ready:
            node.cpu, node.ready = node.cpu or "1", True
            yield Step(f"{node.name} cpu {node.cpu}, ready", (_node_status(node),))


_ACTIONS: tuple[tuple[int, Callable[[_World], Steps]], ...] = (
    (16, _scale_up),
    (2, _burst),
    (10, _scale_down),
    (1, _scale_to_nothing),
    (16, _flip_pods),
    (7, _change_distribution),
    (10, _change_mode),
    (2, _change_families),
    (1, _flip_publish_not_ready),
    (1, _recreate_service),
    (4, _add_node),
    (3, _delete_node),
    (2, _recreate_node),
    (5, _change_zone),
    (2, _join_or_leave_control_plane),
    (5, _flip_node),
    (5, _change_cpu),
    (9, _complete_nodes),
)
_CHOICES = [action for _, action in _ACTIONS]
_WEIGHTS = [weight for weight, _ in _ACTIONS]
