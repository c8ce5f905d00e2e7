"""``make up``: a control plane on this machine, a small shop on it, and endpointd at work, until Ctrl-C."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

import click

from endpointd.api.core import Service
from endpointd.api.discovery import SERVICE_NAME_LABEL
from endpointd.api.meta import key_of
from endpointd.clock import SystemClock
from endpointd.testing.controlplane import AssetsMissingError, ControlPlane
from endpointd.testing.example import node, pod
from endpointd.testing.normalise import Snapshot
from endpointd.testing.operations import Operation, document
from endpointd.testing.processes import ChildProcess, ProcessError
from endpointd.testing.side import ControllersError, Side, come_to_rest, endpointd, while_watching

NAMESPACE = "shop"

_HOW_TO_GET_ASSETS = """\
make up starts a real control plane, and has no programs to start: {reason}.

Any folder with etcd and kube-apiserver will do, as envtest lays it out:

  go run sigs.k8s.io/controller-runtime/tools/setup-envtest@latest use -p path
  export KUBEBUILDER_ASSETS=<the path it prints>
  make up
"""
_REST_SECONDS = 0.7


def example() -> tuple[Operation, ...]:
    """Return the shop: two nodes in two zones, five services of different sorts, and pods for them."""
    steps = [*node("node-1", "zone-a"), *node("node-2", "zone-b")]
    steps += _service("web", {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]})
    steps += _service("api", {"ports": [{"name": "grpc", "port": 443, "targetPort": "grpc"}]})
    both = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}
    steps += _service("basket", {**both, "ports": [{"name": "http", "port": 80}]})
    steps += _service("store", {"clusterIP": "None", "ports": [{"name": "redis", "port": 6379}]})
    steps += _service("mail", {"type": "ExternalName", "externalName": "mail.example.com"})
    number = 0
    for app, ready in (("web", 3), ("api", 2), ("basket", 2), ("store", 1)):
        for replica in range(3):
            number += 1
            steps += pod(
                NAMESPACE,
                f"{app}-{replica}",
                {"app": app},
                node=f"node-{1 + number % 2}",
                ips=(f"10.1.0.{number}", f"fd00:1::{number:x}"),
                ready=replica < ready,
                ports=[("grpc", 9000, "TCP")] if app == "api" else (),
            )
    return tuple(steps)


def table(snapshot: Snapshot) -> list[str]:
    """Return what is published, one line for each service, under a header."""
    rows = [("SERVICE", "TYPE", "READY", "NOT READY", "SLICES")]
    endpoints = {key_of(item): item for item in snapshot.endpoints}
    for service in sorted(snapshot.services, key=key_of):
        published = endpoints.get(key_of(service))
        subsets = (published.subsets or ()) if published is not None else ()
        ready = [address.ip for subset in subsets for address in subset.addresses or ()]
        not_ready = [address.ip for subset in subsets for address in subset.not_ready_addresses or ()]
        slices = [
            f"{item.metadata.name} ({item.address_type}, {len(item.endpoints or ())})"
            for item in sorted(snapshot.slices, key=lambda item: (item.address_type, item.metadata.name))
            if item.metadata.namespace == service.metadata.namespace
            and (item.metadata.labels or {}).get(SERVICE_NAME_LABEL) == service.metadata.name
        ]
        rows.append((service.metadata.name, _kind(service), _few(ready), _few(not_ready), _few(slices, 4)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Start a control plane, a small shop and endpointd; show what is published; end on Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with ControlPlane() as plane:
            click.echo(f"etcd and kube-apiserver run: {plane.url}")
            process = asyncio.run(_set_up(plane))
            code = process.wait()
            raise ControllersError(f"endpointd has ended with {code}:\n{process.log_tail()}")
    except AssetsMissingError as error:
        click.echo(_HOW_TO_GET_ASSETS.format(reason=error), err=True)
        sys.exit(2)
    except (ProcessError, ControllersError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nstopped")


async def _set_up(plane: ControlPlane) -> ChildProcess:
    """Start endpointd, apply the example, show what came of it; return endpointd, which goes on."""
    side = Side("endpointd", plane, endpointd(), [NAMESPACE])
    try:
        await side.open()
        for operation in example():
            outcome = await side.apply(operation, {})
            if outcome != "ok":
                raise ControllersError(f"the example cannot be set up: {operation}: {outcome}")
        click.echo("endpointd runs")
        await while_watching([side], lambda: come_to_rest([side], _REST_SECONDS, SystemClock()))
        lines = [*table(await side.snapshot()), "", *_hints(plane, side.process)]
        click.echo("\n" + "\n".join(lines))
        return side.process
    finally:
        await side.disconnect()


def _hints(plane: ControlPlane, process: ChildProcess) -> Iterable[str]:
    kubectl = plane.assets / "kubectl"
    name = str(kubectl) if kubectl.exists() else "kubectl"
    yield "Look at it from another terminal:"
    yield f"  export KUBECONFIG={plane.kubeconfig_path}"
    yield f"  {name} --namespace {NAMESPACE} get endpointslices --watch"
    yield "There is no kubelet: a pod runs because its status says so, and is deleted for good with --force:"
    yield f"  {name} --namespace {NAMESPACE} delete pod web-0 --force"
    yield f"endpointd logs to {process.log_path}"
    yield "Ctrl-C ends it all."


def _service(name: str, spec: dict[str, Any]) -> tuple[Operation, ...]:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
    }
    body["spec"] = spec if spec.get("type") == "ExternalName" else {**spec, "selector": {"app": name}}
    return (Operation("create", "services", NAMESPACE, name, document(body)),)


def _kind(service: Service) -> str:
    if service.is_external_name:
        return service.type
    families = "/".join(family.removeprefix("IP") for family in service.ip_families)
    return f"{'headless' if service.is_headless else service.type} {families}".strip()


def _few(items: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(items[:limit]) or "-"
    return shown if len(items) <= limit else f"{shown}, +{len(items) - limit}"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
