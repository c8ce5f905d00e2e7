"""A gate that is closed during a relist, so that no decision is based on half of it."""

from typing import Any

from aiokube.runtime.store import Store


class RelistGate:
    """Open while the handlers of its stores have received all stored changes.

    A relist is dispatched in steps, so that no loop turn takes long. State maintained by handlers is
    incomplete during that time: deleted pods may have been reported, and their replacements not yet. A
    controller makes no plan then.
    """

    __slots__ = ("_stores",)

    def __init__(self) -> None:
        self._stores: list[Store[Any]] = []

    def add(self, store: Store[Any]) -> None:
        """Close the gate while this store's handlers are receiving a relist."""
        self._stores.append(store)

    @property
    def is_open(self) -> bool:
        """Whether all stored changes have been dispatched."""
        return not any(store.is_dispatching for store in self._stores)

    async def wait_open(self) -> None:
        """Return in a loop turn in which the gate is open."""
        while not self.is_open:
            for store in self._stores:
                await store.wait_dispatched()
