"""Compare endpointd and kube-controller-manager on one real control plane: ``python -m benchmarks.side_by_side``."""

import os
import platform
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from aiokube.client.errors import ClientError
from aiokube.clock import SystemClock
from benchmarks.control_watch import ObserverError
from benchmarks.load import LoadError
from benchmarks.measurements import Environment, Measurement, Report, growth
from benchmarks.plan import SCENARIOS, Plan, ScenarioName, make_plan
from benchmarks.runner import RunSettings, run_plan
from benchmarks.scenarios import ScenarioError
from benchmarks.sides import OUR_COMMAND, OURS, SIDES, SideName, compile_ours, make_sides
from benchmarks.sizes import Size
from benchmarks.table import render
from benchmarks.usage import UsageError
from endpointd import __version__
from tinykube.testing.control_plane import AssetsMissingError, find_assets
from tinykube.testing.processes import ProcessError

_RESULTS = Path(__file__).parent / "results"
_BUSY_LOAD = 0.5
_OUR_NAME = "python -m endpointd run"  # reports do not contain the path of the interpreter
_TROUBLE = (ScenarioError, ObserverError, LoadError, UsageError, ProcessError, ClientError)


class SizeType(click.ParamType[Size]):
    """A size on the command line."""

    name = "SERVICESxPODS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Size:
        """Parse the text."""
        if isinstance(value, Size):
            return value
        try:
            return Size.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--scenarios",
    multiple=True,
    type=click.Choice(SCENARIOS),
    default=SCENARIOS,
    help="Scenario to measure; repeatable.",
)
@click.option(
    "--sizes",
    multiple=True,
    type=SizeType(),
    help="Size such as 1x1000; repeatable. Default: each scenario's sizes.",
)
@click.option("--huge", is_flag=True, help="Also measure 1x20000 and 10000x2 (many minutes).")
@click.option(
    "--sides",
    multiple=True,
    type=click.Choice(SIDES),
    default=SIDES,
    help="Program to measure; repeatable.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    help="Number of runs; the report shows medians and spread.",
)
@click.option(
    "--flips",
    type=click.IntRange(min=1),
    default=None,
    help="Number of flips per size, instead of the default.",
)
@click.option("--quick", is_flag=True, help="Smoke test: small sizes and few changes.")
@click.option(
    "--services-per-namespace",
    type=click.IntRange(min=0),
    default=0,
    help="Services per namespace; 0 puts all into one.",
)
@click.option(
    "--ours-command",
    default=OUR_COMMAND,
    show_default=False,
    help="Command that starts endpointd, without flags; for profilers and other interpreters.",
)
@click.option(
    "--keep-logs",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Keep logs and server data of each size in this folder.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="JSON report to write. Default: benchmarks/results/<time>.json.",
)
def main(
    scenarios: tuple[ScenarioName, ...],
    sizes: tuple[Size, ...],
    huge: bool,
    sides: tuple[SideName, ...],
    runs: int,
    flips: int | None,
    quick: bool,
    services_per_namespace: int,
    ours_command: str,
    keep_logs: Path | None,
    output: Path | None,
) -> None:
    """Measure endpointd and kube-controller-manager alternately on the same real control planes.

    Needs etcd, kube-apiserver and kube-controller-manager of one version in $KUBEBUILDER_ASSETS, on an otherwise idle
    machine.
    """
    clock = SystemClock()
    try:
        assets = find_assets()
        chosen = make_sides(sides, assets, ours_command)
        plan = make_plan(
            scenarios=scenarios, sizes=sizes, with_huge=huge, quick=quick, runs=runs, flips=flips
        )
    except (AssetsMissingError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    settings = RunSettings(assets, tuple(chosen), services_per_namespace, keep_logs)
    environment = describe_machine(assets)
    before, began = clock.wall(), clock.monotonic()

    def say(text: str) -> None:
        passed = timedelta(seconds=int(clock.monotonic() - began))
        click.echo(f"[{passed}] {text}", err=True)

    if environment.load_before > _BUSY_LOAD:
        say(f"the machine is busy (load {environment.load_before}): expect high figures with a wide spread")
    if OURS in sides and not compile_ours(ours_command):
        say(
            "endpointd could not be compiled to bytecode: its cold starts will be slower than those of an installation"
        )
    found: list[Measurement] = []
    options = {
        "runs": str(runs),
        "quick": str(quick).lower(),
        "ours": _OUR_NAME if ours_command == OUR_COMMAND else ours_command,
    }
    trouble, code = "", 0
    try:
        run_plan(plan, settings, clock, say, found)
    except KeyboardInterrupt:
        trouble, code = "interrupted", 130
    except (*_TROUBLE, BaseExceptionGroup) as error:
        trouble, code = f"benchmark failed: {story_of(error)}", 1
    if code:
        options["ended"] = "early"
        click.echo(f"{trouble}\n{len(found)} scenarios had been played before", err=True)
        if not found:
            sys.exit(code)
    measurements = with_growth(found, plan)
    report = Report(
        started=before.isoformat(timespec="seconds"),
        seconds=round(clock.monotonic() - began, 1),
        environment=environment,
        options=options,
        measurements=measurements,
    )
    click.echo(f"{headline(environment, str(runs))}\n\n{render(measurements)}")
    path = output or _RESULTS / f"{before:%Y%m%dT%H%M%SZ}.json"
    write_report(report, path)
    click.echo(f"\nwritten to {path}")
    sys.exit(code)


def with_growth(found: list[Measurement], plan: Plan) -> tuple[Measurement, ...]:
    """Return the measurements with the derived ones appended."""
    measured = tuple(found)
    grown = [one for small, large in plan.growth for one in growth(measured, str(small), str(large))]
    return (*measured, *grown)


def write_report(report: Report, path: Path) -> None:
    """Write a report as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    unfinished.replace(path)


def story_of(error: BaseException) -> str:
    """Return the error as one line: for a group, its first leaf."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    expected = isinstance(error, _TROUBLE)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def describe_machine(assets: Path) -> Environment:
    """Return the environment that the figures depend on."""
    version = subprocess.run(
        [str(assets / "kube-apiserver"), "--version"], capture_output=True, text=True, check=False
    )
    return Environment(
        endpointd=__version__,
        kubernetes=version.stdout.strip().removeprefix("Kubernetes "),
        python=platform.python_version(),
        machine=f"{_processor()}, {platform.system()} {platform.release()}",
        cpus=os.cpu_count() or 0,
        load_before=round(os.getloadavg()[0], 2),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def headline(environment: Environment, runs: str) -> str:
    """Describe the measurement and its figures in one line; ``runs`` is a number, or "1 to 3"."""
    clocked = "one run" if runs == "1" else f"median [lowest..highest] of {runs} runs"
    return (
        f"endpointd {environment.endpointd} (Python {environment.python}) beside kube-controller-manager "
        f"{environment.kubernetes}, {environment.cpus} CPUs, load {environment.load_before} before; {clocked}"
    )


if __name__ == "__main__":
    main()
