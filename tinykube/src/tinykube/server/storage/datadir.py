"""The data directory of a server: private, and used by one server at a time."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tinykube.server.storage.model import DataDirectoryInUseError, StorageOpenError

DATABASE_NAME = "tinykube.db"
_FORMER_DATABASE_NAME = "endpointd.db"
MARKER_NAME = "marker"
RESERVE_NAME = "reserve"
_LOCK_NAME = "lock"


class DataDirectory:
    """A data directory, locked until it is closed or the process ends.

    Created with mode 0700 if it is missing. Raises StorageOpenError if it cannot be used, or
    :class:`DataDirectoryInUseError` if another process has locked it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.marker = path / MARKER_NAME
        self.reserve = path / RESERVE_NAME
        with _open_errors(path):
            if not path.exists():
                path.mkdir(mode=0o700, parents=True)
                _sync_directory(path.parent)
            elif not path.is_dir():
                raise StorageOpenError(f"data directory {path}: not a directory")
            _make_private(path)
            self._lock = os.open(path / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = self._owner()
            os.close(self._lock)
            who = f"the server with pid {pid}" if pid else "another server"
            raise DataDirectoryInUseError(
                f"data directory {path} is in use by {who}: stop it, or use another directory", pid
            ) from None
        former = path / _FORMER_DATABASE_NAME
        self.database = former if former.exists() else path / DATABASE_NAME
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _owner(self) -> int:
        text = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else 0

    def prepare_database(self) -> bool:
        """Create the database file with private permissions if it is missing (SQLite copies them to its other files).

        Return whether it was missing or empty.
        """
        with _open_errors(self.path):
            is_new = not self.database.exists() or not self.database.stat().st_size
            os.close(os.open(self.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.database.chmod(0o600)
            _sync_directory(self.path)
        return is_new

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make_private(path: Path) -> None:
    if not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return
    ours = (DATABASE_NAME, _FORMER_DATABASE_NAME, MARKER_NAME, RESERVE_NAME, _LOCK_NAME)
    if any(not entry.name.startswith(ours) for entry in path.iterdir()):
        # Do not change the permissions of a shared directory such as /tmp.
        raise StorageOpenError(
            f"data directory {path}: accessible by other users and contains other files; use a dedicated directory"
        )
    path.chmod(0o700)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _open_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageOpenError(
            f"data directory {path}: {error.strerror}; use a directory that you can write to"
        ) from error
