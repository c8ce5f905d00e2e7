"""The same workload on two real control planes with different controllers must publish the same objects.

``python -m tests.differential.differential --seed 7`` replays one workload run, by default against endpointd.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

import click
import msgspec

from aiokube.clock import Clock, SystemClock
from tests.differential.cluster_under_test import (
    NO_TARGET,
    SIDECAR_PORTS_SINCE,
    ControllersError,
    Resolved,
    Side,
    Starter,
    come_to_rest,
    endpointd,
    upstream,
    while_watching,
)
from tests.differential.explanations import explain
from tests.differential.invariants import broken_rules, careless_about
from tests.differential.normalise import NormalState, different_keys, normalise, readable_difference
from tests.differential.operations import Batch, Operation, SliceOf, count
from tests.differential.workload import WorkloadOptions, generate
from tinykube.testing.control_plane import AssetsMissingError, ControlPlane
from tinykube.testing.processes import ProcessError

_REST_SECONDS = 0.5  # no write for this long counts as rest
_REPAIR_REST_SECONDS = 1.6  # edited slices are reconciled a second later (S-3)
_LONG_REST_SECONDS = 2.5
_DEFAULT_MAX_ENDPOINTS = 100
_BATCHES_REMEMBERED = 3

# Changes that upstream overlooks, and the action that makes it reconcile them: touching its services, or a restart.
_OVERLOOKED_UNTIL = {
    "0.3": "touch",  # a pod that terminates while not ready
    "E-3": "touch",  # a manually edited Endpoints
    "S-3": "touch",  # deletion of a slice that this process has not written; an edit that does not raise the generation
    "S-4": "touch",  # the zone of a node
    "S-31.4": "touch",  # a node that appears after its pods
    "S-113": "restart",  # a slice relabelled to another service or manager
    "2.3": "restart",  # a slice held by a finalizer
}

T = TypeVar("T")

Report = Callable[[str], None]


class DifferenceError(AssertionError):
    """Two clusters differ, or one breaks a rule; the message shows the difference, its history and the replay command."""


class Healed(msgspec.Struct, frozen=True):
    """A difference that disappeared after upstream was made to reconcile again.

    ``by`` is the required action: ``touch`` (touching its services) or ``restart``. ``rules`` are the rules by which
    upstream may overlook the preceding operations; empty if none is known, which points to an undocumented rule of
    upstream (a pending retry, for example) and is no fault of the candidate.
    """

    batch: int
    key: str
    by: str
    rules: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """A workload run, and the information needed to replay it."""

    seed: int
    operations: int
    options: WorkloadOptions = WorkloadOptions()
    max_endpoints_per_slice: int = _DEFAULT_MAX_ENDPOINTS

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The workload itself."""
        return generate(self.seed, self.operations, self.options)

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of both clusters' controllers."""
        if self.max_endpoints_per_slice == _DEFAULT_MAX_ENDPOINTS:
            return ()
        return (f"--max-endpoints-per-slice={self.max_endpoints_per_slice}",)

    def arguments(self, operations: int) -> str:
        """Return the command-line arguments that replay this run up to ``operations`` operations."""
        given = {
            "--seed": self.seed,
            "--operations": operations,
            "--max-endpoints-per-slice": self.max_endpoints_per_slice,
            "--prefix": self.options.prefix,
        }
        return " ".join(f"{name} {value}" for name, value in given.items())

    @property
    def sizes_are_determined(self) -> bool:
        """Return whether all endpoints of a service always fit into one slice."""
        return self.options.pods <= self.max_endpoints_per_slice


def options_for(plane: ControlPlane, prefix: str) -> WorkloadOptions:
    """Return workload options without the behaviour that differs in the version under test (docs/differences.md)."""
    return WorkloadOptions(prefix=prefix, sidecar_ports=plane.minor_version >= SIDECAR_PORTS_SINCE)


