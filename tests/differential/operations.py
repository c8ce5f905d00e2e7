"""What a workload does to a cluster: frozen values that can be printed, kept and applied again."""

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
    """One of the slices that a controller made for a service, whose names are chance.

    The slices are put in order by what is in them; ``index`` counts in that order, and starts again from the
    first where there are fewer. It finds the same slice on two clusters that agree, so it is only used then.
    """

    service: str
    index: int

    def __str__(self) -> str:
        return f"{self.service}~{self.index}"


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request. ``body`` is a JSON document: the object to create, or a merge patch.

    In a body, ``$(uid:NAME)`` stands for the uid of the service of that name, as it is on the cluster.
    ``rule`` names the rule of upstream's behaviour by which its controllers may overlook this change.
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
    """Operations that follow each other at once; before and after them the controllers are let come to rest.

    Those on a :class:`SliceOf` come first, while two clusters still agree on which slice that is.
    """

    number: int
    operations: tuple[Operation, ...]

    @property
    def meddles(self) -> bool:
        """Tell whether something is changed that the controllers own (they look again after a second, S-3)."""
        return any(operation.resource in ("endpointslices", "endpoints") for operation in self.operations)


def document(value: object) -> str:
    """Return a body: compact JSON with its keys in the order given."""
    return msgspec.json.encode(value).decode()


def count(batches: Iterable[Batch]) -> int:
    """Return how many operations there are."""
    return sum(len(batch.operations) for batch in batches)
