"""The kubeconfig of an embedded server: claimed by one process and removed when the process ends."""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

_MARKER = re.compile(rb"# Written by [a-z]+, and removed when it ends\.\n")
_MARKER_LIMIT_BYTES = 100
_MAX_INSTANCES = 1000


class KubeconfigTakenError(click.ClickException):
    """The kubeconfig cannot be written to this path: one line, exit code 2."""

    exit_code = 2


class OwnKubeconfig:
    """A kubeconfig that only this process writes; created by :func:`claim_kubeconfig`."""

    def __init__(self, path: Path, program: str) -> None:
        self.path = path
        self._program = program

    def write(self, text: str) -> None:
        """Write the file atomically, readable only by its owner."""
        from tinykube.server.certificates.files import write_private

        marker = f"# Written by {self._program}, and removed when it ends.\n"
        write_private(self.path, f"{marker}{text}".encode())


def default_kubeconfig(program: str) -> Path:
    """Return the default kubeconfig path of a program, relative to the working directory."""
    return Path(f".{program}") / "kubeconfig"


@contextlib.contextmanager
def claim_kubeconfig(
    requested: Path | None, program: str = "tinykube", folder: Path = Path()
) -> Iterator[OwnKubeconfig]:
    """Claim the requested file, or the first free one of ``.tinykube/kubeconfig``, ``.tinykube/kubeconfig-2``, ...

    The default is in ``folder`` and named after ``program``. The claim ends with the process, even after a
    crash; leaving the block removes the file.

    Raises :class:`KubeconfigTakenError` if another process has claimed the requested file, or if neither
    tinykube nor endpointd wrote it: a user's own kubeconfig is neither overwritten nor removed. Raises
    OSError if the folder is not writable.
    """
    first = requested or folder / default_kubeconfig(program)
    is_new_folder = not first.parent.exists()
    first.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 2 if requested else _MAX_INSTANCES):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        lock = _try_lock(_lock_path(path))
        if lock is not None:
            break
    else:
        raise KubeconfigTakenError(
            f"{first} is in use by another {program}: choose another file with --kubeconfig-out, or stop that process"
        )
    try:
        if requested and path.exists() and not _is_ours(path):
            raise KubeconfigTakenError(
                f"{path} was not written by {program} and is not overwritten: choose another file with "
                "--kubeconfig-out, or remove this one"
            )
        try:
            yield OwnKubeconfig(path, program)
        finally:
            if _is_ours(path):
                path.unlink(missing_ok=True)
    finally:
        _lock_path(path).unlink(missing_ok=True)
        os.close(lock)
        if is_new_folder:
            with contextlib.suppress(OSError):  # not empty: it contains other files
                path.parent.rmdir()


def _lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _try_lock(path: Path) -> int | None:
    """Return an open, locked file, or None if another process holds the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # the previous owner has just removed the file: the lock is on an unlinked inode


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARKER.match(file.read(_MARKER_LIMIT_BYTES)) is not None
    except FileNotFoundError:
        return False
