"""The order in which ports and subsets are published, and the key that says that two port lists are the same.

Kubernetes orders both by a hash of a textual rendering (behaviour 0.5): FNV-1a with 128 bits over the one-line
dump of the Go value. Clients see that order, and slices are grouped by that key, so it is reproduced here to
the bit. The order means nothing beyond being the same everywhere.
"""

from functools import lru_cache

from endpointd.api import discovery, endpoints
from endpointd.api.fnv import fnv1a_128
from endpointd.api.meta import ObjectReference

_CACHED_PORT_LISTS = 4096


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def hash_of_discovery_port(port: discovery.EndpointPort) -> str:
    """Return the hash of one port of an EndpointSlice, 32 hexadecimal digits."""
    return _hash(f"(v1.EndpointPort){_discovery_port_text(port)}")


@lru_cache(maxsize=_CACHED_PORT_LISTS)
def hash_of_core_port(port: endpoints.EndpointPort) -> str:
    """Return the hash of one port of an Endpoints subset, 32 hexadecimal digits."""
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
    """Return the ports in the order in which a slice stores them (S-31.2); None is the empty list.

    Equal lists give the identical tuple while it is cached, so that slices share it.
    """
    return _sorted_discovery(ports) if ports else ()


def port_list_key(ports: tuple[discovery.EndpointPort, ...] | None) -> str:
    """Return the key under which slices of one service are grouped (S-30): the same for any order of the ports.

    None is the empty list.
    """
    return _list_key(ports or ())


def sort_ports_core(ports: tuple[endpoints.EndpointPort, ...] | None) -> tuple[endpoints.EndpointPort, ...]:
    """Return the ports in the order in which an Endpoints subset stores them (E-31); None is the empty list."""
    return _sorted_core(ports) if ports else ()


def sort_subsets(subsets: tuple[endpoints.EndpointSubset, ...]) -> tuple[endpoints.EndpointSubset, ...]:
    """Return the subsets of an Endpoints in their published order (E-31).

    The addresses and ports within must be in their order already: they are part of what is hashed. Empty lists
    count as absent. A single subset, the usual case, costs nothing; several cost time in proportion to their text.
    """
    if len(subsets) < 2:
        return subsets
    return tuple(sorted(subsets, key=hash_of_subset))


def hash_of_subset(subset: endpoints.EndpointSubset) -> str:
    """Return the hash of one subset, 32 hexadecimal digits. It is not cached: subsets are large and do not repeat."""
    ready = _list_text(tuple(map(_address_text, subset.addresses or ())))
    not_ready = _list_text(tuple(map(_address_text, subset.not_ready_addresses or ())))
    ports = _list_text(tuple(map(_core_port_text, subset.ports or ())))
    return _hash(
        f"(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){ready}"
        f" NotReadyAddresses:([]v1.EndpointAddress){not_ready} Ports:([]v1.EndpointPort){ports}}}"
    )


def _hash(text: str) -> str:
    return f"{fnv1a_128(text.encode()):032x}"


def _list_text(items: tuple[str, ...]) -> str:
    return f"[{' '.join(items)}]" if items else "<nil>"


def _core_port_text(port: endpoints.EndpointPort) -> str:
    app_protocol = "<nil>" if port.app_protocol is None else port.app_protocol
    return (
        f"{{Name:(string){port.name or ''} Port:(int32){port.port or 0}"
        f" Protocol:(v1.Protocol){port.protocol or ''} AppProtocol:(*string){app_protocol}}}"
    )


def _discovery_port_text(port: discovery.EndpointPort) -> str:
    name = "<nil>" if port.name is None else port.name
    protocol = "<nil>" if port.protocol is None else port.protocol
    number = "<nil>" if port.port is None else port.port
    app_protocol = "<nil>" if port.app_protocol is None else port.app_protocol
    return (
        f"{{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){number}"
        f" AppProtocol:(*string){app_protocol}}}"
    )


def _address_text(address: endpoints.EndpointAddress) -> str:
    node_name = "<nil>" if address.node_name is None else address.node_name
    target = "<nil>" if address.target_ref is None else _reference_text(address.target_ref)
    return (
        f"{{IP:(string){address.ip} Hostname:(string){address.hostname or ''} NodeName:(*string){node_name}"
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
