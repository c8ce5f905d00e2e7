"""Complete manifests as an API server and its controllers would, with deterministic values. Pure.

Services get their defaults, workloads their pods, pods an address and a node. The same manifests always give
the same cluster, so the result suits golden files and reviews.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from aiokube.api.names import SUFFIX_ALPHABET

Json = dict[str, Any]

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_FIRST_SECOND_BYTE, _LAST_SECOND_BYTE = 244, 255
"""Pods get addresses from 10.244.0.0 to 10.255.255.255."""
_EPOCH = "1970-01-01T00:00:00Z"


class OfflineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Values to generate where the manifests lack them."""

    nodes: int = 3
    """The number of nodes if the manifests contain no Node."""
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    default_namespace: str = "default"
    max_pods_per_workload: int | None = None
    """The maximum number of pods per workload; None for the requested number."""
    default_families: tuple[str, ...] = ("IPv4", "IPv6")
    """The cluster's IP families, the primary first: it is the default of a single-stack service."""


def complete(documents: Iterable[Mapping[str, Any]], settings: OfflineSettings) -> list[Json]:
    """Return the objects as a cluster would have them: services defaulted, nodes present, pods running.

    A pod with a status keeps it; any other pod is assumed to be ready. The order is kept; generated objects
    come last.
    """
    objects = [_with_metadata(document, settings) for document in documents]
    nodes = [item for item in objects if item["kind"] == "Node"] or _nodes(settings)
    pods = [item for item in objects if item["kind"] == "Pod"]
    for item in objects:
        if item["kind"] in WORKLOADS:
            pods += _pods_of(item, nodes, settings.max_pods_per_workload)
    running = [running_pod(pod, number, nodes) for number, pod in enumerate(pods)]
    others = [item for item in objects if item["kind"] not in ("Pod", "Node")]
    services = [defaulted_service(item, settings) if item["kind"] == "Service" else item for item in others]
    return [*services, *nodes, *running]


def _with_metadata(document: Mapping[str, Any], settings: OfflineSettings) -> Json:
    metadata = dict(document["metadata"])
    if document["kind"] != "Node":
        metadata.setdefault("namespace", settings.default_namespace)
    metadata.setdefault(
        "uid", "-".join((document["kind"].lower(), metadata.get("namespace", ""), metadata["name"]))
    )
    metadata.setdefault("creationTimestamp", _EPOCH)
    return {**document, "metadata": metadata}


def defaulted_service(service: Json, settings: OfflineSettings) -> Json:
    """Return a service with the API server's defaults that endpoints depend on."""
    spec = dict(service.get("spec") or {})
    kind = spec.setdefault("type", "ClusterIP")
    spec["ports"] = [
        {"protocol": "TCP", **port, "targetPort": port.get("targetPort") or port.get("port")}
        for port in spec.get("ports") or ()
    ]
    if kind == "ExternalName":
        return {**service, "spec": spec}
    families = spec.get("ipFamilies")
    policy = spec.get("ipFamilyPolicy")
    headless = spec.get("clusterIP") == "None"
    if policy is None and headless and not spec.get("selector"):
        policy = "RequireDualStack"
    cluster = settings.default_families
    if not families:
        families = list(cluster[:1])
    if policy in ("PreferDualStack", "RequireDualStack") and len(families) == 1:
        families = [*families, *(family for family in cluster if family not in families)]
    spec["ipFamilies"] = families
    spec.setdefault("clusterIP", "fd00:10:96::1" if families[0] == "IPv6" else "10.96.0.1")
    return {**service, "spec": spec}


def _nodes(settings: OfflineSettings) -> list[Json]:
    zones = settings.zones or ("",)
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number + 1}",
                "uid": f"node--node-{number + 1}",
                "labels": {"topology.kubernetes.io/zone": zones[number % len(zones)]},
            },
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _EPOCH}],
            },
        }
        for number in range(settings.nodes)
    ]


def _pods_of(workload: Json, nodes: Sequence[Json], limit: int | None) -> list[Json]:
    spec = workload.get("spec") or {}
    template = spec.get("template") or {}
    metadata = workload["metadata"]
    base = metadata["name"]
    if workload["kind"] == "DaemonSet":
        names = _distinct_names(base, [node["metadata"]["name"] for node in nodes])
    else:
        replicas = spec.get("replicas")
        count = 1 if replicas is None else int(replicas)
        if workload["kind"] == "StatefulSet":
            first = int((spec.get("ordinals") or {}).get("start") or 0)
            names = [f"{base}-{first + number}" for number in range(count)]
        else:
            if workload["kind"] == "Deployment":
                base = f"{base}-{_suffix(base, msgspec.json.encode(template, order='sorted').decode(), length=9)}"
            names = _distinct_names(base, [str(number) for number in range(count)])
    pods = []
    for number, name in enumerate(names[:limit]):
        pod_spec = dict(template.get("spec") or {})
        if workload["kind"] == "DaemonSet":
            pod_spec["nodeName"] = nodes[number]["metadata"]["name"]
        if workload["kind"] == "StatefulSet":
            pod_spec.setdefault("hostname", name)
            pod_spec.setdefault("subdomain", spec.get("serviceName") or "")
        pod_metadata = {
            **(template.get("metadata") or {}),
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"pod-{metadata['namespace']}-{name}",
        }
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": pod_spec})
    return pods


def running_pod(pod: Json, number: int, nodes: Sequence[Json]) -> Json:
    """Return the ``number``-th pod with an address and a node; a pod with a status is unchanged.

    Raises ValueError beyond 768,000.
    """
    if pod.get("status"):
        return pod
    spec = dict(pod.get("spec") or {})
    node_number = number % len(nodes) if nodes else 0
    if nodes:
        spec.setdefault("nodeName", nodes[node_number]["metadata"]["name"])
    for containers in (spec.get("containers"), spec.get("initContainers")):
        for container in containers or ():
            for port in container.get("ports") or ():
                port.setdefault("protocol", "TCP")
    host, low = divmod(number + 1, 250)
    second, third = divmod(host, 256)
    if second > _LAST_SECOND_BYTE - _FIRST_SECOND_BYTE:
        raise ValueError(f"the manifests request more pods than there are addresses ({number:,})")
    ips = [
        {"ip": f"10.{_FIRST_SECOND_BYTE + second}.{third}.{low + 1}"},
        {"ip": f"fd00:10:244::{number + 1:x}"},
    ]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _EPOCH}
    status = {"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips, "conditions": [ready]}
    return {**pod, "spec": spec, "status": status}


def _suffix(*parts: str, length: int = 5) -> str:
    """Return a suffix like a server-generated one, but deterministic for the same parts."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in digest[:length])


def _distinct_names(base: str, parts: Iterable[str]) -> list[str]:
    """Return a distinct name for each part, deterministic for the same parts in the same order."""
    names: dict[str, None] = {}
    for part in parts:
        name, attempt = f"{base}-{_suffix(base, part)}", 0
        while name in names:  # among 5,000 names, about one collides
            attempt += 1
            name = f"{base}-{_suffix(base, part, str(attempt))}"
        names[name] = None
    return list(names)


def stable_name(base: str, *parts: str) -> str:
    """Return a deterministic name in place of a server-generated one: ``web-`` and letters derived from the parts."""
    return f"{base}{_suffix(base, *parts)}"
