"""Child processes of tests and scripts: logged to a file, stopped by pid, never left behind."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from aiokube.clock import Clock, SystemClock

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.02
_TAIL_BYTES = 16_384


class ProcessError(RuntimeError):
    """A child process did not start, exited early or was not ready in time; the text ends with its log."""


def _die_with_parent() -> Callable[[], None] | None:
    """Return a preexec function that makes the kernel kill the child when its parent dies."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def set_parent_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os.kill(os.getpid(), signal.SIGKILL)

    return set_parent_death_signal


class ChildProcess:
    """A program, started on construction in its own process group, with standard output and error in one file.

    On Linux the child is killed when the *thread* that started it ends, for any reason: start it from a
    thread that lives as long as the child is needed (in a test, the main thread). Signals go to the whole
    process group. The log file is appended to, so that a restart under the same name keeps the log of the
    first run.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log_path: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(str(part) for part in command)
        self.log_path = log_path
        self._clock = clock or SystemClock()
        with log_path.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - the caller's program
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=directory,
                    env=dict(environment) if environment is not None else None,
                    start_new_session=True,
                    preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one system call, no lock taken
                )
            except OSError as error:
                raise ProcessError(
                    f"{name} cannot be started: {self.command[0]}: {error.strerror}"
                ) from error

    @property
    def pid(self) -> int:
        """The process id, which is also the process group id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the number of the signal that killed it; None while it runs."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether the process is still running."""
        return self.exit_code is None

    def log(self) -> str:
        """Return the log of this run so far."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def log_tail(self, lines: int = 20) -> str:
        """Return the last log lines of this run, for an error message."""
        with self.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the process and return its exit code. Raises ProcessError after ``timeout_seconds``."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessError(
                self._with_log(f"{self.name} (pid {self.pid}) is still running after {timeout_seconds:g} s")
            ) from None

    def wait_until(
        self,
        condition: Callable[[], object],
        *,
        what: str,
        timeout_seconds: float,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Return once ``condition`` is true; it is polled every ``poll_seconds``.

        Raises ProcessError, with the end of the log, when the process exits or the timeout is reached.
        """
        deadline = self._clock.monotonic() + timeout_seconds
        while not condition():
            try:
                code = self._process.wait(poll_seconds)
            except subprocess.TimeoutExpired:
                if self._clock.monotonic() > deadline:
                    message = f"{self.name} (pid {self.pid}): not {what} after {timeout_seconds:g} s"
                    raise ProcessError(self._with_log(message)) from None
            else:
                raise ProcessError(
                    self._with_log(f"{self.name} ended with {code} before it was {what}")
                ) from None

    def wait_for_log(self, text: str, *, timeout_seconds: float) -> None:
        """Return once this run has logged ``text``. Raises ProcessError like :meth:`wait_until`."""
        self.wait_until(lambda: text in self.log(), what=f"saying {text!r}", timeout_seconds=timeout_seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group; no-op if the process has exited."""
        if self.is_running:
            os.killpg(self.pid, number)

    def pause(self) -> None:
        """Suspend the process (SIGSTOP) with its connections open, until :meth:`resume`."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after :meth:`pause` (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def stop(self, grace_seconds: float = 10.0) -> int:
        """Stop the process (SIGTERM), kill it after the grace period; return the exit code."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        try:
            return self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Kill the process group (SIGKILL); return the exit code."""
        self.signal(signal.SIGKILL)
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _with_log(self, message: str) -> str:
        return f"{message}\n--- end of {self.log_path} ---\n{self.log_tail()}"
