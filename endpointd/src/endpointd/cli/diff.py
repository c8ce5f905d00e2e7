"""``endpointd diff``: what endpointd would change in this cluster now."""

import click

from endpointd.cli.query_options import (
    Query,
    QueryError,
    Source,
    answer,
    cluster_options,
    output_option,
    print_structured,
    scope,
    scope_options,
    style_of_terminal,
)
from endpointd.diagnose.snapshot import Snapshot

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
    """Show every object that endpointd would create, update or delete if it ran now, field by field.

    Writes nothing.

    Exit code 0: no changes, 1: changes, 2: unknown, because the cluster or files could not be read.
    """
    from endpointd.diagnose.changes import Settings, changes_of_all
    from endpointd.diagnose.changes_text import as_builtins, changes_text
    from endpointd.diagnose.snapshot import ClusterIndex

    query = Query(kubeconfig, context, namespace, filename, all_namespaces)

    async def read(source: Source) -> Snapshot:
        return await source.snapshot(scope(query, source))

    snapshot = answer(query, read)
    settings = Settings(max_endpoints_per_slice=max_endpoints_per_slice)
    index = ClusterIndex(snapshot)
    changes = list(changes_of_all(index, settings))
    style = style_of_terminal()
    if output == "text":
        is_known = not snapshot.unread
        click.echo(changes_text(changes, style, is_everything_known=is_known), nl=False)
    else:
        print_structured(as_builtins(changes), output)
    lines = [
        f"unknown: {unread.resource}: {unread.why}; changes that depend on them are not shown"
        for unread in snapshot.unread
    ]
    click.echo(style.page(lines), nl=False, err=True)
    if changes:
        raise SystemExit(EXIT_DIFFERENT)
    if not index.could_read("endpointslices"):
        raise QueryError(
            "EndpointSlices could not be read, so it is unknown what would change"
            + ("; endpointd plan shows what manifests will have" if filename else "")
        )
