"""The command line: what a command needs is imported when it runs."""

import click

from endpointd import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="endpointd")
def cli() -> None:
    """Keep the EndpointSlices and Endpoints of a Kubernetes cluster right."""
