"""The reading side of a cache."""

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey

T_co = TypeVar("T_co", bound=KubernetesObject, covariant=True)


class Lister(Protocol[T_co]):
    """The reading side of a store: what most code should be given."""

    def get(self, key: ObjectKey) -> T_co | None:
        """Return one object, None where there is none."""
        ...

    def values(self) -> Sequence[T_co]:
        """Return all objects, in a list of the caller's own."""
        ...

    def in_namespace(self, namespace: str) -> Sequence[T_co]:
        """Return the objects of a namespace, in a list of the caller's own."""
        ...

    def by_index(self, name: str, key: Hashable) -> Sequence[T_co]:
        """Return the objects that have this key in an index, in a list of the caller's own."""
        ...

    def keys(self) -> list[ObjectKey]:
        """Return the keys of all objects."""
        ...

    def __len__(self) -> int:
        """Return how many objects there are."""
        ...
