"""Our own writes on their way into a store, told apart from everybody else's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from endpointd.api.meta import KubernetesObject, ObjectKey
from endpointd.runtime.store import Store

T = TypeVar("T", bound=KubernetesObject)


class OwnWrites(Generic[T]):
    """Records what a controller's writes came to in its store.

    The controller's own handler hears of it within the call, and finds :attr:`under_way` true: nobody has to repair what
    it has just written itself.
    """

    __slots__ = ("_store", "under_way")

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self.under_way = False
        """Whether the change that a handler is being told of is one of ours."""

    def record(self, item: T) -> None:
        """Store the server's answer to a write."""
        with self._telling():
            self._store.record_write(item)

    def record_found(self, item: T) -> None:
        """Store what a read found, after a write failed because the store was wrong about the object."""
        with self._telling():
            self._store.record_read(item)

    def record_gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that an object is no more."""
        with self._telling():
            self._store.record_delete(key, uid)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        self.under_way = True
        try:
            yield
        finally:
            self.under_way = False
