"""Compare ``/metrics`` of both programs after the same operations on two real clusters.

``python -m tests.differential.metrics_table`` prints the table; it needs etcd, kube-apiserver and
kube-controller-manager in the folder of ``KUBEBUILDER_ASSETS``. Every service has one address type, because upstream
counts only the address type that it processed last for a dual-stack service.
"""

import asyncio
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp
import click
import msgspec

from aiokube.clock import Clock, SystemClock
from tests.differential.cluster_under_test import (
    ControllersError,
    Side,
    Starter,
    come_to_rest,
    while_watching,
)
from tests.differential.example import node, pod, pod_runs
from tests.differential.metrics_text import LabelSet, Metric, chosen, parse_metrics
from tests.differential.operations import Operation, document
from tinykube.testing.control_plane import AssetsMissingError, ControlPlane
from tinykube.testing.processes import ProcessError

NAMESPACE = "metrics"
PREFIXES = ("endpoint_slice_controller_", "endpoint_slice_mirroring_controller_", "workqueue_")
QUEUES = frozenset({"endpoint", "endpoint_slice", "endpoint_slice_mirroring"})
CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
SLICE_SIZE = "--max-endpoints-per-slice=2"

# Long enough for upstream's second sync, one second after it observes its own slices.
_REST_SECONDS = 1.5


class Row(msgspec.Struct, frozen=True):
    """One metric with one set of labels; the sum for a histogram. None if a program does not have it."""

    name: str
    type: str
    labels: LabelSet
    upstream: float | None
    ours: float | None

    @property
    def label_text(self) -> str:
        """The labels in exposition format."""
        return ",".join(f'{name}="{value}"' for name, value in self.labels)


class Comparison(msgspec.Struct, frozen=True):
    """The metrics of both programs, limited to those of upstream."""

    upstream: dict[str, Metric]
    ours: dict[str, Metric]
    our_own: dict[str, Metric]
    """Metrics that upstream does not have."""

    def rows(self) -> list[Row]:
        """Return one row for each metric and set of labels of either program."""
        return [
            Row(name, (theirs or mine).type, labels, _value(theirs, labels), _value(mine, labels))
            for name, theirs, mine in self._pairs()
            for labels in sorted(
                {*(theirs.values if theirs else ()), *(mine.values if mine else ())},
            )
        ]

    def _pairs(self) -> Iterator[tuple[str, Any, Any]]:
        for name in sorted(self.upstream.keys() | self.ours.keys()):
            yield name, self.upstream.get(name), self.ours.get(name)


def steps() -> Iterator[tuple[Operation, ...]]:
    """Yield groups of operations; the controllers come to rest between groups.

    Each group causes at most one write, so that counts do not depend on timing. Pods leave services by a label change:
    deletion would first publish them as terminating, or not, depending on timing.
    """
    setting_up = [*node("node-1", "zone-a"), *node("node-2", "zone-b")]
    for number in range(1, 6):
        setting_up += _pod(f"web-{number}", "web", number)
    for number in (6, 7, 8):
        app = {6: "near", 7: "moved", 8: "spread"}[number]
        setting_up += _pod(f"{app}-1", app, number)
    yield tuple(setting_up)
    yield (_service("web"),)  # five endpoints in three slices
    yield (_service("near", trafficDistribution="PreferClose"),)
    yield (_service("empty"),)  # a placeholder
    yield (_service("local", trafficDistribution="PreferSameZone"),)
    yield (_service("moved"),)
    yield (_service("spread", annotations={"service.kubernetes.io/topology-mode": "Auto"}),)
    yield (pod_runs(NAMESPACE, "web-1", ["10.60.0.1"], ready=False),)
    yield (_leaves("web-2"),)
    yield _pod("web-9", "web", 9)
    yield (
        _patch("moved", {"spec": {"ports": [{"port": 80, "targetPort": 9090}]}}),
    )  # the ports of another slice
    yield (_patch("near", {"spec": {"trafficDistribution": None}}),)
    yield (_leaves("near-1"),)  # leaves no endpoint
    yield (Operation("delete", "services", NAMESPACE, "empty"),)
    yield _by_hand("plain", ["192.0.2.1", "192.0.2.2"])
    yield _by_hand("going", ["192.0.2.9"])
    subsets = _subsets(["192.0.2.2", "192.0.2.3"])
    yield (Operation("patch", "endpoints", NAMESPACE, "plain", document({"subsets": subsets})),)
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    yield (Operation("patch", "endpoints", NAMESPACE, "going", document({"metadata": {"labels": labels}})),)


def _pod(name: str, app: str, number: int) -> tuple[Operation, ...]:
    return pod(NAMESPACE, name, {"app": app}, node=f"node-{1 + number % 2}", ips=[f"10.60.0.{number}"])


def _by_hand(name: str, ips: Sequence[str]) -> tuple[Operation, ...]:
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name},
        "subsets": _subsets(ips),
    }
    return (
        _service(name, selector=None),
        Operation("create", "endpoints", NAMESPACE, name, document(body)),
    )


def _subsets(ips: Sequence[str]) -> list[dict[str, Any]]:
    return [{"addresses": [{"ip": ip} for ip in ips], "ports": [{"port": 8080}]}]


