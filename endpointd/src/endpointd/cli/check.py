"""``endpointd check``: what is wrong in a cluster, or in manifests."""

import click
import msgspec

from endpointd.cli.query_options import (
    CannotAskError,
    Query,
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
    """Find services that cannot receive traffic, and Endpoints and EndpointSlices that are not what they should be.

    Exit code 0: nothing is wrong, 1: something is, 2: it could not be looked at, or nothing wrong was found but the
    EndpointSlices could not be read. Writes nothing.
    """
    from endpointd.diagnose.changes import Settings
    from endpointd.diagnose.check import Report
    from endpointd.diagnose.check import check as check_world
    from endpointd.diagnose.check_text import report_text
    from endpointd.diagnose.snapshot import ClusterIndex

    query = Query(kubeconfig, context, namespace, filename, all_namespaces)
    settings = Settings(max_endpoints_per_slice=max_endpoints_per_slice)

    async def look(source: Source) -> tuple[Report, bool]:
        world = ClusterIndex(await source.snapshot(scope(query, source)))
        if not world.could_read("pods") and not world.could_read("endpointslices"):
            raise CannotAskError("there are neither pods nor EndpointSlices to look at: nothing can be said")
        return check_world(world, settings), source.is_cluster

    report, is_cluster = answer(query, look)
    if output == "text":
        click.echo(report_text(report, style_of_terminal()), nl=False)
    else:
        print_structured(msgspec.to_builtins(report), output)
    if not report.is_healthy:
        raise SystemExit(EXIT_FOUND)
    if is_cluster and not report.is_publication_known:
        raise CannotAskError("EndpointSlices could not be read, so it is unknown whether they are right")
