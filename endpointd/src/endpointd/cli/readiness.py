"""List what keeps a cluster from being settled: workloads without all their pods, outdated slices."""

from typing import Any

import msgspec

from aiokube.client.rest import Client
from endpointd.cli.cluster_snapshot import read_cluster
from endpointd.diagnose.check import publication_findings
from endpointd.diagnose.snapshot import ClusterIndex

_WORKLOADS = ("deployments", "statefulsets", "daemonsets", "replicasets")


async def unsettled(client: Client, *, with_workloads: bool, with_slices: bool) -> list[str]:
    """Return a line for each unsettled object, or none. Raises the client's errors."""
    left: list[str] = []
    if with_workloads:
        for plural in _WORKLOADS:
            answer = msgspec.json.decode(await client.request("GET", f"/apis/apps/v1/{plural}"))
            for item in answer.get("items") or ():
                problem = workload_problem(plural, item)
                if problem:
                    metadata = item["metadata"]
                    left.append(f"{plural} {metadata.get('namespace')}/{metadata.get('name')}: {problem}")
    if left or not (with_workloads or with_slices):
        return left  # the remaining checks cost more, so they run last
    snapshot = await read_cluster(client)
    if with_workloads:
        left += [f"pods {pod.metadata.key}: being deleted" for pod in snapshot.pods if pod.terminating]
    if with_slices:
        left += [
            f"{one.kind} of service {one.namespace}/{one.service}: {one.cause}"
            for one in publication_findings(ClusterIndex(snapshot))
            if one.severity == "error"
        ]
    return left


def workload_problem(plural: str, item: dict[str, Any]) -> str:
    """Return what a workload still lacks, or ``""``."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return "its last change has not been observed by a controller"
    if plural == "daemonsets":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberReady", 0)
        total = status.get("currentNumberScheduled", 0)
    else:
        wanted = spec.get("replicas", 1)
        ready = status.get("readyReplicas", 0)
        total = status.get("replicas", 0)
        updated = wanted if plural == "replicasets" else status.get("updatedReplicas", 0)
    if ready < wanted:
        return f"{ready} of {wanted} ready"
    if updated < wanted:
        return f"{updated} of {wanted} updated"
    if total > wanted:
        return f"{total - wanted} more than the {wanted} desired"
    return ""
