"""The settings of ``endpointd run`` as values."""

import socket
import uuid

import msgspec

from aiokube.runtime.leader_election_machine import Rules
from endpointd.cli.serving_address import BindAddress
from endpointd.cli.serving_secrets import ServingFiles
from endpointd.cli.tracing import TracingSettings


class ElectionSettings(msgspec.Struct, frozen=True):
    """The flags ``--leader-elect-*``. Durations are in seconds."""

    lease_seconds: float
    renew_deadline_seconds: float
    retry_seconds: float
    name: str
    namespace: str


class RunSettings(msgspec.Struct, frozen=True):
    """The flags of ``endpointd run``, with the same defaults for other programs. Durations are in seconds."""

    kubeconfig: str
    controllers: tuple[str, ...]
    context: str = ""
    concurrent_endpoint_syncs: int = 5
    concurrent_service_endpoint_syncs: int = 5
    max_endpoints_per_slice: int = 100
    endpoint_batch_seconds: float = 0.0
    slice_batch_seconds: float = 0.0
    missing_node_grace_seconds: float = 60.0
    mirroring_concurrent_syncs: int = 5
    mirroring_max_endpoints_per_subset: int = 1000
    mirroring_batch_seconds: float = 0.0
    qps: float = 0.0
    burst: int = 0
    metrics_address: BindAddress | None = None
    healthz_address: BindAddress | None = None
    """The address of the separate health listener, which serves plain HTTP and no metrics."""
    election: ElectionSettings | None = None
    """None writes without leader election."""
    serving_files: ServingFiles = ServingFiles()
    tracing: TracingSettings | None = None
    shadow_grace_seconds: float | None = None
    """How long a difference must persist before shadow mode reports it; None runs the controllers."""


def election_rules(settings: ElectionSettings) -> Rules:
    """Return the election rules of this process, with a unique identity: host name and UUID, as upstream."""
    return Rules(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lease_seconds=settings.lease_seconds,
        renew_deadline_seconds=settings.renew_deadline_seconds,
        retry_seconds=settings.retry_seconds,
    )
