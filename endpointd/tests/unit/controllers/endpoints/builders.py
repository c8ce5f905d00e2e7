"""Pods and services for the tests of this folder."""

import msgspec

from aiokube.api.core import Pod, Service, ServicePort
from aiokube.api.meta import NarrowMeta


def make_pod(**changes: object) -> Pod:
    base = Pod(
        metadata=NarrowMeta(name="pod0", namespace="ns", uid="u0", resource_version="1"),
        labels={"foo": "bar"},
        phase="Running",
        ready=True,
        ready_since=None,
        terminating=False,
        pod_ip="1.2.3.4",
        pod_ips=("1.2.3.4",),
        node_name="node-1",
        hostname="",
        subdomain="",
        named_ports=(),
    )
    return msgspec.structs.replace(base, **changes)


def make_service(**changes: object) -> Service:
    base = Service(
        metadata=NarrowMeta(name="svc", namespace="ns", uid="s0", resource_version="1"),
        labels={},
        creation_timestamp=None,
        terminating=False,
        selector={"foo": "bar"},
        type="ClusterIP",
        cluster_ip="10.96.0.1",
        ip_families=("IPv4",),
        ports=(ServicePort("http", "TCP", 80, 8080),),
        publish_not_ready_addresses=False,
        traffic_distribution=None,
        topology_mode=None,
    )
    return msgspec.structs.replace(base, **changes)
