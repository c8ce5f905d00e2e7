"""From what changed to what has to be looked at: handlers that put keys into a queue."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from aiokube.api.meta import KubernetesObject
from aiokube.runtime.listeners import Handler
from aiokube.runtime.queue import WorkQueue

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K", bound=Hashable)


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
