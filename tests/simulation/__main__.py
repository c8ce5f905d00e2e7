"""``python -m tests.simulation``: run seeds, replay one, shrink one."""

import os
import sys
from pathlib import Path

import click

from aiokube.clock import SystemClock
from tests.simulation.cluster import simulate
from tests.simulation.script import make_script
from tests.simulation.seeds import run_seeds
from tests.simulation.shrink import shrink

REPLAY = "python -m tests.simulation replay {seed}"


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        return range(int(first), int(last) + 1) if last else range(int(first))
    except ValueError:
        raise click.BadParameter(f"give a number of seeds, or a range such as 0-999, not {text!r}") from None


def _done(state: Path | None) -> dict[int, str]:
    if state is None or not state.exists():
        return {}
    lines = (line.partition(" ") for line in state.read_text().splitlines())
    return {int(seed): found for seed, _, found in lines if seed.isdecimal()}


@click.group()
def main() -> None:
    """Simulate whole clusters, each from one seed."""


@main.command()
@click.argument("seeds", default="1000")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="processors", help="Processes to use.")
@click.option(
    "--state", type=click.Path(path_type=Path), help="Note finished seeds here, and skip those noted."
)
@click.option("--keep-going", is_flag=True, help="Do not stop after ten failing seeds.")
def run(seeds: str, jobs: int, state: Path | None, keep_going: bool) -> None:
    """Run SEEDS (a number, or a range such as 1000-1999) and report those that fail."""
    clock = SystemClock()
    done = _done(state)
    wanted = [seed for seed in _range(seeds) if seed not in done]
    failed = {seed: found for seed, found in done.items() if found}
    if done:
        click.echo(f"{len(done)} seeds are done already, {len(failed)} of them failed")
    began = told = clock.monotonic()
    count = 0
    virtual = cpu = 0.0
    with state.open("a") if state is not None else open(os.devnull, "w") as log:  # noqa: PTH123
        for result in run_seeds(wanted, jobs):
            seed, found = result.seed, result.found
            count += 1
            virtual += result.virtual_seconds
            cpu += result.cpu_seconds
            log.write(f"{seed} {found}".rstrip() + "\n")
            log.flush()
            if found:
                failed[seed] = found
                click.echo(f"seed {seed}: {found}\n  {REPLAY.format(seed=seed)}")
                if len(failed) >= 10 and not keep_going:
                    break
            now = clock.monotonic()
            if now - told > 10.0:
                told = now
                left = (now - began) / count * (len(wanted) - count)
                click.echo(f"{count} of {len(wanted)} seeds, {len(failed)} failed, {left:.0f} s left")
    seconds = clock.monotonic() - began
    click.echo(
        f"{count} seeds in {seconds:.0f} s ({cpu / max(count, 1):.2f} s of CPU each), {virtual / 3600:.1f} virtual hours;"
        f" {len(failed)} failed"
    )
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("seed", type=int)
def replay(seed: int) -> None:
    """Run one seed again, with everything that happens."""
    outcome = simulate(make_script(seed))
    click.echo("\n".join(outcome.story))
    click.echo(
        f"{outcome.callbacks} callbacks, {outcome.virtual_seconds:.1f} virtual seconds, trace {outcome.digest[:16]}"
    )
    for violation in outcome.violations:
        click.echo(str(violation))
    sys.exit(1 if outcome.violations else 0)


@main.command(name="shrink")
@click.argument("seed", type=int)
@click.option("--runs", default=300, show_default=True, help="Simulations to spend.")
def shrink_command(seed: int, runs: int) -> None:
    """Find a smaller simulation with the same failure, and print its story."""
    script = make_script(seed)
    outcome = simulate(script)
    if not outcome.violations:
        click.echo(f"seed {seed} does not fail")
        return
    click.echo(shrink(script, outcome.violations[0].invariant, max_runs=runs).text())
    sys.exit(1)


if __name__ == "__main__":
    main()
