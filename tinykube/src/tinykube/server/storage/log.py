"""The interface of the storage's log of revisions, and the implementation without a disk."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from tinykube.server.objects import GroupResource
from tinykube.server.storage.model import StorageOpenError


class Row(NamedTuple):
    """One revision of one object. ``previous`` is the replaced revision, or 0; ``value`` is None for a deletion."""

    revision: int
    group: str
    plural: str
    namespace: str
    name: str
    previous: int
    item_offset: int
    value: bytes | None


def checksum_of(row: Row) -> int:
    """Return the checksum of a row. Raises TypeError for a row whose columns have invalid types."""
    head = f"{row.revision}\0{row.group}\0{row.plural}\0{row.namespace}\0{row.name}\0{row.previous}\0{row.item_offset}"
    if row.value is None:
        return zlib.crc32(head.encode())
    return zlib.crc32(row.value, zlib.crc32(f"{head}\0".encode()))


def damaged(row: Row, why: str) -> StorageOpenError:
    """Return the error of a damaged row."""
    what = f"{row.plural} {row.namespace}/{row.name}" if row.namespace else f"{row.plural} {row.name}"
    return StorageOpenError(
        f"the log is damaged at revision {row.revision} ({what}): {why}; restore it from a backup, or move it away to "
        "start with an empty log"
    )


class Batch(msgspec.Struct):
    """The contents of one transaction: new rows, deletions of superfluous rows, and where histories now begin."""

    last_revision: int
    rows: list[Row]
    deletions: list[int]
    compacted: dict[GroupResource, int]
    makes_room: bool = False
    """Whether it only deletes objects or prepares their deletion: it may use the reserved disk space."""


Done = Callable[[Exception | None], None]


class Log(Protocol):
    """A durable log. Only one batch is in flight at a time: the caller waits for its ``done``."""

    @property
    def high_water(self) -> int:
        """An upper bound of all revisions ever written, including lost ones."""
        ...

    @property
    def compacted(self) -> Mapping[GroupResource, int]:
        """The first retained revision of each compacted collection."""
        ...

    def rows(self) -> Iterable[Row]:
        """Iterate over all rows by revision. Raises StorageOpenError if the log cannot be read."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the disk was full at the last write: only batches that make room are useful."""
        ...

    def try_recover(self) -> bool:
        """Return whether the disk has free space (again)."""
        ...

    def append(self, batch: Batch, done: Done) -> None:
        """Write a batch; ``done`` is called on the running loop once it is on disk, or with the error."""
        ...

    def close(self) -> None:
        """Close the files of a log without pending batches."""
        ...

    async def aclose(self) -> None:
        """Finish pending work and close the files. Idempotent."""
        ...


class MemoryLog:
    """A log without persistence: writes are durable immediately, and lost with the process. It has no thread and no file."""

    high_water = 0
    is_full = False

    def __init__(self) -> None:
        self.compacted: dict[GroupResource, int] = {}

    def rows(self) -> Iterable[Row]:
        """Return no rows."""
        return ()

    def try_recover(self) -> bool:
        """Return True: memory is never full."""
        return True

    def append(self, batch: Batch, done: Done) -> None:
        """Call ``done`` in the next iteration of the loop."""
        asyncio.get_running_loop().call_soon(done, None)

    def close(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""
