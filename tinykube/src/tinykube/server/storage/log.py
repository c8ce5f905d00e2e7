"""What the storage writes to, and starts from: a log of revisions. Here what one is, and the one without a disk."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from tinykube.server.objects import GroupResource
from tinykube.server.storage.model import StorageOpenError


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


def checksum_of(row: Row) -> int:
    """Return what tells a damaged row from a sound one. Raises TypeError for one that is damaged so far that it has none."""
    head = f"{row.revision}\0{row.group}\0{row.plural}\0{row.namespace}\0{row.name}\0{row.previous}\0{row.item_offset}"
    if row.value is None:
        return zlib.crc32(head.encode())
    return zlib.crc32(row.value, zlib.crc32(f"{head}\0".encode()))


def damaged(row: Row, why: str) -> StorageOpenError:
    """Return the error of a row that does not say what was written."""
    what = f"{row.plural} {row.namespace}/{row.name}" if row.namespace else f"{row.plural} {row.name}"
    return StorageOpenError(
        f"the log is damaged at revision {row.revision} ({what}): {why}; restore it from a copy, or move it away to "
        "start empty"
    )


class Batch(msgspec.Struct):
    """What is written in one transaction: new rows, old ones that nobody needs, and where histories now begin."""

    last_revision: int
    rows: list[Row]
    deletions: list[int]
    compacted: dict[GroupResource, int]
    makes_room: bool = False
    """Whether it only deletes objects, or what leads to their deletion: it may use the space that is kept for that."""


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

    @property
    def is_full(self) -> bool:
        """Whether the disk was full at the last write: only batches that make room are of use."""
        ...

    def try_recover(self) -> bool:
        """Return whether the disk has room again, if it was full."""
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
    is_full = False

    def __init__(self) -> None:
        self.compacted: dict[GroupResource, int] = {}

    def rows(self) -> Iterable[Row]:
        """There is never anything to start from."""
        return ()

    def try_recover(self) -> bool:
        """Memory has room as long as there is a process."""
        return True

    def append(self, batch: Batch, done: Done) -> None:
        """Call ``done`` in the loop's next turn."""
        asyncio.get_running_loop().call_soon(done, None)

    def close(self) -> None:
        """There is nothing to let go of."""

    async def aclose(self) -> None:
        """There is nothing to let go of."""
