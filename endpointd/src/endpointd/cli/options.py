"""The table of all settings of ``endpointd run``: each row is a flag, a configuration key and their help."""

import math
import re
from collections.abc import Callable
from typing import Any, Literal

import click
import msgspec

from endpointd.cli.flags import Duration, GoBool, in_range, select_controllers
from endpointd.cli.pflag import GoFloat, GoInteger, Verbosity

CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
ALIASES = {
    "endpoint": CONTROLLERS[0],
    "endpointslice": CONTROLLERS[1],
    "endpointslicemirroring": CONTROLLERS[2],
}

_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Kind = Literal["string", "duration", "boolean", "integer", "number", "list"]
"""The type of a value in the configuration file; durations are strings such as ``1m30s``."""

Callback = Callable[[click.Context, click.Parameter, Any], Any]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: a flag and a key in the file; the flag wins."""

    flag: str
    """Without the dashes."""
    kind: Kind
    default: Any
    help: str
    group: str
    metavar: str | None = None
    type: click.ParamType[Any] | None = None
    """Needed if ``kind`` does not fully determine the accepted values."""
    check: Callback | None = None
    key_name: str = ""
    extra_flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the value in the program."""
        return self.flag.replace("-", "_")

    @property
    def key(self) -> str:
        """The key in the file: the flag in camel case."""
        first, *others = self.flag.split("-")
        return self.key_name or first + "".join(word.capitalize() for word in others)

    @property
    def default_text(self) -> str:
        """The default as written in the documentation, or ``""``."""
        if self.kind == "boolean":
            return str(self.default).lower()
        return ",".join(self.default) if self.kind == "list" else str(self.default)

    def option(self) -> click.Option:
        """Return the click option."""
        more: dict[str, Any] = {}
        if self.kind == "boolean":
            more = {"is_flag": False, "flag_value": "true"}
        elif self.kind == "list":
            more = {"multiple": True}
        return click.Option(
            [*self.extra_flags, f"--{self.flag}", self.name],
            type=self.type or _TYPES[self.kind],
            default=self.default_text if self.kind == "boolean" else self.default,
            show_default=bool(self.default_text),
            metavar=self.metavar,
            callback=self.check,
            help=self.help,
            **more,
        )


_TYPES: dict[Kind, Any] = {
    "string": click.STRING,
    "duration": Duration(
        may_be_negative=True
    ),  # as in kube-controller-manager, where a negative duration also counts as 0
    "boolean": GoBool(),
    "integer": GoInteger(),
    "number": GoFloat(),
    "list": click.STRING,
}