class Differential:
    """Run one workload on two clusters and compare them at every rest.

    ``reference`` is upstream and may overlook changes (listed as :class:`Healed`); ``candidate`` may not: if upstream is
    correct and the candidate becomes correct only after its services are touched, that is a difference.
    """

    def __init__(
        self, plan: Plan, reference: Side, candidate: Side, *, report: Report, clock: Clock | None = None
    ) -> None:
        self.plan = plan
        self.healed: list[Healed] = []
        self.explained: dict[str, str] = {}
        self._reference = reference
        self._candidate = candidate
        self._report = report
        self._clock = clock or SystemClock()
        self.refused = 0
        self.candidate_must_be_right_by_itself = True
        self._done: list[Batch] = []

    async def run(self) -> None:
        """Run the whole workload. Raises DifferenceError at the first rest with a lasting difference."""
        await while_watching(self._sides, self._live)

    async def _live(self) -> None:
        batches = self.plan.batches
        total = count(batches)
        for batch in batches:
            await self._apply(batch)
            await self._compare(batch, is_last=batch is batches[-1])
            done = f"seed {self.plan.seed}: {count(self._done):4} of {total} operations"
            self._report(f"{done}, {self.refused} refused, {len(self.healed)} differences healed")

    # ------------------------------------------------------------------------------- applying

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self._reference, self._candidate

    async def _on_both(self, action: Callable[[Side], Coroutine[None, None, T]]) -> tuple[T, T]:
        """Run an action on both clusters concurrently and return the results, the reference's first."""
        async with asyncio.TaskGroup() as group:
            one, other = (group.create_task(action(side), name=f"on {side.name}") for side in self._sides)
        return one.result(), other.result()

    async def _apply(self, batch: Batch) -> None:
        self._done.append(batch)
        resolved = await self._on_both(lambda side: side.resolve(batch.operations))
        for operation in batch.operations:
            await self._apply_one(operation, resolved)

    async def _apply_one(self, operation: Operation, resolved: tuple[Resolved, Resolved]) -> None:
        outcomes = await self._on_both(
            lambda side: side.apply(operation, resolved[0 if side is self._reference else 1])
        )
        if outcomes[0] != outcomes[1]:
            told = ", ".join(f"{side.name}: {said}" for side, said in zip(self._sides, outcomes, strict=True))
            raise self._failure(f"one operation came out in two ways ({told}):\n  {operation}")
        self.refused += outcomes[0] not in ("ok", NO_TARGET)

    # ------------------------------------------------------------------------------- comparing

    async def _compare(self, batch: Batch, *, is_last: bool) -> None:
        """Come to rest and compare; on a difference, make upstream reconcile again with increasing effort."""
        await self._rest(_REPAIR_REST_SECONDS if batch.has_external_edits or is_last else _REST_SECONDS)
        if any(await self._on_both(lambda side: side.collect_garbage())):
            await self._rest(_REPAIR_REST_SECONDS)
        before = await self._states()
        if self._unexplained(before):
            await self._rest(_LONG_REST_SECONDS)
            before = await self._states()
        if is_last or self._unexplained(before):
            await self._touch_and_compare(batch, before)

    async def _touch_and_compare(self, batch: Batch, before: tuple[NormalState, NormalState]) -> None:
        """Touch every service on both clusters; if the difference remains, restart the reference."""
        for by in ("touch", "restart"):
            if by == "restart":
                self._reference.stop()
                self._reference.start()
            await self._on_both(lambda side: side.touch_services())
            await self._rest(_REPAIR_REST_SECONDS)
            after = await self._states()
            self._hold_the_candidate_to_what_it_had(before, after)
            self._note_healed(batch, before, after, by)
            if not self._unexplained(after):
                await self._check_rules()
                return
            before = after
        difference = readable_difference(*after, names=self._names, keys=self._unexplained(after))
        raise self._failure(f"they differ, and upstream keeps its version:\n{difference}")

    def _unexplained(self, states: tuple[NormalState, NormalState]) -> list[str]:
        """Return the keys that differ without a known rule; record the known ones."""
        known = explain(*states, earlier=self.explained)
        for key, rules in known.items():
            if key not in self.explained:
                self.explained[key] = rules
                self._report(f"seed {self.plan.seed}: as upstream is known for ({rules}): {key}")
        return [key for key in different_keys(*states) if key not in known]

    def _hold_the_candidate_to_what_it_had(
        self, before: tuple[NormalState, NormalState], after: tuple[NormalState, NormalState]
    ) -> None:
        """Fail if upstream was correct from the start and the candidate only after its services were touched."""
        late = [
            key
            for key in different_keys(*before)
            if before[0].get(key) == after[0].get(key) == after[1].get(key) != before[1].get(key)
        ]
        if late and self.candidate_must_be_right_by_itself:
            difference = readable_difference(*before, names=self._names, keys=late)
            raise self._failure(
                f"{self._candidate.name} is right only after its services were touched:\n{difference}"
            )

    def _note_healed(
        self,
        batch: Batch,
        before: tuple[NormalState, NormalState],
        after: tuple[NormalState, NormalState],
        by: str,
    ) -> None:
        recent = [operation for past in self._done[-_BATCHES_REMEMBERED:] for operation in past.operations]
        still = different_keys(*after)
        for key in self._unexplained(before):
            if key in still:
                continue
            rules = sorted({operation.rule for operation in recent if _explains(operation, key, by)})
            self.healed.append(Healed(batch.number, key, by, tuple(rules)))
            why = ", ".join(rules) or "no rule that is known"
            self._report(f"seed {self.plan.seed}: healed by a {by}: {key} ({why})")
            if not rules:
                self._report(readable_difference(before[0], after[0], ("overlooked", "then"), [key]))

    async def _check_rules(self) -> None:
        for side, snapshot in zip(
            self._sides, await self._on_both(lambda side: side.snapshot()), strict=True
        ):
            broken = broken_rules(snapshot, max_endpoints_per_slice=self.plan.max_endpoints_per_slice)
            if side is self._candidate and self.candidate_must_be_right_by_itself:
                broken += careless_about(snapshot)
            if broken:
                raise self._failure(f"{side.name} breaks rules:\n" + "\n".join(broken))

    async def _states(self) -> tuple[NormalState, NormalState]:
        one, other = await self._on_both(lambda side: side.snapshot())
        determined = self.plan.sizes_are_determined
        return (
            normalise(one, sizes_are_determined=determined),
            normalise(other, sizes_are_determined=determined),
        )

    async def _rest(self, seconds: float) -> None:
        try:
            await come_to_rest(self._sides, seconds, self._clock)
        except ControllersError as error:
            raise self._failure(str(error)) from None

    # -------------------------------------------------------------------------- reporting

    @property
    def _names(self) -> tuple[str, str]:
        return self._reference.name, self._candidate.name

    def _failure(self, what: str) -> DifferenceError:
        plan, batch = self.plan, self._done[-1]
        before = count(self._done) - len(batch.operations)
        lines = [
            what,
            "",
            f"seed {plan.seed}, batch {batch.number}, after {before} operations and these:",
            *(f"  {operation}" for operation in batch.operations),
            "",
            f"see it again: python -m tests.differential.differential {self.plan.arguments(count(self._done))}",
        ]
        return DifferenceError("\n".join(lines))


