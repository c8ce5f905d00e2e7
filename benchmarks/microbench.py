"""Measure the steps of a change in isolation, and how they grow with size: ``python -m benchmarks.microbench``."""

from pathlib import Path

import click
import msgspec

from benchmarks.micro_cases import GROWING, ONE_SIZE
from benchmarks.stopwatch import microseconds
from benchmarks.table import aligned

SIZES = (100, 1_000, 5_000)


class Cost(msgspec.Struct, frozen=True):
    """One step: microseconds by size (0: independent of size)."""

    case: str
    microseconds: dict[int, float]

    @property
    def growth(self) -> float | None:
        """Cost at the largest size divided by cost at the smallest; None for a single size."""
        if len(self.microseconds) < 2:
            return None
        return self.microseconds[max(self.microseconds)] / self.microseconds[min(self.microseconds)]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", default="", metavar="TEXT", help="Only cases whose description contains this; all without it."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the figures there as JSON, too.",
)
def main(only: str, output: Path | None) -> None:
    """Measure the steps that process a pod's change, in microseconds, best of several repeats."""
    costs = measure(only)
    if not costs:
        raise click.UsageError(f"no case is described by {only!r}")
    click.echo(render(costs))
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")


def measure(only: str = "", sizes: tuple[int, ...] = SIZES) -> list[Cost]:
    """Return the current cost of each step on this machine."""
    costs = [Cost(name, {0: microseconds(prepare())}) for name, prepare in ONE_SIZE if only in name]
    costs += [
        Cost(name, {size: microseconds(prepare_size(size)) for size in sizes})
        for name, prepare_size in GROWING
        if only in name
    ]
    return costs


def render(costs: list[Cost]) -> str:
    """Return the table, in microseconds."""
    sizes = sorted({size for cost in costs for size in cost.microseconds if size}) or [0]
    lines = [("us", *(f"N={size:,}" if size else "" for size in sizes), "growth")]
    for cost in costs:
        cells = [f"{cost.microseconds[size]:.1f}" if size in cost.microseconds else "" for size in sizes]
        if 0 in cost.microseconds:
            cells[0] = f"{cost.microseconds[0]:.1f}"
        lines.append((cost.case, *cells, f"{cost.growth:.2f}x" if cost.growth is not None else ""))
    return "\n".join(aligned(lines))


if __name__ == "__main__":
    main()
