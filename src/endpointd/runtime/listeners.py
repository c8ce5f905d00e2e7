"""Telling handlers of changes: in order, at once, and whatever one of them does."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from endpointd.api.meta import KubernetesObject, key_of

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
    """

    __slots__ = ("_handlers", "_name", "_telling", "_untold", "failures", "told")

    def __init__(self, name: str) -> None:
        self._name = name
        self._handlers: tuple[Handler[T], ...] = ()
        self._untold: deque[tuple[tuple[Handler[T], ...], list[Change[T]]]] = deque()
        self._telling = False
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
        if not self._handlers:
            return
        self._untold.append((self._handlers, changes))
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
