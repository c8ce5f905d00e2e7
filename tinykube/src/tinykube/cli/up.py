"""``tinykube up``: the API server with simulated nodes, workloads and pods."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tinykube import __version__
from tinykube.cli.serve import server_options

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(program: str) -> Callable[[F], F]:
    """Return a decorator that adds the options of every command that runs a simulated cluster."""
    options = (
        click.option(
            "-f",
            "--filename",
            "filenames",
            multiple=True,
            metavar="FILE|DIR|-",
            help="Apply these manifests: YAML of many documents, JSON, folders, standard input.",
        ),
        click.option(
            "--skip-unknown", is_flag=True, help="Leave out objects of kinds that the server does not know."
        ),
        server_options(program),
        click.option("--no-simulate", is_flag=True, help="No nodes, and nothing that runs pods."),
        click.option(
            "--nodes", type=click.IntRange(0, 2000), default=3, show_default=True, metavar="N", help="Nodes."
        ),
        click.option(
            "--zones",
            default="zone-a,zone-b,zone-c",
            show_default=True,
            metavar="LIST",
            help="Zones of the nodes, in turn.",
        ),
        click.option(
            "--speed",
            type=click.FloatRange(min=0, min_open=True, max=10_000),
            default=1.0,
            show_default=True,
            metavar="X",
            help="How many times faster than real pods pull, start, probe and stop.",
        ),
        click.option(
            "--seed", type=int, default=0, show_default=True, metavar="N", help="The same seed, the same run."
        ),
        click.option(
            "--crash-rate",
            type=click.FloatRange(min=0),
            default=0.0,
            show_default=True,
            metavar="X",
            help="Crashes of a container per hour.",
        ),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command()
@cluster_options("tinykube")
@click.option(
    "-v", "--v", "verbosity", type=int, default=0, metavar="N", help="Verbosity of the log: 4 for all."
)
def up(verbosity: int, **values: Any) -> None:
    """Run a Kubernetes API on this machine, with nodes and pods that start, fail and stop.

    Starts the API server with simulated nodes and workloads in this process, and applies the manifests. Ctrl-C ends it.
    """
    from aiokube.process import logs
    from tinykube.cli.embedded import starting
    from tinykube.cli.local_cluster import settings_from

    settings = settings_from(values, program="tinykube", user_agent=f"tinykube/{__version__}")
    logs.configure(verbosity)
    from tinykube.cli.up_program import run_up

    with starting():
        asyncio.run(run_up(settings))
