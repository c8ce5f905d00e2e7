"""Tests without a cluster and without waiting: virtual time, and servers in memory that fail when told to.

What this module does not list is private. Nothing here is needed at run time.
"""

from aiokube.testing.fake_client import FakeClient
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.running import running
from aiokube.testing.virtual_time import (
    DeadlockError,
    FakeClock,
    LeftoverTasksError,
    VirtualTimeLoop,
    run_virtual,
    settle,
)

__all__ = [
    # Hours in no time.
    "run_virtual",
    "FakeClock",
    "settle",
    "VirtualTimeLoop",
    "DeadlockError",
    "LeftoverTasksError",
    # Servers in memory: for whole controllers, for one informer, for the writer of slices.
    "FakeClient",
    "running",
    "FakeSource",
    "MemoryServer",
]
