"""From a change to the keys to reconcile: handlers that add keys to a queue, key functions, and predicates."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.runtime.handler_registry import Handler
from aiokube.work_queue import WorkQueue

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K", bound=Hashable)

Predicate = Callable[[Any, Any], bool]
"""Given an object before and after a change (None where there is none): whether the change matters."""


def enqueue(queue: WorkQueue[K], key: Callable[[T], K | None]) -> Handler[T]:
    """Return a handler for :meth:`Store.subscribe` that adds the keys a changed object belongs to.

    ``key`` is asked of the object as it was and as it is, so that a change of owner wakes both; where it
    answers None the object concerns nobody. It must be quick and must not raise: it runs within the change.
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
    """Return a handler as :func:`enqueue` does, for an object that belongs to any number of keys.

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
    """Return a function from an object to the key of its controlling owner of this kind: one key, or none."""

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
    """Return whether the spec changed, or the object was created or deleted; changes of status do not count.

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
    """Return a predicate for changes that matter to at least one of these."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)
