"""The marker file beside the database: the database's id and the last confirmed revision.

A database alone cannot reveal a missing end: SQLite discards a damaged end of its write-ahead log like an
uncommitted one, and an empty file is a new database.
"""

import os
import struct
import zlib
from pathlib import Path

import msgspec

from tinykube.server.storage.model import StorageOpenError

_MAGIC = b"endpmark"
_FORMAT = struct.Struct(">8s16sQ")
_SLOT_BYTES = 512
"""Two slots in separate disk sectors: a power failure can only damage the slot that is being written."""


class Mark(msgspec.Struct, frozen=True):
    """The id of a database, and a revision that it has confirmed."""

    database: bytes
    revision: int


class MarkerFile:
    """The marker file.

    It is not synced on each write: after a power failure it may name an older revision, never a newer one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._slot = 0

    def read(self) -> Mark | None:
        """Return the mark; None if the file is missing. Raises StorageOpenError if no mark is readable."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        marks = [mark for mark in map(_decoded, (data, data[_SLOT_BYTES:])) if mark is not None]
        if not marks:
            raise StorageOpenError(
                f"{self.path}: damaged: remove it to accept the database beside it as it is, or restore both"
            )
        return max(marks, key=lambda mark: mark.revision)

    def create(self, mark: Mark) -> None:
        """Durably replace the file with this mark; open it for :meth:`write`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o600)
        for _ in range(2):
            self.write(mark)
        os.fsync(self._descriptor)

    def write(self, mark: Mark) -> None:
        """Record a confirmed revision. Takes a few microseconds: the kernel decides when to write it."""
        data = _FORMAT.pack(_MAGIC, mark.database, mark.revision)
        data += zlib.crc32(data).to_bytes(4, "big")
        os.pwrite(self._descriptor, data.ljust(_SLOT_BYTES, b"\0"), self._slot * _SLOT_BYTES)
        self._slot = 1 - self._slot

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _decoded(data: bytes) -> Mark | None:
    size = _FORMAT.size
    if len(data) < size + 4 or zlib.crc32(data[:size]).to_bytes(4, "big") != data[size : size + 4]:
        return None
    magic, database, revision = _FORMAT.unpack(data[:size])
    return Mark(database, revision) if magic == _MAGIC else None
