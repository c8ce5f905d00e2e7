"""A snapshot of the objects that Services depend on: the input of all diagnoses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    EndpointSlice,
)
from aiokube.api.endpoints import Endpoints
from aiokube.api.events import Event
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodOutcome, PodTranslator, service_of
from endpointd.controllers.endpointslice.node_zones import published_zones
from endpointd.controllers.indexes import service_name_of
from endpointd.controllers.membership import Membership
from endpointd.diagnose.details import PodDetails

T = TypeVar("T", bound=KubernetesObject)


class Unread(msgspec.Struct, frozen=True):
    """A collection that could not be read, and why.

    Answers that depend on it are unknown rather than guessed.
    """

    resource: str
    why: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that were read.

    ``namespace`` is ``""`` for all; ``unread`` lists the unreadable collections.
    """

    services: tuple[Service, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    endpoints: tuple[Endpoints, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    details: tuple[PodDetails, ...] = ()
    """Details of the pods, if reasons are wanted; otherwise empty."""
    events: tuple[Event, ...] = ()
    """Events of pods and services, if requested."""
    missing_zones: Mapping[str, str] | None = None
    """The zones, by node, of missing nodes that count as present because they were deleted recently. None if
    their history is unknown: they are then derived from the published slices, as the controller does at
    start-up."""
    namespace: str = ""
    unread: tuple[Unread, ...] = ()
    """Collections that are unknown. An unknown collection is never treated as an empty one."""
    assumed: str = ""
    """An assumption in place of missing objects, as a sentence; ``""`` for none."""


class Collection(Generic[T]):
    """Objects by key and by namespace; implements the controllers' listers."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items: dict[ObjectKey, T] = {key_of(item): item for item in items}
        self._in_namespace: dict[str, list[T]] = {}
        for key, item in self._items.items():
            self._in_namespace.setdefault(key.namespace, []).append(item)

    def get(self, key: ObjectKey) -> T | None:
        """Return one object, or None."""
        return self._items.get(key)

    def values(self) -> Iterable[T]:
        """Return all objects."""
        return self._items.values()

    def in_namespace(self, namespace: str) -> Sequence[T]:
        """Return the objects of a namespace."""
        return self._in_namespace.get(namespace, ())

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._items)


class ClusterIndex:
    """A snapshot with indexes, built once for many queries. O(objects)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.services: Collection[Service] = Collection(snapshot.services)
        self.pods: Collection[Pod] = Collection(snapshot.pods)
        self.nodes: Collection[Node] = Collection(snapshot.nodes)
        self.endpoints: Collection[Endpoints] = Collection(snapshot.endpoints)
        self.slices: Collection[EndpointSlice] = Collection(snapshot.slices)
        self.details: Collection[PodDetails] = Collection(snapshot.details)
        self.slices_by_service: Mapping[ObjectKey, Sequence[EndpointSlice]] = _by_service(snapshot.slices)
        self.membership = Membership(self.services, self.pods)
        self.membership.start()
        self._unread = frozenset(unread.resource for unread in snapshot.unread)
        self._published_nodes: frozenset[str] | None = None
        self._missing_zones = (
            published_zones(snapshot.slices, self._owner_of, self._is_missing)
            if snapshot.missing_zones is None
            else snapshot.missing_zones
        )
        self._outcomes: tuple[ObjectKey, dict[ObjectKey, PodOutcome]] | None = None

    def outcomes_of(self, service: Service) -> Mapping[ObjectKey, PodOutcome]:
        """Return the controllers' decision for each pod that a service selects; cached for the last service."""
        key = key_of(service)
        if self._outcomes is None or self._outcomes[0] != key:
            translator = PodTranslator(service, self.zone_of)
            pods = self.membership.pods_of(key)
            self._outcomes = (key, {key_of(pod): translator.outcome(pod) for pod in pods})
        return self._outcomes[1]

    def zone_of(self, node_name: str) -> str | None:
        """Return the zone of a node: ``""`` without a zone or if nodes are unknown, None if the node does not exist.

        As in the controller, a recently deleted node counts as present.
        """
        if not self.could_read("nodes"):
            return ""
        node = self.nodes.get(ObjectKey("", node_name))
        return node.zone if node is not None else self._missing_zones.get(node_name)

    def counts_as_present(self, node_name: str) -> bool:
        """Return whether a node is missing but its pods stay published because it was deleted recently."""
        return (
            self.could_read("nodes") and self._is_missing(node_name) and self.zone_of(node_name) is not None
        )

    def _is_missing(self, node_name: str) -> bool:
        return self.nodes.get(ObjectKey("", node_name)) is None

    def _owner_of(self, endpoint_slice: EndpointSlice) -> Service | None:
        key = service_of(endpoint_slice)
        return self.services.get(key) if key is not None else None

    def could_read(self, *resources: str) -> bool:
        """Return whether all of these collections are known: ``nodes``, ``endpointslices``."""
        return self._unread.isdisjoint(resources)

    def is_node_published(self, node_name: str) -> bool:
        """Return whether slices show that a node exists.

        The controller publishes a pod on a missing node only for a service with ``publishNotReadyAddresses``,
        and then without a zone.
        """
        if self._published_nodes is None:
            self._published_nodes = frozenset(
                endpoint.node_name
                for key, endpoint_slices in self.slices_by_service.items()
                for endpoint_slice in endpoint_slices
                if (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL)
                == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
                for endpoint in endpoint_slice.endpoints or ()
                if endpoint.node_name and (endpoint.zone or self._needs_nodes(key))
            )
        return node_name in self._published_nodes

    def _needs_nodes(self, key: ObjectKey) -> bool:
        service = self.services.get(key)
        return service is not None and not service.publish_not_ready_addresses


def _by_service(slices: Iterable[EndpointSlice]) -> Mapping[ObjectKey, Sequence[EndpointSlice]]:
    found: dict[ObjectKey, list[EndpointSlice]] = {}
    for endpoint_slice in slices:
        key = service_name_of(endpoint_slice)
        if key is not None:
            found.setdefault(key, []).append(endpoint_slice)
    for endpoint_slices in found.values():
        endpoint_slices.sort(
            key=lambda endpoint_slice: (endpoint_slice.address_type, endpoint_slice.metadata.name)
        )
    return found
