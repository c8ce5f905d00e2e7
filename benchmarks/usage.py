"""What a process has used, as the kernel counts it."""

import os
import re
import time
from pathlib import Path

import msgspec

_CPUCLOCK_SCHED = 2  # the scheduler's own count of a process, all threads and those that have ended
_MEBIBYTE_KIB = 1024.0
_LINE = re.compile(r"^(VmRSS|VmHWM):\s*(\d+) kB$", re.MULTILINE)


class UsageError(RuntimeError):
    """The process is gone, or the kernel does not say what is asked of it."""


class Memory(msgspec.Struct, frozen=True):
    """Resident memory, in MiB: now, and at its highest since the process began or :meth:`Usage.reset_peak`."""

    resident_mib: float
    peak_mib: float


class Usage:
    """Reads what one process has used: its own threads, not its children. Linux."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = Path("/proc") / str(pid)
        self._clock_id = ((~pid) << 3) | _CPUCLOCK_SCHED

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far, user and system, in all threads. Raises UsageError.

        From the process's CPU clock, to the nanosecond; from ``/proc/PID/stat`` (ticks of 10 ms) where there is none.
        """
        try:
            return time.clock_gettime(self._clock_id)
        except (AttributeError, OSError):
            return cpu_seconds_of_stat(self._read("stat"), os.sysconf("SC_CLK_TCK"))

    def memory(self) -> Memory:
        """Return the memory. Raises UsageError."""
        return memory_of_status(self._read("status"))

    def reset_peak(self) -> None:
        """Let the peak start again from what is resident now. Raises UsageError."""
        try:
            (self._folder / "clear_refs").write_text("5")
        except OSError as error:
            raise UsageError(f"the peak of process {self.pid} cannot be reset: {error}") from None

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError as error:
            raise UsageError(f"process {self.pid} cannot be looked at: {error}") from None


def cpu_seconds_of_stat(text: str, ticks_per_second: int) -> float:
    """Return utime + stime of a ``/proc/PID/stat``; the program's name in it may hold anything."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks_per_second


def memory_of_status(text: str) -> Memory:
    """Return VmRSS and VmHWM of a ``/proc/PID/status``. Raises UsageError where they are missing, as in a zombie's."""
    found = {name: int(kib) / _MEBIBYTE_KIB for name, kib in _LINE.findall(text)}
    try:
        return Memory(found["VmRSS"], found["VmHWM"])
    except KeyError:
        raise UsageError("a process without memory: it has ended") from None
