"""Operations on pods and nodes in a workload. Without kubelets, the workload writes their status."""

from tests.differential.operations import Operation, document
from tests.differential.workload_world import (
    GHOST_NODE,
    HOLD,
    ZONES,
    Json,
    NodeState,
    PodState,
    Steps,
    Weighted,
    World,
    merge_patch_for,
)

_GRACE_SECONDS = (
    600  # longer than any workload: a gracefully deleted pod stays terminating until a forced deletion
)

_PORTS: tuple[tuple[Json, ...], ...] = (
    ({"name": "http", "containerPort": 8080},),
    ({"name": "http", "containerPort": 8081}, {"name": "grpc", "containerPort": 9000}),
    ({"name": "metrics", "containerPort": 9100}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}),
    ({"name": "dns", "containerPort": 5353, "protocol": "TCP"},),
    ({"containerPort": 8080},),
    (),
)


def create_pod(world: World) -> Steps:
    """Create a pod on a node, which may not exist; usually it runs soon."""
    namespace = world.chance.choice(world.options.namespace_names)
    options = world.options
    taken = [name for (where, name) in world.pods if where == namespace]
    name = world.free_name("pod", options.pods // options.namespaces + 6, taken)
    if name is None or len(world.pods) >= options.pods:
        return ()
    pod = PodState(namespace, name, world.labels(), held=world.maybe(0.15))
    world.pods[namespace, name] = pod
    node = GHOST_NODE if not world.nodes or world.maybe(0.06) else world.chance.choice(sorted(world.nodes))
    spec: Json = {"nodeName": node, "containers": _containers(world)}
    sidecars = _init_containers(world)
    if sidecars:
        spec["initContainers"] = sidecars
    if world.maybe(0.3):
        spec["hostname"] = f"host-{name}"
        spec["subdomain"] = f"svc-{world.chance.randrange(options.services)}"
    metadata: Json = {"name": name, "labels": pod.labels}
    if pod.held:
        metadata["finalizers"] = [HOLD]
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    created = Operation("create", "pods", namespace, name, document(body))
    return (created, *_run(world, pod)) if world.maybe(0.85) else (created,)


def start_pod(world: World) -> Steps:
    """Give a pending pod its addresses."""
    pod = world.one_of(world.pods.values(), lambda pod: pod.phase == "Pending" and not pod.terminating)
    return _run(world, pod) if pod else ()


def flip_ready(world: World) -> Steps:
    """Toggle the readiness of a running pod; sometimes remove the condition."""
    pod = world.one_of(world.pods.values(), lambda pod: bool(pod.ips) and pod.phase == "Running")
    if pod is None:
        return ()
    pod.ready = None if world.maybe(0.08) else not pod.ready
    return (_status(world, pod),)


def change_pod_address(world: World) -> Steps:
    """Change the addresses, or the number of addresses, of a running pod."""
    pod = world.one_of(world.pods.values(), lambda pod: bool(pod.ips) and pod.phase == "Running")
    if pod is None:
        return ()
    pod.ips = () if world.maybe(0.1) else _ips(world)
    return (_status(world, pod),)


def finish_pod(world: World) -> Steps:
    """Let a pod succeed or fail; its Ready condition becomes false, as a kubelet sets it, or stays."""
    pod = world.one_of(world.pods.values(), lambda pod: pod.phase in ("Pending", "Running"))
    if pod is None:
        return ()
    pod.phase = world.chance.choice(("Succeeded", "Failed"))
    overlooked = "0.3"
    if pod.ready and world.maybe(0.5):
        pod.ready, overlooked = False, ""
    return (_status(world, pod, rule=overlooked),)


def change_pod_labels(world: World) -> Steps:
    """Change a pod's labels, so that it leaves and joins services."""
    pod = world.one_of(world.pods.values())
    if pod is None:
        return ()
    old, pod.labels = pod.labels, world.labels()
    change = merge_patch_for(old, pod.labels)
    if not change:
        return ()
    return (Operation("patch", "pods", pod.namespace, pod.name, document({"metadata": {"labels": change}})),)


def delete_pod(world: World) -> Steps:
    """Delete a pod: gracefully, which leaves it terminating, or immediately; a finalizer keeps it in both cases."""
    pod = world.one_of(world.pods.values(), lambda pod: not pod.terminating)
    if pod is None:
        return ()
    graceful = world.maybe(0.5)
    pod.terminating = True
    stays = pod.held or (graceful and pod.phase not in ("Succeeded", "Failed"))
    if not stays:
        _forget(world, pod)
    grace = _GRACE_SECONDS if graceful else 0
    return (Operation("delete", "pods", pod.namespace, pod.name, grace_seconds=grace),)


def end_terminating_pod(world: World) -> Steps:
    """Remove a terminating pod."""
    pod = world.one_of(world.pods.values(), lambda pod: pod.terminating)
    if pod is None:
        return ()
    _forget(world, pod)
    forced = Operation("delete", "pods", pod.namespace, pod.name, grace_seconds=0)
    if not pod.held:
        return (forced,)
    freed = Operation("patch", "pods", pod.namespace, pod.name, document({"metadata": {"finalizers": None}}))
    return (forced, freed)


def create_node(world: World) -> Steps:
    """Add a node, with or without a zone. Pods that name it may exist already (S-31.4)."""
    names = [f"{world.options.prefix}-node-{i}" for i in range(world.options.nodes)]
    name = world.one_of(names, lambda name: name not in world.nodes)
    if name is None:
        return ()
    node = world.nodes[name] = NodeState(name, world.chance.choice((*ZONES, "")), ready=world.maybe(0.8))
    labels = {"topology.kubernetes.io/zone": node.zone} if node.zone else {}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    created = Operation("create", "nodes", "", name, document(body), rule="S-31.4")
    return (created, _node_status(world, node))


def delete_node(world: World) -> Steps:
    """Remove a node; lookups for its remaining pods now fail."""
    node = world.one_of(world.nodes.values())
    if node is None or len(world.nodes) < 3:
        return ()
    del world.nodes[node.name]
    return (Operation("delete", "nodes", "", node.name, rule="S-4"),)


def change_node_zone(world: World) -> Steps:
    """Move a node to another zone, or remove its zone."""
    node = world.one_of(world.nodes.values())
    if node is None:
        return ()
    node.zone = world.chance.choice((*ZONES, ""))
    body = document({"metadata": {"labels": {"topology.kubernetes.io/zone": node.zone or None}}})
    return (Operation("patch", "nodes", "", node.name, body, rule="S-4"),)


def flip_node_ready(world: World) -> Steps:
    """Toggle the readiness of a node."""
    node = world.one_of(world.nodes.values())
    if node is None:
        return ()
    node.ready = not node.ready
    return (_node_status(world, node),)


POD_ACTIONS: tuple[Weighted, ...] = (
    (16, create_pod),
    (6, start_pod),
    (16, flip_ready),
    (4, change_pod_address),
    (3, finish_pod),
    (5, change_pod_labels),
    (6, delete_pod),
    (4, end_terminating_pod),
    (3, create_node),
    (1, delete_node),
    (2, change_node_zone),
    (1, flip_node_ready),
)


def _run(world: World, pod: PodState) -> Steps:
    pod.phase = "Running"
    pod.ips = _ips(world)
    pod.ready = world.maybe(0.7)
    return (_status(world, pod),)


def _ips(world: World) -> tuple[str, ...]:
    v4, v6 = world.addresses_for_a_pod()
    return world.chance.choice(((v4,), (v4,), (v6,), (v4, v6), (v4, v6), (v6, v4)))


def _status(world: World, pod: PodState, rule: str = "") -> Operation:
    conditions: list[Json] = [{"type": "PodScheduled", "status": "True"}]
    if pod.ready is not None:
        moment = world.next_time()
        conditions.append(
            {"type": "Ready", "status": "True" if pod.ready else "False", "lastTransitionTime": moment}
        )
    status: Json = {
        "phase": pod.phase,
        "podIP": pod.ips[0] if pod.ips else None,
        "podIPs": [{"ip": ip} for ip in pod.ips] or None,
        "conditions": conditions,
    }
    body = document({"status": status})
    return Operation("patch-status", "pods", pod.namespace, pod.name, body, rule=rule)


def _node_status(world: World, node: NodeState) -> Operation:
    ready = {
        "type": "Ready",
        "status": "True" if node.ready else "False",
        "lastTransitionTime": world.next_time(),
    }
    status = {"conditions": [ready], "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
    return Operation("patch-status", "nodes", "", node.name, document({"status": status}))


def _containers(world: World) -> list[Json]:
    names = ("main", "side") if world.maybe(0.4) else ("main",)
    return [
        {"name": name, "image": "registry.invalid/none", "ports": world.chance.choice(_PORTS)}
        for name in names
    ]


def _init_containers(world: World) -> list[Json]:
    found: list[Json] = []
    if world.maybe(0.15):  # its ports do not count (0.4)
        ports = [{"name": "http", "containerPort": 1}]
        found.append({"name": "prepare", "image": "registry.invalid/none", "ports": ports})
    if world.options.sidecar_ports and world.maybe(0.25):
        ports = [{"name": world.chance.choice(("http", "grpc", "mesh")), "containerPort": 15_000}]
        sidecar = {
            "name": "mesh",
            "image": "registry.invalid/none",
            "ports": ports,
            "restartPolicy": "Always",
        }
        found.append(sidecar)
    return found


def _forget(world: World, pod: PodState) -> None:
    del world.pods[pod.namespace, pod.name]
    if len(pod.ips) == 2:
        v6, v4 = sorted(pod.ips, key=lambda ip: ":" not in ip)
        world.free_addresses.append((v4, v6))
