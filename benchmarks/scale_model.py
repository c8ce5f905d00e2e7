"""Estimate the resources of a large cluster from measured unit costs: pure functions."""

import msgspec

from benchmarks.scale_inputs import Costs

MEBIBYTE = 2**20
SECONDS_A_DAY = 86_400.0
MAX_ENDPOINTS = 100
"""Endpoints per slice."""
MAX_ADDRESSES = 1_000
"""Addresses per Endpoints object, since Kubernetes 1.22."""

EVENTS_A_LIFE = 8
"""Watch events in a pod's life: created, bound, started, running, ready, terminating, not ready, deleted."""
CHANGES_A_LIFE = 4
"""Events that change a slice: address assigned, ready, terminating, deleted."""


class Cluster(msgspec.Struct, frozen=True):
    """Cluster size: every pod is in one service."""

    pods: int
    services: int
    nodes: int

    @property
    def slices(self) -> int:
        """Return the smallest possible number of slices if all services have the same size."""
        return self.services * -(-self.pods // (self.services * MAX_ENDPOINTS))


class Life(msgspec.Struct, frozen=True):
    """Rate of changes. Node leases are not watched and do not count."""

    pod_hours: float
    """Lifetime of a pod."""
    flips_a_pod_day: float = 1.0
    """How often a pod's readiness probe fails and recovers per day."""
    node_status_seconds: float = 300.0
    """Interval between status updates of a healthy node."""


# -------------------------------------------------------------------------------------------------------- at rest


def memory_mib(cluster: Cluster, costs: Costs) -> float:
    """Return endpointd's resident memory."""
    cached = (
        cluster.pods * costs.pod_bytes.value
        + cluster.services * costs.service_bytes.value
        + cluster.nodes * costs.node_bytes.value
    )
    return costs.program_mib.value + cached / MEBIBYTE


class Start(msgspec.Struct, frozen=True):
    """Costs from process start until everything is correct."""

    load_mb: float
    """Bytes read from the server, as uncompressed JSON."""
    client_cpu_seconds: float
    server_cpu_seconds: float
    writes: int
    writing_seconds: float
    """Duration of the writes at the measured rate."""


def cold_start(cluster: Cluster, costs: Costs) -> Start:
    """Return the costs of a start without published objects."""
    writes = cluster.slices + cluster.services
    return Start(
        load_mb=cluster.pods * costs.pod_wire_bytes.value / 1e6,
        client_cpu_seconds=_loading(cluster, costs)
        + cluster.services * costs.service_publish_client_ms.value / 1e3,
        server_cpu_seconds=cluster.pods * costs.pod_load_server_us.value / 1e6
        + writes * costs.write_server_ms.value / 1e3,
        writes=writes,
        writing_seconds=writes / costs.server_writes_per_second.value,
    )


def restart(cluster: Cluster, costs: Costs) -> Start:
    """Return the costs of a start where everything is published and correct: no writes."""
    published = cluster.pods * (costs.endpoint_json_bytes.value + costs.address_json_bytes.value)
    return Start(
        load_mb=(cluster.pods * costs.pod_wire_bytes.value + published) / 1e6,
        client_cpu_seconds=_loading(cluster, costs) + cluster.pods * costs.endpoint_load_us.value / 1e6,
        server_cpu_seconds=cluster.pods * costs.pod_load_server_us.value / 1e6,
        writes=0,
        writing_seconds=0.0,
    )


def _loading(cluster: Cluster, costs: Costs) -> float:
    objects = cluster.pods + cluster.nodes + cluster.services
    return costs.import_cpu_seconds.value + objects * costs.pod_load_client_us.value / 1e6


# ------------------------------------------------------------------------------------------------------ under load


class Steady(msgspec.Struct, frozen=True):
    """Load per second. ``cores`` are CPU seconds per second."""

    pods_born: float
    changes: float
    """Changes that affect slices. Without batching, each is one slice write and one Endpoints write."""
    other_events: float
    client_cores: float
    write_server_cores: float
    delivery_server_cores: float
    """The server's CPU for sending each slice event to the proxies of all nodes."""
    node_mb_an_hour: float
    """Slice data that each node's proxy reads, as protobuf."""


def steady(cluster: Cluster, life: Life, costs: Costs) -> Steady:
    """Return the load of a busy cluster without batching: one write per change."""
    born = cluster.pods / (life.pod_hours * 3600)
    flips = cluster.pods * life.flips_a_pod_day / SECONDS_A_DAY
    changes = born * CHANGES_A_LIFE + flips * 2
    other = born * (EVENTS_A_LIFE - CHANGES_A_LIFE) + cluster.nodes / life.node_status_seconds
    slice_bytes = min(cluster.pods / cluster.services, MAX_ENDPOINTS) * costs.endpoint_protobuf_bytes.value
    return Steady(
        pods_born=born,
        changes=changes,
        other_events=other,
        client_cores=changes * costs.change_client_ms.value / 1e3
        + other * costs.pod_load_client_us.value / 1e6,
        write_server_cores=changes * 2 * costs.write_server_ms.value / 1e3,
        delivery_server_cores=changes * cluster.nodes * costs.delivery_server_us.value / 1e6,
        node_mb_an_hour=changes * slice_bytes * 3600 / 1e6,
    )


class Ceiling(msgspec.Struct, frozen=True):
    """The load that saturates one process, and the cluster's load at that point."""

    changes_a_second: float
    pod_hours: float
    """Pod lifetime at that load."""
    server_cores: float
    """The server's CPU for the writes and for sending events to the proxies."""
    server_changes_a_second_a_core: float
    """Changes per second that one core of the server sustains."""


def ceiling(cluster: Cluster, costs: Costs) -> Ceiling:
    """Return the load that saturates one core of endpointd without batching."""
    changes = 1e3 / costs.change_client_ms.value
    a_change = 2 * costs.write_server_ms.value / 1e3 + cluster.nodes * costs.delivery_server_us.value / 1e6
    return Ceiling(
        changes_a_second=changes,
        pod_hours=cluster.pods * CHANGES_A_LIFE / changes / 3600,
        server_cores=changes * a_change,
        server_changes_a_second_a_core=1 / a_change,
    )


# -------------------------------------------------------------------------------------------------- rolling update


class Rollout(msgspec.Struct, frozen=True):
    """Bytes sent per node by a rolling update of one service: in slices, and in Endpoints if all nodes watched them."""

    slice_writes: float
    endpoints_writes: float
    slice_json_bytes: float
    """Per node."""
    slice_protobuf_bytes: float
    """Per node."""
    endpoints_bytes: float
    """Per node, with at most 1,000 addresses per object."""
    whole_endpoints_bytes: float
    """Per node, if an Endpoints object held all pods, as before Kubernetes 1.22."""


def one_write_a_pod(pods: int, costs: Costs) -> Rollout:
    """Return the rolling update as estimated by KEP-752: each pod causes one write of one full slice or of the Endpoints."""
    return _rollout(pods, pods, pods, costs)


def in_batches(pods: int, batch: int, costs: Costs) -> Rollout:
    """Return a rolling update in which ``batch`` pods at a time go through the changes of :data:`CHANGES_A_LIFE`.

    New pods fill as few slices as possible; old pods are chosen at random from all slices.
    """
    slices = -(-pods // MAX_ENDPOINTS)
    batches = pods / batch
    together = -(-batch // MAX_ENDPOINTS)
    writes = batches * (2 * together + 2 * slices_touched(batch, slices))
    return _rollout(pods, writes, batches * CHANGES_A_LIFE, costs)


def slices_touched(pods: int, slices: int) -> float:
    """Return the expected number of slices that contain ``pods`` randomly chosen pods."""
    return slices * (1 - (1 - 1 / slices) ** pods)


def _rollout(pods: int, slice_writes: float, endpoints_writes: float, costs: Costs) -> Rollout:
    in_a_slice = min(pods, MAX_ENDPOINTS)
    address = costs.address_json_bytes.value
    return Rollout(
        slice_writes=slice_writes,
        endpoints_writes=endpoints_writes,
        slice_json_bytes=slice_writes * in_a_slice * costs.endpoint_json_bytes.value,
        slice_protobuf_bytes=slice_writes * in_a_slice * costs.endpoint_protobuf_bytes.value,
        endpoints_bytes=endpoints_writes * min(pods, MAX_ADDRESSES) * address,
        whole_endpoints_bytes=endpoints_writes * pods * address,
    )
