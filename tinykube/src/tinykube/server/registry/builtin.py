'''The built-in resources of a server.

To add a kind, write a module with one :class:`~tinykube.server.registry.definition.Definition` and list it in
:func:`builtin_registry`::

    """Widgets: the size must not be negative."""

    class WidgetStrategy(Strategy):
        def prepare_for_create(self, request, obj):
            obj["status"] = {}   # clients cannot set the status on create

        def validate(self, request, obj):
            return validation.nonnegative("spec.size", get_int(get_object(obj, "spec"), "size"))

    WIDGETS = Definition(
        group="example.com", version="v1", plural="widgets", kind="Widget", singular="widget",
        namespaced=True, strategy=WidgetStrategy(), subresources=(status_subresource("Widget"),),
        columns=(NAME, column("Size", lambda obj: get_int(get_object(obj, "spec"), "size"), kind="integer"), AGE),
    )
'''

import msgspec

from tinykube.server.registry.configmaps import CONFIG_MAPS
from tinykube.server.registry.controllerrevisions import CONTROLLER_REVISIONS
from tinykube.server.registry.daemonsets import DAEMON_SETS
from tinykube.server.registry.definition import Definition, Registry
from tinykube.server.registry.deployments import DEPLOYMENTS
from tinykube.server.registry.endpoints import ENDPOINTS
from tinykube.server.registry.endpointslices import ENDPOINT_SLICES
from tinykube.server.registry.events import EVENTS, NEW_EVENTS
from tinykube.server.registry.leases import LEASES
from tinykube.server.registry.namespaces import NAMESPACES
from tinykube.server.registry.networking import IP_ADDRESSES, SERVICE_CIDRS
from tinykube.server.registry.nodes import NODES
from tinykube.server.registry.pods import PODS
from tinykube.server.registry.replicasets import REPLICA_SETS
from tinykube.server.registry.secrets import SECRETS
from tinykube.server.registry.service_allocation import ServiceAllocation
from tinykube.server.registry.serviceaccounts import SERVICE_ACCOUNTS
from tinykube.server.registry.services import services
from tinykube.server.registry.statefulsets import STATEFUL_SETS
from tinykube.server.registry.stored import STORED_KINDS


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The address and port ranges of services. The first CIDR's family is the default of services."""

    service_cidrs: tuple[str, ...] = ("10.96.0.0/16", "fd00:10:96::/112")
    """One or two CIDRs of different families."""
    node_port_range: tuple[int, int] = (30_000, 32_767)
    """First and last."""


def builtin_registry(settings: RegistrySettings | None = None) -> Registry:
    """Return all built-in resources, with new allocators: create one registry per server.

    Raises ValueError for an invalid CIDR.
    """
    settings = settings or RegistrySettings()
    allocation = ServiceAllocation(settings.service_cidrs, settings.node_port_range)
    definitions: tuple[Definition, ...] = (
        CONFIG_MAPS,
        ENDPOINTS,
        NAMESPACES,
        NODES,
        PODS,
        SECRETS,
        SERVICE_ACCOUNTS,
        services(allocation),
        EVENTS,
        CONTROLLER_REVISIONS,
        DAEMON_SETS,
        DEPLOYMENTS,
        REPLICA_SETS,
        STATEFUL_SETS,
        LEASES,
        ENDPOINT_SLICES,
        NEW_EVENTS,
        SERVICE_CIDRS,
        IP_ADDRESSES,
        *STORED_KINDS,
    )
    return Registry(definitions)
