"""What is known outside of the database: which one it is, and the last revision that it confirmed.

A database alone cannot tell that its end is missing: SQLite drops a damaged end of its write-ahead log, as it would one that
was never finished, and an empty file is a new database.
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
"""Two slots, in disk sectors of their own: the one that is being written when the power goes is not the only one."""


class Mark(msgspec.Struct, frozen=True):
    """A database, by the id it was made with, and a revision that it has confirmed."""

    database: bytes
    revision: int


class MarkerFile:
    """The file beside a database. Not synced at each write: after a power cut it may name an older revision, no newer one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._slot = 0

    def read(self) -> Mark | None:
        """Return the mark, None where there is no file. Raises StorageOpenError for a file without a readable mark."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        marks = [mark for mark in map(_decoded, (data, data[_SLOT_BYTES:])) if mark is not None]
        if not marks:
            raise StorageOpenError(
                f"{self.path}: is damaged: remove it to accept the database beside it as it is, or restore both"
            )
        return max(marks, key=lambda mark: mark.revision)

    def create(self, mark: Mark) -> None:
        """Write a file with this mark, durably, in place of any other; open it for :meth:`write`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o600)
        for _ in range(2):
            self.write(mark)
        os.fsync(self._descriptor)

    def write(self, mark: Mark) -> None:
        """Note a revision once it has been confirmed. A few microseconds: it is left to the system when it is written."""
        data = _FORMAT.pack(_MAGIC, mark.database, mark.revision)
        data += zlib.crc32(data).to_bytes(4, "big")
        os.pwrite(self._descriptor, data.ljust(_SLOT_BYTES, b"\0"), self._slot * _SLOT_BYTES)
        self._slot = 1 - self._slot

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _decoded(data: bytes) -> Mark | None:
    size = _FORMAT.size
    if len(data) < size + 4 or zlib.crc32(data[:size]).to_bytes(4, "big") != data[size : size + 4]:
        return None
    magic, database, revision = _FORMAT.unpack(data[:size])
    return Mark(database, revision) if magic == _MAGIC else None
