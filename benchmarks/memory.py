"""Measure endpointd's memory and show that it does not grow: ``python -m benchmarks.memory``."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from aiokube.client.errors import ClientError
from aiokube.clock import SystemClock
from benchmarks.churn_life import HOUR, SHORT, Chapter, live
from benchmarks.resident import Resident, bytes_per_pod, measure_resident
from benchmarks.sizes import Size
from benchmarks.table import aligned
from benchmarks.usage import UsageError
from tinykube.testing.control_plane import AssetsMissingError, find_assets
from tinykube.testing.processes import ProcessError

_TROUBLE = (UsageError, ProcessError, ClientError, TimeoutError)


class Found(msgspec.Struct, frozen=True):
    """All measurements."""

    resident: list[Resident] = []
    hour: list[Chapter] = []


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pods", multiple=True, type=click.IntRange(min=1), default=(1000, 5000, 20000), help="Sizes.")
@click.option("--resident/--no-resident", default=True, help="Measure the program on a control plane.")
@click.option("--hour/--no-hour", default=True, help="Live through an hour of changes, compressed.")
@click.option(
    "--short", is_flag=True, help="Two minutes of a small cluster instead of the hour: does it all work?"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the figures there as JSON, too.",
)
def main(pods: tuple[int, ...], resident: bool, hour: bool, short: bool, output: Path | None) -> None:
    """Measure endpointd's resident memory by number of pods, and its growth during an hour of churn.

    The first part uses etcd and kube-apiserver from KUBEBUILDER_ASSETS, or else tinykube; the second needs neither and
    takes some minutes. Exits 1 if memory grew more than allowed in that hour.
    """
    found = Found([], [])
    if resident:
        for count in pods:
            found.resident.append(_resident(count))
        click.echo(render_resident(found.resident))
    grown = False
    if hour:
        logging.disable(logging.WARNING)  # the failures of that hour are intentional
        settings = SHORT if short else HOUR
        chapters = live(settings, lambda chapter: click.echo(f"minute {chapter.minutes:g}", err=True))
        found.hour.extend(chapters)
        click.echo(render_hour(chapters, settings.most_blocks_a_change))
        grown = growth(chapters) > settings.most_blocks_a_change
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    if grown:
        raise SystemExit(1)


def _resident(count: int) -> Resident:
    try:
        assets = find_assets() if os.environ.get("KUBEBUILDER_ASSETS") else None
    except AssetsMissingError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{count:,} pods on {'the embedded server' if assets is None else assets} ...", err=True)
    try:
        return measure_resident(Size(1, count), assets, SystemClock())
    except _TROUBLE as error:
        raise click.ClickException(str(error)) from None
    except ExceptionGroup as group:
        _, others = group.split(_TROUBLE)
        if others is not None:
            raise
        raise click.ClickException("; ".join(dict.fromkeys(map(str, _leaves(group))))) from None


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def growth(chapters: Sequence[Chapter]) -> float:
    """Return the growth per change from the first chapter to the last, in memory blocks."""
    first, last = chapters[0], chapters[-1]
    return (last.held.blocks - first.held.blocks) / (last.changes - first.changes)


def render_resident(found: Sequence[Resident]) -> str:
    """Return resident memory by size, and the bytes per pod."""
    lines = [("pods", "server", "resident MiB", "peak MiB", "CPU s so far")]
    lines += [
        (
            f"{one.size.pods:,}",
            one.server,
            f"{one.memory.resident_mib:.0f}",
            f"{one.memory.peak_mib:.0f}",
            f"{one.cpu_seconds:.2f}",
        )
        for one in found
    ]
    table = "\n".join(aligned(lines))
    if len({one.size.pods for one in found}) < 2:
        return table
    return f"{table}\n{bytes_per_pod(found):,.0f} bytes a cached pod, with its endpoint in a slice"


def render_hour(chapters: Sequence[Chapter], most_blocks_a_change: float) -> str:
    """Return the memory after each chapter, and every container whose length changed between chapters."""
    first = chapters[0]
    lines = [
        ("", *(f"minute {chapter.minutes:g}" for chapter in chapters)),
        ("changes", *(f"{chapter.changes:,}" for chapter in chapters)),
        ("writes", *(f"{chapter.writes:,}" for chapter in chapters)),
        ("lists", *(f"{chapter.lists:,}" for chapter in chapters)),
        ("blocks of memory", *(f"{chapter.held.blocks:,}" for chapter in chapters)),
    ]
    for name in sorted(set().union(*(chapter.held.lengths for chapter in chapters))):
        lengths = [chapter.held.lengths.get(name, 0) for chapter in chapters]
        if any(length != lengths[0] for length in lengths):
            lines.append((name, *(f"{length:,}" for length in lengths)))
    same = sum(
        all(chapter.held.lengths.get(name) == length for chapter in chapters)
        for name, length in first.held.lengths.items()
    )
    blocks = growth(chapters)
    verdict = "no growth" if blocks <= most_blocks_a_change else "GROWTH"
    return "\n".join(
        [
            *aligned(lines),
            f"{same} other containers are as long as they were",
            f"{blocks:.4f} blocks a change left behind, at most {most_blocks_a_change}: {verdict}",
        ]
    )


if __name__ == "__main__":
    main()
