"""The tasks of ``tinykube up``."""

import asyncio

import click

from aiokube.clock import SystemClock
from aiokube.runtime.shutdown import stop_on_signals
from tinykube.cli.local_cluster import ClusterSettings, local_cluster


async def run_up(settings: ClusterSettings) -> None:
    """Serve, simulate and apply the manifests; return after SIGTERM or SIGINT.

    Raises :class:`~tinykube.cli.embedded.CannotServeError` if the server rejects manifests.
    """
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with local_cluster(settings, SystemClock()) as cluster, asyncio.TaskGroup() as group:
            click.echo("\n".join(cluster.notes))
            simulation = group.create_task(cluster.simulate(stop), name="simulation")
            try:
                await cluster.apply()
                await stop.wait()
            finally:
                stop.set()
                await asyncio.gather(simulation, return_exceptions=True)
