"""Simulated nodes and pods on a test's control plane, run in a thread."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation import run_simulation
from tinykube.testing.control_plane import ControlPlane


@contextlib.contextmanager
def simulation_runs(plane: ControlPlane, settings: SimulateSettings) -> Iterator[None]:
    """Run a simulation during the block; its errors are raised there."""
    started = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def simulate() -> None:
        stop = asyncio.Event()
        ends.append((asyncio.get_running_loop(), stop))
        started.set()
        async with Client.from_config(plane.client_config(), clock=SystemClock()) as client:
            await run_simulation(client, settings, stop)

    with ThreadPoolExecutor(1) as pool:
        running: Any = pool.submit(asyncio.run, simulate())
        started.wait(10)
        try:
            yield
        finally:
            loop, stop = ends[0]
            loop.call_soon_threadsafe(stop.set)
            running.result(30)
