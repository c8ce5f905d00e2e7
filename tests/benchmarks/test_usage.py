"""The kernel's figures of a process."""

import os

import pytest

from benchmarks.usage import Memory, Usage, UsageError, cpu_seconds_of_stat, memory_of_status

_STAT = "17 (a) b (c)) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 7 9 20 0 1 0 100 0 0"
_STATUS = "Name:\tx\nVmPeak:\t 999999 kB\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\nThreads:\t1\n"


def test_cpu_time_from_stat_is_user_and_system_time_without_children() -> None:
    assert cpu_seconds_of_stat(_STAT, 100) == 3.0


def test_memory_from_status_is_in_mebibytes() -> None:
    assert memory_of_status(_STATUS) == Memory(resident_mib=10.0, peak_mib=20.0)


def test_a_zombie_process_has_no_memory_figure() -> None:
    with pytest.raises(UsageError, match="it has ended"):
        memory_of_status("Name:\tx\nState:\tZ (zombie)\n")


def test_cpu_and_memory_of_a_live_process_are_measured() -> None:
    usage = Usage(os.getpid())
    before = usage.cpu_seconds()
    sum(number * number for number in range(200_000))
    assert usage.cpu_seconds() > before
    memory = usage.memory()
    assert 1.0 < memory.resident_mib <= memory.peak_mib + 1.0


def test_without_a_cpu_clock_the_ticks_of_stat_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock(_clock_id: int) -> float:
        raise OSError("no such clock")

    usage = Usage(os.getpid())
    precise = usage.cpu_seconds()
    monkeypatch.setattr("time.clock_gettime", no_clock)
    assert usage.cpu_seconds() == pytest.approx(precise, abs=0.5)


def test_a_missing_process_is_an_error_that_names_it() -> None:
    usage = Usage(2**22 + 5)  # above the highest possible pid
    for look in (usage.cpu_seconds, usage.memory, usage.reset_peak):
        with pytest.raises(UsageError, match=str(2**22 + 5)):
            look()
