"""Nothing is decided on half a relist: a gate that is closed while handlers are being told of one."""

from typing import Any

from aiokube.runtime.store import Store


class RelistGate:
    """Open while all changes that its stores hold have been told to their handlers.

    A relist is told in steps, so that no loop turn takes long. State that is kept by handlers is incomplete meanwhile:
    pods that are gone may have been told, and those that replace them not. So a controller makes no plan then.
    """

    __slots__ = ("_stores",)

    def __init__(self) -> None:
        self._stores: list[Store[Any]] = []

    def add(self, store: Store[Any]) -> None:
        """Close the gate while this store's handlers are being told of a relist."""
        self._stores.append(store)

    @property
    def is_open(self) -> bool:
        """Whether nothing remains to be told."""
        return not any(store.is_dispatching for store in self._stores)

    async def wait_open(self) -> None:
        """Return in a loop turn in which the gate is open."""
        while not self.is_open:
            for store in self._stores:
                await store.wait_dispatched()
