"""Disk space reserved for deletions: without it, nothing could be deleted once the disk is full."""

import contextlib
import os
from pathlib import Path

_RESERVE_BYTES = 4 * 1024 * 1024


class Reserve:
    """A preallocated file beside the database, truncated when the disk is full."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self.is_held = False
        self._allocate()

    def acquire(self) -> bool:
        """Allocate the space again once twice as much is free; return whether it is allocated."""
        if not self.is_held and _free_bytes(self._path.parent) >= 2 * _RESERVE_BYTES:
            self._allocate()
        return self.is_held

    def _allocate(self) -> None:
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, _RESERVE_BYTES)
            else:  # macOS
                os.pwrite(self._descriptor, bytes(_RESERVE_BYTES), 0)
            self.is_held = True

    def release(self) -> None:
        """Release the space."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        self.is_held = False

    def close(self) -> None:
        """Remove the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)


def _free_bytes(directory: Path) -> int:
    with contextlib.suppress(OSError):
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize
    return 0
