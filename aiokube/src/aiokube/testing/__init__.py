"""Tests without a cluster and without waiting: virtual time, and in-memory servers with fault injection.

Names that this module does not list are private. Nothing here is needed at run time.
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
    # Virtual time: hours pass instantly.
    "run_virtual",
    "FakeClock",
    "settle",
    "VirtualTimeLoop",
    "DeadlockError",
    "LeftoverTasksError",
    # In-memory servers: for whole controllers, for one informer, for slice writers.
    "FakeClient",
    "running",
    "FakeSource",
    "MemoryServer",
]
