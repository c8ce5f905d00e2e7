"""``endpointd serve``: the embedded API server alone."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

DEFAULT_KUBECONFIG = Path(".endpointd") / "kubeconfig"


F = TypeVar("F", bound=Callable[..., Any])


def server_options(command: F) -> F:
    """Add the options of every command that runs the server: where its data, its port and its kubeconfig are."""
    for option in (
        click.option(
            "--kubeconfig-out",
            type=click.Path(dir_okay=False, path_type=Path),
            default=None,
            show_default=str(DEFAULT_KUBECONFIG),
            metavar="FILE",
            help="Where to write the kubeconfig (0600); it is removed at the end. The default gets -2, -3, ... where "
            "other instances run in this folder.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=0,
            show_default=True,
            metavar="N",
            help="Port of the API server; 0 takes a free one.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default=None,
            metavar="DIR",
            help="Keep everything there, durably; in memory alone without.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@server_options
@click.option(
    "--bind-address", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on."
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Let --bind-address be reachable from other machines: whoever has the token may do everything.",
)
@click.option(
    "-v", "--v", "verbosity", type=int, default=0, metavar="N", help="Verbosity of the log: 4 for all."
)
def serve(
    data_dir: Path | None,
    bind_address: str,
    allow_remote: bool,
    port: int,
    kubeconfig_out: Path | None,
    verbosity: int,
) -> None:
    """Serve the Kubernetes API on this machine, until SIGTERM or SIGINT.

    Any client can use it with the kubeconfig that is written. Nothing runs in it by itself: `endpointd up` adds nodes, pods
    and the controllers.
    """
    from endpointd.cli.quick_start import import_aiohttp

    import_aiohttp()
    from endpointd.apiserver.settings import ServerSettings
    from endpointd.cli import logs
    from endpointd.cli.embedded import check_settings, serve_until_told, starting

    logs.configure(verbosity)
    settings = ServerSettings(host=bind_address, port=port, allow_remote=allow_remote, data_dir=data_dir)
    check_settings(settings)
    with starting():
        asyncio.run(serve_until_told(settings, kubeconfig_out))
