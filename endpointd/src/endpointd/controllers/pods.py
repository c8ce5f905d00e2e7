"""The published view of a pod, as shared by Endpoints and EndpointSlices: pure functions.

Rules: behaviour 0.4.
"""

from aiokube.api.addresses import canonical_ip, ip_family, rejected_range
from aiokube.api.core import Pod, Service, ServicePort
from aiokube.api.meta import ObjectReference

# The prefixes of all addresses that the API server rejects, in any spelling.
_SUSPECT = ("127.", "169.", "224.", "0", ":", "f", "F")

TERMINAL_PHASES = frozenset({"Failed", "Succeeded"})


def is_eligible(pod: Pod, *, include_terminating: bool) -> bool:
    """Return whether a pod can be published: not finished, with an address, and not terminating unless included."""
    return (
        pod.phase not in TERMINAL_PHASES
        and (bool(pod.pod_ips) or pod.pod_ip is not None)
        and (include_terminating or not pod.terminating)
    )


def addresses_of_family(pod: Pod, family: str) -> tuple[str, ...]:
    """Return the pod's canonical ``IPv4`` or ``IPv6`` addresses in the pod's order.

    An address only in ``podIP`` is ignored, because the API server keeps both fields in sync. Addresses that
    the API server rejects are omitted (see :func:`rejected_addresses`): it would reject the whole object.
    """
    return tuple(
        canonical
        for address in pod.pod_ips
        if (canonical := canonical_ip(address)) is not None
        and ip_family(canonical) == family
        and rejected_range(canonical) is None
    )


def rejected_addresses(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the pod's addresses that the API server rejects in endpoints, each with its address range."""
    return tuple(
        (canonical, in_range)
        for address in pod.pod_ips
        if (canonical := canonical_ip(address)) is not None
        and (in_range := rejected_range(canonical)) is not None
    )


def rejection_of(pod: Pod, *, include_terminating: bool) -> str | None:
    """Return why an address of a pod is omitted; None if none is, or if the pod is not published anyway."""
    for address in pod.pod_ips:
        if address.startswith(_SUSPECT):
            break
    else:
        return None  # the usual case, so it must be fast
    found = rejected_addresses(pod)
    if not found or not is_eligible(pod, include_terminating=include_terminating):
        return None
    return ", ".join(f"address {address} is {in_range}" for address, in_range in found)


def resolve_target_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the port number of a service port on this pod, or None if the pod has no such named port.

    A number is used unchanged. A name is searched in the containers in order, then in the sidecars; name and
    protocol must match.
    """
    if isinstance(port.target_port, int):
        return port.target_port
    for candidate in pod.named_ports:
        if candidate.name == port.target_port and candidate.protocol == port.protocol:
            return candidate.number
    return None


def hostname_of(pod: Pod, service: Service) -> str | None:
    """Return the pod's DNS name under the service, if the pod's subdomain names the service."""
    if (
        pod.hostname
        and pod.subdomain == service.metadata.name
        and pod.metadata.namespace == service.metadata.namespace
    ):
        return pod.hostname
    return None


def reference_to(pod: Pod) -> ObjectReference:
    """Return the published reference to a pod, without a version, so that it changes only with the pod."""
    metadata = pod.metadata
    return ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
