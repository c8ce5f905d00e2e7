"""What the storage writes to, and starts from: a log of revisions. Here what one is, and the one without a disk."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from endpointd.apiserver.objects import GroupResource


class Row(NamedTuple):
    """One revision of one object. ``previous`` is the one it replaces, 0 for none; no ``value``: it was removed."""

    revision: int
    group: str
    plural: str
    namespace: str
    name: str
    previous: int
    item_offset: int
    value: bytes | None


class Batch(msgspec.Struct):
    """What is written in one transaction: new rows, old ones that nobody needs, and where histories now begin."""

    last_revision: int
    rows: list[Row]
    deletions: list[int]
    compacted: dict[GroupResource, int]


Done = Callable[[Exception | None], None]


class Log(Protocol):
    """A durable log. One batch is under way at a time: the caller waits for its ``done``."""

    @property
    def high_water(self) -> int:
        """A revision that no row, nor any lost one, lies above."""
        ...

    @property
    def compacted(self) -> Mapping[GroupResource, int]:
        """Where the history of a collection begins, for those that have lost some of it."""
        ...

    def rows(self) -> Iterable[Row]:
        """Iterate over all that is there, by revision. Raises StorageOpenError where it cannot be read."""
        ...

    def append(self, batch: Batch, done: Done) -> None:
        """Write a batch; ``done`` is called on the running loop once it is on disk, or with what has failed."""
        ...

    def close(self) -> None:
        """Let go of the files of a log that nothing was appended to."""
        ...

    async def aclose(self) -> None:
        """Finish what is under way and let go of the files. Once more does nothing."""
        ...


class MemoryLog:
    """A log that forgets: all is durable at once, and gone with the process. It has no thread and no file."""

    high_water = 0

    def __init__(self) -> None:
        self.compacted: dict[GroupResource, int] = {}

    def rows(self) -> Iterable[Row]:
        """There is never anything to start from."""
        return ()

    def append(self, batch: Batch, done: Done) -> None:
        """Call ``done`` in the loop's next turn."""
        asyncio.get_running_loop().call_soon(done, None)

    def close(self) -> None:
        """There is nothing to let go of."""

    async def aclose(self) -> None:
        """There is nothing to let go of."""
