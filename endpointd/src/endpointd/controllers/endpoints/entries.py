"""The contribution of one pod to the Endpoints of a service: pure functions (E-15)."""

import msgspec

from aiokube.api.addresses import Family, ip_family
from aiokube.api.core import HEADLESS, NamedPort, Pod, Service
from aiokube.api.endpoints import EndpointAddress, EndpointPort
from endpointd.controllers.canonical import sort_ports_core
from endpointd.controllers.pods import (
    addresses_of_family,
    hostname_of,
    is_eligible,
    reference_to,
    resolve_target_port,
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One address, its readiness, and its ports in canonical order (empty for a portless service)."""

    address: EndpointAddress
    is_ready: bool
    ports: tuple[EndpointPort, ...]


class PodTranslator:
    """Converts the pods of one version of a service to entries.

    Pods with the same named ports share their ports.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._ports: dict[tuple[NamedPort, ...], tuple[EndpointPort, ...] | None] = {}
        self._has_named_targets = any(isinstance(port.target_port, str) for port in service.ports)

    def entry_of(self, pod: Pod) -> Entry | None:
        """Return the entry of a selected pod, or None if it is not published (E-15)."""
        service = self.service
        publish_not_ready = service.publish_not_ready_addresses
        if not is_eligible(pod, include_terminating=publish_not_ready):
            return None
        ports = self._ports_of(pod)
        if ports is None:
            return None
        addresses = addresses_of_family(pod, family_of(service, pod))
        if not addresses:
            return None  # E-15.3
        return Entry(
            address=EndpointAddress(
                ip=addresses[0],
                hostname=hostname_of(pod, service),
                # The API server rejects the whole object for one empty node name (E-16), so a pod that has an
                # address but no node is published without one.
                node_name=pod.node_name or None,
                target_ref=reference_to(pod),
            ),
            is_ready=publish_not_ready or pod.ready,  # E-15.7
            ports=ports,
        )

    def _ports_of(self, pod: Pod) -> tuple[EndpointPort, ...] | None:
        """Return the ports of a pod under the service, or None if it cannot be published."""
        named_ports = pod.named_ports if self._has_named_targets else ()
        try:
            return self._ports[named_ports]
        except KeyError:
            ports = self._ports[named_ports] = self._resolve(pod)
            return ports

    def _resolve(self, pod: Pod) -> tuple[EndpointPort, ...] | None:
        service = self.service
        if not service.ports:
            return () if service.cluster_ip == HEADLESS else None  # E-15.5
        found = (
            EndpointPort(
                name=port.name or None, port=number, protocol=port.protocol, app_protocol=port.app_protocol
            )
            for port in service.ports
            if (number := resolve_target_port(pod, port)) is not None  # E-15.6
        )
        return sort_ports_core(tuple(dict.fromkeys(found))) or None


def family_of(service: Service, pod: Pod) -> Family:
    """Return the IP family that a service publishes for a pod: one, even if the service has two (E-15.2)."""
    if service.ip_families:
        return "IPv6" if service.ip_families[0] == "IPv6" else "IPv4"
    deciding = service.cluster_ip if service.cluster_ip not in (HEADLESS, "") else pod.pod_ip or ""
    return "IPv6" if ip_family(deciding) == "IPv6" else "IPv4"
