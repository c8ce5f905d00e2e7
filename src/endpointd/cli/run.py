"""``endpointd run``: the flags of kube-controller-manager, and a program made of them."""

import re

import click

from endpointd.cli.flags import Duration, GoBool, in_range, select_controllers

_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
_TIMES = {"lease": "lease-duration", "renew-deadline": "renew-deadline", "retry": "retry-period"}
ALIASES = {
    "endpoint": CONTROLLERS[0],
    "endpointslice": CONTROLLERS[1],
    "endpointslicemirroring": CONTROLLERS[2],
}


def _controllers(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        selected = select_controllers(value, CONTROLLERS, ALIASES)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not selected:
        raise click.BadParameter("no controller is left to run; '*' runs all", ctx, param)
    return selected


def _resource_lock(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != "leases":
        raise click.BadParameter(f"{value!r} is no kind of lock; the only one there is: leases", ctx, param)
    return value


def _resource_part(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not _DNS_NAME.fullmatch(value):
        raise click.BadParameter(f"{value!r} cannot be the name of an object", ctx, param)
    return value


@click.command()
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Cluster and credentials. Without it: $KUBECONFIG, ~/.kube/config, then the pod's own service account.",
)
@click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig; its current one without."
)
@click.option(
    "--controllers",
    multiple=True,
    default=("*",),
    show_default=True,
    callback=_controllers,
    metavar="LIST",
    help=f"Controllers to run: names, '*' for all, '-name' for all but one. Known: {', '.join(CONTROLLERS)}.",
)
@click.option(
    "--leader-elect",
    type=GoBool(),
    is_flag=False,
    flag_value="true",
    default="true",
    show_default=True,
    help="Write only while holding a Lease that one replica at a time can hold; the others wait, with warm caches.",
)
@click.option(
    "--leader-elect-lease-duration",
    type=Duration(),
    default="15s",
    show_default=True,
    help="How long the others wait after they have seen the leader renew the Lease, before they take it.",
)
@click.option(
    "--leader-elect-renew-deadline",
    type=Duration(),
    default="10s",
    show_default=True,
    help="How long after its last renewal a leader stops writing, and ends.",
)
@click.option(
    "--leader-elect-retry-period",
    type=Duration(),
    default="2s",
    show_default=True,
    help="Pause between renewals, and between the looks of those who wait.",
)
@click.option(
    "--leader-elect-resource-lock",
    default="leases",
    show_default=True,
    callback=_resource_lock,
    metavar="KIND",
    help="Kind of object that is held; only leases.",
)
@click.option(
    "--leader-elect-resource-name",
    default="endpointd",
    show_default=True,
    callback=_resource_part,
    metavar="NAME",
    help="Name of the Lease.",
)
@click.option(
    "--leader-elect-resource-namespace",
    default="kube-system",
    show_default=True,
    callback=_resource_part,
    metavar="NAMESPACE",
    help="Namespace of the Lease.",
)
@click.option(
    "--concurrent-endpoint-syncs",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="Services whose Endpoints are synced at the same time.",
)
@click.option(
    "--concurrent-service-endpoint-syncs",
    type=int,
    default=5,
    show_default=True,
    callback=in_range(1, 50),
    metavar="N",
    help="Services whose EndpointSlices are synced at the same time, 1 to 50.",
)
@click.option(
    "--max-endpoints-per-slice",
    type=int,
    default=100,
    show_default=True,
    callback=in_range(1, 1000),
    metavar="N",
    help="Endpoints that are put into one EndpointSlice, 1 to 1000.",
)
@click.option(
    "--endpoint-updates-batch-period",
    type=Duration(),
    default="0s",
    show_default=True,
    help="How long pod changes are collected before an Endpoints is written: fewer writes, later.",
)
@click.option(
    "--endpointslice-updates-batch-period",
    type=Duration(),
    default="0s",
    show_default=True,
    help="How long pod changes are collected before EndpointSlices are written: fewer writes, later.",
)
@click.option(
    "--mirroring-concurrent-service-endpoint-syncs",
    type=int,
    default=5,
    show_default=True,
    callback=in_range(1, 50),
    metavar="N",
    help="Endpoints whose mirrored EndpointSlices are synced at the same time, 1 to 50.",
)
@click.option(
    "--mirroring-max-endpoints-per-subset",
    type=int,
    default=1000,
    show_default=True,
    callback=in_range(1, 1000),
    metavar="N",
    help="Addresses that are mirrored of one subset of an Endpoints, 1 to 1000.",
)
@click.option(
    "--mirroring-endpointslice-updates-batch-period",
    type=Duration(),
    default="0s",
    show_default=True,
    help="How long changes of mirrored EndpointSlices are collected before they are looked at.",
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="N",
    help="Requests a second to the API server; 0 leaves it to the server's own priority and fairness.",
)
@click.option(
    "--kube-api-burst",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Requests that may go out at once under --kube-api-qps; 0 means 1.5 times that.",
)
@click.option(
    "--metrics-bind-address",
    default="",
    metavar="HOST:PORT",
    help="Serve metrics for Prometheus at http://HOST:PORT/metrics; off without. HOST has to be of loopback.",
)
@click.option(
    "--metrics-allow-remote",
    is_flag=True,
    help="Let --metrics-bind-address be reachable from other machines: unencrypted, and for anyone.",
)
@click.option(
    "-v", "--v", "verbosity", type=int, default=0, metavar="N", help="Verbosity of the log: 4 for all."
)
def run(
    kubeconfig: str,
    context: str,
    controllers: tuple[str, ...],
    leader_elect: bool,
    leader_elect_lease_duration: float,
    leader_elect_renew_deadline: float,
    leader_elect_retry_period: float,
    leader_elect_resource_lock: str,
    leader_elect_resource_name: str,
    leader_elect_resource_namespace: str,
    concurrent_endpoint_syncs: int,
    concurrent_service_endpoint_syncs: int,
    max_endpoints_per_slice: int,
    endpoint_updates_batch_period: float,
    endpointslice_updates_batch_period: float,
    mirroring_concurrent_service_endpoint_syncs: int,
    mirroring_max_endpoints_per_subset: int,
    mirroring_endpointslice_updates_batch_period: float,
    kube_api_qps: float,
    kube_api_burst: int,
    metrics_bind_address: str,
    metrics_allow_remote: bool,
    verbosity: int,
) -> None:
    """Run the controllers against a cluster until SIGTERM or SIGINT.

    A drop-in for the three endpoints controllers of kube-controller-manager: switch them off there before running
    these (see the documentation).
    """
    from endpointd.cli import logs
    from endpointd.cli.assembly import ElectionSettings, RunSettings, run_controllers
    from endpointd.cli.metrics_server import parse_bind_address
    from endpointd.runtime import leader_election

    election = None
    if leader_elect:
        times = (leader_elect_lease_duration, leader_elect_renew_deadline, leader_elect_retry_period)
        problem = leader_election.check(*times)
        if problem is not None:
            raise click.BadParameter(problem[1], param_hint=f"'--leader-elect-{_TIMES[problem[0]]}'")
        election = ElectionSettings(
            *times, name=leader_elect_resource_name, namespace=leader_elect_resource_namespace
        )
    metrics_address = None
    if metrics_bind_address:
        try:
            metrics_address = parse_bind_address(metrics_bind_address, allow_remote=metrics_allow_remote)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--metrics-bind-address'") from error
    logs.configure(verbosity)
    settings = RunSettings(
        kubeconfig=kubeconfig,
        context=context,
        controllers=controllers,
        concurrent_endpoint_syncs=concurrent_endpoint_syncs or 5,
        concurrent_service_endpoint_syncs=concurrent_service_endpoint_syncs,
        max_endpoints_per_slice=max_endpoints_per_slice,
        endpoint_batch_seconds=endpoint_updates_batch_period,
        slice_batch_seconds=endpointslice_updates_batch_period,
        mirroring_concurrent_syncs=mirroring_concurrent_service_endpoint_syncs,
        mirroring_max_endpoints_per_subset=mirroring_max_endpoints_per_subset,
        mirroring_batch_seconds=mirroring_endpointslice_updates_batch_period,
        qps=kube_api_qps,
        burst=kube_api_burst,
        metrics_address=metrics_address,
        election=election,
    )
    raise SystemExit(run_controllers(settings))
