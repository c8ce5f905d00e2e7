"""Record a controller's writes in its store, and distinguish them from writes of other clients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.runtime.store import Store

T = TypeVar("T", bound=KubernetesObject)


class _Answer(NamedTuple, Generic[T]):
    resource_version: str
    sent: T


class WriteRecorder(Generic[T]):
    """Stores the results of a controller's writes and remembers objects that the server stored differently.

    An admission webhook may change our writes. A controller that compared the result with its desired state
    would write again indefinitely. So such an object counts as the sent one (:meth:`sent_for`) until its
    version changes. ``content`` returns the part of an object that the controller manages.

    The controller's own handler runs within :meth:`record` with :attr:`under_way` set, and then need not
    repair its own write. It must pass each change to :meth:`observe` first.
    """

    __slots__ = ("_answers", "_content", "_store", "under_way")

    def __init__(self, store: Store[T], content: Callable[[T], object]) -> None:
        self._store = store
        self._content = content
        self._answers: dict[ObjectKey, _Answer[T]] = {}
        self.under_way = False
        """Whether the current store event is caused by our write."""

    def record(self, sent: T, answer: T) -> None:
        """Store the server's response to a write of ``sent``."""
        key = key_of(answer)
        version = answer.metadata.resource_version
        stored = self._store.get(key)
        # A metadata-only response repeats the sent content. The watch knows better if it was faster, or if the
        # write changed nothing and so created no new version.
        is_stored = stored is not None and stored.metadata.resource_version == version
        self._remember(key, version, sent, stored if stored is not None and is_stored else answer)
        with self._own_write():
            self._store.record_write(answer)

    def record_found(self, item: T) -> None:
        """Store the result of a read after a write failed because the store was outdated."""
        with self._own_write():
            self._store.record_read(item)

    def record_gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of an object."""
        with self._own_write():
            self._store.record_delete(key, uid)

    def observe(self, old: T | None, new: T | None) -> bool:
        """Process a store event; return whether it reports our write.

        Different content at the version of our write is the server's modification of it.
        """
        if new is None:
            if old is not None and self._answers:
                self._answers.pop(key_of(old), None)
            return False
        if self._store.lost_history:  # the same version may belong to another write
            self._answers.pop(key_of(new), None)
            return False
        version = new.metadata.resource_version
        if old is not None and old.metadata.resource_version == version:
            key = key_of(new)
            known = self._answers.get(key)
            sent = known.sent if known is not None and known.resource_version == version else old
            self._remember(key, version, sent, new)
            return True
        if self._answers:
            known = self._answers.get(key_of(new))
            if known is not None and known.resource_version != version:
                del self._answers[key_of(new)]
        return False

    def sent_for(self, item: T) -> T | None:
        """Return our sent object if this one is the server's modified version of it, else None."""
        if not self._answers:
            return None
        answer = self._answers.get(key_of(item))
        return answer.sent if answer and answer.resource_version == item.metadata.resource_version else None

    def _remember(self, key: ObjectKey, version: str, sent: T, made: T) -> None:
        if self._content(made) != self._content(sent):
            self._answers[key] = _Answer(version, sent)
        elif self._answers:
            self._answers.pop(key, None)

    @contextmanager
    def _own_write(self) -> Iterator[None]:
        self.under_way = True
        try:
            yield
        finally:
            self.under_way = False


def slice_content(endpoint_slice: EndpointSlice) -> tuple[object, ...]:
    """Return the parts of a slice that a controller manages."""
    metadata = endpoint_slice.metadata
    return (
        metadata.labels or None,
        metadata.annotations or None,
        metadata.owner_references or None,
        endpoint_slice.address_type,
        endpoint_slice.endpoints or None,
        endpoint_slice.ports or None,
    )
