"""Disk space that is kept for deletions: without it nothing can be deleted once the disk is full."""

import contextlib
import os
from pathlib import Path

_RESERVE_BYTES = 4 * 1024 * 1024


class Reserve:
    """A file of allocated space beside the database, given up when the disk is full."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self.is_held = False
        self._allocate()

    def acquire(self) -> bool:
        """Take the space back once there is as much again beside it; return whether it is held."""
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
        """Give the space up."""
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
