"""``endpointd version``."""

import platform

import click

from endpointd import __version__


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def version(output: str) -> None:
    """Print the versions of endpointd and Python."""
    if output == "json":
        click.echo(f'{{"version":"{__version__}","python":"{platform.python_version()}"}}')
    else:
        click.echo(f"endpointd {__version__} (Python {platform.python_version()})")
