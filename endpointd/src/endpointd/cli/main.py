"""The command line. The modules of a command are imported when it runs."""

import importlib
from typing import Any

import click

from endpointd import __version__

# Name, module and attribute, one line of help. Listing the commands imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("endpointd.cli.run:run", "Run the controllers against a cluster."),
    "up": (
        "endpointd.cli.up:up",
        "Run a Kubernetes API on this machine, with simulated pods and the controllers.",
    ),
    "serve": ("endpointd.cli.serve:serve", "Run only the Kubernetes API on this machine."),
    "explain": ("endpointd.cli.explain:explain", "Explain why a pod is, or is not, in a service."),
    "check": ("endpointd.cli.check:check", "Find every problem with Services in a cluster."),
    "diff": ("endpointd.cli.diff:diff", "Show what endpointd would change in a cluster now."),
    "plan": (
        "endpointd.cli.plan:plan",
        "Show, offline, the slices of manifests; simulate a rolling update.",
    ),
    "version": ("endpointd.cli.version:version", "Print the version."),
}


class NeedsTinykubeError(click.ClickException):
    """A command needs the package tinykube, which is not installed. Exit code 2."""

    exit_code = 2

    def __init__(self, command: str) -> None:
        super().__init__(f"`endpointd {command}` needs tinykube: pip install 'endpointd[up]'")


def raise_if_tinykube_is_missing(error: ModuleNotFoundError, command: str) -> None:
    """Raise :class:`NeedsTinykubeError` if the missing module is tinykube."""
    if error.name == "tinykube":
        raise NeedsTinykubeError(command) from error


class LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        try:
            command: Any = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise_if_tinykube_is_missing(error, cmd_name)
            raise
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry[0]} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Every command has --help. Exit codes: 0 done, 1 problems found, 2 invalid arguments or files.",
)
@click.version_option(__version__, prog_name="endpointd")
def cli() -> None:
    """Keep the EndpointSlices and Endpoints of a Kubernetes cluster correct.

    endpointd replaces the endpoints, endpointslice and endpointslice-mirroring controllers of
    kube-controller-manager and uses the same flag names.
    """
