"""The state of the cluster as the workload knows it, so that its operations are valid in sequence."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from tests.differential.operations import Operation

HOLD = "differential.example/hold"  # a finalizer: its objects stay terminating until it is removed
ZONES = ("zone-a", "zone-b", "zone-c")
GHOST_NODE = "ghost"

_T = TypeVar("_T")


class WorkloadOptions(msgspec.Struct, frozen=True):
    """Size of a workload, and whether it edits objects owned by the controllers.

    ``prefix`` starts the names of namespaces and nodes, so that several workloads can share one cluster.
    ``stuck_cases`` allows operations after which upstream is stuck until a restart (S-113, and slices kept by a finalizer, 2.3).
    ``freezing`` allows operations after which the controllers leave a service unchanged: without it, the final state does
    not depend on when they were running. ``sidecar_ports`` gives some pods sidecars with named ports, which upstream
    resolves since 1.34 (slices: 1.33).
    """

    prefix: str = "w"
    namespaces: int = 2
    services: int = 14
    pods: int = 36
    nodes: int = 5
    batch_operations: tuple[int, int] = (6, 14)
    external_edits: bool = True
    stuck_cases: bool = True
    freezing: bool = True
    sidecar_ports: bool = True

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces of the workload; they must exist before it starts."""
        return tuple(f"{self.prefix}-{chr(97 + i)}" for i in range(self.namespaces))


@dataclass(slots=True)
class PodState:
    """A pod as the workload knows it; ``ready`` is None without a Ready condition."""

    namespace: str
    name: str
    labels: dict[str, str]
    ips: tuple[str, ...] = ()
    ready: bool | None = None
    phase: str = "Pending"
    held: bool = False
    terminating: bool = False


@dataclass(slots=True)
class ServiceState:
    """A service as the workload knows it."""

    namespace: str
    name: str
    labels: dict[str, str]
    selector: dict[str, str] | None
    type: str = "ClusterIP"
    headless: bool = False
    publishes_not_ready: bool = False
    held: bool = False
    terminating: bool = False


@dataclass(slots=True)
class NodeState:
    """A node as the workload knows it."""

    name: str
    zone: str
    ready: bool


@dataclass(slots=True)
class World:
    """The known state, with the workload's random source and unused names."""

    options: WorkloadOptions
    chance: random.Random
    pods: dict[tuple[str, str], PodState] = field(default_factory=dict)
    services: dict[tuple[str, str], ServiceState] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    foreign_slices: set[tuple[str, str]] = field(default_factory=set)
    slices_made: int = 0
    edited: set[tuple[str, str]] = field(default_factory=set)
    seconds: int = 0
    addresses: int = 0
    free_addresses: list[tuple[str, str]] = field(default_factory=list)

    def one_of(self, candidates: Iterable[_T], allowed: Callable[[_T], bool] = lambda _: True) -> _T | None:
        """Return one of the allowed candidates, or None."""
        fitting = [candidate for candidate in candidates if allowed(candidate)]
        return self.chance.choice(fitting) if fitting else None

    def maybe(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.chance.random() < probability

    def free_name(self, prefix: str, limit: int, taken: Iterable[str]) -> str | None:
        """Return an unused name out of few, so that names are reused soon."""
        used = set(taken)
        return self.one_of(f"{prefix}-{i}" for i in range(limit) if f"{prefix}-{i}" not in used)

    def addresses_for_a_pod(self) -> tuple[str, str]:
        """Return an IPv4 and an IPv6 address, often those of a deleted pod."""
        if self.free_addresses and self.maybe(0.5):
            return self.free_addresses.pop(self.chance.randrange(len(self.free_addresses)))
        self.addresses += 1
        number = self.addresses
        return f"10.{20 + number // 65_536}.{number // 256 % 256}.{number % 256}", f"fd00:1::{number:x}"

    def next_time(self) -> str:
        """Return a time later than the previous one (for conditions)."""
        self.seconds += 1
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"2024-01-{1 + hours // 24:02}T{hours % 24:02}:{minutes:02}:{seconds:02}Z"

    def labels(self) -> dict[str, str]:
        """Return labels from a small set, so that selectors match pods."""
        labels = {"app": self.chance.choice("abc")}
        if self.maybe(0.5):
            labels["tier"] = self.chance.choice(("front", "back"))
        return labels


def merge_patch_for(old: dict[str, str], new: dict[str, str]) -> dict[str, str | None]:
    """Return the merge patch that turns one map into the other."""
    gone: dict[str, str | None] = {key: None for key in old if key not in new}
    return {**gone, **{key: value for key, value in new.items() if old.get(key) != value}}


Steps = Sequence[Operation]
Action = Callable[[World], Steps]
Weighted = tuple[int, Action]
Json = dict[str, Any]