def _explains(operation: Operation, key: str, by: str) -> bool:
    """Return whether upstream may have overlooked ``key`` because of an operation, until it was healed by ``by``.

    ``key`` is ``endpoints NS/NAME`` or ``slices NS/NAME ...``, as in a state.
    """
    if operation.rule not in _OVERLOOKED_UNTIL or _OVERLOOKED_UNTIL[operation.rule] != by:
        return False
    kind, where = key.split()[:2]
    if operation.rule.startswith("E-") != (kind == "endpoints") and operation.rule != "0.3":
        return False
    if not operation.namespace:
        return True  # a node
    if operation.resource in ("endpoints", "endpointslices"):
        name = operation.name.service if isinstance(operation.name, SliceOf) else operation.name
        return where == f"{operation.namespace}/{name}"
    return where.startswith(f"{operation.namespace}/")


async def compare(
    plan: Plan,
    reference: tuple[str, ControlPlane, Starter],
    candidate: tuple[str, ControlPlane, Starter],
    *,
    report: Report,
    candidate_may_overlook: bool = False,
    clock: Clock | None = None,
) -> Differential:
    """Run a workload on two control planes, each with its controllers, and return the comparison.

    Raises DifferenceError if they differ. ``candidate_may_overlook`` allows the candidate upstream's omissions: for
    comparing upstream with upstream. Stops the controllers at the end; the objects stay.
    """
    sides = [
        Side(name, plane, starter, plan.options.namespace_names, clock)
        for name, plane, starter in (reference, candidate)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for side in sides:
            stack.push_async_callback(side.close)
            await side.open()
        for side in sides:
            await side.wait_started()
        differential = Differential(plan, *sides, report=report, clock=clock)
        differential.candidate_must_be_right_by_itself = not candidate_may_overlook
        await differential.run()
        return differential


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", type=int, default=1, help="Which life to lead.")
@click.option("--operations", type=int, default=300, help="How long it is.")
@click.option("--max-endpoints-per-slice", type=int, default=_DEFAULT_MAX_ENDPOINTS, help="For both sides.")
@click.option("--prefix", default="w", help="How the names of namespaces and nodes begin.")
@click.option(
    "--against", type=click.Choice(["endpointd", "upstream"]), default="endpointd", help="The candidate."
)
@click.option("--keep", is_flag=True, help="Leave the control planes up after a difference, until Enter.")
def main(
    seed: int, operations: int, max_endpoints_per_slice: int, prefix: str, against: str, *, keep: bool
) -> None:
    """Run one workload under kube-controller-manager and under endpointd, and compare the published objects."""
    try:
        with ControlPlane() as one, ControlPlane() as other:
            plan = Plan(seed, operations, options_for(one, prefix), max_endpoints_per_slice)
            reference = upstream(plan.flags)
            candidate = reference if against == "upstream" else endpointd(plan.flags)
            try:
                comparison = compare(
                    plan,
                    ("upstream", one, reference),
                    (against, other, candidate),
                    report=click.echo,
                    candidate_may_overlook=against == "upstream",
                )
                done = asyncio.run(comparison)
            except DifferenceError as error:
                click.echo(str(error), err=True)
                if keep:
                    for name, plane in (("upstream", one), (against, other)):
                        click.echo(f"{name}: --kubeconfig={plane.kubeconfig_path}", err=True)
                    click.pause("Enter ends it", err=True)
                sys.exit(1)
    except (AssetsMissingError, ProcessError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    click.echo(f"no difference; {len(done.healed)} that upstream repaired when made to reconcile again")


if __name__ == "__main__":
    main()
