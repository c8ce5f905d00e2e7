"""Merge reports of several commands into one table and one plot: ``python -m benchmarks.report``."""

import sys
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from benchmarks.measurements import Report, rows
from benchmarks.merge import MergeError, merge
from benchmarks.plot import PlotError, draw
from benchmarks.side_by_side import headline
from benchmarks.table import render, render_markdown


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "files",
    metavar="FILE.json...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option("--markdown", is_flag=True, help="Print a Markdown table, rows with a goal first.")
@click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Also draw latency and CPU of one change against the size of its service.",
)
def main(files: tuple[Path, ...], markdown: bool, plot: Path | None) -> None:
    """Merge and show reports of side_by_side from one machine with the same versions."""
    try:
        report = merge([read_report(path) for path in files])
        found = rows(report.measurements)
        caption = headline(report.environment, report.options["runs"])
        if plot is not None:
            plot.write_text(draw(found, caption))
    except (MergeError, PlotError) as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}")
    click.echo(f"{caption}\n")
    click.echo(render_markdown(found) if markdown else render(report.measurements))
    if plot is not None:
        click.echo(f"\ndrawn in {plot}", err=True)


def read_report(path: Path) -> Report:
    """Read a report. Raises OSError if the file cannot be read, MergeError if it is not a report."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MergeError(f"{path} is no report of side_by_side: {error}") from None


def _refuse(why: str) -> NoReturn:
    click.echo(f"error: {why}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
