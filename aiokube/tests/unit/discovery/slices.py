"""Builders of the slices in the scenarios of section 8."""

from collections.abc import Sequence

from aiokube.api.discovery import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from aiokube.api.endpoints import LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.discovery import EndpointView, ServicePortName

SVC1 = ObjectKey("ns1", "svc1")


def port(name: str | None = "http", number: int | None = 80, protocol: str | None = "TCP") -> EndpointPort:
    return EndpointPort(name=name, protocol=protocol, port=number)


def endpoint(
    *addresses: str,
    ready: bool | None = None,
    serving: bool | None = None,
    terminating: bool | None = None,
    node: str | None = None,
    zones: Sequence[str] | None = None,
    nodes: Sequence[str] | None = None,
) -> Endpoint:
    """Return an endpoint; conditions are unset by default."""
    hints = None
    if zones is not None or nodes is not None:
        hints = EndpointHints(
            for_zones=None if zones is None else tuple(ForZone(name) for name in zones),
            for_nodes=None if nodes is None else tuple(ForNode(name) for name in nodes),
        )
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        node_name=node,
        hints=hints,
    )


def draining(address: str, *, node: str | None = None, zones: Sequence[str] | None = None) -> Endpoint:
    return endpoint(address, ready=False, serving=True, terminating=True, node=node, zones=zones)


def endpoint_slice(
    name: str = "svc1-a",
    endpoints: Sequence[Endpoint] = (),
    ports: Sequence[EndpointPort] = (port(),),
    *,
    service: str | None = "svc1",
    namespace: str = "ns1",
    family: str = "IPv4",
    version: int = 1,
    triggered: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> EndpointSlice:
    """Return a slice of ns1/svc1."""
    found = dict(labels or {})
    if service is not None:
        found[SERVICE_NAME_LABEL] = service
    notes = dict(annotations or {})
    if triggered is not None:
        notes[LAST_CHANGE_TRIGGER_TIME_ANNOTATION] = triggered
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            resource_version=str(version),
            labels=found or None,
            annotations=notes or None,
        ),
        address_type=family,
        endpoints=tuple(endpoints) or None,
        ports=tuple(ports) or None,
    )


def numbered(
    service: str,
    offset: int,
    count: int,
    *,
    namespace: str = "ns1",
    unready_every: int = 999,
    terminating_every: int = 999,
    hosts: Sequence[str] = (),
    ports: Sequence[int] = (80,),
    version: int = 1,
) -> EndpointSlice:
    """Return section 8's slices: ``svc-N`` with endpoints 10.0.N.1 onwards, ports ``port-0`` onwards."""
    endpoints = []
    for index in range(1, count + 1):
        is_unready = index % unready_every == 0
        is_terminating = index % terminating_every == 0
        endpoints.append(
            endpoint(
                f"10.0.{offset}.{index}",
                ready=not (is_unready or is_terminating),
                serving=not is_unready,
                terminating=is_terminating,
                node=hosts[index % len(hosts)] if hosts else None,
            )
        )
    return endpoint_slice(
        f"{service}-{offset}",
        endpoints,
        [port(f"port-{index}", number) for index, number in enumerate(ports)],
        service=service,
        namespace=namespace,
        version=version,
    )


def of(
    name: str = "http", protocol: str = "TCP", *, service: str = "svc1", namespace: str = "ns1"
) -> ServicePortName:
    return ServicePortName(namespace, service, name, protocol)


def addresses(endpoints: Sequence[EndpointView] | None) -> list[str] | None:
    return None if endpoints is None else [each.address for each in endpoints]


def facts(endpoints: Sequence[EndpointView]) -> dict[str, tuple[bool, bool, bool]]:
    """Return ready, serving and terminating by address."""
    return {each.address: (each.ready, each.serving, each.terminating) for each in endpoints}
