"""``python -m tests.simulation.mutation_score``: the share of mutations that the simulation finds, and the seeds it needs."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import click

from tests.simulation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
_PACKAGES = ("aiokube", "tinykube", "endpointd")
_MAX_SECONDS_A_SEED = 15

_UNTIL_ONE_FAILS = """
import sys
from tests.simulation.seeds import run_seed
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    found = run_seed(seed).found
    if found:
        print(seed, found)
        break
"""


def copy_tree(folder: Path) -> None:
    """Copy the sources of the three packages, and the simulation."""
    for package in _PACKAGES:
        shutil.copytree(ROOT / package / "src", folder / package / "src")
    for tests in ("simulation", "differential"):
        shutil.copytree(ROOT / "tests" / tests, folder / "tests" / tests)


def find(mutation: Mutation, folder: Path, seeds: int) -> str:
    """Return the first seed that finds a mutation in a copy of the tree, with its violation; ``""`` for none."""
    changed = folder / mutation.file
    original = changed.read_text()
    if original.count(mutation.old) != 1:
        raise ValueError(f"{mutation.name}: the old text is not in {mutation.file} once")
    changed.write_text(original.replace(mutation.old, mutation.new))
    try:
        return first_failure(folder, seeds)
    finally:
        changed.write_text(original)
        shutil.rmtree(changed.parent / "__pycache__", ignore_errors=True)


def first_failure(folder: Path, seeds: int) -> str:
    """Return the first failing seed in a copy of the tree, with its violation; ``""`` for none."""
    paths = [str(folder / package / "src") for package in _PACKAGES]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((*paths, str(folder)))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _UNTIL_ONE_FAILS, "0", str(seeds)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            timeout=_MAX_SECONDS_A_SEED * max(seeds, 10),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "- no-progress: a simulation does not end"
    if done.returncode:
        return f"- no-crash: {done.stderr.strip().splitlines()[-1]}"
    return done.stdout.strip()


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="Seeds to try for each mutation.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="processors")
@click.option("--only", default="", help="Only mutations whose name contains this.")
def main(seeds: int, jobs: int, only: str) -> None:
    """Run the simulation against each mutation, and print a table."""
    wanted = [mutation for mutation in MUTATIONS if only in mutation.name]
    with tempfile.TemporaryDirectory(prefix="mutations-") as temporary:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            folder = Path(temporary) / str(number)
            copy_tree(folder)
            if number == 0 and (found := first_failure(folder, 5)):
                raise click.ClickException(f"without a mutation, seed {found}")
            folders.put(folder)

        def attempt(mutation: Mutation) -> tuple[Mutation, str]:
            folder = folders.get()
            try:
                return mutation, find(mutation, folder, seeds)
            finally:
                folders.put(folder)

        killed = 0
        click.echo("| mutation | file | found by seed | invariant |\n|---|---|---:|---|")
        with ThreadPoolExecutor(jobs) as pool:
            for mutation, found in pool.map(attempt, wanted):
                seed, _, what = found.partition(" ")
                killed += bool(found)
                invariant = what.partition(":")[0] if found else "**survives**"
                click.echo(
                    f"| {mutation.name} | `{mutation.file.rpartition('src/')[2]}` | {seed} | {invariant} |"
                )
    click.echo(f"\n{killed} of {len(wanted)} mutations found with at most {seeds} seeds each")


if __name__ == "__main__":
    main()
