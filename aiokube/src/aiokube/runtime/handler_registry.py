"""Dispatch of changes to handlers: in order, synchronously, and isolated from each other's failures."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)

Handler = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) for a new object, (old, None) for a deleted one."""

Change = tuple[T | None, T | None]


class HandlerRegistry(Generic[T]):
    """The handlers of one store.

    Each change goes to all handlers, in the order of subscription, before the next change does. A change that a handler
    itself causes by writing to the store waits until all earlier changes are dispatched, so every handler sees changes
    in the order in which they were stored. An exception of a handler is logged with the object's key and counted; the
    dispatch continues.

    The changes of a relist may be dispatched in steps (:meth:`dispatch_steps`). Until the last step, a new change of an
    object comes after that object's remaining changes, but may come before the remaining changes of other objects.
    """

    __slots__ = (
        "_dispatching",
        "_handlers",
        "_name",
        "_rest",
        "_rest_handlers",
        "_undispatched",
        "dispatched",
        "failures",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._handlers: tuple[Handler[T], ...] = ()
        self._undispatched: deque[tuple[tuple[Handler[T], ...], list[Change[T]]]] = deque()
        self._dispatching = False
        # The remaining changes of a relist that is dispatched in steps.
        self._rest: deque[Change[T]] = deque()
        self._rest_handlers: tuple[Handler[T], ...] = ()
        self.dispatched = 0
        self.failures = 0

    def add(self, handler: Handler[T]) -> Callable[[], None]:
        """Call ``handler`` for every later change. Returns a function that unsubscribes it (idempotent)."""
        entry: Handler[T] = lambda old, new: handler(old, new)  # noqa: E731, PLW0108 - one identity a subscription
        self._handlers = (*self._handlers, entry)

        def remove() -> None:
            self._handlers = tuple(each for each in self._handlers if each is not entry)

        return remove

    def dispatch(self, changes: list[Change[T]]) -> None:
        """Dispatch changes to all handlers before returning (if called by a handler, after that handler)."""
        if not changes:
            return
        self.dispatched += len(changes)
        if self._rest:
            for change in changes:
                self._dispatch_rest_of(_key_of(change))
        self._dispatch(self._handlers, changes)

    def dispatch_steps(self, changes: list[Change[T]]) -> Steps[None]:
        """Dispatch changes in steps. Closing the generator early dispatches the rest immediately."""
        self.dispatched += len(changes)
        if not self._handlers:
            return
        rest = self._rest = deque(changes)
        self._rest_handlers = self._handlers
        try:
            while rest:
                due = [rest.popleft() for _ in range(min(STEPS_A_YIELD, len(rest)))]
                self._dispatch(self._rest_handlers, due)
                yield len(due)
        finally:
            while rest:
                self._dispatch(self._rest_handlers, [rest.popleft()])

    def _dispatch_rest_of(self, key: ObjectKey) -> None:
        """Dispatch one object's remaining changes now, in O(remaining changes); only for writes in a relist."""
        due = [change for change in self._rest if _key_of(change) == key]
        if due:
            kept = [change for change in self._rest if _key_of(change) != key]
            self._rest.clear()
            self._rest.extend(kept)
            self._dispatch(self._rest_handlers, due)

    def _dispatch(self, handlers: tuple[Handler[T], ...], changes: list[Change[T]]) -> None:
        if not handlers:
            return
        self._undispatched.append((handlers, changes))
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._undispatched:
                handlers, batch = self._undispatched.popleft()
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
            self._dispatching = False


def _key_of(change: Change[T]) -> ObjectKey:
    old, new = change
    item = new if new is not None else old
    if item is None:
        raise AssertionError("a change has an object, before or after")
    return key_of(item)
