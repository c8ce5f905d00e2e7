"""Command lines that pflag accepts or refuses, for each kind of flag that endpointd shares with kube-controller-manager.

The cluster tests hold the same table against kube-controller-manager itself.
"""

from typing import Any

import msgspec


class Accepted(msgspec.Struct, frozen=True):
    """A command line, and the resulting value of one flag."""

    arguments: tuple[str, ...]
    flag: str
    value: Any

    def __str__(self) -> str:
        """Return the command line, for the name of a test."""
        return " ".join(self.arguments).encode("unicode_escape").decode()


def _rows(flag: str, rows: list[tuple[str | tuple[str, ...], Any]]) -> list[Accepted]:
    return [Accepted((row,) if isinstance(row, str) else row, flag, value) for row, value in rows]


ACCEPTED: list[Accepted] = [
    *_rows(
        "v",
        [
            ("-v=2", 2),
            ("-v2", 2),
            (("-v", "2"), 2),
            ("--v=2", 2),
            (("--v", "2"), 2),
            ("-v10", 10),
            ("-v=007", 7),
            (("-v=6", "-v2"), 2),
            (("--v=2", "--"), 2),
            (("", "-v=2", ""), 2),
        ],
    ),
    *_rows(
        "leader-elect",
        [
            ("--leader-elect", True),
            ("--leader_elect", True),
            *((f"--leader-elect={text}", True) for text in ("1", "t", "T", "true", "TRUE", "True")),
            *((f"--leader-elect={text}", False) for text in ("0", "f", "F", "false", "FALSE", "False")),
            ("--leader_elect=false", False),
            (("--leader-elect=false", "--leader-elect"), True),
            (("--leader-elect", "--leader-elect=false"), False),
        ],
    ),
    *_rows(
        "max-endpoints-per-slice",
        [
            ("--max-endpoints-per-slice=1000", 1000),
            (("--max-endpoints-per-slice", "50"), 50),
            ("--max_endpoints_per_slice=50", 50),
            (("--max_endpoints-per_slice", "50"), 50),
            ("--max-endpoints-per-slice=+50", 50),
            ("--max-endpoints-per-slice=0x1F", 31),
            ("--max-endpoints-per-slice=0X_1f", 31),
            ("--max-endpoints-per-slice=0b101", 5),
            ("--max-endpoints-per-slice=0o17", 15),
            ("--max-endpoints-per-slice=017", 15),
            ("--max-endpoints-per-slice=0_17", 15),
            ("--max-endpoints-per-slice=1_000", 1000),
            (("--max-endpoints-per-slice=10", "--max-endpoints-per-slice=20"), 20),
        ],
    ),
    *_rows("concurrent-service-endpoint-syncs", [("--concurrent-service-endpoint-syncs=50", 50)]),
    *_rows("concurrent-endpoint-syncs", [(("--concurrent_endpoint_syncs", "7"), 7)]),
    *_rows(
        "mirroring-concurrent-service-endpoint-syncs",
        [("--mirroring-concurrent-service-endpoint-syncs=1", 1)],
    ),
    *_rows("mirroring-max-endpoints-per-subset", [("--mirroring-max-endpoints-per-subset=1", 1)]),
    *_rows(
        "leader-elect-lease-duration",
        [
            ("--leader-elect-lease-duration=1h30m", 5400.0),
            (("--leader-elect-lease-duration", "1h30m0s"), 5400.0),
            ("--leader_elect_lease_duration=20s", 20.0),
            ("--leader-elect-lease-duration=+20s", 20.0),
            ("--leader-elect-lease-duration=20000ms", 20.0),
            ("--leader-elect-lease-duration=20000000us", 20.0),
            ("--leader-elect-lease-duration=20000000\u00b5s", 20.0),
            ("--leader-elect-lease-duration=20000000\u03bcs", 20.0),
            ("--leader-elect-lease-duration=20000000000ns", 20.0),
            ("--leader-elect-lease-duration=.5m", 30.0),
            ("--leader-elect-lease-duration=20.s", 20.0),
            ("--leader-elect-lease-duration=1.5h", 5400.0),
            ("--leader-elect-lease-duration=20s30s", 50.0),
        ],
    ),
    *_rows("leader-elect-renew-deadline", [("--leader-elect-renew-deadline=9s", 9.0)]),
    *_rows("leader-elect-retry-period", [(("--leader-elect-retry-period", "1s"), 1.0)]),
    *_rows(
        "endpoint-updates-batch-period",
        [
            ("--endpoint-updates-batch-period=0", 0.0),
            ("--endpoint-updates-batch-period=-0", 0.0),
            ("--endpoint-updates-batch-period=500ms", 0.5),
            (("--endpoint-updates-batch-period", "-5s"), -5.0),
        ],
    ),
    *_rows("endpointslice-updates-batch-period", [("--endpointslice-updates-batch-period=1s", 1.0)]),
    *_rows(
        "mirroring-endpointslice-updates-batch-period",
        [("--mirroring-endpointslice-updates-batch-period=1s", 1.0)],
    ),
    *_rows(
        "kube-api-qps",
        [
            ("--kube-api-qps=50", 50.0),
            (("--kube-api-qps", "1e3"), 1000.0),
            ("--kube-api-qps=.5", 0.5),
            ("--kube-api-qps=+2.", 2.0),
            ("--kube-api-qps=1_0", 10.0),
            ("--kube-api-qps=0x1p4", 16.0),
            ("--kube-api-qps=-1", -1.0),
            (("--kube-api-qps", "-1"), -1.0),
            ("--kube-api-qps=Inf", float("inf")),
        ],
    ),
    *_rows("kube-api-burst", [("--kube-api-burst=0x1F", 31), (("--kube_api_burst", "31"), 31)]),
    *_rows(
        "controllers",
        [
            ("--controllers=endpoint", ["endpoint"]),
            (("--controllers", "endpoint,endpointslice"), ["endpoint", "endpointslice"]),
            (("--controllers=endpoint", "--controllers=endpointslice"), ["endpoint", "endpointslice"]),
            (("--controllers", "-endpoint", "--controllers", "*"), ["-endpoint", "*"]),
            ('--controllers="*","-endpoint"', ["*", "-endpoint"]),
            (("--controllers=", "--controllers=endpoint"), ["endpoint"]),
        ],
    ),
    *_rows(
        "leader-elect-resource-name",
        [("--leader-elect-resource-name=x", "x"), (("--leader_elect_resource_name", "x"), "x")],
    ),
    *_rows("leader-elect-resource-namespace", [("--leader-elect-resource-namespace=x", "x")]),
    *_rows("leader-elect-resource-lock", [("--leader-elect-resource-lock=leases", "leases")]),
    *_rows("logging-format", [("--logging-format=text", "text"), (("--logging_format", "json"), "json")]),
    *_rows("tls-cert-file", [("--tls-cert-file=", ""), (("--tls_cert_file", ""), "")]),
    *_rows("tls-private-key-file", [("--tls-private-key-file=", "")]),
]
"""``kubeconfig`` is missing here: both tests give it themselves."""

