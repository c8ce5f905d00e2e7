"""What ``endpointd run`` has been told, as values."""

import socket
import uuid

import msgspec

from endpointd.cli.serving_address import BindAddress
from endpointd.cli.serving_secrets import ServingFiles
from endpointd.cli.tracing import TracingSettings
from endpointd.runtime.leader_election_machine import Rules


class ElectionSettings(msgspec.Struct, frozen=True):
    """The flags ``--leader-elect-*``. Durations are in seconds."""

    lease_seconds: float
    renew_deadline_seconds: float
    retry_seconds: float
    name: str
    namespace: str


class RunSettings(msgspec.Struct, frozen=True):
    """The flags of ``endpointd run``. Durations are in seconds."""

    kubeconfig: str
    context: str
    controllers: tuple[str, ...]
    concurrent_endpoint_syncs: int
    concurrent_service_endpoint_syncs: int
    max_endpoints_per_slice: int
    endpoint_batch_seconds: float
    slice_batch_seconds: float
    mirroring_concurrent_syncs: int
    mirroring_max_endpoints_per_subset: int
    mirroring_batch_seconds: float
    qps: float
    burst: int
    metrics_address: BindAddress | None = None
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
