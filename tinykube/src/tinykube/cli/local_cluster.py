"""The local cluster of ``up``: server, simulated nodes and workloads, and the user's manifests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from aiokube.client.load_config import load_config
from aiokube.client.manifests import Manifest, ManifestError, read_manifests
from aiokube.client.rest import Client
from aiokube.clock import Clock
from tinykube.cli.apply import RefusedError, apply_manifests, refusal_text, summary_lines
from tinykube.cli.embedded import CannotServeError, check_settings, embedded_server, how_to_reach
from tinykube.server.settings import ServerSettings
from tinykube.simulate.pod_log import simulated_log
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation import run_simulation


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A server on this machine and its contents. No ``simulation``: no pods run; no ``kubeconfig``: a free name is chosen."""

    program: str
    user_agent: str
    server: ServerSettings
    simulation: SimulateSettings | None
    kubeconfig: Path | None
    manifests: tuple[Manifest, ...]
    skip_unknown: bool


class LocalCluster(msgspec.Struct, frozen=True):
    """A running server and a client connected to it."""

    settings: ClusterSettings
    client: Client
    clock: Clock
    notes: tuple[str, ...]
    """Two lines for the user: the URL of the API, and the kubeconfig to export."""

    async def simulate(self, stop: asyncio.Event) -> None:
        """Simulate nodes, workloads and pods until ``stop`` is set; return immediately if simulation is off."""
        if self.settings.simulation is not None:
            await run_simulation(self.client, self.settings.simulation, stop, clock=self.clock)

    async def apply(self, *, to_stderr: bool = False) -> None:
        """Apply the manifests and print a summary.

        Raises :class:`~tinykube.cli.embedded.CannotServeError` if any manifest is rejected.
        """
        if not self.settings.manifests:
            return
        try:
            applied = await apply_manifests(
                self.client, self.settings.manifests, skip_unknown=self.settings.skip_unknown
            )
        except RefusedError as error:
            raise CannotServeError(refusal_text(error)) from error
        for line in summary_lines(applied):
            click.echo(line, err=to_stderr)


@contextlib.asynccontextmanager
async def local_cluster(settings: ClusterSettings, clock: Clock) -> AsyncIterator[LocalCluster]:
    """Run the server for a block; the caller starts the simulation and applies the manifests."""
    pod_logs = simulated_log if settings.simulation is not None else None
    async with embedded_server(settings.server, settings.kubeconfig, pod_logs, program=settings.program) as (
        server,
        kubeconfig,
    ):
        notes = (f"the Kubernetes API is at {server.url}; to use it:", f"  {how_to_reach(kubeconfig)}")
        config = load_config(str(kubeconfig), clock=clock)
        async with Client.from_config(config, clock=clock, user_agent=settings.user_agent) as client:
            yield LocalCluster(settings, client, clock, notes)


def settings_from(
    values: dict[str, Any], *, program: str, user_agent: str, settles: bool = False
) -> ClusterSettings:
    """Return the settings for the options of :func:`tinykube.cli.up.cluster_options`.

    ``settles`` disables the periodic restarts, so that the cluster can become quiet. Raises
    ``click.UsageError`` for invalid values and unreadable manifests.
    """
    try:
        manifests: Sequence[Manifest] = read_manifests(values["filenames"])
    except ManifestError as error:
        raise click.UsageError(str(error)) from error
    server = ServerSettings(port=values["port"], data_dir=values["data_dir"], namespace_defaults=True)
    check_settings(server)
    simulation = None
    if not values["no_simulate"]:
        try:
            simulation = SimulateSettings(
                nodes=values["nodes"],
                zones=tuple(zone.strip() for zone in values["zones"].split(",")),
                speed=values["speed"],
                seed=values["seed"],
                crash_rate=values["crash_rate"],
                restarts=not settles,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    return ClusterSettings(
        program=program,
        user_agent=user_agent,
        server=server,
        simulation=simulation,
        kubeconfig=values["kubeconfig_out"],
        manifests=tuple(manifests),
        skip_unknown=values["skip_unknown"],
    )
