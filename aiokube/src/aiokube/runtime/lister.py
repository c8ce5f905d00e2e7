"""The read-only interface of a cache."""

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey

T_co = TypeVar("T_co", bound=KubernetesObject, covariant=True)


class Lister(Protocol[T_co]):
    """The read-only interface of a store, for most code."""

    def get(self, key: ObjectKey) -> T_co | None:
        """Return an object, None if it does not exist."""
        ...

    def values(self) -> Sequence[T_co]:
        """Return all objects in a new list."""
        ...

    def in_namespace(self, namespace: str) -> Sequence[T_co]:
        """Return the objects of a namespace in a new list."""
        ...

    def by_index(self, name: str, key: Hashable) -> Sequence[T_co]:
        """Return the objects with this key in an index, in a new list."""
        ...

    def keys(self) -> list[ObjectKey]:
        """Return the keys of all objects."""
        ...

    def __len__(self) -> int:
        """Return the number of objects."""
        ...