def _controllers(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        selected = select_controllers(value, CONTROLLERS, ALIASES)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not selected:
        raise click.BadParameter("no controllers selected; '*' selects all", ctx, param)
    return selected


def _request_rate(ctx: click.Context, param: click.Parameter, value: float) -> float:
    return value if 0 < value < math.inf else 0.0  # client-go sets no limit for these values either


def _resource_lock(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != "leases":
        raise click.BadParameter(f"{value!r} is not a supported lock type; use leases", ctx, param)
    return value


def _resource_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not _DNS_NAME.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a valid object name", ctx, param)
    return value


def _tracing_endpoint(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value and not value.startswith(("http://", "https://")):
        raise click.BadParameter(
            f"{value!r} is not a URL: write, for example, http://127.0.0.1:4318/v1/traces", ctx, param
        )
    return value


def _integer(
    flag: str, low: int, high: int, *, default: int, help_text: str, group: str, metavar: str = "N"
) -> Setting:
    return Setting(
        flag=flag,
        kind="integer",
        default=default,
        check=in_range(low, high),
        help=help_text,
        group=group,
        metavar=metavar,
    )


def _duration(
    flag: str,
    default: str,
    help_text: str,
    group: str,
    *,
    type: Duration | None = None,  # noqa: A002 - as in Setting
) -> Setting:
    return Setting(flag=flag, kind="duration", default=default, help=help_text, group=group, type=type)


_ELECTION, _WORK, _SERVING, _SHADOW = "Leader election", "Work", "Metrics and health", "Shadow mode"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        flag="kubeconfig",
        kind="string",
        default="",
        metavar="FILE",
        group="Cluster",
        help="Kubeconfig file. Default: $KUBECONFIG, then ~/.kube/config, then the in-cluster config.",
    ),
    Setting(
        flag="context",
        kind="string",
        default="",
        metavar="NAME",
        group="Cluster",
        help="Context of the kubeconfig; default: its current context.",
    ),
    Setting(
        flag="kube-api-qps",
        kind="number",
        default=0.0,
        check=_request_rate,
        metavar="N",
        group="Cluster",
        help="Maximum requests per second to the API server; 0 or less leaves limiting to API Priority and Fairness.",
    ),
    Setting(
        flag="kube-api-burst",
        kind="integer",
        type=GoInteger(0),
        default=0,
        metavar="N",
        group="Cluster",
        help="Burst of requests allowed above --kube-api-qps; 0 means 1.5 times --kube-api-qps.",
    ),
    Setting(
        flag="controllers",
        kind="list",
        default=("*",),
        check=_controllers,
        metavar="LIST",
        group=_WORK,
        help=f"Controllers to run: 'name' enables, '-name' disables, '*' enables all others. Known: {', '.join(CONTROLLERS)}.",
    ),
    Setting(
        flag="concurrent-endpoint-syncs",
        kind="integer",
        type=GoInteger(0),
        default=5,
        metavar="N",
        group=_WORK,
        help="Services whose Endpoints are synced at the same time.",
    ),
    _integer(
        "concurrent-service-endpoint-syncs",
        1,
        50,
        default=5,
        help_text="Services whose EndpointSlices are synced at the same time, 1 to 50.",
        group=_WORK,
    ),
    _integer(
        "max-endpoints-per-slice",
        1,
        1000,
        default=100,
        help_text="Maximum endpoints in one EndpointSlice, 1 to 1000.",
        group=_WORK,
    ),
    _duration(
        "endpoint-updates-batch-period",
        "0s",
        "How long to batch pod changes before writing Endpoints; longer means fewer, later writes.",
        _WORK,
    ),
    _duration(
        "endpointslice-updates-batch-period",
        "0s",
        "How long to batch pod changes before writing EndpointSlices; longer means fewer, later writes.",
        _WORK,
    ),
    _duration(
        "missing-node-grace-period",
        "1m",
        "How long the pods of a missing Node stay in EndpointSlices; 0 removes them immediately.",
        _WORK,
    ),
    _integer(
        "mirroring-concurrent-service-endpoint-syncs",
        1,
        50,
        default=5,
        help_text="Endpoints whose mirrored EndpointSlices are synced at the same time, 1 to 50.",
        group=_WORK,
    ),
    _integer(
        "mirroring-max-endpoints-per-subset",
        1,
        1000,
        default=1000,
        help_text="Maximum addresses mirrored per Endpoints subset, 1 to 1000.",
        group=_WORK,
    ),
    _duration(
        "mirroring-endpointslice-updates-batch-period",
        "0s",
        "How long to batch changes of mirrored EndpointSlices before processing them.",
        _WORK,
    ),
    Setting(
        flag="shadow",
        kind="boolean",
        default=False,
        group=_SHADOW,
        help="Write nothing: plan every write and report where the cluster's objects differ from the plan.",
    ),
    _duration(
        "shadow-grace-period",
        "5s",
        "How long a difference must persist, with no writes by any client, before it is reported.",
        _SHADOW,
        type=Duration(),
    ),
    Setting(
        flag="leader-elect",
        kind="boolean",
        default=True,
        group=_ELECTION,
        help="Write only while holding the leader Lease; the other replicas wait with synced caches.",
    ),
    _duration(
        "leader-elect-lease-duration",
        "15s",
        "How long a standby waits after the last observed renewal before it tries to acquire the Lease.",
        _ELECTION,
    ),
    _duration(
        "leader-elect-renew-deadline",
        "10s",
        "How long a leader may go without renewing the Lease before it stops writing and exits.",
        _ELECTION,
    ),
    _duration(
        "leader-elect-retry-period",
        "2s",
        "Interval between attempts to acquire or renew the Lease.",
        _ELECTION,
    ),
    Setting(
        flag="leader-elect-resource-lock",
        kind="string",
        default="leases",
        check=_resource_lock,
        metavar="KIND",
        group=_ELECTION,
        help="Lock type; only leases is supported.",
    ),
    Setting(
        flag="leader-elect-resource-name",
        kind="string",
        default="endpointd",
        check=_resource_name,
        metavar="NAME",
        group=_ELECTION,
        help="Name of the Lease.",
    ),
    Setting(
        flag="leader-elect-resource-namespace",
        kind="string",
        default="kube-system",
        check=_resource_name,
        metavar="NAMESPACE",
        group=_ELECTION,
        help="Namespace of the Lease.",
    ),
    Setting(
        flag="metrics-bind-address",
        kind="string",
        default="",
        metavar="HOST:PORT",
        group=_SERVING,
        help="Serve /metrics, /livez, /readyz and /healthz on HOST:PORT; off by default. HOST must be a loopback "
        "address unless a certificate and a token are configured.",
    ),
    Setting(
        flag="healthz-bind-address",
        kind="string",
        default="",
        metavar="HOST:PORT",
        group=_SERVING,
        help="Serve /livez, /readyz and /healthz on a separate listener for the kubelet: plain HTTP, without "
        "metrics and without the reasons of failed checks. Requests for metrics cannot delay it.",
    ),
    Setting(
        flag="metrics-allow-remote",
        kind="boolean",
        default=False,
        group=_SERVING,
        help="Allow --metrics-bind-address on any interface without certificate and token, readable by anyone.",
    ),
    Setting(
        flag="metrics-token-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="File with the bearer token for /metrics and the reasons of failed checks; reloaded when it changes.",
    ),
    Setting(
        flag="tls-cert-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="Certificate for HTTPS (PEM, with intermediates); reloaded when it changes.",
    ),
    Setting(
        flag="tls-private-key-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="Private key of --tls-cert-file (PEM, unencrypted).",
    ),
    Setting(
        flag="tracing-endpoint",
        kind="string",
        default="",
        check=_tracing_endpoint,
        metavar="URL",
        group="Traces",
        help="Send traces to this URL with OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; off by default. "
        "Needs endpointd[otel].",
    ),
    Setting(
        flag="tracing-sampling-rate-per-million",
        kind="integer",
        type=GoInteger(0, 1_000_000),
        default=1_000_000,
        metavar="N",
        group="Traces",
        help="Sampled syncs per million.",
    ),
    Setting(
        flag="logging-format",
        kind="string",
        type=click.Choice(["text", "json"]),
        default="text",
        group="Log",
        help="Log format: klog-style text, or one JSON object per line.",
    ),
    Setting(
        flag="v",
        kind="integer",
        type=Verbosity(),
        default=0,
        metavar="N",
        group="Log",
        key_name="verbosity",
        extra_flags=("-v",),
        help="Log verbosity: 2 adds each write, 4 each sync, 6 each request, 8 the libraries' debug logs.",
    ),
)

BY_KEY: dict[str, Setting] = {setting.key: setting for setting in SETTINGS}
