"""``endpointd up``: an API server, machines that are none, and the controllers, all in one process."""

import asyncio
import logging
from pathlib import Path

import click

from endpointd.cli.flags import Duration
from endpointd.cli.serve import server_options


@click.command()
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Apply these manifests: YAML of many documents, JSON, folders, standard input.",
)
@click.option(
    "--skip-unknown", is_flag=True, help="Leave out objects of kinds that the server does not know."
)
@server_options
@click.option("--no-simulate", is_flag=True, help="No nodes, and nothing that runs pods.")
@click.option("--no-controllers", is_flag=True, help="Leave Endpoints and EndpointSlices to others.")
@click.option(
    "--nodes", type=click.IntRange(0, 2000), default=3, show_default=True, metavar="N", help="Nodes."
)
@click.option(
    "--zones",
    default="zone-a,zone-b,zone-c",
    show_default=True,
    metavar="LIST",
    help="Zones of the nodes, in turn.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=10_000),
    default=1.0,
    show_default=True,
    metavar="X",
    help="How many times faster than real pods pull, start, probe and stop.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="The same seed, the same run."
)
@click.option(
    "--crash-rate",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="X",
    help="Crashes of a container per hour.",
)
@click.option("--once", is_flag=True, help="Wait until all is settled, print the table and end.")
@click.option(
    "--timeout",
    type=Duration(),
    default="5m",
    show_default=True,
    help="How long --once waits before it says what is not settled (exit code 1).",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="What --once prints.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    default=0,
    metavar="N",
    help="Verbosity of the log: 2 adds each write, 4 each sync.",
)
def up(
    filenames: tuple[str, ...],
    skip_unknown: bool,
    data_dir: Path | None,
    port: int,
    kubeconfig_out: Path | None,
    no_simulate: bool,
    no_controllers: bool,
    nodes: int,
    zones: str,
    speed: float,
    seed: int,
    crash_rate: float,
    once: bool,
    timeout: float,
    output: str,
    verbosity: int,
) -> None:
    """Have a Kubernetes API on this machine, with services and pods that live and die in it.

    Starts the embedded API server, simulated nodes and workloads, and the three controllers, in this process, applies the
    manifests, and shows what is published. Ctrl-C ends it.
    """
    from endpointd.apiserver.settings import ServerSettings
    from endpointd.cli import logs
    from endpointd.cli.embedded import check_settings, first_of, starting
    from endpointd.cli.manifests import ManifestError, read_manifests
    from endpointd.cli.up_program import NotSettledError, UpSettings, run_up
    from endpointd.simulate.settings import SimulateSettings

    if output != "text" and not once:
        raise click.UsageError(f"-o {output} is for --once")
    try:
        manifests = read_manifests(filenames)
    except ManifestError as error:
        raise click.UsageError(str(error)) from error
    server = ServerSettings(port=port, data_dir=data_dir)
    check_settings(server)
    simulation = None
    if not no_simulate:
        try:
            simulation = SimulateSettings(
                nodes=nodes,
                zones=tuple(zone.strip() for zone in zones.split(",")),
                speed=speed,
                seed=seed,
                crash_rate=crash_rate,
                restarts=not once,  # what is rolled out again and again never settles
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    logs.configure(verbosity)
    if not verbosity:  # a table that is drawn again and again and lines of a log do not go together
        logging.getLogger("endpointd").setLevel(logging.WARNING)
    settings = UpSettings(
        server=server,
        simulation=simulation,
        with_controllers=not no_controllers,
        kubeconfig=kubeconfig_out,
        once=once,
        timeout_seconds=timeout,
        output=output,
        skip_unknown=skip_unknown,
    )
    try:
        with starting():
            asyncio.run(run_up(settings, manifests))
    except* NotSettledError as group:
        click.echo(f"Error: {first_of(group)}", err=True)
        raise SystemExit(1) from group
