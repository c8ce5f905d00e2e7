"""The operations of a workload: frozen values that can be printed, stored and replayed."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.resource import Resource

Verb = Literal["create", "patch", "patch-status", "delete"]

RESOURCES: dict[str, Resource[Any]] = {
    resource.plural: resource for resource in (PODS, SERVICES, NODES, ENDPOINTS, ENDPOINT_SLICES)
}


class SliceOf(msgspec.Struct, frozen=True):
    """One of the slices of a service, whose names are random.

    Slices are ordered by content; ``index`` counts in that order, modulo their number. It identifies the same slice on two
    clusters in agreement, so it is only used then.
    """

    service: str
    index: int

    def __str__(self) -> str:
        return f"{self.service}~{self.index}"


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request. ``body`` is a JSON document: the object to create, or a merge patch.

    In a body, ``$(uid:NAME)`` stands for the uid of the service of that name on the cluster.
    ``rule`` names the rule by which upstream's controllers may overlook this change.
    """

    verb: Verb
    resource: str
    namespace: str
    name: str | SliceOf
    body: str = ""
    grace_seconds: int | None = None
    rule: str = ""

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else str(self.name)
        grace = f" --grace-period={self.grace_seconds}" if self.grace_seconds is not None else ""
        return f"{self.verb:12} {self.resource:14} {where}{grace} {self.body}".rstrip()


class Batch(msgspec.Struct, frozen=True):
    """Consecutive operations; the controllers come to rest before and after a batch.

    Operations on a :class:`SliceOf` come first, while two clusters agree on the slice.
    """

    number: int
    operations: tuple[Operation, ...]

    @property
    def has_external_edits(self) -> bool:
        """Return whether an object owned by the controllers is edited (they reconcile it after a second, S-3)."""
        return any(operation.resource in ("endpointslices", "endpoints") for operation in self.operations)


def document(value: object) -> str:
    """Return a body: compact JSON with keys in the given order."""
    return msgspec.json.encode(value).decode()


def count(batches: Iterable[Batch]) -> int:
    """Return the number of operations."""
    return sum(len(batch.operations) for batch in batches)