def _leaves(name: str) -> Operation:
    return Operation("patch", "pods", NAMESPACE, name, document({"metadata": {"labels": {"app": "none"}}}))


def _service(name: str, *, annotations: dict[str, str] | None = None, **spec: object) -> Operation:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "selector": {"app": name},
            "ports": [{"port": 80, "targetPort": 8080}],
            "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"],
            **spec,
        },
    }
    return Operation("create", "services", NAMESPACE, name, document(body))


def _patch(name: str, body: dict[str, Any]) -> Operation:
    return Operation("patch", "services", NAMESPACE, name, document(body))


def metrics_flags(port: int) -> tuple[str, ...]:
    """Return the flags that make ``endpointd run`` serve metrics."""
    return (f"--metrics-bind-address=127.0.0.1:{port}",)


def upstream_metrics_flags(plane: ControlPlane, port: int) -> tuple[str, ...]:
    """Return the flags that make kube-controller-manager serve metrics without authentication on loopback."""
    return (
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={plane.directory / 'apiserver.crt'}",
        f"--tls-private-key-file={plane.directory / 'apiserver.key'}",
        "--authorization-always-allow-paths=/healthz,/metrics",
    )


def free_port() -> int:
    """Return an unused loopback port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def scrape(url: str, certificate_authority: bytes | None = None) -> dict[str, Metric]:
    """Return the metrics at a URL; raises ``aiohttp.ClientError`` for any status but 200."""
    tls = ssl.create_default_context(cadata=certificate_authority.decode()) if certificate_authority else True
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(url, ssl=tls) as answer,
    ):
        return parse_metrics(await answer.text())


async def compare(theirs: ControlPlane, ours: ControlPlane, clock: Clock | None = None) -> Comparison:
    """Run the operations on two clusters without controllers and return both programs' metrics.

    Raises ControllersError if controllers exit or the clusters return different results.
    """
    clock = clock or SystemClock()
    their_port, our_port = free_port(), free_port()
    sides = [
        Side(
            "kube-controller-manager",
            theirs,
            _upstream((SLICE_SIZE, *upstream_metrics_flags(theirs, their_port))),
            [NAMESPACE],
            clock,
        ),
        Side("endpointd", ours, _endpointd((SLICE_SIZE, *metrics_flags(our_port))), [NAMESPACE], clock),
    ]

    async def act() -> Comparison:
        for group in steps():
            await _apply(sides, group)
            await come_to_rest(sides, _REST_SECONDS, clock)
        said = await scrape(f"https://127.0.0.1:{their_port}/metrics", theirs.certificate_authority)
        we_said = await scrape(f"http://127.0.0.1:{our_port}/metrics")
        mine = chosen(we_said, PREFIXES)
        return Comparison(
            _of_our_queues(chosen(said, PREFIXES)),
            mine,
            {name: metric for name, metric in we_said.items() if name not in mine},
        )

    try:
        for side in sides:
            await side.open()
        return await while_watching(sides, act)
    finally:
        for side in sides:
            await side.close()


def _upstream(flags: Sequence[str]) -> Starter:
    return lambda plane, name: plane.start_controller_manager(CONTROLLERS, flags=flags, name=name)


def _endpointd(flags: Sequence[str]) -> Starter:
    return lambda plane, name: plane.start_child(
        name,
        [
            *(sys.executable, "-m", "endpointd", "run", f"--kubeconfig={plane.kubeconfig_path}"),
            *(f"--controllers={','.join(CONTROLLERS)}", "--leader-elect=false", *flags),
        ],
    )


async def _apply(sides: Sequence[Side], operations: Sequence[Operation]) -> None:
    for operation in operations:
        outcomes = [await side.apply(operation, {}) for side in sides]
        if outcomes != ["ok", "ok"]:
            raise ControllersError(f"{operation}: {outcomes}")


def _of_our_queues(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """Drop the queues of other controllers."""

    def is_ours(labels: LabelSet) -> bool:
        return dict(labels).get("name", "endpoint") in QUEUES

    return {
        name: msgspec.structs.replace(
            metric,
            values={labels: value for labels, value in metric.values.items() if is_ours(labels)},
            counts={labels: value for labels, value in metric.counts.items() if is_ours(labels)},
        )
        for name, metric in metrics.items()
    }


def _value(metric: Metric | None, labels: LabelSet) -> float | None:
    return metric.values.get(labels) if metric is not None else None


def table(comparison: Comparison) -> str:
    """Return the comparison as a table."""
    heading = ("metric", "type", "labels", "kube-controller-manager", "endpointd")
    lines = [heading]
    lines += [
        (row.name, row.type, row.label_text, _number(row.upstream), _number(row.ours))
        for row in comparison.rows()
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    own = [f"  {name} ({metric.type})" for name, metric in sorted(comparison.our_own.items())]
    return "\n".join([*text, "", "of histograms: the sum. endpointd's own:", *own])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


@click.command()
def main() -> None:
    """Compare the metrics of endpointd and kube-controller-manager on two real control planes."""
    try:
        with ControlPlane() as theirs, ControlPlane() as ours:
            print(table(asyncio.run(compare(theirs, ours))))
    except (AssetsMissingError, ProcessError, ControllersError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
