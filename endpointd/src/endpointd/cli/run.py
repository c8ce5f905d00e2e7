"""``endpointd run``: kube-controller-manager's flags, or a file of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from endpointd.cli.options import CONTROLLERS, SETTINGS
from endpointd.cli.pflag import PflagCommand

if TYPE_CHECKING:
    from endpointd.cli.run_settings import ElectionSettings
    from endpointd.cli.serving_address import BindAddress

__all__ = ["CONTROLLERS", "run"]

_TIMES = {"lease": "lease-duration", "renew-deadline": "renew-deadline", "retry": "retry-period"}


def _read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Use the file's values as defaults; flags on the command line override them."""
    if value is None:
        return
    from endpointd.cli.config_file import ConfigFileError, read_config_file

    try:
        ctx.default_map = {**(ctx.default_map or {}), **read_config_file(value)}
    except ConfigFileError as error:
        click.echo(f"endpointd: {error}".replace("\n", "\nendpointd: "), err=True)
        ctx.exit(2)


@click.command(
    cls=PflagCommand,
    params=[
        click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            default=None,
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_read_config,
            help="Read settings from a file; flags override them.",
        ),
        *(setting.option() for setting in SETTINGS),
    ],
)
def run(**values: Any) -> None:
    """Run the controllers against a cluster until SIGTERM or SIGINT.

    A drop-in replacement for the three endpoints controllers of kube-controller-manager: disable them there
    first (see the documentation).
    """
    from aiokube.process import logs
    from aiokube.process.import_hooks import import_aiohttp

    import_aiohttp()
    from endpointd.cli.run_program import run_controllers
    from endpointd.cli.run_settings import RunSettings
    from endpointd.cli.serving_secrets import ServingFiles
    from endpointd.cli.tracing import TracingSettings

    tracing = None
    if values["tracing_endpoint"]:
        tracing = TracingSettings(values["tracing_endpoint"], values["tracing_sampling_rate_per_million"])
    settings = RunSettings(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        controllers=values["controllers"],
        concurrent_endpoint_syncs=values["concurrent_endpoint_syncs"] or 5,
        concurrent_service_endpoint_syncs=values["concurrent_service_endpoint_syncs"],
        max_endpoints_per_slice=values["max_endpoints_per_slice"],
        endpoint_batch_seconds=max(values["endpoint_updates_batch_period"], 0.0),
        slice_batch_seconds=max(values["endpointslice_updates_batch_period"], 0.0),
        missing_node_grace_seconds=max(values["missing_node_grace_period"], 0.0),
        mirroring_concurrent_syncs=values["mirroring_concurrent_service_endpoint_syncs"],
        mirroring_max_endpoints_per_subset=values["mirroring_max_endpoints_per_subset"],
        mirroring_batch_seconds=max(values["mirroring_endpointslice_updates_batch_period"], 0.0),
        qps=values["kube_api_qps"],
        burst=values["kube_api_burst"],
        metrics_address=_address(values),
        healthz_address=_healthz_address(values["healthz_bind_address"]),
        election=None if values["shadow"] else _election(values),
        shadow_grace_seconds=values["shadow_grace_period"] if values["shadow"] else None,
        serving_files=ServingFiles(
            certificate=values["tls_cert_file"],
            private_key=values["tls_private_key_file"],
            token=values["metrics_token_file"],
        ),
        tracing=tracing,
    )
    logs.configure(values["v"], values["logging_format"], write_logger="endpointd.cli.write_log")
    raise SystemExit(run_controllers(settings))


def _election(values: dict[str, Any]) -> "ElectionSettings | None":
    """Return the election settings, or None without leader election."""
    from aiokube.runtime import leader_election
    from endpointd.cli.run_settings import ElectionSettings

    if not values["leader_elect"]:
        return None
    lease, renew_deadline, retry = (
        values[f"leader_elect_{time.replace('-', '_')}"] for time in _TIMES.values()
    )
    problem = leader_election.check(lease, renew_deadline, retry)
    if problem is not None:
        raise click.BadParameter(problem[1], param_hint=f"'--leader-elect-{_TIMES[problem[0]]}'")
    return ElectionSettings(
        lease,
        renew_deadline,
        retry,
        name=values["leader_elect_resource_name"],
        namespace=values["leader_elect_resource_namespace"],
    )


def _address(values: dict[str, Any]) -> "BindAddress | None":
    """Return the address to serve on, or None."""
    from endpointd.cli.serving_address import parse_bind_address

    if not values["metrics_bind_address"]:
        return None
    try:
        return parse_bind_address(
            values["metrics_bind_address"],
            allow_remote=values["metrics_allow_remote"],
            is_protected=bool(
                values["tls_cert_file"] and values["tls_private_key_file"] and values["metrics_token_file"]
            ),
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--metrics-bind-address'") from error


def _healthz_address(text: str) -> "BindAddress | None":
    """Return the address of the health listener, or None.

    Remote clients are allowed: responses hold no reasons.
    """
    from endpointd.cli.serving_address import parse_bind_address

    try:
        return parse_bind_address(text, allow_remote=True) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--healthz-bind-address'") from error
