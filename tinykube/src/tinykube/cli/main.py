"""The command line of tinykube."""

import importlib
from typing import Any

import click

from tinykube import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("tinykube.cli.serve:serve", "Serve the Kubernetes API alone."),
    "up": ("tinykube.cli.up:up", "Serve the Kubernetes API with simulated nodes, workloads and pods."),
}


class LazyGroup(click.Group):
    """A group that imports a command when the command is called or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry[0]} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success, 2 invalid arguments or files.",
)
@click.version_option(__version__, prog_name="tinykube")
def cli() -> None:
    """Run a Kubernetes API server in one process, for tests and laptops."""
