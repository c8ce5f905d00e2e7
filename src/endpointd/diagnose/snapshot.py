"""A cluster at one moment, as far as Services are concerned: what every question here is asked of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from endpointd.api.core import Node, Pod, Service
from endpointd.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from endpointd.api.endpoints import Endpoints
from endpointd.api.meta import KubernetesObject, ObjectKey, key_of
from endpointd.controllers.membership import Membership
from endpointd.diagnose.details import PodDetails

T = TypeVar("T", bound=KubernetesObject)


class Unread(msgspec.Struct, frozen=True):
    """A collection that could not be read, and why: answers that need it say so instead of guessing."""

    resource: str
    why: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. ``namespace`` is ``""`` where it is all of them; ``unread`` names what could not be."""

    services: tuple[Service, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    endpoints: tuple[Endpoints, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    details: tuple[PodDetails, ...] = ()
    """Of the pods, where somebody wants to be told why; empty where only the facts matter."""
    namespace: str = ""
    unread: tuple[Unread, ...] = ()


class Collection(Generic[T]):
    """Objects by key and by namespace: satisfies the listers of the controllers."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items: dict[ObjectKey, T] = {key_of(item): item for item in items}
        self._in_namespace: dict[str, list[T]] = {}
        for key, item in self._items.items():
            self._in_namespace.setdefault(key.namespace, []).append(item)

    def get(self, key: ObjectKey) -> T | None:
        """Return one object, None where there is none."""
        return self._items.get(key)

    def values(self) -> Iterable[T]:
        """Return all objects."""
        return self._items.values()

    def in_namespace(self, namespace: str) -> Sequence[T]:
        """Return the objects of a namespace."""
        return self._in_namespace.get(namespace, ())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)


class World:
    """A snapshot, indexed: built once for many questions. O(objects)."""

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

    def zone_of(self, node_name: str) -> str | None:
        """Return the zone of a node, ``""`` where it has none, None where there is no such node."""
        node = self.nodes.get(ObjectKey("", node_name))
        return node.zone if node is not None else None

    def could_read(self, resource: str) -> bool:
        """Tell whether a collection was read: ``nodes``, ``endpointslices``."""
        return all(unread.resource != resource for unread in self.snapshot.unread)


def service_name_of(piece: EndpointSlice) -> ObjectKey | None:
    """Return the service that a slice's label names, whoever manages the slice; None where it names none."""
    name = (piece.metadata.labels or {}).get(SERVICE_NAME_LABEL)
    return ObjectKey(piece.metadata.namespace, name) if name else None


def _by_service(slices: Iterable[EndpointSlice]) -> Mapping[ObjectKey, Sequence[EndpointSlice]]:
    found: dict[ObjectKey, list[EndpointSlice]] = {}
    for piece in slices:
        key = service_name_of(piece)
        if key is not None:
            found.setdefault(key, []).append(piece)
    for pieces in found.values():
        pieces.sort(key=lambda piece: (piece.address_type, piece.metadata.name))
    return found
