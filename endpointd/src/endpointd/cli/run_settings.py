"""What ``endpointd run`` has been told, as values."""

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
    """The flags of ``endpointd run``, with the flags' own defaults for programs that have none. Durations are in seconds."""

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
    """Where health is served by itself, without metrics and over plain HTTP."""
    election: ElectionSettings | None = None
    """None writes without asking anybody."""
    serving_files: ServingFiles = ServingFiles()
    tracing: TracingSettings | None = None
    shadow_grace_seconds: float | None = None
    """How long a difference has to stand to be reported, where nothing is written; None writes."""


def election_rules(settings: ElectionSettings) -> Rules:
    """Return the rules for this process, under a name that no other one has: as upstream, host and chance."""
    return Rules(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lease_seconds=settings.lease_seconds,
        renew_deadline_seconds=settings.renew_deadline_seconds,
        retry_seconds=settings.retry_seconds,
    )
