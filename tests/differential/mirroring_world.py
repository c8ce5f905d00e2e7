"""The state of the cluster as the mirroring workload knows it, and the workload's size limits."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.differential.operations import Operation

Key = tuple[str, str]
"""Namespace and name of a service, and of its Endpoints."""

Json = dict[str, Any]


class MirroringOptions(msgspec.Struct, frozen=True):
    """Size of a workload, and whether it edits objects owned by the controller.

    ``prefix`` starts the names of its namespaces. ``stuck_cases`` allows operations after which upstream is stuck until a
    restart (M-11, M-42). ``crowds`` are the address counts of the largest Endpoints.
    """

    prefix: str = "m"
    namespaces: int = 2
    names: int = 5
    batch_operations: tuple[int, int] = (4, 10)
    external_edits: bool = True
    stuck_cases: bool = True
    crowds: tuple[int, ...] = (999, 1000, 1200)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces of the workload; they must exist before it starts."""
        return tuple(f"{self.prefix}-{chr(97 + number)}" for number in range(self.namespaces))


@dataclass(slots=True)
class MirroringWorld:
    """The known state, with the workload's random source."""

    options: MirroringOptions
    chance: random.Random
    services: dict[Key, bool] = field(default_factory=dict)
    """Whether each service has a selector."""
    endpoints: dict[Key, list[Json]] = field(default_factory=dict)
    """The subsets of each Endpoints."""
    strangers: set[Key] = field(default_factory=set)
    held: set[Key] = field(default_factory=set)
    """Endpoints with a slice kept by a finalizer."""
    edited: set[Key] = field(default_factory=set)
    """Endpoints whose slices were edited in this batch."""
    addresses: int = 0
    posers: int = 0
    """Number of slices created with the controller's label. Names are not reused, as the controllers choose when to delete them."""

    def maybe(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.chance.random() < probability

    def key(self) -> Key:
        """Return a name for a service or an Endpoints; the few names are reused often."""
        namespace = self.chance.choice(self.options.namespace_names)
        return namespace, f"svc-{self.chance.randrange(self.options.names)}"

    def one_of(self, keys: Sequence[Key]) -> Key | None:
        """Return one of the keys; None for an empty sequence."""
        return self.chance.choice(sorted(keys)) if keys else None

    def mirrored(self) -> list[Key]:
        """Return the Endpoints that probably have mirrored slices."""
        return [key for key, selected in self.services.items() if not selected and key in self.endpoints]


Steps = Sequence[Operation]
Weighted = tuple[int, Callable[[MirroringWorld], Steps]]
