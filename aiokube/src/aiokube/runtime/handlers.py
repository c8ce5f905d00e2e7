"""From changes to keys: handlers that add keys to a queue, key functions, and predicates."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.runtime.handler_registry import Handler
from aiokube.work_queue import WorkQueue

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K", bound=Hashable)

Predicate = Callable[[Any, Any], bool]
"""Takes an object before and after a change (None if absent); returns whether the change is relevant."""


def enqueue(queue: WorkQueue[K], key: Callable[[T], K | None]) -> Handler[T]:
    """Return a handler for :meth:`Store.subscribe` that adds the key a changed object maps to.

    ``key`` is called for the old and the new object, so that a change of owner adds both owners; None adds
    nothing. It must be fast and must not raise, because it runs synchronously within the change.
    """

    def on_change(old: T | None, new: T | None) -> None:
        before = key(old) if old is not None else None
        now = key(new) if new is not None else None
        if before is not None and before != now:
            queue.add(before)
        if now is not None:
            queue.add(now)

    return on_change


def enqueue_many(
    queue: WorkQueue[K], keys: Callable[[T], Iterable[K]], when: Predicate | None = None
) -> Handler[T]:
    """Return a handler like that of :func:`enqueue`, for objects that map to any number of keys.

    Changes for which ``when`` returns False are ignored.
    """

    def on_change(old: T | None, new: T | None) -> None:
        if when is not None and not when(old, new):
            return
        for item in (old, new):
            if item is not None:
                for key in keys(item):
                    queue.add(key)

    return on_change


def owner_keys(owner: Resource[Any]) -> Callable[[Any], tuple[ObjectKey, ...]]:
    """Return a function that maps an object to the key of its controlling owner of this kind, if any."""

    def keys(item: Any) -> tuple[ObjectKey, ...]:
        namespace = item.metadata.namespace if owner.namespaced else ""
        return tuple(
            ObjectKey(namespace, reference.name)
            for reference in item.metadata.owner_references or ()
            if reference.controller
            and reference.kind == owner.kind
            and reference.api_version.rpartition("/")[0] == owner.group
        )

    return keys


def generation_changed(old: Any, new: Any) -> bool:
    """Return whether the spec changed, or the object was created or deleted; status changes are ignored.

    For kinds whose ``metadata.generation`` the server maintains. Labels and annotations do not change it.
    """
    return old is None or new is None or bool(old.metadata.generation != new.metadata.generation)


def labels_changed(old: Any, new: Any) -> bool:
    """Return whether the labels changed, or the object was created or deleted."""
    return old is None or new is None or bool(old.metadata.labels != new.metadata.labels)


def annotations_changed(old: Any, new: Any) -> bool:
    """Return whether the annotations changed, or the object was created or deleted."""
    return old is None or new is None or bool(old.metadata.annotations != new.metadata.annotations)


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that accepts a change if at least one of the given predicates does."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)
