"""The command line of tinykube."""

import click

from tinykube import __version__
from tinykube.cli.serve import serve
from tinykube.cli.up import up


@click.group(
    commands=[serve, up],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success, 2 invalid arguments or files.",
)
@click.version_option(__version__, prog_name="tinykube")
def cli() -> None:
    """Run a Kubernetes API server in one process, for tests and laptops."""
