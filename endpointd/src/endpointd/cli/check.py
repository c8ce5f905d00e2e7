"""``endpointd check``: find problems in a cluster or in manifests."""

import click
import msgspec

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
    """Find services that cannot receive traffic, and Endpoints and EndpointSlices with wrong content.

    Exit code 0: no problems, 1: problems found, 2: the cluster or files could not be read, or no problems
    were found but the EndpointSlices could not be read. Writes nothing.
    """
    from endpointd.diagnose.changes import Settings
    from endpointd.diagnose.check import Report
    from endpointd.diagnose.check import check as check_index
    from endpointd.diagnose.check_text import report_text
    from endpointd.diagnose.snapshot import ClusterIndex

    query = Query(kubeconfig, context, namespace, filename, all_namespaces)
    settings = Settings(max_endpoints_per_slice=max_endpoints_per_slice)

    async def read(source: Source) -> tuple[Report, bool]:
        index = ClusterIndex(await source.snapshot(scope(query, source)))
        if not index.could_read("pods") and not index.could_read("endpointslices"):
            raise QueryError("neither pods nor EndpointSlices could be read, so nothing can be checked")
        return check_index(index, settings), source.is_cluster

    report, is_cluster = answer(query, read)
    if output == "text":
        click.echo(report_text(report, style_of_terminal()), nl=False)
    else:
        print_structured(msgspec.to_builtins(report), output)
    if not report.is_healthy:
        raise SystemExit(EXIT_FOUND)
    if is_cluster and not report.is_publication_known:
        raise QueryError("EndpointSlices could not be read, so it is unknown whether they are correct")
