"""Builders of pods, services, nodes, endpoints and slices for tests, with valid defaults.

All objects are in namespace ``default`` and valid to the controllers: a pod is Running and ready on
``node-1`` with one IPv4 address, a service selects ``app=web`` on port 80. Pass only what matters to the
test.
"""

import msgspec

from aiokube.api.core import Labels, NamedPort, Node, Pod, Service, ServicePort
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.meta import NarrowMeta, ObjectMeta, ObjectReference, OwnerReference

DEFAULT_NAMESPACE = "default"
DEFAULT_SELECTOR: Labels = {"app": "web"}
DEFAULT_TIME = "2026-01-01T00:00:00Z"
HTTP = EndpointPort(name="", protocol="TCP", port=8080)
"""Port 80 of :func:`make_service` as it appears in a slice, for every pod."""


def make_service_port(
    port: int = 80,
    target_port: int | str | None = 8080,
    *,
    name: str = "",
    protocol: str = "TCP",
    app_protocol: str | None = None,
) -> ServicePort:
    """Return a port of a service; a target of None defaults to the port, as on the server."""
    return ServicePort(
        name=name,
        protocol=protocol,
        port=port,
        target_port=port if target_port is None else target_port,
        app_protocol=app_protocol,
    )


def make_service(
    name: str = "web",
    *,
    namespace: str = DEFAULT_NAMESPACE,
    uid: str | None = None,
    resource_version: str = "1",
    labels: Labels | None = None,
    selector: Labels | None = DEFAULT_SELECTOR,
    service_type: str = "ClusterIP",
    cluster_ip: str = "10.96.0.1",
    ip_families: tuple[str, ...] = ("IPv4",),
    ports: tuple[ServicePort, ...] | None = None,
    publish_not_ready_addresses: bool = False,
    terminating: bool = False,
    creation_timestamp: str | None = DEFAULT_TIME,
    traffic_distribution: str | None = None,
    topology_mode: str | None = None,
) -> Service:
    """Return a service that selects ``app=web``; its uid is ``<name>-uid``, its one port targets 8080."""
    return Service(
        metadata=NarrowMeta(
            name=name,
            namespace=namespace,
            uid=f"{name}-uid" if uid is None else uid,
            resource_version=resource_version,
        ),
        labels=labels or {},
        creation_timestamp=creation_timestamp,
        terminating=terminating,
        selector=selector,
        type=service_type,
        cluster_ip=cluster_ip,
        ip_families=ip_families,
        ports=(make_service_port(),) if ports is None else ports,
        publish_not_ready_addresses=publish_not_ready_addresses,
        traffic_distribution=traffic_distribution,
        topology_mode=topology_mode,
    )


def make_pod(
    name: str = "pod-1",
    *ips: str,
    namespace: str = DEFAULT_NAMESPACE,
    uid: str | None = None,
    resource_version: str = "1",
    labels: Labels | None = None,
    ready: bool = True,
    ready_since: str | None = DEFAULT_TIME,
    phase: str = "Running",
    terminating: bool = False,
    node_name: str = "node-1",
    hostname: str = "",
    subdomain: str = "",
    named_ports: tuple[NamedPort, ...] = (),
) -> Pod:
    """Return a pod labelled ``app=web`` with uid ``<name>-uid`` and, by default, address 10.0.0.1.

    The address ``""`` makes a pod without any address.
    """
    addresses = tuple(ip for ip in ips if ip) if ips else ("10.0.0.1",)
    return Pod(
        metadata=NarrowMeta(
            name=name,
            namespace=namespace,
            uid=f"{name}-uid" if uid is None else uid,
            resource_version=resource_version,
        ),
        labels=dict(DEFAULT_SELECTOR) if labels is None else labels,
        phase=phase,
        ready=ready,
        ready_since=ready_since,
        terminating=terminating,
        pod_ip=addresses[0] if addresses else None,
        pod_ips=addresses,
        node_name=node_name,
        hostname=hostname,
        subdomain=subdomain,
        named_ports=named_ports,
    )


def make_pods(count: int, *, start: int = 1, node_name: str = "node-1", ready: bool = True) -> list[Pod]:
    """Return pods ``pod-00001`` onwards with distinct addresses in 10.0.0.0/8: at most 65,000."""
    return [
        make_pod(f"pod-{number:05d}", address_number(number), node_name=node_name, ready=ready)
        for number in range(start, start + count)
    ]


