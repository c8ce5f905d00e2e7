"""The kubeconfig that a server of ours writes: claimed by one process, removed when that ends, never somebody else's file."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import click

_MARKER = b"# Written by endpointd, and removed when it ends.\n"
_MAX_INSTANCES = 1000


class KubeconfigTakenError(click.ClickException):
    """The kubeconfig cannot be written there: one line, exit code 2."""

    exit_code = 2


class OwnKubeconfig:
    """A kubeconfig that this process alone writes, from :func:`claim_kubeconfig` on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        """Write it whole or not at all, readable by its owner alone."""
        from endpointd.apiserver.certificates.files import write_private

        write_private(self.path, _MARKER + text.encode())


@contextlib.contextmanager
def claim_kubeconfig(asked: Path | None, default: Path) -> Iterator[OwnKubeconfig]:
    """Claim the file that was asked for; without one, the first of ``default``, ``default-2``, ... that is free.

    The claim ends with the process, however it ends; leaving the block removes the file. Raises
    :class:`KubeconfigTakenError` where another process has claimed the file asked for, or where endpointd did not write it:
    a user's own kubeconfig is neither overwritten nor removed. Raises OSError where the folder cannot be written.
    """
    first = asked or default
    is_new_folder = not first.parent.exists()
    first.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 2 if asked else _MAX_INSTANCES):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        lock = _try_lock(_lock_path(path))
        if lock is not None:
            break
    else:
        raise KubeconfigTakenError(
            f"{first} is in use by another endpointd: choose another file with --kubeconfig-out, or stop that one"
        )
    try:
        if asked and path.exists() and not _is_ours(path):
            raise KubeconfigTakenError(
                f"{path} was not written by endpointd and is left as it is: choose another file with "
                "--kubeconfig-out, or remove this one"
            )
        try:
            yield OwnKubeconfig(path)
        finally:
            if _is_ours(path):
                path.unlink(missing_ok=True)
    finally:
        _lock_path(path).unlink(missing_ok=True)
        os.close(lock)
        if is_new_folder:
            with contextlib.suppress(OSError):  # somebody has put something there
                path.parent.rmdir()


def _lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _try_lock(path: Path) -> int | None:
    """Return an open, locked file; None where another process holds it."""
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
        os.close(descriptor)  # its last owner removed it just now: what we have locked is no longer the file


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MARKER)) == _MARKER
    except FileNotFoundError:
        return False