REFUSED: list[tuple[str, ...]] = [
    ("-v",),
    ("--v",),
    ("-v=",),
    ("-v=-1",),
    ("-v=+2",),
    ("-v=0x2",),
    ("-v=1_0",),
    ("-v", "2 "),
    ("-v=2147483648",),
    ("-vv",),
    ("-v2", "x"),
    ("-x",),
    ("-leader-elect",),
    ("---v=2",),
    ("--=2",),
    ("-",),
    ("--", "-v=2"),
    ("--no-such-flag",),
    ("--leader-elect", "false"),
    ("--leader-elect=",),
    ("--leader-elect=yes",),
    ("--leader-elect=tRUE",),
    ("--max-endpoints-per-slice",),
    ("--max-endpoints-per-slice=",),
    ("--max-endpoints-per-slice=0",),
    ("--max-endpoints-per-slice=-1",),
    ("--max-endpoints-per-slice=1001",),
    ("--max-endpoints-per-slice=1__0",),
    ("--max-endpoints-per-slice=_10",),
    ("--max-endpoints-per-slice=08",),
    ("--max-endpoints-per-slice=0x",),
    ("--max-endpoints-per-slice= 5",),
    ("--max-endpoints-per-slice=5.0",),
    ("--max-endpoints-per-slice=\u0665",),
    ("--max-endpoints-per-slice=4294967297",),
    ("--concurrent-service-endpoint-syncs=0",),
    ("--concurrent-service-endpoint-syncs=51",),
    ("--mirroring-concurrent-service-endpoint-syncs=0",),
    ("--mirroring-max-endpoints-per-subset=0",),
    ("--mirroring-max-endpoints-per-subset=1001",),
    ("--kube-api-burst=2147483648",),
    ("--kube-api-qps=",),
    ("--kube-api-qps=.",),
    ("--kube-api-qps=0x10",),
    ("--kube-api-qps=1_",),
    ("--kube-api-qps=1e39",),
    ("--leader-elect-lease-duration=",),
    ("--leader-elect-lease-duration=20",),
    ("--leader-elect-lease-duration=20 s",),
    ("--leader-elect-lease-duration=.s",),
    ("--leader-elect-lease-duration=1d",),
    ("--leader-elect-lease-duration=--1s",),
    ("--leader-elect-lease-duration=3000000h",),
    ("--leader-elect-lease-duration=\u0665s",),
    ("--controllers=no-such-controller",),
    ("--controllers=-*",),
    ('--controllers="*',),
    ("--logging-format=yaml",),
    ("--logging-format=",),
    ("--leader-elect-resource-lock=endpoints",),
]
"""What kube-controller-manager refuses, too."""
