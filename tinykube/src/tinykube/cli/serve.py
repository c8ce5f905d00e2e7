"""``tinykube serve``: the API server alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tinykube.cli.fault_options import add_faults, fault_options
from tinykube.cli.own_kubeconfig import default_kubeconfig

F = TypeVar("F", bound=Callable[..., Any])


def server_options(program: str) -> Callable[[F], F]:
    """Return a decorator with the options of every command that runs a server: data, port and kubeconfig."""
    options = (
        click.option(
            "--kubeconfig-out",
            type=click.Path(dir_okay=False, path_type=Path),
            default=None,
            show_default=str(default_kubeconfig(program)),
            metavar="FILE",
            help="Write the kubeconfig to this file (mode 0600); it is removed at exit. The default name gets -2, -3, "
            "... if other instances run in this directory.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=0,
            show_default=True,
            metavar="N",
            help="Port of the API server; 0 chooses a free port.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default=None,
            metavar="DIR",
            help="Store all data in this directory; by default it is kept in memory and lost at exit.",
        ),
    )

    def decorate(command: F) -> F:
        for option in options:
            command = option(command)
        return command

    return decorate


def serve_command(program: str) -> click.Command:
    """Return the command ``serve`` of a program; its name determines the default kubeconfig."""

    @click.command("serve", short_help="Serve the Kubernetes API alone.")
    @server_options(program)
    @click.option(
        "--bind-address", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on."
    )
    @click.option(
        "--allow-remote",
        is_flag=True,
        help="Allow a --bind-address that other machines can reach. Anyone with the token has full access.",
    )
    @click.option(
        "--namespace-defaults",
        is_flag=True,
        help="Keep the ServiceAccount default and the ConfigMap kube-root-ca.crt in every namespace, as `up` does.",
    )
    @fault_options
    @click.option(
        "-v", "--v", "verbosity", type=int, default=0, metavar="N", help="Log verbosity; 4 logs everything."
    )
    def serve(
        data_dir: Path | None,
        bind_address: str,
        allow_remote: bool,
        port: int,
        kubeconfig_out: Path | None,
        namespace_defaults: bool,
        faults: tuple[str, ...],
        fault_rate: float,
        fault_seed: int,
        verbosity: int,
    ) -> None:
        """Serve the Kubernetes API on this machine until SIGTERM or SIGINT.

        Writes a kubeconfig for kubectl and any other client. No controllers and no nodes run: `up` adds simulated ones.
        """
        import asyncio

        from aiokube.process.import_hooks import import_aiohttp

        import_aiohttp()
        from aiokube.process import logs
        from tinykube.cli.embedded import check_settings, serve_until_signal, starting
        from tinykube.server.api_server import ApiServer
        from tinykube.server.settings import ServerSettings

        logs.configure(verbosity)
        settings = ServerSettings(
            host=bind_address,
            port=port,
            allow_remote=allow_remote,
            data_dir=data_dir,
            namespace_defaults=namespace_defaults,
        )
        check_settings(settings)

        def prepare(server: ApiServer) -> None:
            add_faults(server.faults, faults, fault_rate, fault_seed)

        with starting():
            asyncio.run(serve_until_signal(settings, kubeconfig_out, program=program, prepare=prepare))

    return serve


serve = serve_command("tinykube")
