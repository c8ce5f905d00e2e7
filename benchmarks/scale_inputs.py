"""What things cost, as measured: the one place to edit when there are newer figures.

Then ``python -m benchmarks.scale --page docs/scale.md`` writes the page's tables anew.
"""

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A number, its unit, and where it was measured."""

    value: float
    unit: str
    source: str


class Costs(msgspec.Struct, frozen=True):
    """All that the model is made from. CPU is that of one core of the machine it was measured on."""

    # What endpointd holds.
    program_mib: Figure
    """Resident with nothing cached."""
    pod_bytes: Figure
    """A cached pod, with its endpoint in a slice."""
    service_bytes: Figure
    """A service, with one slice and one Endpoints of its own."""
    node_bytes: Figure

    # What starting costs.
    import_cpu_seconds: Figure
    """Interpreter and imports."""
    pod_load_client_us: Figure
    """One pod at the start: read, decoded, stored, given to its services. Taken for an event that leads to no write, too,
    which costs less."""
    pod_load_server_us: Figure
    pod_wire_bytes: Figure
    service_publish_client_ms: Figure
    """Planning and writing the first slice and the first Endpoints of a small service."""
    write_server_ms: Figure
    """One write of a slice or an Endpoints, many under way at once; what watchers are sent is not in it."""
    server_writes_per_second: Figure
    """First writes that the server took beside the program on the same two cores."""
    endpoint_load_us: Figure
    """One endpoint of a slice that is there already: decoded and taken in. The address in the Endpoints is much less."""

    # What a change costs.
    change_client_ms: Figure
    """A pod's readiness flips: its event, one slice and one Endpoints written, both answers and both watches."""
    delivery_server_us: Figure
    """The server sends one event to one watcher."""

    # What is sent.
    endpoint_json_bytes: Figure
    """One endpoint in a full slice."""
    endpoint_protobuf_bytes: Figure
    """The same as kube-proxy asks for it."""
    address_json_bytes: Figure
    """One address in an Endpoints."""


_SIDE_BY_SIDE = "benchmarks/results/latest.json"
_HUGE = "benchmarks/results/latest-huge.json"
_MICROBENCH = "python -m benchmarks.microbench"
_MEMORY = "python -m benchmarks.memory --no-hour, etcd and kube-apiserver 1.36.3"
_LISTED = "5,000 pods listed from kube-apiserver 1.36.3 over TLS"

MEASURED = Costs(
    program_mib=Figure(46, "MiB", f"{_MEMORY}: 48 MiB at 1,000 pods, less what they take"),
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
