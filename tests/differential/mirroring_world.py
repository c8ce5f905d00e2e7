"""What a life of hand-written Endpoints believes of the cluster it acts on, and how large it grows."""

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
    """How large a life grows, and whether it touches what the controller owns.

    ``prefix`` begins the names of its namespaces. ``wedging`` admits what upstream sticks at until it is restarted (M-11,
    M-42). ``crowds`` are the numbers of addresses of the largest Endpoints.
    """

    prefix: str = "m"
    namespaces: int = 2
    names: int = 5
    batch_operations: tuple[int, int] = (4, 10)
    meddling: bool = True
    wedging: bool = True
    crowds: tuple[int, ...] = (999, 1000, 1200)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces of the life; they must be there before it begins."""
        return tuple(f"{self.prefix}-{chr(97 + number)}" for number in range(self.namespaces))


@dataclass(slots=True)
class MirroringWorld:
    """All of it, with the chance that moves it."""

    options: MirroringOptions
    chance: random.Random
    services: dict[Key, bool] = field(default_factory=dict)
    """Whether each one has a selector."""
    endpoints: dict[Key, list[Json]] = field(default_factory=dict)
    """The subsets of each one."""
    strangers: set[Key] = field(default_factory=set)
    held: set[Key] = field(default_factory=set)
    """Of which a slice is kept from going."""
    meddled: set[Key] = field(default_factory=set)
    """Whose slices were meddled with in this batch."""
    addresses: int = 0
    posers: int = 0
    """How many slices have been put that pose as the controller's: no name twice, as who deletes them is the controllers' choice."""

    def maybe(self, probability: float) -> bool:
        """Say yes with this probability."""
        return self.chance.random() < probability

    def key(self) -> Key:
        """Return a name that there may be a service or an Endpoints of; there are few, so that they come again."""
        namespace = self.chance.choice(self.options.namespace_names)
        return namespace, f"svc-{self.chance.randrange(self.options.names)}"

    def one_of(self, keys: Sequence[Key]) -> Key | None:
        """Return one of the keys, None where there is none."""
        return self.chance.choice(sorted(keys)) if keys else None

    def mirrored(self) -> list[Key]:
        """Return what may well have slices that mirror it."""
        return [key for key, selected in self.services.items() if not selected and key in self.endpoints]


Steps = Sequence[Operation]
Weighted = tuple[int, Callable[[MirroringWorld], Steps]]
