"""The one table of what ``endpointd run`` can be told: each row is a flag, a key of the configuration file, and their words."""

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
"""What a value is in the configuration file; durations are texts such as ``1m30s``."""

Callback = Callable[[click.Context, click.Parameter, Any], Any]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be set: by a flag, or by the key in a file; the flag wins."""

    flag: str
    """Without the dashes."""
    kind: Kind
    default: Any
    help: str
    group: str
    metavar: str | None = None
    type: click.ParamType[Any] | None = None
    """Where ``kind`` alone does not say what is allowed."""
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
        """The default as it is written in the documentation; ``""`` for none."""
        if self.kind == "boolean":
            return str(self.default).lower()
        return ",".join(self.default) if self.kind == "list" else str(self.default)

    def option(self) -> click.Option:
        """Return the flag."""
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
    "duration": Duration(may_be_negative=True),  # as kube-controller-manager; it counts as 0 there, too
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
        raise click.BadParameter("no controller is left to run; '*' runs all", ctx, param)
    return selected


def _request_rate(ctx: click.Context, param: click.Parameter, value: float) -> float:
    return value if 0 < value < math.inf else 0.0  # client-go, too, sets no limit for the others


def _resource_lock(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != "leases":
        raise click.BadParameter(f"{value!r} is no kind of lock; the only one there is: leases", ctx, param)
    return value


def _resource_part(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not _DNS_NAME.fullmatch(value):
        raise click.BadParameter(f"{value!r} cannot be the name of an object", ctx, param)
    return value


def _tracing_endpoint(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value and not value.startswith(("http://", "https://")):
        raise click.BadParameter(
            f"{value!r} is no URL: write http://127.0.0.1:4318/v1/traces, say", ctx, param
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
        help="Cluster and credentials. Without it: $KUBECONFIG, ~/.kube/config, then the pod's own service account.",
    ),
    Setting(
        flag="context",
        kind="string",
        default="",
        metavar="NAME",
        group="Cluster",
        help="Context of the kubeconfig; its current one without.",
    ),
    Setting(
        flag="kube-api-qps",
        kind="number",
        default=0.0,
        check=_request_rate,
        metavar="N",
        group="Cluster",
        help="Requests a second to the API server; 0 or less leaves it to the server's own priority and fairness.",
    ),
    Setting(
        flag="kube-api-burst",
        kind="integer",
        type=GoInteger(0),
        default=0,
        metavar="N",
        group="Cluster",
        help="Requests that may go out at once under --kube-api-qps; 0 means 1.5 times that.",
    ),
    Setting(
        flag="controllers",
        kind="list",
        default=("*",),
        check=_controllers,
        metavar="LIST",
        group=_WORK,
        help=f"Controllers to run: names, '*' for all, '-name' for all but one. Known: {', '.join(CONTROLLERS)}.",
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
        help_text="Endpoints that are put into one EndpointSlice, 1 to 1000.",
        group=_WORK,
    ),
    _duration(
        "endpoint-updates-batch-period",
        "0s",
        "How long pod changes are collected before an Endpoints is written: fewer writes, later.",
        _WORK,
    ),
    _duration(
        "endpointslice-updates-batch-period",
        "0s",
        "How long pod changes are collected before EndpointSlices are written: fewer writes, later.",
        _WORK,
    ),
    _duration(
        "missing-node-grace-period",
        "1m",
        "How long the pods of a Node that disappeared stay in EndpointSlices; 0 withdraws them at once.",
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
        help_text="Addresses that are mirrored of one subset of an Endpoints, 1 to 1000.",
        group=_WORK,
    ),
    _duration(
        "mirroring-endpointslice-updates-batch-period",
        "0s",
        "How long changes of mirrored EndpointSlices are collected before they are looked at.",
        _WORK,
    ),
    Setting(
        flag="shadow",
        kind="boolean",
        default=False,
        group=_SHADOW,
        help="Write nothing at all: plan what would be written, and report where what somebody else has written differs.",
    ),
    _duration(
        "shadow-grace-period",
        "5s",
        "How long a difference has to stand, with nobody writing, before it is reported.",
        _SHADOW,
        type=Duration(),
    ),
    Setting(
        flag="leader-elect",
        kind="boolean",
        default=True,
        group=_ELECTION,
        help="Write only while holding a Lease that one replica at a time can hold; the others wait, with warm caches.",
    ),
    _duration(
        "leader-elect-lease-duration",
        "15s",
        "How long the others wait after they have seen the leader renew the Lease, before they take it.",
        _ELECTION,
    ),
    _duration(
        "leader-elect-renew-deadline",
        "10s",
        "How long after its last renewal a leader stops writing, and ends.",
        _ELECTION,
    ),
    _duration(
        "leader-elect-retry-period",
        "2s",
        "Pause between renewals, and between the looks of those who wait.",
        _ELECTION,
    ),
    Setting(
        flag="leader-elect-resource-lock",
        kind="string",
        default="leases",
        check=_resource_lock,
        metavar="KIND",
        group=_ELECTION,
        help="Kind of object that is held; only leases.",
    ),
    Setting(
        flag="leader-elect-resource-name",
        kind="string",
        default="endpointd",
        check=_resource_part,
        metavar="NAME",
        group=_ELECTION,
        help="Name of the Lease.",
    ),
    Setting(
        flag="leader-elect-resource-namespace",
        kind="string",
        default="kube-system",
        check=_resource_part,
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
        help="Serve /metrics, /livez, /readyz and /healthz at HOST:PORT; off without. HOST has to be of loopback, "
        "unless there are a certificate and a token.",
    ),
    Setting(
        flag="healthz-bind-address",
        kind="string",
        default="",
        metavar="HOST:PORT",
        group=_SERVING,
        help="Serve /livez, /readyz and /healthz on a listener of their own, for the kubelet: plain HTTP, without "
        "metrics and without the causes of failed checks. Requests for metrics cannot delay it.",
    ),
    Setting(
        flag="metrics-allow-remote",
        kind="boolean",
        default=False,
        group=_SERVING,
        help="Let --metrics-bind-address be reachable from other machines without certificate or token: for anyone.",
    ),
    Setting(
        flag="metrics-token-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="Bearer token for /metrics and for the causes of failed checks; read again when the file changes.",
    ),
    Setting(
        flag="tls-cert-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="Certificate (PEM, with its intermediates) to serve HTTPS with; read again when the file changes.",
    ),
    Setting(
        flag="tls-private-key-file",
        kind="string",
        default="",
        metavar="FILE",
        group=_SERVING,
        help="The key of --tls-cert-file (PEM, without a password).",
    ),
    Setting(
        flag="tracing-endpoint",
        kind="string",
        default="",
        check=_tracing_endpoint,
        metavar="URL",
        group="Traces",
        help="Send traces there, by OTLP over HTTP (http://127.0.0.1:4318/v1/traces, say); off without. "
        "Needs endpointd[otel].",
    ),
    Setting(
        flag="tracing-sampling-rate-per-million",
        kind="integer",
        type=GoInteger(0, 1_000_000),
        default=1_000_000,
        metavar="N",
        group="Traces",
        help="Syncs of a million that are traced.",
    ),
    Setting(
        flag="logging-format",
        kind="string",
        type=click.Choice(["text", "json"]),
        default="text",
        group="Log",
        help="Lines for people, as klog writes them, or one JSON object a line.",
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
        help="Verbosity of the log: 2 adds each write, 4 each sync, 6 each request, 8 what the libraries say.",
    ),
)

BY_KEY: dict[str, Setting] = {setting.key: setting for setting in SETTINGS}
