"""The store indexes used by the controllers and shadow mode."""

from aiokube.api.core import Pod
from aiokube.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.meta import ObjectKey

PODS_BY_NODE = "node"
"""Index of pods by node name, even if the node does not exist (:func:`node_names_of`)."""
SLICES_BY_SERVICE = "service"
"""Index of EndpointSlices by the service in their label, whichever controller manages them
(:func:`service_names_of`)."""


def node_names_of(pod: Pod) -> tuple[str, ...]:
    """Return a pod's node name, if set."""
    return (pod.node_name,) if pod.node_name else ()


def service_names_of(endpoint_slice: EndpointSlice) -> tuple[ObjectKey, ...]:
    """Return the service in a slice's label, if set."""
    metadata = endpoint_slice.metadata
    name = metadata.labels.get(SERVICE_NAME_LABEL) if metadata.labels else None
    return (ObjectKey(metadata.namespace, name),) if name else ()


def service_name_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """Return the service in a slice's label, whichever controller manages the slice; None without the label."""
    return next(iter(service_names_of(endpoint_slice)), None)
