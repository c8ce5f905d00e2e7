"""``endpointd plan``: compute, offline, the Endpoints and EndpointSlices of manifests."""

import shutil
import sys
from typing import Any

import click
import msgspec

from aiokube.client.manifests import Manifest, ManifestError, read_manifests
from endpointd.cli.flags import Duration
from endpointd.cli.main import raise_if_tinykube_is_missing
from endpointd.cli.query_options import QueryError, print_structured


@click.command()
@click.option(
    "-f", "--filename", "filenames", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests."
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none."
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 10_000),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of simulated nodes if the manifests contain no Node.",
)
@click.option(
    "--zones",
    default="zone-a,zone-b,zone-c",
    show_default=True,
    metavar="LIST",
    help="Zones of these nodes, assigned in turn.",
)
@click.option(
    "--families",
    type=click.Choice(["IPv4", "IPv6", "IPv4,IPv6", "IPv6,IPv4"]),
    default="IPv4,IPv6",
    show_default=True,
    help="IP families of the cluster, the primary first.",
)
@click.option(
    "--max-endpoints-per-slice",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="As the flag of endpointd run.",
)
@click.option(
    "--rollout",
    default="",
    metavar="[NAMESPACE/]SERVICE",
    help="Simulate a rolling update of this service's pods instead.",
)
@click.option("--surge", default="25%", show_default=True, metavar="N|N%", help="maxSurge of the update.")
@click.option(
    "--unavailable", default="25%", show_default=True, metavar="N|N%", help="maxUnavailable of the update."
)
@click.option(
    "--ready-after",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Time until a new pod is ready.",
)
@click.option(
    "--stop",
    "stop_seconds",
    type=Duration(),
    default="5s",
    show_default=True,
    help="Time until a deleted pod has stopped.",
)
@click.option(
    "--batch-period",
    type=Duration(),
    default="0s",
    show_default=True,
    help="As --endpointslice-updates-batch-period of endpointd run.",
)
@click.option(
    "--consumers",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Number of nodes that watch the slices.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "text"]),
    default=None,
    help="Output format; default: yaml, or text with --rollout.",
)
def plan(
    filenames: tuple[str, ...],
    namespace: str,
    nodes: int,
    zones: str,
    families: str,
    max_endpoints_per_slice: int,
    rollout: str,
    surge: str,
    unavailable: str,
    ready_after: float,
    stop_seconds: float,
    batch_period: float,
    consumers: int,
    output: str | None,
) -> None:
    """Print the Endpoints and EndpointSlices that manifests will have. Needs no cluster.

    Pods keep the status in the manifest; pods without one, and the pods of workloads, are assumed to be
    ready. The output is deterministic, so it suits golden files and reviews. Invalid manifests are rejected
    as an API server would reject them; services that would receive no traffic cause a warning on standard
    error.
    """
    from endpointd.diagnose.changes import Settings
    from endpointd.diagnose.offline import OfflineSettings
    from endpointd.diagnose.plan import documents, planned
    from endpointd.diagnose.rollout import RolloutSettings

    offline = OfflineSettings(
        nodes=nodes,
        zones=tuple(zone.strip() for zone in zones.split(",") if zone.strip()),
        default_namespace=namespace,
        default_families=tuple(families.split(",")),
    )
    snapshot = _snapshot(filenames, offline)
    _warn(snapshot)
    if rollout:
        settings = RolloutSettings(
            surge=surge,
            unavailable=unavailable,
            ready_after_seconds=ready_after,
            stop_seconds=stop_seconds,
            batch_seconds=batch_period,
            consumers=consumers,
            max_endpoints_per_slice=max_endpoints_per_slice,
        )
        _print_rollout(snapshot, rollout, namespace, settings, output or "text")
        return
    if output == "text":
        raise click.UsageError("-o text needs --rollout: a plan is printed as yaml or json")
    found = documents(planned(snapshot, Settings(max_endpoints_per_slice=max_endpoints_per_slice)))
    if output == "json":
        print_structured({"apiVersion": "v1", "kind": "List", "items": found}, "json")
        return
    import yaml

    click.echo(
        str(yaml.safe_dump_all(found, sort_keys=False, explicit_start=True, allow_unicode=True)), nl=False
    )


def _snapshot(filenames: tuple[str, ...], offline: Any) -> Any:
    from endpointd.cli.cluster_snapshot import snapshot_of
    from endpointd.diagnose.offline import complete

    try:
        from tinykube.manifest_validation import check_manifests
    except ModuleNotFoundError as error:
        raise_if_tinykube_is_missing(error, "plan")
        raise
    try:
        manifests = read_manifests(filenames)
        check_manifests(manifests, offline.default_namespace)
        places = {(one.kind, one.namespace or offline.default_namespace, one.name): one for one in manifests}
        made = []
        for document in complete([one.document for one in manifests], offline):
            metadata = document["metadata"]
            namespace = metadata.get("namespace", offline.default_namespace)
            found = places.get((document["kind"], namespace, metadata["name"]))
            made.append(
                Manifest(document, found.source if found else "generated", found.line if found else 0)
            )
        return snapshot_of(made, default_namespace=offline.default_namespace)
    except ManifestError as error:
        raise QueryError(str(error)) from error
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise QueryError(f"a manifest does not match its kind's schema: {error}") from error


def _warn(snapshot: Any) -> None:
    """Warn on standard error about services that would receive no traffic, or none on some port."""
    from endpointd.diagnose.snapshot import ClusterIndex
    from endpointd.diagnose.style import Style
    from endpointd.diagnose.traffic import traffic_problems

    index = ClusterIndex(snapshot)
    lines = [
        f"warning: service {service.metadata.namespace}/{service.metadata.name}: {problem.cause} ({problem.fix})"
        for service in snapshot.services
        for problem in traffic_problems(index, service)
        if problem.severity != "note"
    ]
    click.echo(Style(colours=False).page(lines), nl=False, err=True)


def _print_rollout(snapshot: Any, name: str, namespace: str, settings: Any, output: str) -> None:
    from aiokube.api.meta import ObjectKey
    from endpointd.diagnose.rollout import simulate_rollout
    from endpointd.diagnose.rollout_text import rollout_text
    from endpointd.diagnose.snapshot import ClusterIndex
    from endpointd.diagnose.style import Style

    index = ClusterIndex(snapshot)
    first, slash, last = name.partition("/")
    key = ObjectKey(first, last) if slash else ObjectKey(namespace, first)
    service = index.services.get(key)
    if service is None:
        raise QueryError(f"the manifests have no service {key.namespace}/{key.name}")
    pods = list(index.membership.pods_of(key))
    if not pods:
        raise QueryError(f"the service {key.namespace}/{key.name} selects no pods in the manifests")
    try:
        found = simulate_rollout(service, pods, index.zone_of, settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if output != "text":
        print_structured(msgspec.to_builtins(found), output)
        return
    width = shutil.get_terminal_size((100, 24)).columns
    title = f"Rolling update of {key.namespace}/{key.name}"
    style = Style(colours=sys.stdout.isatty(), width=width)
    click.echo(rollout_text(title, found, settings.consumers, style), nl=False)
