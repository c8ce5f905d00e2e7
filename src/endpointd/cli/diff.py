"""``endpointd diff``: what endpointd would change in this cluster now."""

import asyncio
import sys

import click

from endpointd.cli.questions import (
    ask,
    cluster_options,
    output_option,
    print_structured,
    scope,
    scope_options,
)
from endpointd.clock import SystemClock

EXIT_DIFFERENT = 1


@click.command()
@scope_options
@cluster_options
@output_option
def diff(
    all_namespaces: bool,
    max_endpoints_per_slice: int,
    kubeconfig: str,
    context: str,
    namespace: str,
    filename: tuple[str, ...],
    output: str,
) -> None:
    """Show every object that endpointd would create, update or delete if it ran now, and how. Writes nothing.

    Exit code 0: it would change nothing, 1: it would, 2: it could not be found out.
    """
    from endpointd.diagnose.changes import Settings, changes_of_all
    from endpointd.diagnose.changes_text import as_builtins, changes_text
    from endpointd.diagnose.snapshot import World
    from endpointd.diagnose.text import Style

    where = scope(all_namespaces, namespace, filename)
    snapshot = asyncio.run(ask(kubeconfig, context, where, filename, details=False, clock=SystemClock()))
    changes = list(changes_of_all(World(snapshot), Settings(max_endpoints_per_slice=max_endpoints_per_slice)))
    if output == "text":
        click.echo(changes_text(changes, Style(colours=sys.stdout.isatty())), nl=False)
        for unread in snapshot.unread:
            click.echo(f"not looked at: {unread.resource}: {unread.why}", err=True)
    else:
        print_structured(as_builtins(changes), output)
    raise SystemExit(EXIT_DIFFERENT if changes else 0)
