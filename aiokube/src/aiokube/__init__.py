"""A Kubernetes client and controller runtime for asyncio.

Everything that a controller needs is imported from here; every name that this module does not list is
private. Names are loaded on first use, so ``import aiokube`` itself is cheap.
"""

__version__ = "0.1.0.dev0"

__all__ = [
    "__version__",
    # Controllers as functions, and programs in one call.
    "controller",
    "run",
    "Context",
    "RequeueAfter",
    "ReconcileError",
    "Watch",
    "owner_keys",
    "owner_reference",
    "generation_changed",
    "labels_changed",
    "annotations_changed",
    "any_of",
    "run_controllers",
    "ControllerDefinition",
    # A connection to a cluster.
    "Client",
    "load_config",
    "ClusterConfig",
    # Objects: common types, and the binding of your own types to kinds.
    "Resource",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "ObjectReference",
    "LabelSelector",
    "key_of",
    # Common kinds; PodSpec, Container and their other types are in aiokube.api.kinds.
    "Pod",
    "PODS",
    "Service",
    "SERVICES",
    "Deployment",
    "DEPLOYMENTS",
    "StatefulSet",
    "STATEFUL_SETS",
    "DaemonSet",
    "DAEMON_SETS",
    "ReplicaSet",
    "REPLICA_SETS",
    "Job",
    "JOBS",
    "CronJob",
    "CRON_JOBS",
    "Node",
    "NODES",
    "Namespace",
    "NAMESPACES",
    "ServiceAccount",
    "SERVICE_ACCOUNTS",
    "PersistentVolumeClaim",
    "PERSISTENT_VOLUME_CLAIMS",
    "ConfigMap",
    "CONFIG_MAPS",
    "Secret",
    "SECRETS",
    "Endpoints",
    "ENDPOINTS",
    "EndpointSlice",
    "ENDPOINT_SLICES",
    "Lease",
    "LEASES",
    "Event",
    "EVENTS",
    # Caches: up-to-date copies of the objects of one resource.
    "Informer",
    "Store",
    "Lister",
    "wait_all_synced",
    # The building blocks of run(), for programs with custom wiring.
    "WorkQueue",
    "enqueue",
    "enqueue_many",
    "Controller",
    "Manager",
    "stop_on_signals",
    # Kubernetes Events, as shown by kubectl describe.
    "EventRecorder",
    "EventWriter",
    "ClientEventSink",
    "reference",
    # Leader election: several replicas, of which one writes.
    "LeaderElector",
    "Fence",
    "FencedWriter",
    # Errors: refused requests, failed connections, invalid configuration.
    "ClientError",
    "ApiError",
    "NotFoundError",
    "AlreadyExistsError",
    "ConflictError",
    "ApplyConflictError",
    "InvalidError",
    "ForbiddenError",
    "UnauthorizedError",
    "TooManyRequestsError",
    "ExpiredError",
    "TransportError",
    "ConfigError",
    "PartialTypeError",
    "is_namespace_terminating",
    # Injected time.
    "Clock",
    "SystemClock",
    # Media types of Client.patch.
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
]

