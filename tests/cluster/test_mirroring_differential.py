"""endpointd mirrors the same as kube-controller-manager for random workloads on two real control planes.

The same operations are applied to both, and both are compared at every rest: each mirrored slice in full, except its
name, versions and the order of its endpoints; and Events.

Upstream does not repair some edits, by the rules in ``UPSTREAM_LEAVES``; it is then made to reconcile: every Endpoints
gets another (mirrored) annotation; where its own bug blocks it (M-40), all slices of the Endpoints are deleted on both;
and if the difference remains, it is restarted. A difference without such a rule is a failure, and so is one where
upstream was correct immediately and endpointd was not.

``MIRRORING_SEEDS=4,5,6`` and ``MIRRORING_OPERATIONS=1000`` select other runs.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import TypeVar

import msgspec
import pytest

from aiokube.api.meta import key_of
from aiokube.clock import SystemClock
from endpointd.controllers.mirroring.desired import is_mirrorable, mirror, wants_mirroring
from endpointd.controllers.mirroring.plan import problems_of
from tests.differential.cluster_under_test import NO_TARGET, Starter, come_to_rest, while_watching
from tests.differential.mirroring_sides import (
    MirroringSide,
    broken_mirrors,
    endpointd_mirroring,
    held_keys,
    mirrored_state,
    upstream_mirroring,
)
from tests.differential.mirroring_workload import generate
from tests.differential.mirroring_world import MirroringOptions
from tests.differential.normalise import NormalState, Snapshot, different_keys, readable_difference
from tests.differential.operations import Batch, Operation, SliceOf, count
from tinykube.testing.control_plane import ControlPlane

SEEDS = [int(seed) for seed in os.environ.get("MIRRORING_SEEDS", "1,2,3").split(",")]
OPERATIONS = int(os.environ.get("MIRRORING_OPERATIONS", "300"))

UPSTREAM_LEAVES = {
    "M-4": "touch",  # edits that do not raise the generation are not noticed: annotations of a slice
    "M-32": "touch",  # only owners of another Endpoints count: a missing owner is not repaired
    "M-42": "restart",  # it waits for a relabelled slice
    "M-11": "restart",  # it writes to a terminating slice, and then waits for it
    "M-40": "clearing",  # slices to create in both families, with one to recycle, are created under the recycled name
}
"""Rules by which upstream does not repair edits, and the action that makes it reconcile."""

_REST_SECONDS = 0.5
_REPAIR_REST_SECONDS = 1.2  # a second repair of a slice waits until a second after the first
_RETRY_SECONDS = 20.0  # its backoff starts at a second, and doubles
_RULES_REMEMBERED = 3  # batches

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

T = TypeVar("T")
Report = Callable[[str], None]
States = tuple[NormalState, NormalState]


class Healed(msgspec.Struct, frozen=True):
    """A difference that disappeared: after upstream's retry, a touch, clearing, a restart, or without action (M-40)."""

    key: str
    by: str
    rules: tuple[str, ...]


