"""Running controllers within a test."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokube.client.rest import Client
from aiokube.runtime.program import ControllerDefinition, run_controllers
from aiokube.testing.virtual_time import FakeClock


@asynccontextmanager
async def running(client: Client, *definitions: ControllerDefinition, seed: int = 0) -> AsyncIterator[None]:
    """Run controllers within ``async with``, in virtual time (:func:`run_virtual`), and stop them at its end.

    Their caches have synced after one second of sleep. An error that ends them early is raised.
    """
    stop = asyncio.Event()
    rng = random.Random(seed)  # noqa: S311 - jitter, not secrets
    async with asyncio.TaskGroup() as group:
        group.create_task(
            run_controllers(client, *definitions, stop=stop, clock=FakeClock(), rng=rng), name="controllers"
        )
        try:
            yield
        finally:
            stop.set()
