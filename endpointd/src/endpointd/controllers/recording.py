"""A controller's writes on their way into a store: told apart from everybody else's, and what the server made of them."""

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
    """Stores what a controller's writes came to, and remembers where the server stored something else than was sent.

    An admission webhook may change what we write. Its version has the last word: a controller that compares it with
    what it wants would write again, for ever. So the object counts as what was sent (:meth:`sent_for`), until it has
    another version. ``content`` returns the part of an object that the controller decides on.

    The controller's own handler is called within :meth:`record`, and finds :attr:`under_way` true: it need not repair
    what it has just written itself. It must pass each change to :meth:`observe` first.
    """

    __slots__ = ("_answers", "_content", "_store", "under_way")

    def __init__(self, store: Store[T], content: Callable[[T], object]) -> None:
        self._store = store
        self._content = content
        self._answers: dict[ObjectKey, _Answer[T]] = {}
        self.under_way = False
        """Whether the change that a handler is told of is one of ours."""

    def record(self, sent: T, answer: T) -> None:
        """Store the server's answer to a write of ``sent``."""
        key = key_of(answer)
        version = answer.metadata.resource_version
        stored = self._store.get(key)
        # An answer of metadata alone repeats what was sent. The watch knows better where it was faster, or where the
        # write changed nothing and so made no new version.
        is_stored = stored is not None and stored.metadata.resource_version == version
        self._note(key, version, sent, stored if stored is not None and is_stored else answer)
        with self._telling():
            self._store.record_write(answer)

    def record_found(self, item: T) -> None:
        """Store what a read found, after a write failed because the store was wrong about the object."""
        with self._telling():
            self._store.record_read(item)

    def record_gone(self, key: ObjectKey, uid: str) -> None:
        """Store that an object was deleted."""
        with self._telling():
            self._store.record_delete(key, uid)

    def observe(self, old: T | None, new: T | None) -> bool:
        """Take in a change of the store; return whether it is the answer to a write of ours, told by the watch.

        Other content at the version of our own write is what the server has made of it.
        """
        if new is None:
            if old is not None and self._answers:
                self._answers.pop(key_of(old), None)
            return False
        if self._store.lost_history:  # the same version may be that of another write
            self._answers.pop(key_of(new), None)
            return False
        version = new.metadata.resource_version
        if old is not None and old.metadata.resource_version == version:
            key = key_of(new)
            known = self._answers.get(key)
            sent = known.sent if known is not None and known.resource_version == version else old
            self._note(key, version, sent, new)
            return True
        if self._answers:
            known = self._answers.get(key_of(new))
            if known is not None and known.resource_version != version:
                del self._answers[key_of(new)]
        return False

    def sent_for(self, item: T) -> T | None:
        """Return what we sent, where this object is what the server made of it and differs from it; else None."""
        if not self._answers:
            return None
        answer = self._answers.get(key_of(item))
        return answer.sent if answer and answer.resource_version == item.metadata.resource_version else None

    def _note(self, key: ObjectKey, version: str, sent: T, made: T) -> None:
        if self._content(made) != self._content(sent):
            self._answers[key] = _Answer(version, sent)
        elif self._answers:
            self._answers.pop(key, None)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        self.under_way = True
        try:
            yield
        finally:
            self.under_way = False


def slice_content(endpoint_slice: EndpointSlice) -> tuple[object, ...]:
    """Return what of a slice a controller decides on."""
    metadata = endpoint_slice.metadata
    return (
        metadata.labels or None,
        metadata.annotations or None,
        metadata.owner_references or None,
        endpoint_slice.address_type,
        endpoint_slice.endpoints or None,
        endpoint_slice.ports or None,
    )
