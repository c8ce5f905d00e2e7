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
    help="How to print it.",
)
def version(output: str) -> None:
    """Print the version of endpointd and of the Python it runs on."""
    if output == "json":
        click.echo(f'{{"version":"{__version__}","python":"{platform.python_version()}"}}')
    else:
        click.echo(f"endpointd {__version__} (Python {platform.python_version()})")
