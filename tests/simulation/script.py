"""The events of one simulation, generated from its seed: frozen values, so that a script can be printed and shrunk."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.differential import mirroring_workload, workload
from tests.differential.mirroring_world import MirroringOptions
from tests.differential.operations import Operation, document
from tests.differential.workload_world import WorkloadOptions
from tinykube.testing.simulated_network import Fault

REPLICAS = ("replica-a", "replica-b")
NAMESPACES = ("w-a", "w-b")
_FAULT_KINDS = (
    ("lose-request", 3),
    ("lose-answer", 4),
    ("silence", 1),
    ("slow", 2),
    ("status", 4),
    ("act-and-status", 2),
    ("end-watch", 3),
    ("stall-watch", 2),
    ("expire-watch", 2),
)
_STATUSES: tuple[tuple[int, int | None], ...] = (
    (401, None),
    (409, None),
    (410, None),
    (429, 1),
    (429, 3),
    (500, None),
    (503, None),
    (503, 1),
    (504, None),
)
_RESOURCES = ("", "", "endpointslices", "endpointslices", "endpoints", "pods", "services", "nodes", "leases")
_VERBS = ("", "create", "update", "update", "delete", "list", "get")


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One event at a moment of virtual time. An event that does not apply at that moment has no effect.

    ``kind`` is one of: operation (an external write to the API), fault (of the next matching request of ``host``), cut (the
    link of ``host`` for ``seconds``), pause, kill (``host``, which restarts after ``seconds``), kill-at-write (as its
    ``count``-th write from now leaves; with ``acted``, after the server has processed it), stop (with SIGTERM),
    server-kill (``acted``: its last write was synced), withhold (the ``count``-th watch delivery of ``host``, for
    ``seconds``), freeze (the second API server's watch cache, for ``seconds``).
    """

    at: float
    kind: str
    host: str = ""
    seconds: float = 0.0
    count: int = 0
    acted: bool = False
    fault: Fault | None = None
    operation: Operation | None = None

    def __str__(self) -> str:
        parts: list[str] = [self.kind, self.host]
        if self.seconds:
            parts.append(f"for {self.seconds:.1f} s")
        if self.count:
            parts.append(f"{self.count}")
        if self.acted:
            parts.append("(acted)")
        parts.append(str(self.fault or self.operation or ""))
        return f"{self.at:8.3f} s  {' '.join(part for part in parts if part)}"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A simulation except the order of callbacks: hosts, their clocks and links, and the events."""

    seed: int
    events: tuple[Event, ...]
    ends_at: float
    disorder: float
    clock_rates: tuple[float, ...]
    clock_offsets: tuple[float, ...]
    slow_share: float
    has_twin: bool
    lag_seconds: float
    max_endpoints: int
    has_webhook: bool
    quiet_seconds: float
    has_lifecycle: bool
    history_changes: int


def make_script(seed: int) -> Script:
    """Return the script of a seed."""
    rng = random.Random(f"script {seed}")
    ends_at = rng.choice((10.0, 25.0, 45.0))
    events = [*_operations(rng, ends_at), *_disturbances(rng, ends_at)]
    events.sort(key=lambda event: event.at)
    return Script(
        seed=seed,
        events=tuple(events),
        ends_at=ends_at,
        disorder=rng.choice((0.0, 0.1, 0.5, 1.0, 1.0)),
        clock_rates=tuple(rng.choice((1.0, 0.95, 1.05, 1.1)) for _ in REPLICAS),
        clock_offsets=tuple(rng.uniform(0, 100_000) for _ in REPLICAS),
        slow_share=rng.choice((0.0, 0.0, 0.02, 0.1)),
        has_twin=rng.random() < 0.5,
        lag_seconds=rng.choice((0.01, 0.5, 3.0)),
        max_endpoints=rng.choice((1, 2, 3, 5)),
        has_webhook=rng.random() < 0.1,
        quiet_seconds=600.0 if rng.random() < 0.05 else 75.0,
        has_lifecycle=rng.random() < 0.5,
        history_changes=rng.choice((5, 50, 10_000)),
    )


def _operations(rng: random.Random, ends_at: float) -> list[Event]:
    """Return the workload: bursts of operations with rests between, or evenly spread."""
    operations: list[Operation] = []
    sort = rng.random()
    seed = rng.randrange(10**9)
    size = rng.choice((15, 30, 60))
    if sort < 0.7:
        options = WorkloadOptions(
            prefix="w", services=rng.choice((2, 4, 8)), pods=rng.choice((6, 12, 24)), nodes=3
        )
        for batch in workload.generate(seed, size, options):
            operations += batch.operations
    elif sort < 0.85:
        mirroring = MirroringOptions(prefix="w", names=3, crowds=(12,))
        for made in mirroring_workload.generate(seed, size, mirroring):
            operations += made.operations
    else:
        operations += rollout(rng)
    if rng.random() < 0.5:
        moments = sorted(rng.uniform(0, ends_at) for _ in operations)
    else:
        moments, at = [], 0.0
        for _ in operations:
            at += rng.choice((0.0, 0.0, 0.0001, 0.002, 0.05, 1.0)) * rng.random() * ends_at / 10
            moments.append(min(at, ends_at))
    return [
        Event(at=at, kind="operation", operation=operation)
        for at, operation in zip(moments, operations, strict=True)
    ]


def rollout(rng: random.Random, size: int = 0) -> list[Operation]:
    """Return a rolling update: each pod of a service is replaced by a new one that becomes ready first."""
    namespace, size = NAMESPACES[0], size or rng.randint(3, 8)
    found: list[Operation] = [
        _create("nodes", "", "node-0", {"kind": "Node", "apiVersion": "v1"}),
        _create(
            "services",
            namespace,
            "web",
            {
                "kind": "Service",
                "apiVersion": "v1",
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
            },
        ),
    ]
    for number in range(size):
        found += _ready_pod(namespace, f"web-1-{number}", f"10.1.0.{number + 1}")
    for number in range(size):
        found += _ready_pod(namespace, f"web-2-{number}", f"10.1.1.{number + 1}")
        found.append(_pod_status(namespace, f"web-1-{number}", f"10.1.0.{number + 1}", is_ready=False))
        found.append(Operation("delete", "pods", namespace, f"web-1-{number}", grace_seconds=0))
    return found


def _create(resource: str, namespace: str, name: str, body: dict[str, Any]) -> Operation:
    labels = body.pop("labels", {})
    return Operation(
        "create", resource, namespace, name, document({**body, "metadata": {"name": name, "labels": labels}})
    )


def _ready_pod(namespace: str, name: str, address: str) -> list[Operation]:
    spec = {"nodeName": "node-0", "containers": [{"name": "main", "image": "registry.invalid/none"}]}
    body = {"kind": "Pod", "apiVersion": "v1", "labels": {"app": "web"}, "spec": spec}
    return [_create("pods", namespace, name, body), _pod_status(namespace, name, address, is_ready=True)]


def _pod_status(namespace: str, name: str, address: str, *, is_ready: bool) -> Operation:
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
    }
    return Operation("patch-status", "pods", namespace, name, document({"status": status}))


def _disturbances(rng: random.Random, ends_at: float) -> list[Event]:
    """Return faults: a few kinds per script, so that each kind also occurs alone."""
    kinds = rng.sample(
        ("fault", "cut", "pause", "kill", "kill-at-write", "stop", "server-kill", "freeze"),
        k=rng.randint(1, 4),
    )
    kinds += ["fault"] * (rng.random() < 0.5)
    found: list[Event] = []
    for _ in range(rng.choice((2, 5, 12))):
        at = rng.uniform(0, ends_at)
        host = rng.choice((*REPLICAS, REPLICAS[0]))
        match rng.choice(kinds):
            case "fault":
                found.append(Event(at=at, kind="fault", host=host, fault=_fault(rng)))
            case "cut":
                found.append(Event(at=at, kind="cut", host=host, seconds=rng.choice((0.5, 5.0, 12.0, 20.0))))
            case "pause":
                found.append(
                    Event(at=at, kind="pause", host=host, seconds=rng.choice((0.5, 5.0, 9.9, 16.0, 25.0)))
                )
            case "kill":
                found.append(Event(at=at, kind="kill", host=host, seconds=rng.choice((0.1, 3.0, 18.0))))
            case "kill-at-write":
                found.append(
                    Event(
                        at=at,
                        kind="kill-at-write",
                        host=host,
                        seconds=rng.choice((0.1, 3.0)),
                        count=rng.randint(1, 4),
                        acted=rng.random() < 0.5,
                    )
                )
            case "stop":
                found.append(Event(at=at, kind="stop", host=host, seconds=rng.choice((0.1, 3.0))))
            case "server-kill":
                found.append(
                    Event(
                        at=at,
                        kind="server-kill",
                        seconds=rng.choice((0.1, 2.0, 12.0)),
                        acted=rng.random() < 0.5,
                    )
                )
            case "freeze":
                found.append(Event(at=at, kind="freeze", seconds=rng.choice((1.0, 8.0, 20.0))))
    return found


def _fault(rng: random.Random) -> Fault:
    (kind,) = rng.choices([kind for kind, _ in _FAULT_KINDS], weights=[weight for _, weight in _FAULT_KINDS])
    resource = rng.choice(_RESOURCES)
    if kind.endswith("-watch"):
        return Fault(kind, resource=resource, seconds=rng.choice((0.0, 1.0, 10.0)))
    verb = rng.choice(_VERBS)
    if kind in ("status", "act-and-status"):
        code, retry_after = rng.choice(_STATUSES)
        if kind == "act-and-status":
            code, retry_after = rng.choice((500, 504)), None
        return Fault(kind, verb=verb, resource=resource, code=code, retry_after_seconds=retry_after)
    return Fault(
        kind, verb=verb, resource=resource, seconds=rng.choice((0.5, 3.0, 12.0)) if kind == "slow" else 0.0
    )


def with_events(script: Script, events: Sequence[Event]) -> Script:
    """Return the script with other events."""
    return msgspec.structs.replace(script, events=tuple(events))
