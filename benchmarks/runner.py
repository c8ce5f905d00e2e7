"""Run a plan: one control plane per size, one controller process at a time."""

import asyncio
import gc
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from aiokube.client.rest import Client
from aiokube.clock import Clock
from benchmarks.load import Load
from benchmarks.measurements import Measurement, Scenario
from benchmarks.objects import Workload
from benchmarks.observer import Observer
from benchmarks.plan import Plan, Session, SizePlan
from benchmarks.published import OBSERVED_ENDPOINTS, OBSERVED_SLICES, Judge
from benchmarks.scenarios import Subject, Values, churn, cold, flip, until_idle
from benchmarks.sides import OURS, Side, child_environment
from benchmarks.usage import Usage
from tinykube.testing.control_plane import ControlPlane

_SEED = 20_260
_STOP_SECONDS = 10.0
_LONGEST_REQUEST_SECONDS = 120.0

Say = Callable[[str], None]


class RunSettings(msgspec.Struct, frozen=True):
    """Settings for all sizes."""

    assets: Path
    sides: tuple[Side, ...]
    services_per_namespace: int = 0
    keep_logs: Path | None = None
    """Folder for the logs of the processes; None keeps nothing."""


def run_plan(plan: Plan, settings: RunSettings, clock: Clock, say: Say, found: list[Measurement]) -> None:
    """Measure everything, append each complete figure to ``found``, and report progress.

    Raises ScenarioError, LoadError, ObserverError, ProcessError or client errors, alone or in exception groups; by then
    all processes have ended. The figures measured before remain valid.
    """
    for part in plan.sizes:
        directory = settings.keep_logs / str(part.size) if settings.keep_logs is not None else None
        say(f"{part.size}: starting etcd and kube-apiserver")
        try:
            with ControlPlane(settings.assets, directory=directory) as plane:
                asyncio.run(_SizeRun(part, plan.runs, settings, plane, clock, say, found).run())
        finally:
            gc.unfreeze()


class _SizeRun:
    """All measurements on one control plane."""

    def __init__(
        self,
        part: SizePlan,
        runs: int,
        settings: RunSettings,
        plane: ControlPlane,
        clock: Clock,
        say: Say,
        found: list[Measurement],
    ) -> None:
        self._part = part
        self._runs = runs
        self._settings = settings
        self._plane = plane
        self._clock = clock
        self._say = say
        self._found = found
        self._servers = [Usage(plane.apiserver.pid)]

    async def run(self) -> None:
        config = self._plane.client_config()
        workload = Workload(self._part.size, self._settings.services_per_namespace)
        judge = Judge()
        async with Client.from_config(
            config,
            clock=self._clock,
            user_agent="endpointd-benchmarks",
            timeout_seconds=_LONGEST_REQUEST_SECONDS,
        ) as client:
            slices, endpoints = client.source(OBSERVED_SLICES), client.source(OBSERVED_ENDPOINTS)
            observer = Observer(slices, endpoints, judge, self._clock)
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(observer.run(), name="observer")
                await observer.wait_watching()
                load = Load(workload, client, observer, self._clock)
                started = self._clock.monotonic()
                await load.populate()
                # These objects live to the end; freezing them keeps our own garbage collector out of the measurements.
                gc.collect()
                gc.freeze()
                self._tell(f"{workload.size.pods:,} pods made in {self._clock.monotonic() - started:.1f} s")
                for run in range(self._runs):
                    for session in self._part.sessions:
                        for side in in_turn(self._settings.sides, run):
                            await self._play(run, session, side, load, observer)
                watching.cancel()

    async def _play(self, run: int, session: Session, side: Side, load: Load, observer: Observer) -> None:
        observer.judge.judge_endpoints = session.variant == "both"
        await load.clear()
        await until_idle(self._servers, self._clock)
        server_cpu = sum(server.cpu_seconds() for server in self._servers)
        command = side.invocation(self._plane.kubeconfig_path, session.variant)
        restarts = observer.restarts
        # The same seed for both programs.
        chance = random.Random(f"{_SEED} {self._part.size} {run}")
        name = f"{side.name}-{session.variant}-{run + 1}"
        started = self._clock.monotonic()
        child = self._plane.start_child(name, command, environment=child_environment(os.environ))
        try:
            async with asyncio.TaskGroup() as group:
                subject = Subject(child, self._servers, load, observer, self._clock)
                guard = group.create_task(subject.guard(), name="guard")
                values = await cold(subject, started, server_cpu)
                values["own_watch_restarts"] = float(observer.restarts - restarts)
                if session.cold:
                    self._note("cold", run, session, side, values)
                if session.flip is not None:
                    values = await self._measured(subject, flip(subject, session.flip, chance))
                    self._note("flip", run, session, side, values)
                if session.steady is not None:
                    values = await self._measured(subject, churn(subject, session.steady, chance))
                    self._note("steady", run, session, side, values)
                if session.churn is not None:
                    values = await self._measured(subject, churn(subject, session.churn, chance))
                    self._note("churn", run, session, side, values)
                guard.cancel()
        finally:
            child.stop(_STOP_SECONDS)
        await load.restore()

    async def _measured(self, subject: Subject, scenario: Awaitable[Values]) -> Values:
        """Run a scenario once controller and servers are idle; also report disconnects of the observer."""
        await subject.settle()
        await until_idle(self._servers, self._clock)
        restarts = subject.observer.restarts
        values = await scenario
        return {**values, "own_watch_restarts": float(subject.observer.restarts - restarts)}

    def _note(self, scenario: Scenario, run: int, session: Session, side: Side, values: Values) -> None:
        self._found.append(
            Measurement(scenario, str(self._part.size), session.variant, side.name, run + 1, values)
        )
        alone = "" if session.variant == "both" else " (slices alone)"
        figures = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        self._tell(f"run {run + 1}, {side.name}{alone}, {scenario}: {figures}")

    def _tell(self, text: str) -> None:
        self._say(f"{self._part.size}: {text}")


def in_turn(sides: Sequence[Side], run: int) -> list[Side]:
    """Return the programs in the order of this run: upstream first in even runs, endpointd first in odd ones.

    The second program meets a server with more history; alternating spreads that disadvantage.
    """
    return sorted(sides, key=lambda side: side.name == OURS, reverse=bool(run % 2))
