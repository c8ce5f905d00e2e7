"""``endpointd up``: an API server, simulated pods and the controllers in one process."""

import asyncio
import logging
from typing import Any

import click

from endpointd import __version__
from endpointd.cli.flags import Duration
from tinykube.cli.up import cluster_options


@click.command()
@cluster_options("endpointd")
@click.option("--no-controllers", is_flag=True, help="Do not run the controllers.")
@click.option("--once", is_flag=True, help="Wait until everything is settled, print the table and exit.")
@click.option(
    "--timeout",
    type=Duration(),
    default="5m",
    show_default=True,
    help="How long --once waits before it lists the unsettled objects (exit code 1).",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format of --once.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    default=0,
    metavar="N",
    help="Log verbosity: 2 adds each write, 4 each sync.",
)
def up(
    no_controllers: bool,
    once: bool,
    timeout: float,
    output: str,
    verbosity: int,
    **values: Any,
) -> None:
    """Run a Kubernetes API on this machine, with simulated pods and the controllers.

    Starts the embedded API server, simulated nodes and workloads, and the three controllers in this process,
    applies the manifests, and shows the published endpoints. Ctrl-C stops it.
    """
    from aiokube.process import logs
    from endpointd.cli.up_program import NotSettledError, UpSettings, run_up
    from tinykube.cli.embedded import first_of, starting
    from tinykube.cli.local_cluster import settings_from

    if output != "text" and not once:
        raise click.UsageError(f"-o {output} needs --once")
    cluster = settings_from(values, program="endpointd", user_agent=f"endpointd/{__version__}", settles=once)
    logs.configure(verbosity, write_logger="endpointd.cli.write_log")
    if not verbosity:  # log lines would break the table on the screen
        for package in logs.PACKAGES:
            logging.getLogger(package).setLevel(logging.WARNING)
    settings = UpSettings(
        cluster=cluster,
        with_controllers=not no_controllers,
        once=once,
        timeout_seconds=timeout,
        output=output,
    )
    try:
        with starting():
            asyncio.run(run_up(settings))
    except* NotSettledError as group:
        click.echo(f"Error: {first_of(group)}", err=True)
        raise SystemExit(1) from group
