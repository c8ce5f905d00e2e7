"""``endpointd check``: compare a whole cluster with what its pods and services say it should be."""

import asyncio
import sys

import click
import msgspec

from endpointd.cli.questions import (
    ask,
    cluster_options,
    output_option,
    print_structured,
    scope,
    scope_options,
)
from endpointd.clock import SystemClock

EXIT_FOUND = 1


@click.command()
@scope_options
@cluster_options
@output_option
def check(
    all_namespaces: bool,
    max_endpoints_per_slice: int,
    kubeconfig: str,
    context: str,
    namespace: str,
    filename: tuple[str, ...],
    output: str,
) -> None:
    """Find what is missing, left over, wrong, duplicated, stale, foreign or half migrated.

    Compares Endpoints and EndpointSlices with what pods and services say they should be. Exit code 0: nothing is wrong,
    1: something is, 2: it could not be looked at. Writes nothing.
    """
    from endpointd.diagnose.changes import Settings
    from endpointd.diagnose.check import check as check_world
    from endpointd.diagnose.check_text import report_text
    from endpointd.diagnose.snapshot import World
    from endpointd.diagnose.text import Style

    where = scope(all_namespaces, namespace, filename)
    snapshot = asyncio.run(ask(kubeconfig, context, where, filename, details=False, clock=SystemClock()))
    report = check_world(World(snapshot), Settings(max_endpoints_per_slice=max_endpoints_per_slice))
    if output == "text":
        click.echo(report_text(report, Style(colours=sys.stdout.isatty())), nl=False)
    else:
        print_structured(msgspec.to_builtins(report), output)
    raise SystemExit(0 if report.is_healthy else EXIT_FOUND)
