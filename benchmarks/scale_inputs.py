"""Measured unit costs: the only file to edit for new measurements.

``python -m benchmarks.scale --page docs/scale.md`` then regenerates the tables of the page.
"""

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A number, its unit, and its source."""

    value: float
    unit: str
    source: str


class Costs(msgspec.Struct, frozen=True):
    """All inputs of the model. CPU is that of one core of the measuring machine."""

    # Memory of endpointd.
    program_mib: Figure
    """Resident with empty caches."""
    pod_bytes: Figure
    """A cached pod and its endpoint in a slice."""
    service_bytes: Figure
    """A service with one slice and one Endpoints."""
    node_bytes: Figure

    # Start-up.
    import_cpu_seconds: Figure
    """Interpreter and imports."""
    pod_load_client_us: Figure
    """One pod at start-up: read, decoded, stored, matched to its services. Also used, as an upper bound, for events that cause no write."""
    pod_load_server_us: Figure
    pod_wire_bytes: Figure
    service_publish_client_ms: Figure
    """Planning and writing the first slice and the first Endpoints of a small service."""
    write_server_ms: Figure
    """One write of a slice or an Endpoints with many in flight; excludes sending events to watchers."""
    server_writes_per_second: Figure
    """Initial writes per second that the server accepted while sharing two cores with the program."""
    endpoint_load_us: Figure
    """One endpoint of an existing slice: decoded and stored. An address in the Endpoints costs far less."""

    # One change.
    change_client_ms: Figure
    """A readiness flip: the pod event, writes of one slice and one Endpoints, both responses and both watch events."""
    delivery_server_us: Figure
    """The server sends one event to one watcher."""

    # Sizes.
    endpoint_json_bytes: Figure
    """One endpoint in a full slice."""
    endpoint_protobuf_bytes: Figure
    """The same endpoint in protobuf, as kube-proxy requests it."""
    address_json_bytes: Figure
    """One address in an Endpoints."""


_SIDE_BY_SIDE = "benchmarks/results/latest.json"
_HUGE = "benchmarks/results/latest-huge.json"
_MICROBENCH = "python -m benchmarks.microbench"
_MEMORY = "python -m benchmarks.memory --no-hour, etcd and kube-apiserver 1.36.3"
_LISTED = "5,000 pods listed from kube-apiserver 1.36.3 over TLS"

MEASURED = Costs(
    program_mib=Figure(46, "MiB", f"{_MEMORY}: 48 MiB at 1,000 pods, minus those pods"),
    pod_bytes=Figure(2_194, "bytes", f"{_MEMORY}: 48 MiB at 1,000 pods, 65 at 5,000, 88 at 20,000"),
    service_bytes=Figure(13_631, "bytes", f"{_HUGE}: cold 10000x2 against 1x20000"),
    node_bytes=Figure(338, "bytes", "500 nodes of 11 KB decoded, by tracemalloc"),
    import_cpu_seconds=Figure(0.20, "s", "python -c 'import endpointd.cli.run_program', user and system"),
    pod_load_client_us=Figure(
        54, "us", f"{_HUGE}: 1.80 s of CPU at 20,000 pods, 0.33 at 1,000, less 190 slices at 2.3 ms"
    ),
    pod_load_server_us=Figure(70, "us", f"{_LISTED}: 0.35 s of CPU"),
    pod_wire_bytes=Figure(8_300, "bytes", f"{_LISTED}: 41.5 MB"),
    service_publish_client_ms=Figure(1.00, "ms", f"{_HUGE}: CPU of cold 10000x2 less 1x20000"),
    write_server_ms=Figure(1.29, "ms", f"{_HUGE}: the server's CPU of cold 10000x2 less 1x20000"),
    server_writes_per_second=Figure(860, "writes/s", f"{_HUGE}: seconds of cold 10000x2 less 1x20000"),
    endpoint_load_us=Figure(1.5, "us", "a slice of 100 endpoints decoded and taken in, in process: 149 us"),
    change_client_ms=Figure(3.22, "ms", f"{_SIDE_BY_SIDE}: flip 1000x5, both controllers"),
    delivery_server_us=Figure(
        22.5, "us", "docs/benchmarks-embedded.md: kube-apiserver, 200 events to 1,000 watchers, idle machine"
    ),
    endpoint_json_bytes=Figure(
        267, "bytes", "a slice of 100 endpoints read from kube-apiserver 1.36.3 as JSON"
    ),
    endpoint_protobuf_bytes=Figure(131, "bytes", "the same slice, as protobuf"),
    address_json_bytes=Figure(169, "bytes", f"an Endpoints of 1,000, encoded ({_MICROBENCH} measures it)"),
)
