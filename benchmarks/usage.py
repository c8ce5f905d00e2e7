"""CPU and memory of a process, as counted by the kernel."""

import os
import re
import time
from pathlib import Path

import msgspec

_CPUCLOCK_SCHED = 2  # the scheduler's count for a process: all threads, including those that have ended
_MEBIBYTE_KIB = 1024.0
_LINE = re.compile(r"^(VmRSS|VmHWM):\s*(\d+) kB$", re.MULTILINE)


class UsageError(RuntimeError):
    """The process has ended, or the kernel does not provide the figure."""


class Memory(msgspec.Struct, frozen=True):
    """Resident memory in MiB: now, and the peak since process start or :meth:`Usage.reset_peak`."""

    resident_mib: float
    peak_mib: float


class Usage:
    """Reads CPU and memory of one process, without its children. Linux only."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = Path("/proc") / str(pid)
        self._clock_id = ((~pid) << 3) | _CPUCLOCK_SCHED

    def cpu_seconds(self) -> float:
        """Return user and system CPU time of all threads so far. Raises UsageError.

        Reads the process's CPU clock (nanoseconds), or ``/proc/PID/stat`` (ticks of 10 ms) if it is unavailable.
        """
        try:
            return time.clock_gettime(self._clock_id)
        except (AttributeError, OSError):
            return cpu_seconds_of_stat(self._read("stat"), os.sysconf("SC_CLK_TCK"))

    def memory(self) -> Memory:
        """Return current and peak memory. Raises UsageError."""
        return memory_of_status(self._read("status"))

    def reset_peak(self) -> None:
        """Reset the peak to the current resident memory. Raises UsageError."""
        try:
            (self._folder / "clear_refs").write_text("5")
        except OSError as error:
            raise UsageError(f"the peak of process {self.pid} cannot be reset: {error}") from None

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError as error:
            raise UsageError(f"process {self.pid} cannot be inspected: {error}") from None


def cpu_seconds_of_stat(text: str, ticks_per_second: int) -> float:
    """Return utime + stime of a ``/proc/PID/stat``; the program name in it may contain any characters."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks_per_second


def memory_of_status(text: str) -> Memory:
    """Return VmRSS and VmHWM of a ``/proc/PID/status``. Raises UsageError if they are missing, as for a zombie."""
    found = {name: int(kib) / _MEBIBYTE_KIB for name, kib in _LINE.findall(text)}
    try:
        return Memory(found["VmRSS"], found["VmHWM"])
    except KeyError:
        raise UsageError("a process without memory: it has ended") from None
