"""The expected endpoints of services, computed from pods, services and nodes without any code of the plans."""

from collections.abc import Iterable, Mapping

from aiokube.api.addresses import ip_family
from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    EndpointSlice,
)
from aiokube.api.meta import ObjectKey

Published = tuple[str, str, bool, bool, bool, str, str]
"""Pod, address, ready, serving, terminating, node and zone of one endpoint."""


def expected_endpoints(
    service: Service, family: str, pods: Iterable[Pod], nodes: Mapping[str, Node]
) -> set[Published]:
    """Return the endpoints that a service should publish in one address family (S-31, S-32)."""
    found: set[Published] = set()
    selector = service.selector or {}
    for pod in pods:
        is_selected = pod.metadata.namespace == service.metadata.namespace and all(
            pod.labels.get(key) == value for key, value in selector.items()
        )
        address = next((one for one in pod.pod_ips if ip_family(one) == family), None)
        if not is_selected or pod.phase in ("Succeeded", "Failed") or address is None:
            continue
        node = nodes.get(pod.node_name)
        if node is None and pod.node_name and not service.publish_not_ready_addresses:
            continue
        ready = service.publish_not_ready_addresses or (pod.ready and not pod.terminating)
        zone = node.zone if node is not None else ""
        found.add(
            (pod.metadata.name, address, ready, pod.ready, pod.terminating, pod.node_name or "", zone or "")
        )
    return found


def published_endpoints(service: Service, family: str, slices: Iterable[EndpointSlice]) -> list[Published]:
    """Return the endpoints in the slices of a service, including duplicates."""
    found: list[Published] = []
    for item in slices:
        labels = item.metadata.labels or {}
        if (
            item.metadata.namespace != service.metadata.namespace
            or labels.get(SERVICE_NAME_LABEL) != service.metadata.name
            or labels.get(MANAGED_BY_LABEL) != MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            or item.address_type != family
            or item.metadata.deletion_timestamp is not None
        ):
            continue
        for one in item.endpoints or ():
            conditions = one.conditions
            name = one.target_ref.name if one.target_ref is not None else ""
            found.append(
                (
                    name or "",
                    one.addresses[0],
                    bool(conditions.ready),
                    bool(conditions.serving),
                    bool(conditions.terminating),
                    one.node_name or "",
                    one.zone or "",
                )
            )
    return found


def judge(
    services: Iterable[Service], pods: list[Pod], nodes: Iterable[Node], slices: list[EndpointSlice]
) -> list[str]:
    """Return the services whose published endpoints differ from the expected ones, one line each."""
    by_name = {node.metadata.name: node for node in nodes}
    wrong: list[str] = []
    for service in services:
        if not service.selector or service.is_external_name or service.terminating:
            continue  # existing objects stay (S-11, S-12)
        key = ObjectKey(service.metadata.namespace, service.metadata.name)
        for family in service.ip_families:
            expected = expected_endpoints(service, family, pods, by_name)
            published = published_endpoints(service, family, slices)
            if len(set(published)) != len(published):
                wrong.append(f"{key} publishes an endpoint twice in {family}")
            if set(published) != expected:
                missing, excess = sorted(expected - set(published)), sorted(set(published) - expected)
                wrong.append(f"{key} in {family}: missing {missing[:2]}, too many {excess[:2]}")
        wrong += _wrong_labels(service, slices)
    return wrong


def _wrong_labels(service: Service, slices: Iterable[EndpointSlice]) -> list[str]:
    """Return slices that lack a label of their service (S-60)."""
    wanted = {
        key: value
        for key, value in service.labels.items()
        if "kubernetes.io/" not in key  # reserved for the controllers
    }
    return [
        f"{item.metadata.key} lacks labels of its service"
        for item in slices
        if (item.metadata.labels or {}).get(MANAGED_BY_LABEL) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        and (item.metadata.labels or {}).get(SERVICE_NAME_LABEL) == service.metadata.name
        and item.metadata.namespace == service.metadata.namespace
        and item.address_type in service.ip_families
        and item.metadata.deletion_timestamp is None
        and any((item.metadata.labels or {}).get(key) != value for key, value in wanted.items())
    ]
