"""Child processes: logged, monitored and cleaned up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinykube.testing.processes import ChildProcess, ProcessError


def python(program: str, log_path: Path, name: str = "child") -> ChildProcess:
    return ChildProcess(name, [sys.executable, "-u", "-c", program], log_path=log_path)


def test_a_child_that_dies_before_it_is_ready_is_reported_with_its_last_output(tmp_path: Path) -> None:
    child = python("import sys; print('out of luck'); sys.exit(3)", tmp_path / "log")
    with pytest.raises(ProcessError, match=r"child ended with 3 before it was ready\n.*log ---\nout of luck"):
        child.wait_until(lambda: False, what="ready", timeout_seconds=30)


def test_a_child_that_does_not_become_ready_is_reported_and_keeps_running(tmp_path: Path) -> None:
    with python("input = __import__('signal').pause()", tmp_path / "log") as child:
        with pytest.raises(ProcessError, match=rf"child \(pid {child.pid}\): not ready after 0 s"):
            child.wait_until(lambda: False, what="ready", timeout_seconds=0)
        assert child.is_running
    assert child.exit_code == -signal.SIGTERM


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    program = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf'); [signal.pause() for _ in iter(int, 1)]"
    child = python(program, tmp_path / "log")
    child.wait_for_log("deaf", timeout_seconds=30)
    assert child.stop(grace_seconds=0) == -signal.SIGKILL


def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    child = python("import signal; print('up'); signal.pause()", tmp_path / "log")
    child.wait_for_log("up", timeout_seconds=30)
    child.pause()
    assert child.stop() == -signal.SIGTERM


def test_the_log_of_a_restarted_child_starts_at_the_end_of_the_previous_one(tmp_path: Path) -> None:
    python("print('first')", tmp_path / "log").wait(30)
    second = python("print('second')", tmp_path / "log")
    second.wait(30)
    assert second.log() == "second\n"
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_a_missing_program_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"etcd cannot be started: /no/etcd: No such file"):
        ChildProcess("etcd", ["/no/etcd"], log_path=tmp_path / "log")


@pytest.mark.skipif(sys.platform != "linux", reason="a child dies with its parent only on Linux")
def test_a_child_dies_with_its_parent_even_if_the_parent_is_killed(tmp_path: Path) -> None:
    parent_program = (
        "import os, signal, sys; from pathlib import Path; from tinykube.testing.processes import ChildProcess\n"
        f"child = ChildProcess('sleeper', ['sleep', '1000'], log_path=Path({str(tmp_path / 'log')!r}))\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", parent_program], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    with python("import signal; signal.pause()", tmp_path / "bystander") as bystander:
        bystander.wait_until(lambda: is_gone(pid), what="alone", timeout_seconds=30)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"