class Comparison:
    """Run one workload on two clusters and compare them at every rest."""

    def __init__(
        self,
        batches: tuple[Batch, ...],
        reference: MirroringSide,
        candidate: MirroringSide,
        *,
        most: int,
        report: Report,
    ) -> None:
        self.healed: list[Healed] = []
        self.refused = 0
        self.problems = 0
        self._batches = batches
        self._sides = (reference, candidate)
        self._most = most
        self._report = report
        self._clock = SystemClock()
        self._done: list[Batch] = []

    async def run(self) -> None:
        await while_watching(self._sides, self._live)

    async def _live(self) -> None:
        for batch in self._batches:
            await self._apply(batch)
            await self._compare(_REPAIR_REST_SECONDS if batch.has_external_edits else _REST_SECONDS)
            await self._compare_events()
        done = f"{count(self._done)} operations, {self.refused} refused, {self.problems} problems told"
        self._report(f"{done}, {len(self.healed)} healed: {sorted({(h.by, h.rules) for h in self.healed})}")

    async def _on_both(self, action: Callable[[MirroringSide], Coroutine[None, None, T]]) -> tuple[T, T]:
        async with asyncio.TaskGroup() as group:
            one, other = (group.create_task(action(side), name=f"on {side.name}") for side in self._sides)
        return one.result(), other.result()

    async def _apply(self, batch: Batch) -> None:
        self._done.append(batch)
        resolved = await self._on_both(lambda side: side.resolve(batch.operations))
        for operation in batch.operations:
            outcomes = await self._on_both(
                lambda side, operation=operation: side.apply(  # type: ignore[misc]
                    operation, resolved[self._sides.index(side)]
                )
            )
            wiped = operation.rule == "M-11" and outcomes == (NO_TARGET, "ok")
            if outcomes[0] != outcomes[1] and not wiped:  # upstream removes foreign finalizers (M-33)
                self._fail(f"one operation came out in two ways: {outcomes}\n  {str(operation)[:300]}")
            self.refused += outcomes[0] not in ("ok", NO_TARGET)

    # ------------------------------------------------------------------------------- comparing

    async def _compare(self, rest_seconds: float) -> None:
        await self._rest(rest_seconds)
        first = states = await self._states()
        if self._different(states):
            states = await self._wait_for_retries()
            self._judge(first, states, "waiting")
        for by in ("touch", "clearing", "restart", "clearing"):
            if not self._different(states):
                break
            if by == "clearing":
                stuck = {_where(key) for key in self._different(states) if self._is_stuck(key)}
                await self._on_both(lambda side, stuck=stuck: side.clear(stuck))  # type: ignore[misc]
                await self._rest()
            if by == "restart":
                self._sides[0].stop()
                self._sides[0].start()
            await self._on_both(MirroringSide.touch_services)
            await self._rest(_REPAIR_REST_SECONDS)
            before, states = states, await self._states()
            self._judge(before, states, by)
        # M-40 is random upstream: a repeated failure may persist through any action.
        self.healed += [
            Healed(key, "nothing", ("M-40",)) for key in self._different(states) if self._is_stuck(key)
        ]
        unexplained = [key for key in self._different(states) if not self._is_stuck(key)]
        if unexplained:
            self._fail(
                "they differ, and upstream keeps its version:\n" + self._difference(states, unexplained)
            )
        broken = broken_mirrors((await self._snapshots())[1])
        if broken:
            self._fail("endpointd breaks rules:\n" + "\n".join(broken))

    async def _wait_for_retries(self) -> States:
        deadline = self._clock.monotonic() + (_RETRY_SECONDS if not self._recent_rules() else 3.0)
        while True:
            await self._clock.sleep(1.0)
            await self._rest()
            states = await self._states()
            if not self._different(states) or self._clock.monotonic() > deadline:
                return states

    def _judge(self, before: States, after: States, by: str) -> None:
        """Record the healed differences and their reasons; fail if endpointd was late, or without a known reason."""
        still = self._different(after)
        for key in self._different(before):
            if key in still:
                continue
            if before[0].get(key) == after[0].get(key) != before[1].get(key) and by == "waiting":
                self._fail(f"endpointd was late:\n{self._difference(before, [key])}")
            rules = tuple(sorted(self._rules_on(key)))
            if not rules and by != "waiting":
                self._fail(f"it went by a {by}, and no rule is known:\n{self._difference(before, [key])}")
            self.healed.append(Healed(key, by, rules))

    def _is_stuck(self, key: str) -> bool:
        """Return whether upstream repeatedly fails to create slices that it recycled (M-40)."""
        return any(
            f'key="{_where(key)}"' in line and "already exists" in line
            for line in self._sides[0].process.log_tail(400).splitlines()
        )

    def _rules_on(self, key: str) -> set[str]:
        stuck = {"M-40"} if self._is_stuck(key) else set()
        return stuck | {op.rule for op in self._recent() if op.rule and _is_about(op, _where(key))}

    def _recent_rules(self) -> set[str]:
        return {operation.rule for operation in self._recent() if operation.rule}

    def _recent(self) -> list[Operation]:
        return [operation for batch in self._done[-_RULES_REMEMBERED:] for operation in batch.operations]

    def _different(self, states: States) -> list[str]:
        return [key for key in different_keys(*states) if _where(key) not in self._held]

    def _difference(self, states: States, keys: list[str] | None = None) -> str:
        names = (self._sides[0].name, self._sides[1].name)
        return readable_difference(*states, names=names, keys=keys or self._different(states))

    async def _snapshots(self) -> tuple[Snapshot, Snapshot]:
        return await self._on_both(MirroringSide.snapshot)

    async def _states(self) -> States:
        one, other = await self._snapshots()
        self._held = held_keys(one) | held_keys(
            other
        )  # M-11: upstream writes to terminating slices, endpointd creates new ones beside them
        return mirrored_state(one), mirrored_state(other)

    async def _rest(self, seconds: float = _REST_SECONDS) -> None:
        await come_to_rest(self._sides, seconds, self._clock)

    # ------------------------------------------------------------------------------- Events

    async def _compare_events(self) -> None:
        """M-25: both report skipped addresses in the same words."""
        snapshot = (await self._snapshots())[1]
        services = {key_of(service): service for service in snapshot.services}
        due = set()
        for item in snapshot.endpoints:
            service = services.get(key_of(item))
            if service is not None and wants_mirroring(service) and is_mirrorable(item):
                for problem in problems_of(item, mirror(item, self._most), self._most):
                    due.add((f"Endpoints {key_of(item)}", "Warning", problem.reason, problem.message))
        self.problems += len(due)
        for _ in range(50 if due else 0):
            missing = [due - told for told in await self._on_both(MirroringSide.told)]
            if not any(missing):
                return
            await self._clock.sleep(0.2)
        if due:
            self._fail(f"Events that are missing, upstream's and endpointd's: {missing}")

    def _fail(self, what: str) -> None:
        batch = self._done[-1]
        lines = [f"  {str(operation)[:400]}" for operation in batch.operations]
        logs = [f"{side.name}:\n{side.process.log_tail()}" for side in self._sides]
        told = "\n".join([what, "", f"after batch {batch.number}:", *lines, *logs])
        pytest.fail(told, pytrace=False)


