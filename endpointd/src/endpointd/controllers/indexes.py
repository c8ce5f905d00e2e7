"""The indexes of the stores that controllers and shadow mode read by."""

from aiokube.api.core import Pod
from aiokube.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.meta import ObjectKey

PODS_BY_NODE = "node"
"""Index of pods by the name of their node, whether or not that node exists (:func:`node_names_of`)."""
SLICES_BY_SERVICE = "service"
"""Index of EndpointSlices by the service that their label names, whoever manages them (:func:`service_names_of`)."""


def node_names_of(pod: Pod) -> tuple[str, ...]:
    """Return the name of a pod's node, if it has one."""
    return (pod.node_name,) if pod.node_name else ()


def service_names_of(endpoint_slice: EndpointSlice) -> tuple[ObjectKey, ...]:
    """Return the service that a slice's label names, if it names one."""
    metadata = endpoint_slice.metadata
    name = metadata.labels.get(SERVICE_NAME_LABEL) if metadata.labels else None
    return (ObjectKey(metadata.namespace, name),) if name else ()


def service_name_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """Return the service that a slice's label names, whoever manages the slice; None if it names none."""
    return next(iter(service_names_of(endpoint_slice)), None)