_MODULES = {
    "controller": "runtime.program",
    "run": "runtime.program",
    "run_controllers": "runtime.program",
    "Context": "runtime.program",
    "Watch": "runtime.program",
    "ControllerDefinition": "runtime.program",
    "owner_reference": "runtime.program",
    "enqueue_many": "runtime.handlers",
    "owner_keys": "runtime.handlers",
    "generation_changed": "runtime.handlers",
    "labels_changed": "runtime.handlers",
    "annotations_changed": "runtime.handlers",
    "any_of": "runtime.handlers",
    "Client": "client.rest",
    "load_config": "client.load_config",
    "ClusterConfig": "client.config",
    "Resource": "api.resource",
    "ObjectKey": "api.meta",
    "ObjectMeta": "api.meta",
    "OwnerReference": "api.meta",
    "ObjectReference": "api.meta",
    "LabelSelector": "api.selectors",
    "key_of": "api.meta",
    "Pod": "api.kinds",
    "PODS": "api.kinds",
    "Service": "api.kinds",
    "SERVICES": "api.kinds",
    "Deployment": "api.kinds",
    "DEPLOYMENTS": "api.kinds",
    "StatefulSet": "api.kinds",
    "STATEFUL_SETS": "api.kinds",
    "DaemonSet": "api.kinds",
    "DAEMON_SETS": "api.kinds",
    "ReplicaSet": "api.kinds",
    "REPLICA_SETS": "api.kinds",
    "Job": "api.kinds",
    "JOBS": "api.kinds",
    "CronJob": "api.kinds",
    "CRON_JOBS": "api.kinds",
    "Node": "api.kinds",
    "NODES": "api.kinds",
    "Namespace": "api.kinds",
    "NAMESPACES": "api.kinds",
    "ServiceAccount": "api.kinds",
    "SERVICE_ACCOUNTS": "api.kinds",
    "PersistentVolumeClaim": "api.kinds",
    "PERSISTENT_VOLUME_CLAIMS": "api.kinds",
    "ConfigMap": "api.config",
    "CONFIG_MAPS": "api.config",
    "Secret": "api.config",
    "SECRETS": "api.config",
    "Endpoints": "api.endpoints",
    "ENDPOINTS": "api.endpoints",
    "EndpointSlice": "api.discovery",
    "ENDPOINT_SLICES": "api.discovery",
    "Lease": "api.coordination",
    "LEASES": "api.coordination",
    "Event": "api.events",
    "EVENTS": "api.events",
    "Informer": "runtime.informer",
    "Store": "runtime.store",
    "Lister": "runtime.lister",
    "wait_all_synced": "runtime.informer",
    "WorkQueue": "work_queue",
    "enqueue": "runtime.handlers",
    "Controller": "runtime.controller",
    "RequeueAfter": "runtime.controller",
    "ReconcileError": "runtime.errors",
    "Manager": "runtime.manager",
    "stop_on_signals": "runtime.shutdown",
    "EventRecorder": "runtime.events",
    "EventWriter": "runtime.events",
    "ClientEventSink": "runtime.events",
    "reference": "runtime.events",
    "LeaderElector": "runtime.leader_election",
    "Fence": "runtime.leader_election_fence",
    "FencedWriter": "runtime.leader_election_fence",
    "ClientError": "client.errors",
    "ApiError": "client.errors",
    "NotFoundError": "client.errors",
    "AlreadyExistsError": "client.errors",
    "ConflictError": "client.errors",
    "ApplyConflictError": "client.errors",
    "PartialTypeError": "api.resource",
    "InvalidError": "client.errors",
    "ForbiddenError": "client.errors",
    "UnauthorizedError": "client.errors",
    "TooManyRequestsError": "client.errors",
    "ExpiredError": "client.errors",
    "TransportError": "client.errors",
    "ConfigError": "client.errors",
    "is_namespace_terminating": "client.errors",
    "Clock": "clock",
    "SystemClock": "clock",
    "JSON_PATCH": "client.rest",
    "MERGE_PATCH": "client.rest",
    "STRATEGIC_MERGE_PATCH": "client.rest",
}

TYPE_CHECKING = False  # importing typing's would cost start-up time
if TYPE_CHECKING:
    from aiokube.api.config import CONFIG_MAPS, SECRETS, ConfigMap, Secret
    from aiokube.api.coordination import LEASES, Lease
    from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
    from aiokube.api.endpoints import ENDPOINTS, Endpoints
    from aiokube.api.events import EVENTS, Event
    from aiokube.api.kinds import (
        CRON_JOBS,
        DAEMON_SETS,
        DEPLOYMENTS,
        JOBS,
        NAMESPACES,
        NODES,
        PERSISTENT_VOLUME_CLAIMS,
        PODS,
        REPLICA_SETS,
        SERVICE_ACCOUNTS,
        SERVICES,
        STATEFUL_SETS,
        CronJob,
        DaemonSet,
        Deployment,
        Job,
        Namespace,
        Node,
        PersistentVolumeClaim,
        Pod,
        ReplicaSet,
        Service,
        ServiceAccount,
        StatefulSet,
    )
    from aiokube.api.meta import ObjectKey, ObjectMeta, ObjectReference, OwnerReference, key_of
    from aiokube.api.resource import PartialTypeError, Resource
    from aiokube.api.selectors import LabelSelector
    from aiokube.client.config import ClusterConfig
    from aiokube.client.errors import (
        AlreadyExistsError,
        ApiError,
        ApplyConflictError,
        ClientError,
        ConfigError,
        ConflictError,
        ExpiredError,
        ForbiddenError,
        InvalidError,
        NotFoundError,
        TooManyRequestsError,
        TransportError,
        UnauthorizedError,
        is_namespace_terminating,
    )
    from aiokube.client.load_config import load_config
    from aiokube.client.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
    from aiokube.clock import Clock, SystemClock
    from aiokube.runtime.controller import Controller, RequeueAfter
    from aiokube.runtime.errors import ReconcileError
    from aiokube.runtime.events import ClientEventSink, EventRecorder, EventWriter, reference
    from aiokube.runtime.handlers import (
        annotations_changed,
        any_of,
        enqueue,
        enqueue_many,
        generation_changed,
        labels_changed,
        owner_keys,
    )
    from aiokube.runtime.informer import Informer, wait_all_synced
    from aiokube.runtime.leader_election import LeaderElector
    from aiokube.runtime.leader_election_fence import Fence, FencedWriter
    from aiokube.runtime.lister import Lister
    from aiokube.runtime.manager import Manager
    from aiokube.runtime.program import (
        Context,
        ControllerDefinition,
        Watch,
        controller,
        owner_reference,
        run,
        run_controllers,
    )
    from aiokube.runtime.shutdown import stop_on_signals
    from aiokube.runtime.store import Store
    from aiokube.work_queue import WorkQueue


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'aiokube' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"aiokube.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return __all__
