"""A zone workload (:mod:`tests.differential.workload_hints`) on two control planes, with the required agreement.

At every rest, the candidate's slices are compared with the reference's after the reference was made to reconcile
everything again. Changes that upstream overlooks until then are counted by rule; the candidate may overlook none.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TypeVar

from aiokube.api.core import NODES, PODS, SERVICES, Node
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import NotFoundError
from aiokube.client.rest import MERGE_PATCH, Client
from aiokube.clock import Clock, SystemClock
from tests.differential.cluster_under_test import (
    ControllersError,
    Side,
    Starter,
    come_to_rest,
    while_watching,
)
from tests.differential.differential import DifferenceError, Report
from tests.differential.hint_rules import (
    broken_hint_rules,
    hinted_families,
    topology_aware,
    without_shared_hints,
)
from tests.differential.normalise import NormalState, Snapshot, different_keys, normalise, readable_difference
from tests.differential.operations import Operation, Verb, document
from tests.differential.workload_hints import (
    DEPRECATED_MODE,
    MODE,
    HintOptions,
    StepBatch,
    generate,
    steps_in,
)
from tinykube.testing.control_plane import ControlPlane

_REST_SECONDS = 0.5
_LONG_REST_SECONDS = 2.5
_LATE_RETRIES = 3
_TOPOLOGY_QUEUE_SECONDS = 0.2  # upstream computes its ratios in another worker (S-4)
_AT_ONCE = 16

T = TypeVar("T")


class HintSide:
    """One cluster under comparison and its operations, from :meth:`open` to :meth:`close`."""

    def __init__(
        self, name: str, plane: ControlPlane, starter: Starter, namespace: str, clock: Clock
    ) -> None:
        self.side = Side(name, plane, starter, (namespace,), clock)
        self.name = name
        self._namespace = namespace
        self._client = Client.from_config(plane.client_config(), clock=clock, user_agent="endpointd-testing")
        self._clock = clock

    async def open(self) -> None:
        """Remove existing nodes, and start the controllers: hints depend on every node."""
        for node in await self.nodes():
            await self._client.delete(NODES, key_of(node))
        await self.side.open()

    async def close(self) -> None:
        """Stop the controllers and remove all created objects, so that the next workload runs alone."""
        await self.side.close()
        with contextlib.suppress(NotFoundError):
            for service in (await self._client.list_page(SERVICES, namespace=self._namespace)).items:
                await self._client.delete(SERVICES, key_of(service))
            for pod in (await self._client.list_page(PODS, namespace=self._namespace)).items:
                await self._client.delete(PODS, key_of(pod), grace_period_seconds=0)
        for node in await self.nodes():
            await self._client.delete(NODES, key_of(node))
        await self._client.aclose()

    async def nodes(self) -> tuple[Node, ...]:
        """Return all nodes of the cluster."""
        return (await self._client.list_page(NODES)).items

    async def carry_out(self, operations: Sequence[Operation]) -> list[str]:
        """Send the requests of a step and return the result of each."""
        outcomes: list[str] = []
        for run in independent_runs(operations):
            for start in range(0, len(run), _AT_ONCE):
                some = run[start : start + _AT_ONCE]
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self.side.apply(operation, {}), name=str(operation.name))
                        for operation in some
                    ]
                outcomes += [task.result() for task in tasks]
        return outcomes

    async def touch_services(self) -> None:
        """Make upstream reconcile everything: first the zones' CPU ratios (S-4, S-5), then every service."""
        name = f"{self._namespace}-touch"
        body = document({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}).encode()
        await self._client.request("POST", NODES.path(), body=body)
        await self._client.delete(NODES, ObjectKey("", name))
        await self._clock.sleep(_TOPOLOGY_QUEUE_SECONDS)
        await self.side.touch_services()

    async def patch_service(self, key: ObjectKey, body: bytes) -> None:
        """Patch one service."""
        await self._client.patch(SERVICES, key, body, patch_type=MERGE_PATCH)
        self.side.last_change_seconds = self._clock.monotonic()