def _where(key: str) -> str:
    """Return namespace and name of the Endpoints in a state's key."""
    return key.partition(" ")[0]


def _is_about(operation: Operation, where: str) -> bool:
    name = operation.name.service if isinstance(operation.name, SliceOf) else operation.name
    return where in (f"{operation.namespace}/{name}", f"{operation.namespace}/nobody")


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", flush=True)

    return show


async def lead(
    seed: int,
    options: MirroringOptions,
    reference: tuple[ControlPlane, Starter],
    candidate: tuple[str, ControlPlane, Starter],
    *,
    most: int = 1000,
    report: Report,
) -> Comparison:
    sides = (
        MirroringSide("upstream", *reference, options.namespace_names),
        MirroringSide(*candidate, options.namespace_names),
    )
    async with contextlib.AsyncExitStack() as stack:
        for side in sides:
            stack.push_async_callback(side.close)
            await side.open()
        comparison = Comparison(generate(seed, OPERATIONS, options), *sides, most=most, report=report)
        await comparison.run()
        return comparison


@pytest.mark.parametrize("seed", SEEDS)
async def test_endpointd_mirrors_the_same_as_upstream(
    seed: int,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    candidate = ("endpointd", second_control_plane, endpointd_mirroring(command=endpointd_command))
    options = MirroringOptions(prefix=f"mirror{seed}")
    done = await lead(seed, options, (control_plane, upstream_mirroring()), candidate, report=report)
    assert done.refused * 10 < OPERATIONS  # a real API server accepts the operations


async def test_endpointd_mirrors_as_many_addresses_as_upstream_above_the_limit(
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    """M-22, M-25."""
    flags = ("--mirroring-max-endpoints-per-subset=3",)
    candidate = ("endpointd", second_control_plane, endpointd_mirroring(flags, endpointd_command))
    options = MirroringOptions(prefix="crowd", crowds=(30,))
    reference = (control_plane, upstream_mirroring(flags))
    done = await lead(SEEDS[0], options, reference, candidate, most=3, report=report)
    assert done.problems
