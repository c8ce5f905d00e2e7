"""The simulation's type of a node, and the nodes that it creates. Pure."""

import ipaddress
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from aiokube.api.core import ZONE_LABEL
from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import Resource
from tinykube.simulate.annotations import READY, annotation, truth
from tinykube.simulate.settings import SimulateSettings

KUBELET_VERSION = "v1.36.3-simulated"
_REAL_VERSION_SUFFIX = "-simulated"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

_POD_NETWORK_4 = ipaddress.IPv4Network("10.128.0.0/9")  # 2048 nodes with 4094 pods each
_POD_BITS_4 = 20
_POD_NETWORK_6 = ipaddress.IPv6Network("fd00:10:128::/48")
_POD_BITS_6 = 64
_HOST_NETWORK_4 = ipaddress.IPv4Network("172.18.0.0/16")
_HOST_NETWORK_6 = ipaddress.IPv6Network("fd00:172:18::/64")
_MAX_NODES = 2048


class Taint(msgspec.Struct, frozen=True, rename="camel"):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The scheduling and address fields of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] | None = msgspec.field(default=None, name="podCIDRs")


class NodeCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a node."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeAddress(msgspec.Struct, frozen=True, rename="camel"):
    """An address or name of a node."""

    type: str = ""
    address: str = ""


class NodeInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The version of the kubelet."""

    kubelet_version: str = ""


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a node."""

    conditions: tuple[NodeCondition, ...] | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    allocatable: dict[str, str] | None = None
    node_info: NodeInfo | None = None


class SimulatedNode(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a node that the simulation reads."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_real(self) -> bool:
        """Whether a real kubelet runs the node: the node and its pods are then ignored."""
        info = self.status.node_info
        version = info.kubelet_version if info is not None else ""
        return version != "" and not version.endswith(_REAL_VERSION_SUFFIX)

    @property
    def is_ready(self) -> bool:
        """Whether the condition Ready is true."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())

    @property
    def zone(self) -> str:
        """The zone, or ``""``."""
        return (self.metadata.labels or {}).get(ZONE_LABEL, "")

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The internal IP addresses, at most one per family."""
        return tuple(each.address for each in self.status.addresses or () if each.type == "InternalIP")

    @property
    def pod_networks(self) -> tuple[str, ...]:
        """The CIDRs of its pods."""
        return self.spec.pod_cidrs or ((self.spec.pod_cidr,) if self.spec.pod_cidr else ())


SIMULATED_NODES: Resource[SimulatedNode] = Resource(
    group="", version="v1", plural="nodes", kind="Node", wire=SimulatedNode, namespaced=False
)


def node_name(index: int) -> str:
    """Return the name of the initial node at ``index`` (from 0)."""
    return f"node-{index + 1}"


def zone_of(index: int, settings: SimulateSettings) -> str:
    """Return the zone of the initial node at ``index``."""
    return settings.zones[index % len(settings.zones)]


def pod_networks(index: int) -> list[str]:
    """Return the pod CIDRs at ``index``, one per family."""
    four = int(_POD_NETWORK_4.network_address) + (index << (32 - _POD_BITS_4))
    six = int(_POD_NETWORK_6.network_address) + (index << (128 - _POD_BITS_6))
    return [f"{ipaddress.IPv4Address(four)}/{_POD_BITS_4}", f"{ipaddress.IPv6Address(six)}/{_POD_BITS_6}"]


def free_index(nodes: Iterable[SimulatedNode], preferred: int = 0) -> int:
    """Return the first index, starting at ``preferred``, whose pod networks are unused."""
    taken = {network for node in nodes for network in node.pod_networks}
    for index in itertools.chain(range(preferred, _MAX_NODES), range(preferred)):
        if not taken.intersection(pod_networks(index)):
            return index
    raise ValueError(f"all {_MAX_NODES} pod networks are in use")


def node_document(index: int, networks: int, settings: SimulateSettings, moment: str) -> dict[str, Any]:
    """Return the JSON of a ready node; ``networks`` is the index of its pod networks."""
    name = node_name(index)
    cidrs = pod_networks(networks)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": settings.region,
                ZONE_LABEL: zone_of(index, settings),
            },
        },
        "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs},
        "status": node_status(name, networks, settings, moment),
    }


def node_status(name: str, networks: int, settings: SimulateSettings, moment: str) -> dict[str, Any]:
    """Return the JSON of a ready node's status: addresses, capacity, conditions, versions."""
    resources = {
        "cpu": "16",
        "memory": "64Gi",
        "pods": str(settings.pods_per_node),
        "ephemeral-storage": "100Gi",
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": str(_HOST_NETWORK_4.network_address + networks + 2)},
            {"type": "InternalIP", "address": str(_HOST_NETWORK_6.network_address + networks + 2)},
            {"type": "Hostname", "address": name},
        ],
        "conditions": conditions(ready=True, moment=moment),
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "simulated",
            "osImage": "simulated",
            "containerRuntimeVersion": "simulated://1.0",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def conditions(*, ready: bool, moment: str) -> list[dict[str, str]]:
    """Return the JSON of a node's conditions."""
    rows = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True" if ready else "False", "KubeletReady" if ready else "KubeletNotReady"),
    ]
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "simulated",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason in rows
    ]


def should_be_ready(node: SimulatedNode) -> bool:
    """Return whether a node should be ready: always, unless its annotation is ``false``."""
    return truth(annotation(node.metadata.annotations, READY)) is not False
