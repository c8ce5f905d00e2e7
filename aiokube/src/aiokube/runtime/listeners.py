"""Telling handlers of changes: in order, at once, and whatever one of them does."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)

Handler = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) for what came, (old, None) for what went."""

Change = tuple[T | None, T | None]


class Listeners(Generic[T]):
    """The handlers of one store.

    Every change is told to every handler in the order of subscription before the next change is told. A change
    that comes up while another is being told (a handler wrote to the store) waits until all before it are told, so
    each handler hears of changes in the order in which they were stored. An exception of a handler is logged with
    the object's key and counted, and ends nothing.

    The changes of a relist may be told in steps (:meth:`tell_steps`). Until the last step, a change of an object comes
    after what is still to be told of that object, and may come before what is to be told of others.
    """

    __slots__ = ("_handlers", "_name", "_rest", "_rest_handlers", "_telling", "_untold", "failures", "told")

    def __init__(self, name: str) -> None:
        self._name = name
        self._handlers: tuple[Handler[T], ...] = ()
        self._untold: deque[tuple[tuple[Handler[T], ...], list[Change[T]]]] = deque()
        self._telling = False
        # Of a relist that is told in steps: what is still to be told.
        self._rest: deque[Change[T]] = deque()
        self._rest_handlers: tuple[Handler[T], ...] = ()
        self.told = 0
        self.failures = 0

    def add(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell ``handler`` of every later change. Returns a function that ends it; calling that twice is fine."""
        entry: Handler[T] = lambda old, new: handler(old, new)  # noqa: E731, PLW0108 - one identity a subscription
        self._handlers = (*self._handlers, entry)

        def remove() -> None:
            self._handlers = tuple(each for each in self._handlers if each is not entry)

        return remove

    def tell(self, changes: list[Change[T]]) -> None:
        """Tell all handlers of these changes, before returning (or, within a handler, right after it has ended)."""
        if not changes:
            return
        self.told += len(changes)
        if self._rest:
            for change in changes:
                self._tell_rest_of(_key_of(change))
        self._tell(self._handlers, changes)

    def tell_steps(self, changes: list[Change[T]]) -> Steps[None]:
        """Tell all handlers of these changes in steps. Closed before its end, it tells the rest at once."""
        self.told += len(changes)
        if not self._handlers:
            return
        rest = self._rest = deque(changes)
        self._rest_handlers = self._handlers
        try:
            while rest:
                due = [rest.popleft() for _ in range(min(STEPS_A_YIELD, len(rest)))]
                self._tell(self._rest_handlers, due)
                yield len(due)
        finally:
            while rest:
                self._tell(self._rest_handlers, [rest.popleft()])

    def _tell_rest_of(self, key: ObjectKey) -> None:
        """Tell now what is still to be told of one object: O(what is still to be told), for the few who write meanwhile."""
        due = [change for change in self._rest if _key_of(change) == key]
        if due:
            kept = [change for change in self._rest if _key_of(change) != key]
            self._rest.clear()
            self._rest.extend(kept)
            self._tell(self._rest_handlers, due)

    def _tell(self, handlers: tuple[Handler[T], ...], changes: list[Change[T]]) -> None:
        if not handlers:
            return
        self._untold.append((handlers, changes))
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                handlers, batch = self._untold.popleft()
                for old, new in batch:
                    for handler in handlers:
                        try:
                            handler(old, new)
                        except Exception:
                            self.failures += 1
                            item = new if new is not None else old
                            key = key_of(item) if item is not None else None
                            log.exception("a handler failed: resource=%s key=%s", self._name, key)
        finally:
            self._telling = False


def _key_of(change: Change[T]) -> ObjectKey:
    old, new = change
    item = new if new is not None else old
    if item is None:
        raise AssertionError("a change has an object, before or after")
    return key_of(item)
