"""Compare the embedded API server with etcd and kube-apiserver: ``python -m benchmarks.embedded``."""

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from aiokube.clock import SystemClock
from benchmarks.embedded_client import AnswerError
from benchmarks.embedded_scenarios import (
    Amounts,
    Values,
    creates,
    fan_out,
    idle,
    latency,
    pod_bytes,
    pods,
)
from benchmarks.embedded_servers import OUR_COMMAND, OURS, SERVERS, Running, ServerName, make_server
from benchmarks.embedded_table import EmbeddedReport, Finding, render
from benchmarks.side_by_side import describe_machine
from benchmarks.usage import UsageError
from tinykube.testing.control_plane import AssetsMissingError, find_assets
from tinykube.testing.processes import ProcessError

ONCE = "many-pods"
"""Takes minutes: part of the first run only."""
PARTS = ("writes", "watches", "pods", "many-pods")
_RESULTS = Path(__file__).parent / "results"
_PODS = {"pods": ("3,000 pods", 3_000), "many-pods": ("10,000 pods", 10_000)}

_TROUBLE = (AnswerError, ProcessError, UsageError, TimeoutError, OSError)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--parts", multiple=True, type=click.Choice(PARTS), default=PARTS, help="What to measure; once for each."
)
@click.option(
    "--servers", multiple=True, type=click.Choice(SERVERS), default=SERVERS, help="Which to measure."
)
@click.option(
    "--runs", type=click.IntRange(min=1), default=3, help="How often: medians and spread are shown."
)
@click.option(
    "--ours-command",
    default=shlex.join(OUR_COMMAND),
    show_default=False,
    help="How endpointd is started, without its folders, for profilers and other interpreters.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Where the JSON goes; nowhere without it.",
)
def main(
    parts: tuple[str, ...],
    servers: tuple[ServerName, ...],
    runs: int,
    ours_command: str,
    output: Path | None,
) -> None:
    """Measure both servers alternately with the same client, and compare.

    Needs etcd and kube-apiserver in $KUBEBUILDER_ASSETS. Both servers are durable: a write is confirmed once it is on
    disk. The machine should be otherwise idle.
    """
    try:
        assets = find_assets()
    except AssetsMissingError as error:
        raise click.UsageError(str(error)) from error
    clock = SystemClock()
    environment = describe_machine(assets)
    before, began = clock.wall(), clock.monotonic()

    def say(text: str) -> None:
        passed = timedelta(seconds=int(clock.monotonic() - began))
        click.echo(f"[{passed}, load {os.getloadavg()[0]:.1f}] {text}", err=True)

    bench = _Bench(assets, shlex.split(ours_command), clock, say)
    try:
        bench.run(parts, servers, runs)
    except KeyboardInterrupt:
        click.echo("interrupted: nothing is reported", err=True)
        sys.exit(130)
    except (*_TROUBLE, BaseExceptionGroup) as error:
        click.echo(f"benchmark failed: {_story(error)}", err=True)
        sys.exit(1)
    findings = tuple(bench.found)
    click.echo(
        f"endpointd {environment.endpointd} (Python {environment.python}) beside kube-apiserver "
        f"{environment.kubernetes} and etcd, {environment.cpus} CPUs, load {environment.load_before} before; "
        f"median [lowest..highest] of {runs} runs\n\n{render(findings)}"
    )
    if output is not None:
        report = EmbeddedReport(
            started=before.isoformat(timespec="seconds"),
            seconds=round(clock.monotonic() - began, 1),
            environment=environment,
            options={"runs": str(runs), "ours": "endpointd serve", "parts": ",".join(parts)},
            findings=findings,
        )
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        click.echo(f"\nwritten to {output}")


def _story(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class _Bench:
    """Runs the parts, run by run, alternating the servers: ours first in every second run."""

    def __init__(
        self, assets: Path, command: Sequence[str], clock: SystemClock, say: Callable[[str], None]
    ) -> None:
        self.found: list[Finding] = []
        self._assets = assets
        self._command = command
        self._clock = clock
        self._say = say
        self._pod_bytes: dict[ServerName, int] = {}

    def run(self, parts: Sequence[str], servers: Sequence[ServerName], runs: int) -> None:
        if {"pods", "many-pods"} & set(parts):
            for name in servers:
                with make_server(name, self._assets, self._command, self._clock) as server:
                    self._pod_bytes[name] = asyncio.run(pod_bytes(server))
                self._say(f"{name}: a pod is of {self._pod_bytes[name]:,} bytes")
        for run in range(1, runs + 1):
            for part in parts if run == 1 else [part for part in parts if part != ONCE]:
                for name in servers if run % 2 else servers[::-1]:
                    with make_server(name, self._assets, self._command, self._clock) as server:
                        asyncio.run(self._play(part, name, run, server))

    async def _play(self, part: str, name: ServerName, run: int, server: Running) -> None:
        clock, amounts = self._clock, Amounts()
        plays: dict[str, Awaitable[Values]] = {}
        if part == "writes":
            plays = {
                "idle": idle(server, clock),
                "ConfigMaps, 1 client": creates(
                    server, clock, clients=1, count=amounts.creates_alone, tag="alone"
                ),
                "ConfigMaps, 32 clients": creates(
                    server, clock, clients=32, count=amounts.creates_together, tag="together"
                ),
            }
        elif part == "watches":
            plays = {
                "latency of a watch": latency(
                    server, clock, count=amounts.latencies, per_second=amounts.latencies_per_second
                ),
                **{
                    f"{amounts.events} events to {watching:,} watchers": fan_out(
                        server,
                        clock,
                        watching=watching,
                        events=amounts.events,
                        per_second=amounts.events_per_second,
                    )
                    for watching in amounts.watchers
                },
            }
        else:
            scenario, count = _PODS[part]
            largest = max(self._pod_bytes.values())
            filler = largest - self._pod_bytes[name] if name == OURS else 0
            plays = {scenario: pods(server, clock, count=count, filler=filler)}
        for scenario, play in plays.items():
            values = await play
            self.found.append(Finding(scenario, name, run, values))
            figures = ", ".join(f"{key} {value:.3g}" for key, value in values.items())
            self._say(f"run {run}, {name}, {scenario}: {figures}")


if __name__ == "__main__":
    main()
