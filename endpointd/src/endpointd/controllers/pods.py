"""What of a pod is published, as far as Endpoints and EndpointSlices agree on it: pure functions.

Rules: behaviour 0.4.
"""

from aiokube.api.addresses import canonical_ip, ip_family, rejected_range
from aiokube.api.core import Pod, Service, ServicePort
from aiokube.api.meta import ObjectReference

# How every address that the API server rejects begins, in any spelling.
_SUSPECT = ("127.", "169.", "224.", "0", ":", "f", "F")

TERMINAL_PHASES = frozenset({"Failed", "Succeeded"})


def is_eligible(pod: Pod, *, include_terminating: bool) -> bool:
    """Tell whether a pod can be published at all: not finished, with an address, and alive (or asked for dying)."""
    return (
        pod.phase not in TERMINAL_PHASES
        and (bool(pod.pod_ips) or pod.pod_ip is not None)
        and (include_terminating or not pod.terminating)
    )


def addresses_of_family(pod: Pod, family: str) -> tuple[str, ...]:
    """Return the pod's addresses of ``IPv4`` or ``IPv6``, canonical, in the pod's order.

    An address that stands in ``podIP`` alone is not used: the API server keeps the two in step. One that the API
    server rejects is left out (see :func:`rejected_addresses`), as it would reject all that is written with it.
    """
    return tuple(
        canonical
        for address in pod.pod_ips
        if (canonical := canonical_ip(address)) is not None
        and ip_family(canonical) == family
        and rejected_range(canonical) is None
    )


def rejected_addresses(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the pod's addresses that the API server accepts in no endpoint, each with the range that it is in."""
    return tuple(
        (canonical, in_range)
        for address in pod.pod_ips
        if (canonical := canonical_ip(address)) is not None
        and (in_range := rejected_range(canonical)) is not None
    )


def rejection_of(pod: Pod, *, include_terminating: bool) -> str | None:
    """Return why an address of a pod is left out, None where it is not, or where the pod is not published anyway."""
    for address in pod.pod_ips:
        if address.startswith(_SUSPECT):
            break
    else:
        return None  # nearly always, so it is to be quick
    found = rejected_addresses(pod)
    if not found or not is_eligible(pod, include_terminating=include_terminating):
        return None
    return ", ".join(f"address {address} is {in_range}" for address, in_range in found)


def resolve_target_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the number behind a service port on this pod, or None where the pod does not name it.

    A number is taken as it is. A name is looked for in the containers in order, then in the sidecars; name and
    protocol have to fit.
    """
    if isinstance(port.target_port, int):
        return port.target_port
    for candidate in pod.named_ports:
        if candidate.name == port.target_port and candidate.protocol == port.protocol:
            return candidate.number
    return None


def hostname_of(pod: Pod, service: Service) -> str | None:
    """Return the pod's DNS name under the service: only where the pod says that it belongs to this subdomain."""
    if (
        pod.hostname
        and pod.subdomain == service.metadata.name
        and pod.metadata.namespace == service.metadata.namespace
    ):
        return pod.hostname
    return None


def reference_to(pod: Pod) -> ObjectReference:
    """Return the reference under which a pod is published: no version, so that it changes only with the pod."""
    metadata = pod.metadata
    return ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
