"""Signals, with real processes."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from aiokube.runtime.shutdown import stop_on_signals

PROGRAM = """
import asyncio, sys
from aiokube.runtime.shutdown import stop_on_signals

async def main():
    stop = asyncio.Event()
    with stop_on_signals(stop):
        print("ready", flush=True)
        await stop.wait()
        print("stopping", flush=True)
        if sys.argv[1] == "stuck":
            await asyncio.sleep(1000)
    print("ended well", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_requests_a_stop(which: signal.Signals) -> None:
    before = signal.getsignal(which)
    stop = asyncio.Event()
    with stop_on_signals(stop):
        os.kill(os.getpid(), which)
        await asyncio.wait_for(stop.wait(), 5.0)
    assert signal.getsignal(which) in (before, signal.default_int_handler, signal.SIG_DFL)


def start(mode: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, mode], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_stop_exits_with_code_zero(which: signal.Signals) -> None:
    process = start("well")
    process.send_signal(which)
    output, _ = process.communicate(timeout=20)
    assert (output, process.returncode) == ("stopping\nended well\n", 0)


@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)]
)
def test_the_second_signal_terminates_a_stuck_program_immediately(
    first: signal.Signals, second: signal.Signals
) -> None:
    process = start("stuck")
    process.send_signal(first)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(second)
    output, _ = process.communicate(timeout=20)
    assert (output, process.returncode) == ("", -second)
