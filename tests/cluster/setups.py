"""Set-ups of services and pods on a real API server, each in a separate namespace, with endpointd maintaining their slices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiokube.client.errors import AlreadyExistsError
from aiokube.client.load_config import load_config
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from endpointd.cli.cluster_snapshot import read_cluster
from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot
from tinykube.testing.processes import ChildProcess

Json = dict[str, Any]
LONG_AGO = "2026-01-01T00:00:00Z"
ZONES = ("zone-a", "zone-b", "")
"""Zones of the nodes from ``setup-0`` on."""


def service(name: str = "web", selector: Json | None = None, **spec: Any) -> Json:
    body: Json = {
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        "selector": selector or {"app": "web"},
    }
    body.update(spec)
    body = {key: value for key, value in body.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def container(name: str = "app", *, port: str = "http", **fields: Any) -> Json:
    ports = [{"name": port, "containerPort": 8080}] if port else []
    return {"name": name, "image": "registry.invalid/none", "ports": ports, **fields}


def pod(
    name: str = "web-1",
    labels: Json | None = None,
    *,
    node: str = "setup-0",
    ips: Sequence[str] = ("10.77.0.1",),
    ready: bool = True,
    phase: str = "Running",
    containers: Sequence[Json] = (container(),),
    spec: Json | None = None,
    conditions: Sequence[Json] = (),
    statuses: Sequence[Json] = (),
    **status: Any,
) -> Json:
    body: Json = {"containers": list(containers), **(spec or {})}
    if node:
        body["nodeName"] = node
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": LONG_AGO}
    whole: Json = {"phase": phase, "conditions": [*([condition] if ips else []), *conditions], **status}
    if ips:
        whole |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    if statuses:
        whole["containerStatuses"] = [
            {"image": "", "imageID": "", "restartCount": 0, **one} for one in statuses
        ]
    metadata = {"name": name, "labels": labels if labels is not None else {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": whole}


def waiting(reason: str, message: str = "") -> Json:
    return {"name": "app", "ready": False, "state": {"waiting": {"reason": reason, "message": message}}}


async def make(client: Client, namespace: str, objects: Sequence[Json]) -> None:
    """Create a namespace with objects and their status; then delete the objects marked as ``deleted``."""
    await post(
        client,
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    for item in objects:
        plural = {"Service": "services", "Pod": "pods", "Endpoints": "endpoints"}[item["kind"]]
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        body = {key: value for key, value in item.items() if key != "deleted"}
        if item["kind"] == "Pod":
            body["spec"] = {"terminationGracePeriodSeconds": 3600, **body["spec"]}
        await post(client, path, body)
        name = item["metadata"]["name"]
        if "status" in item:
            await merge(client, f"{path}/{name}/status", {"status": item["status"]})
        if item.get("deleted"):
            await client.request("DELETE", f"{path}/{name}")


async def make_nodes(client: Client) -> None:
    """Create a node for each of :data:`ZONES`."""
    for number, zone in enumerate(ZONES):
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        metadata = {"name": f"setup-{number}", "labels": labels}
        await post(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})


async def post(client: Client, path: str, body: Mapping[str, Any]) -> None:
    """Create an object; an existing namespace or node is accepted."""
    try:
        await client.request("POST", path, body=msgspec.json.encode(body))
    except AlreadyExistsError:
        if not path.endswith(("/namespaces", "/nodes")):
            raise


async def merge(client: Client, path: str, patch: Mapping[str, Any]) -> None:
    """Send a merge patch."""
    await client.request(
        "PATCH", path, body=msgspec.json.encode(patch), content_type="application/merge-patch+json"
    )


@contextlib.asynccontextmanager
async def connected(config: Path) -> AsyncIterator[Client]:
    """A client of the control plane."""
    clock = SystemClock()
    async with Client.from_config(load_config(config, clock=clock), clock=clock) as client:
        yield client


async def read(client: Client, prefix: str) -> ClusterIndex:
    """Return the objects in namespaces with this prefix; other tests share the control plane."""
    snapshot = await read_cluster(client, details=True)

    def mine(items: Any) -> Any:
        return tuple(item for item in items if item.metadata.namespace.startswith(prefix))

    fields = ("services", "pods", "endpoints", "slices", "details")
    kept: Snapshot = msgspec.structs.replace(
        snapshot, **{field: mine(getattr(snapshot, field)) for field in fields}
    )
    return ClusterIndex(kept)


async def at_rest(client: Client, prefix: str, is_begun: Callable[[ClusterIndex], bool]) -> ClusterIndex:
    """Return the cluster once the controllers have started and have nothing left to write."""
    for _ in range(150):
        world = await read(client, prefix)
        if is_begun(world) and not list(changes_of_all(world)):
            return world
        await asyncio.sleep(0.2)
    raise AssertionError("endpointd has not come to rest")


@contextlib.contextmanager
def endpointd_runs(command: Sequence[str], config: Path, folder: Path) -> Iterator[ChildProcess]:
    """Run endpointd against the control plane."""
    flags = ["--leader-elect=false", f"--kubeconfig={config}"]
    process = ChildProcess("endpointd", [*command, *flags], log_path=folder / "log")
    try:
        yield process
    finally:
        process.kill()
