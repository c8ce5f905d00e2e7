"""What a large cluster needs, computed from what things cost: pure functions."""

import msgspec

from benchmarks.scale_inputs import Costs

MEBIBYTE = 2**20
SECONDS_A_DAY = 86_400.0
MAX_ENDPOINTS = 100
"""Of a slice."""
MAX_ADDRESSES = 1_000
"""Of an Endpoints, since Kubernetes 1.22."""

EVENTS_A_LIFE = 8
"""What the watch tells of a pod from its creation to its end: created, bound, started, running, ready, terminating, not
ready any more, gone."""
CHANGES_A_LIFE = 4
"""Those of them that a slice shows: there with an address, ready, terminating, gone."""


class Cluster(msgspec.Struct, frozen=True):
    """How large: every pod is in one service."""

    pods: int
    services: int
    nodes: int

    @property
    def slices(self) -> int:
        """Return the fewest slices there can be, all services being of one size."""
        return self.services * -(-self.pods // (self.services * MAX_ENDPOINTS))


class Life(msgspec.Struct, frozen=True):
    """How busy. Node leases are not watched, and do not count."""

    pod_hours: float
    """How long a pod lives."""
    flips_a_pod_day: float = 1.0
    """How often a pod's probe fails and succeeds again."""
    node_status_seconds: float = 300.0
    """How often a node that is well reports."""


# ------------------------------------------------------------------------------------------------ standing still


def memory_mib(cluster: Cluster, costs: Costs) -> float:
    """Return what endpointd has resident."""
    cached = (
        cluster.pods * costs.pod_bytes.value
        + cluster.services * costs.service_bytes.value
        + cluster.nodes * costs.node_bytes.value
    )
    return costs.program_mib.value + cached / MEBIBYTE


class Start(msgspec.Struct, frozen=True):
    """What it takes from the start of the process until everything is right."""

    load_mb: float
    """Read from the server, as JSON before compression."""
    client_cpu_seconds: float
    server_cpu_seconds: float
    writes: int
    writing_seconds: float
    """What the writes take at the rate measured."""


def cold_start(cluster: Cluster, costs: Costs) -> Start:
    """Return a start where nothing has been published."""
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
    """Return a start where all is published already, and right: nothing is written."""
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


# ----------------------------------------------------------------------------------------------------- at work


class Steady(msgspec.Struct, frozen=True):
    """A second of it. ``cores`` are seconds of CPU a second."""

    pods_born: float
    changes: float
    """What slices have to show. Each is one write of a slice and one of an Endpoints, at most: batches make it less."""
    other_events: float
    client_cores: float
    write_server_cores: float
    delivery_server_cores: float
    """What the server takes to tell every node's proxy of every slice written."""
    node_mb_an_hour: float
    """What each node's proxy reads of slices, as protobuf."""


def steady(cluster: Cluster, life: Life, costs: Costs) -> Steady:
    """Return what a busy cluster costs while nothing is batched: every change is written by itself."""
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
    """Where one process has no more CPU, and what the rest of the cluster would need by then."""

    changes_a_second: float
    pod_hours: float
    """How short pods' lives would be."""
    server_cores: float
    """For the writes and for telling the proxies."""
    server_changes_a_second_a_core: float
    """How many changes one core of the server carries."""


def ceiling(cluster: Cluster, costs: Costs) -> Ceiling:
    """Return where one core of endpointd is used up, if every change is written by itself."""
    changes = 1e3 / costs.change_client_ms.value
    a_change = 2 * costs.write_server_ms.value / 1e3 + cluster.nodes * costs.delivery_server_us.value / 1e6
    return Ceiling(
        changes_a_second=changes,
        pod_hours=cluster.pods * CHANGES_A_LIFE / changes / 3600,
        server_cores=changes * a_change,
        server_changes_a_second_a_core=1 / a_change,
    )


# --------------------------------------------------------------------------------------------- a rolling update


class Rollout(msgspec.Struct, frozen=True):
    """What one rolling update of one service sends, in slices and, were they watched by all nodes, in Endpoints."""

    slice_writes: float
    endpoints_writes: float
    slice_json_bytes: float
    """To each node."""
    slice_protobuf_bytes: float
    """To each node."""
    endpoints_bytes: float
    """To each node, with no more than 1,000 addresses in it."""
    whole_endpoints_bytes: float
    """To each node, if an Endpoints held all pods, as before Kubernetes 1.22."""


def one_write_a_pod(pods: int, costs: Costs) -> Rollout:
    """Return the rolling update as KEP-752 estimates it: each pod makes one write of one full slice, or of the Endpoints."""
    return _rollout(pods, pods, pods, costs)


def in_batches(pods: int, batch: int, costs: Costs) -> Rollout:
    """Return the rolling update in which so many pods at a time go through the four changes of :data:`CHANGES_A_LIFE`.

    The new ones stand together, in as few slices as hold them; the old ones are picked by chance, wherever they stand.
    """
    slices = -(-pods // MAX_ENDPOINTS)
    batches = pods / batch
    together = -(-batch // MAX_ENDPOINTS)
    writes = batches * (2 * together + 2 * slices_touched(batch, slices))
    return _rollout(pods, writes, batches * CHANGES_A_LIFE, costs)


def slices_touched(pods: int, slices: int) -> float:
    """Return in how many of the slices so many pods stand that were picked by chance, on average."""
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
