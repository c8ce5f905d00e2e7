"""The published order of ports and subsets, and the key that identifies equal port lists.

Kubernetes sorts both by a hash of a textual rendering (behaviour 0.5): 128-bit FNV-1a over the one-line dump
of the Go value. The order is visible to clients, and slices are grouped by the key, so both are reproduced
exactly. The order has no meaning beyond being deterministic.
"""

from functools import lru_cache

from aiokube.api import discovery, endpoints
from aiokube.api.meta import ObjectReference
from endpointd.controllers.fnv import OFFSET_BASIS, FnvSuffix, fnv1a_128

_CACHED_PORT_LISTS = 4096


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def hash_of_discovery_port(port: discovery.EndpointPort) -> str:
    """Return the hash of an EndpointSlice port as 32 hexadecimal digits."""
    return _hash(f"(v1.EndpointPort){_discovery_port_text(port)}")


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def hash_of_core_port(port: endpoints.EndpointPort) -> str:
    """Return the hash of an Endpoints subset port as 32 hexadecimal digits."""
    return _hash(f"(v1.EndpointPort){_core_port_text(port)}")


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def _sorted_discovery(ports: tuple[discovery.EndpointPort, ...]) -> tuple[discovery.EndpointPort, ...]:
    return tuple(sorted(ports, key=hash_of_discovery_port))


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def _sorted_core(ports: tuple[endpoints.EndpointPort, ...]) -> tuple[endpoints.EndpointPort, ...]:
    return tuple(sorted(ports, key=hash_of_core_port))


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def _list_key(ports: tuple[discovery.EndpointPort, ...]) -> str:
    return _hash(f"([]v1.EndpointPort)[{' '.join(map(_discovery_port_text, _sorted_discovery(ports)))}]")


def sort_ports_discovery(
    ports: tuple[discovery.EndpointPort, ...] | None,
) -> tuple[discovery.EndpointPort, ...]:
    """Return ports in the order in which slices store them (S-31.2); None counts as empty.

    Equal lists return the identical tuple while it is cached, so slices share it.
    """
    return _sorted_discovery(ports) if ports else ()


def port_list_key(ports: tuple[discovery.EndpointPort, ...] | None) -> str:
    """Return the key that groups slices of a service (S-30), independent of port order.

    None counts as empty.
    """
    return _list_key(ports or ())


def sort_ports_core(ports: tuple[endpoints.EndpointPort, ...] | None) -> tuple[endpoints.EndpointPort, ...]:
    """Return ports in the order in which Endpoints subsets store them (E-31); None counts as empty."""
    return _sorted_core(ports) if ports else ()


def sort_subsets(subsets: tuple[endpoints.EndpointSubset, ...]) -> tuple[endpoints.EndpointSubset, ...]:
    """Return the subsets of an Endpoints in their published order (E-31).

    Their addresses and ports must already be sorted, because they are part of the hash. Empty lists count as
    absent. A single subset, the usual case, costs nothing; several cost time proportional to their text.
    """
    if len(subsets) < 2:
        return subsets
    return tuple(sorted(subsets, key=hash_of_subset))


def hash_of_subset(subset: endpoints.EndpointSubset) -> str:
    """Return the hash of a subset as 32 hexadecimal digits, in about 8 us per address.

    Not cached, because subsets are large and do not repeat. Shared text of the addresses is hashed quickly.
    """
    value = _ADDRESSES.after(OFFSET_BASIS)
    value = _hash_addresses(subset.addresses, value)
    value = _NOT_READY_ADDRESSES.after(value)
    value = _hash_addresses(subset.not_ready_addresses, value)
    ports = _list_text(tuple(map(_core_port_text, subset.ports or ())))
    return f"{fnv1a_128(f' Ports:([]v1.EndpointPort){ports}}}'.encode(), value):032x}"


_ADDRESSES = FnvSuffix(b"(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)")
_NOT_READY_ADDRESSES = FnvSuffix(b" NotReadyAddresses:([]v1.EndpointAddress)")
_FIRST_IP, _NEXT_IP = FnvSuffix(b"[{IP:(string)"), FnvSuffix(b" {IP:(string)")
_NO_HOSTNAME = FnvSuffix(b" Hostname:(string) NodeName:(*string)")
_UID = FnvSuffix(b" UID:(types.UID)")
_NOTHING_ELSE = FnvSuffix(b" APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}")


@lru_cache(maxsize=1024)
def _pod_in(namespace: str) -> FnvSuffix:
    text = f" TargetRef:(*v1.ObjectReference){{Kind:(string)Pod Namespace:(string){namespace} Name:(string)"
    return FnvSuffix(text.encode())


def _hash_addresses(addresses: tuple[endpoints.EndpointAddress, ...] | None, value: int) -> int:
    if not addresses:
        return fnv1a_128(b"<nil>", value)
    before_ip = _FIRST_IP
    for address in addresses:
        value = fnv1a_128(address.ip.encode(), before_ip.after(value))
        before_ip = _NEXT_IP
        target = address.target_ref
        if address.hostname or target is None or not _is_plain_pod(target):
            value = fnv1a_128(_address_rest_text(address).encode(), value)
            continue
        value = fnv1a_128(
            (address.node_name or _absent(address.node_name)).encode(), _NO_HOSTNAME.after(value)
        )
        value = fnv1a_128((target.name or "").encode(), _pod_in(target.namespace or "").after(value))
        value = _NOTHING_ELSE.after(fnv1a_128((target.uid or "").encode(), _UID.after(value)))
    return fnv1a_128(b"]", value)


def _is_plain_pod(target: ObjectReference) -> bool:
    """Return whether a reference has the form that the controllers write."""
    return target.kind == "Pod" and not (target.api_version or target.resource_version or target.field_path)


def _absent(text: str | None) -> str:
    return "<nil>" if text is None else text


def _hash(text: str) -> str:
    return f"{fnv1a_128(text.encode()):032x}"


def _list_text(items: tuple[str, ...]) -> str:
    return f"[{' '.join(items)}]" if items else "<nil>"


def _core_port_text(port: endpoints.EndpointPort) -> str:
    return (
        f"{{Name:(string){port.name or ''} Port:(int32){port.port or 0}"
        f" Protocol:(v1.Protocol){port.protocol or ''} AppProtocol:(*string){_absent(port.app_protocol)}}}"
    )


def _discovery_port_text(port: discovery.EndpointPort) -> str:
    number = "<nil>" if port.port is None else port.port
    return (
        f"{{Name:(*string){_absent(port.name)} Protocol:(*v1.Protocol){_absent(port.protocol)}"
        f" Port:(*int32){number} AppProtocol:(*string){_absent(port.app_protocol)}}}"
    )


def _address_rest_text(address: endpoints.EndpointAddress) -> str:
    """Return the text after the IP."""
    target = "<nil>" if address.target_ref is None else _reference_text(address.target_ref)
    return (
        f" Hostname:(string){address.hostname or ''} NodeName:(*string){_absent(address.node_name)}"
        f" TargetRef:(*v1.ObjectReference){target}}}"
    )


def _reference_text(reference: ObjectReference) -> str:
    return (
        f"{{Kind:(string){reference.kind or ''} Namespace:(string){reference.namespace or ''}"
        f" Name:(string){reference.name or ''} UID:(types.UID){reference.uid or ''}"
        f" APIVersion:(string){reference.api_version or ''}"
        f" ResourceVersion:(string){reference.resource_version or ''}"
        f" FieldPath:(string){reference.field_path or ''}}}"
    )
