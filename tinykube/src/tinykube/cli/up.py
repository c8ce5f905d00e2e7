"""``tinykube up``: the API server with simulated nodes, workloads and pods."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tinykube import __version__
from tinykube.cli.serve import server_options

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(program: str) -> Callable[[F], F]:
    """Return a decorator with the options of every command that runs a simulated cluster."""
    options = (
        click.option(
            "-f",
            "--filename",
            "filenames",
            multiple=True,
            metavar="FILE|DIR|-",
            help="Apply these manifests: YAML (any number of documents) or JSON files, directories, or - for standard input.",
        ),
        click.option(
            "--skip-unknown", is_flag=True, help="Skip objects of kinds that the server does not serve."
        ),
        server_options(program),
        click.option("--no-simulate", is_flag=True, help="Do not simulate nodes, workloads and pods."),
        click.option(
            "--nodes",
            type=click.IntRange(0, 2000),
            default=3,
            show_default=True,
            metavar="N",
            help="Number of nodes.",
        ),
        click.option(
            "--zones",
            default="zone-a,zone-b,zone-c",
            show_default=True,
            metavar="LIST",
            help="Zones of the nodes, in turn, separated by commas.",
        ),
        click.option(
            "--speed",
            type=click.FloatRange(min=0, min_open=True, max=10_000),
            default=1.0,
            show_default=True,
            metavar="X",
            help="Speed of simulated pods: 10 pulls, starts, probes and stops ten times faster than real time.",
        ),
        click.option(
            "--seed",
            type=int,
            default=0,
            show_default=True,
            metavar="N",
            help="Seed of all random delays and names; the same seed repeats a run.",
        ),
        click.option(
            "--crash-rate",
            type=click.FloatRange(min=0),
            default=0.0,
            show_default=True,
            metavar="X",
            help="Average crashes of a container per simulated hour.",
        ),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command(short_help="Serve the Kubernetes API with simulated nodes, workloads and pods.")
@cluster_options("tinykube")
@click.option(
    "-v", "--v", "verbosity", type=int, default=0, metavar="N", help="Log verbosity; 4 logs everything."
)
def up(verbosity: int, **values: Any) -> None:
    """Run a Kubernetes API on this machine, with simulated nodes, workloads and pods.

    Applies the manifests, writes a kubeconfig and runs until Ctrl-C.
    """
    import asyncio

    from aiokube.process import logs
    from tinykube.cli.embedded import starting
    from tinykube.cli.local_cluster import settings_from

    settings = settings_from(values, program="tinykube", user_agent=f"tinykube/{__version__}")
    logs.configure(verbosity)
    from tinykube.cli.up_program import run_up

    with starting():
        asyncio.run(run_up(settings))