class HintDifferential:
    """Run one workload on both clusters; call :meth:`run` once. The clusters must be open.

    ``overlooked`` counts upstream's overlooked changes by the rule that allows them. ``hint_allocation``, ``refused`` and
    ``moved`` measure the workload's coverage, summed over all rests: address types of services that got, and did not get,
    the requested topology-aware hints, and endpoints hinted to another zone than their own.
    """

    def __init__(
        self,
        seed: int,
        steps: int,
        options: HintOptions,
        reference: HintSide,
        candidate: HintSide,
        *,
        report: Report,
        clock: Clock,
    ) -> None:
        self.batches = generate(seed, steps, options)
        self.overlooked: Counter[str] = Counter()
        self.hint_allocation = 0
        self.refused = 0
        self.moved = 0
        self._seed = seed
        self._reference = reference
        self._candidate = candidate
        self._report = report
        self._clock = clock
        self._since_touch: set[str] = set()
        self._done: list[StepBatch] = []

    async def run(self) -> None:
        """Run the whole workload. Raises DifferenceError at the first rest with a difference."""
        await while_watching([one.side for one in self._sides], self._live)

    async def _live(self) -> None:
        for batch in self.batches:
            self._done.append(batch)
            self._since_touch.update(batch.rules)
            for step in batch.steps:
                one, other = await self._on_both(partial(HintSide.carry_out, operations=step.operations))
                if one != other:
                    raise self._failure(f"one step came out in two ways: {step.words}\n  {one}\n  {other}")
            await self._compare()
            if batch.number % 3 == 0 or batch is self.batches[-1]:
                await self._rewrite()
            total = steps_in(self.batches)
            self._report(
                f"seed {self._seed}: {steps_in(self._done):3} of {total} steps; services with shared-out hints"
                f" {self.hint_allocation}, refused {self.refused}, endpoints hinted away {self.moved};"
                f" overlooked by upstream: {dict(self.overlooked)}"
            )

    async def _compare(self) -> None:
        await self._rest(_REST_SECONDS)
        if any(await self._on_both(lambda side: side.side.collect_garbage())):
            await self._rest(_LONG_REST_SECONDS)
        snapshots = await self._snapshots()
        for _ in range(_LATE_RETRIES):  # upstream may be waiting after it found its cache to be stale (S-15)
            if self._since_touch or not different_keys(*map(self._state, snapshots)):
                break
            await self._rest(_LONG_REST_SECONDS)
            snapshots = await self._snapshots()
        overlooked = self._state(snapshots[0])
        await self._reference.touch_services()
        await self._rest(_REST_SECONDS)
        snapshots = await self._snapshots()
        if different_keys(*map(self._state, snapshots)):
            await self._rest(_LONG_REST_SECONDS)
            await self._reference.touch_services()
            await self._rest(_LONG_REST_SECONDS)
            snapshots = await self._snapshots()
        right, mine = map(self._state, snapshots)
        keys = different_keys(right, mine)
        if keys:
            raise self._failure("they differ:\n" + readable_difference(right, mine, self._names, keys))
        for key in different_keys(overlooked, right):
            rules = ", ".join(sorted(self._since_touch)) or self._waiting_rule(key)
            if not rules:
                difference = readable_difference(overlooked, right, ("overlooked", "touched"), [key])
                raise self._failure(f"upstream overlooked something by no rule that is known:\n{difference}")
            self.overlooked[rules] += 1
        self._since_touch.clear()
        await self._hold_to_the_rules(snapshots, rewritten=False)
        for found in hinted_families(snapshots[1]).values():
            self.hint_allocation += found.has_any
            self.refused += not found.has_any
            self.moved += found.crossing

    def _waiting_rule(self, key: str) -> str:
        """Return S-15 if upstream reported that it is backing off from a service; otherwise ""."""
        service = f'key="{key.split()[1]}"'
        log = self._reference.side.process.log_tail(400).splitlines()
        return "S-15" if any(service in line and "retrying" in line for line in log) else ""

    async def _rewrite(self) -> None:
        """Disable and re-enable topology-aware hints: the number per zone is determined after that."""
        asking = [service for service in (await self._snapshots())[0].services if topology_aware(service)]
        for off in (True, False):
            for service in asking:
                distribution = None if off else service.traffic_distribution
                mode = "Disabled" if off else service.topology_mode
                body = {
                    "metadata": {"annotations": {MODE: mode, DEPRECATED_MODE: None}},
                    "spec": {"trafficDistribution": distribution},
                }
                encoded = document(body).encode()
                await self._on_both(partial(HintSide.patch_service, key=key_of(service), body=encoded))
            await self._rest(_REST_SECONDS)
        await self._hold_to_the_rules(await self._snapshots(), rewritten=True)

    async def _hold_to_the_rules(self, snapshots: tuple[Snapshot, Snapshot], *, rewritten: bool) -> None:
        for side, snapshot in zip(self._sides, snapshots, strict=True):
            broken = broken_hint_rules(snapshot, await side.nodes(), rewritten=rewritten)
            if broken:
                again = " after a complete rewrite" if rewritten else ""
                raise self._failure(f"{side.name} breaks rules{again}:\n" + "\n".join(broken))

    # ------------------------------------------------------------------------------- both clusters

    @property
    def _sides(self) -> tuple[HintSide, HintSide]:
        return self._reference, self._candidate

    @property
    def _names(self) -> tuple[str, str]:
        return self._reference.name, self._candidate.name

    async def _on_both(self, action: Callable[[HintSide], Coroutine[None, None, T]]) -> tuple[T, T]:
        async with asyncio.TaskGroup() as group:
            first, second = (group.create_task(action(side), name=f"on {side.name}") for side in self._sides)
        return first.result(), second.result()

    async def _snapshots(self) -> tuple[Snapshot, Snapshot]:
        return await self._on_both(lambda side: side.side.snapshot())

    @staticmethod
    def _state(snapshot: Snapshot) -> NormalState:
        """Return the compared state: exact, except that allocated hints are reduced to whether hints exist."""
        state = dict(normalise(without_shared_hints(snapshot), sizes_are_determined=False))
        for (service, address_type), found in hinted_families(snapshot).items():
            state[f"shared-out hints {service} {address_type}"] = (f"any: {found.has_any}",)
        return state

    async def _rest(self, seconds: float) -> None:
        try:
            await come_to_rest([one.side for one in self._sides], seconds, self._clock)
        except ControllersError as error:
            raise self._failure(str(error)) from None

    def _failure(self, what: str) -> DifferenceError:
        batch = self._done[-1]
        lines = [what, "", f"seed {self._seed}, after {steps_in(self._done[:-1])} steps and these:"]
        lines += [f"  {step.words}" for step in batch.steps]
        lines += ["", f"see it again: HINT_SEEDS={self._seed} HINT_STEPS={steps_in(self._done)}"]
        return DifferenceError("\n".join(lines))


async def compare_hints(
    seed: int,
    steps: int,
    reference: tuple[str, ControlPlane, Starter],
    candidate: tuple[str, ControlPlane, Starter],
    *,
    report: Report,
) -> HintDifferential:
    """Run a zone workload on two control planes without other usable nodes, and return the comparison.

    Raises DifferenceError if they differ. Deletes all existing nodes first.
    """
    clock = SystemClock()
    options = HintOptions(prefix=f"h{seed}")
    sides = [
        HintSide(name, plane, starter, options.namespace, clock)
        for name, plane, starter in (reference, candidate)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for side in sides:
            stack.push_async_callback(side.close)
            await side.open()
        for side in sides:
            await side.side.wait_started()
        differential = HintDifferential(seed, steps, options, *sides, report=report, clock=clock)
        await differential.run()
        return differential


def independent_runs(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Split the operations of a step into consecutive runs whose operations may run concurrently."""
    runs: list[list[Operation]] = []
    last: tuple[Verb, str] | None = None
    for operation in operations:
        if (operation.verb, operation.resource) != last:
            runs.append([])
        last = operation.verb, operation.resource
        runs[-1].append(operation)
    return runs