def address_number(number: int) -> str:
    """Return the ``number``-th address of 10.0.0.0/8 that ends in 1 to 250."""
    high, low = divmod(number, 250)
    return f"10.{high // 250}.{high % 250}.{low + 1}"


def make_node(
    name: str = "node-1",
    *,
    zone: str = "zone-a",
    ready: bool = True,
    control_plane: bool = False,
    allocatable_cpu_milli: int = 1000,
    resource_version: str = "1",
) -> Node:
    """Return a ready node with one core in ``zone-a``; ``""`` is no zone."""
    return Node(
        metadata=NarrowMeta(name=name, uid=f"{name}-uid", resource_version=resource_version),
        zone=zone,
        ready=ready,
        control_plane=control_plane,
        allocatable_cpu_milli=allocatable_cpu_milli,
    )


def make_endpoint(
    pod: Pod,
    *addresses: str,
    zone: str | None = "zone-a",
    ready: bool | None = None,
    serving: bool | None = None,
    terminating: bool | None = None,
    hostname: str | None = None,
) -> Endpoint:
    """Return the slice entry for a pod on a node of ``zone-a``; arguments override its fields.

    Without ``addresses`` it has all addresses of the pod.
    """
    return Endpoint(
        addresses=addresses or pod.pod_ips,
        conditions=EndpointConditions(
            ready=(pod.ready and not pod.terminating) if ready is None else ready,
            serving=pod.ready if serving is None else serving,
            terminating=pod.terminating if terminating is None else terminating,
        ),
        hostname=hostname,
        target_ref=ObjectReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
        node_name=pod.node_name or None,
        zone=zone,
    )


def make_owner(service: Service) -> OwnerReference:
    """Return the owner reference of a slice that belongs to the service (S-61)."""
    return OwnerReference(
        api_version="v1",
        kind="Service",
        name=service.metadata.name,
        uid=service.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def make_slice(
    service: Service,
    name: str = "web-abcde",
    endpoints: tuple[Endpoint, ...] | list[Endpoint] = (),
    *,
    ports: tuple[EndpointPort, ...] = (HTTP,),
    address_type: str = "IPv4",
    uid: str | None = None,
    resource_version: str = "1",
    generation: int = 1,
    labels: Labels | None = None,
    extra_labels: Labels | None = None,
    annotations: dict[str, str] | None = None,
    owner: OwnerReference | None = None,
    owned: bool = True,
    finalizers: tuple[str, ...] | None = None,
    deletion_timestamp: str | None = None,
) -> EndpointSlice:
    """Return a slice as the server would return it: labelled and owned by the service, empty lists as None.

    ``labels`` replaces all labels, ``extra_labels`` adds to the default ones.
    """
    if labels is None:
        labels = {
            **service.labels,
            SERVICE_NAME_LABEL: service.metadata.name,
            MANAGED_BY_LABEL: MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
            **({HEADLESS_LABEL: ""} if service.is_headless else {}),
            **(extra_labels or {}),
        }
    if owner is None and owned:
        owner = make_owner(service)
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace=service.metadata.namespace,
            uid=f"{name}-uid" if uid is None else uid,
            resource_version=resource_version,
            generate_name=f"{service.metadata.name}-",
            generation=generation,
            creation_timestamp=DEFAULT_TIME,
            deletion_timestamp=deletion_timestamp,
            labels=labels or None,
            annotations=annotations,
            owner_references=(owner,) if owner is not None else None,
            finalizers=finalizers,
        ),
        address_type=address_type,
        endpoints=tuple(endpoints) or None,
        ports=ports or None,
    )


def edited(endpoint_slice: EndpointSlice, **fields: object) -> EndpointSlice:
    """Return a copy of a slice with changed fields, of the metadata if it has them, else of the slice."""
    of_metadata = {name: value for name, value in fields.items() if name in ObjectMeta.__struct_fields__}
    of_slice = {name: value for name, value in fields.items() if name not in of_metadata}
    metadata = msgspec.structs.replace(endpoint_slice.metadata, **of_metadata)
    return msgspec.structs.replace(endpoint_slice, metadata=metadata, **of_slice)
