"""Estimate the resources of large clusters: ``python -m benchmarks.scale``; the result is docs/scale.md."""

import re
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.scale_inputs import MEASURED, Costs, Figure
from benchmarks.scale_model import (
    Cluster,
    Life,
    Rollout,
    ceiling,
    cold_start,
    in_batches,
    memory_mib,
    one_write_a_pod,
    restart,
    steady,
)

CLUSTERS = (Cluster(3_000, 200, 100), Cluster(30_000, 2_000, 1_000), Cluster(150_000, 10_000, 5_000))
LARGEST = CLUSTERS[-1]
"""The largest cluster size that Kubernetes is tested for."""
LIVES = (Life(24), Life(6), Life(1))
ROLLED_PODS = 5_000
BATCHES = (1, 10, 100)

_TABLE = re.compile(r"(<!-- table: (?P<name>[a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_GIGABYTE, _TERABYTE = 1e9, 1e12


class PageError(ValueError):
    """A page refers to an unknown table."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Also replace the tables in this page.",
)
def main(page: Path | None) -> None:
    """Print the estimated resources of clusters of several sizes, computed from benchmarks/scale_inputs.py."""
    made = tables(MEASURED)
    for name, text in made.items():
        click.echo(f"{name}\n\n{text}\n")
    if page is not None:
        try:
            page.write_text(with_tables(page.read_text(), made))
        except PageError as error:
            raise click.UsageError(f"{page}: {error}") from None


def with_tables(text: str, made: Mapping[str, str]) -> str:
    """Return the page with its tables replaced. Raises PageError for an unknown table name."""

    def put(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in made:
            raise PageError(f"there is no table {name!r}; there are {', '.join(made)}")
        return f"{match[1]}\n{made[name]}\n\n{match[3]}"

    return _TABLE.sub(put, text)


def tables(costs: Costs) -> dict[str, str]:
    """Return all tables in Markdown, by name."""
    return {
        "standing": _standing(costs),
        "steady": _steady(costs),
        "rollout": _rollout(costs),
        "ceiling": _ceiling(costs),
        "inputs": _inputs(costs),
    }


def _standing(costs: Costs) -> str:
    colds = [cold_start(cluster, costs) for cluster in CLUSTERS]
    restarts = [restart(cluster, costs) for cluster in CLUSTERS]
    return _markdown(
        ["", *(f"{one.pods:,} pods, {one.services:,} services, {one.nodes:,} nodes" for one in CLUSTERS)],
        [
            ["memory, resident", *(f"{memory_mib(one, costs):,.0f} MiB" for one in CLUSTERS)],
            ["restart, all published: read", *(f"{one.load_mb:,.0f} MB" for one in restarts)],
            ["… CPU of endpointd", *(_seconds(one.client_cpu_seconds) for one in restarts)],
            ["… CPU of the server", *(_seconds(one.server_cpu_seconds) for one in restarts)],
            ["first start, nothing published: writes", *(f"{one.writes:,}" for one in colds)],
            ["… CPU of endpointd", *(_seconds(one.client_cpu_seconds) for one in colds)],
            ["… CPU of the server", *(_seconds(one.server_cpu_seconds) for one in colds)],
            [
                f"… writing, at {costs.server_writes_per_second.value:,.0f} a second",
                *(_seconds(one.writing_seconds) for one in colds),
            ],
        ],
    )


def _steady(costs: Costs) -> str:
    found = [steady(LARGEST, life, costs) for life in LIVES]
    return _markdown(
        ["pods live", *(f"{life.pod_hours:g} h" for life in LIVES)],
        [
            ["pods born a second", *(f"{one.pods_born:.1f}" for one in found)],
            ["changes of endpoints a second", *(f"{one.changes:.0f}" for one in found)],
            ["writes a second, slices and Endpoints", *(f"{2 * one.changes:.0f}" for one in found)],
            ["CPU of endpointd, of one core", *(f"{one.client_cores:.1%}" for one in found)],
            ["CPU of the server for the writes, cores", *(f"{one.write_server_cores:.2f}" for one in found)],
            [
                "CPU of the server to tell every kube-proxy, cores",
                *(f"{one.delivery_server_cores:.1f}" for one in found),
            ],
            ["read by each kube-proxy, an hour", *(f"{one.node_mb_an_hour:,.0f} MB" for one in found)],
        ],
    )


def _rollout(costs: Costs) -> str:
    rows: list[tuple[str, Rollout]] = [("one write per pod", one_write_a_pod(ROLLED_PODS, costs))]
    rows += [
        ("4 changes per pod, one write each" if batch == 1 else f"4 changes, {batch} pods at a time", one)
        for batch in BATCHES
        for one in (in_batches(ROLLED_PODS, batch, costs),)
    ]
    nodes = LARGEST.nodes
    return _markdown(
        [
            "",
            "slice writes",
            "slices, to each node",
            f"… to {nodes:,}",
            "as protobuf",
            "Endpoints of 1,000",
            f"… to {nodes:,}",
            "Endpoints, whole",
            f"… to {nodes:,}",
        ],
        [
            [
                name,
                f"{one.slice_writes:,.0f}",
                _bytes(one.slice_json_bytes),
                _bytes(one.slice_json_bytes * nodes),
                _bytes(one.slice_protobuf_bytes * nodes),
                _bytes(one.endpoints_bytes),
                _bytes(one.endpoints_bytes * nodes),
                _bytes(one.whole_endpoints_bytes),
                _bytes(one.whole_endpoints_bytes * nodes),
            ]
            for name, one in rows
        ],
    )


def _ceiling(costs: Costs) -> str:
    found = [ceiling(one, costs) for one in CLUSTERS]
    return _markdown(
        ["", *(f"{one.pods:,} pods, {one.nodes:,} nodes" for one in CLUSTERS)],
        [
            [
                "changes a second with one core of endpointd",
                *(f"{one.changes_a_second:,.0f}" for one in found),
            ],
            ["pods would live, at that rate", *(_hours(one.pod_hours) for one in found)],
            ["cores the server would need for them", *(f"{one.server_cores:,.1f}" for one in found)],
            [
                "changes a second that one core of the server carries",
                *(f"{one.server_changes_a_second_a_core:,.0f}" for one in found),
            ],
        ],
    )


def _inputs(costs: Costs) -> str:
    rows: list[list[str]] = []
    for name in costs.__struct_fields__:
        figure: Figure = getattr(costs, name)
        rows.append([f"`{name}`", f"{figure.value:,g} {figure.unit}", figure.source])
    return _markdown(["cost", "measured", "where"], rows)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    aligned_right = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, aligned_right, *rows))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _hours(hours: float) -> str:
    return f"{hours * 60:.1f} min" if hours < 1 else f"{hours:.1f} h"


def _bytes(count: float) -> str:
    for size, unit in ((_TERABYTE, "TB"), (_GIGABYTE, "GB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
