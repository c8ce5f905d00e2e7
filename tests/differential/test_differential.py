"""The comparison distinguishes upstream's oversights, known differences and failures."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
import pytest

from aiokube.api.core import SERVICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.resource import Resource
from aiokube.testing.virtual_time import ManualClock
from tests.differential.cluster_under_test import Side
from tests.differential.differential import DifferenceError, Differential, Healed, Plan
from tests.differential.normalise import Snapshot
from tests.differential.operations import Operation
from tests.differential.workload import WorkloadOptions

PLAN = Plan(seed=1, operations=1, options=WorkloadOptions(prefix="x", external_edits=False, freezing=False))
RIGHT, WRONG = {"team": "red"}, {"team": "blue"}


class FakeSide:
    """A cluster that publishes one Endpoints whose labels depend on the number of touches and restarts."""

    last_change_seconds = 0.0

    def __init__(
        self, name: str, labels: Callable[[int, int], Mapping[str, str]], outcome: str = "ok"
    ) -> None:
        self.name = name
        self.exit_report: str | None = None
        self.touches = self.restarts = 0
        self._labels = labels
        self._outcome = outcome

    async def follow(self, resource: Resource[Any]) -> None:
        """Observe nothing: no controller writes here."""

    async def resolve(self, operations: object) -> dict[object, str]:
        return {}

    async def apply(self, operation: Operation, resolved: object) -> str:
        return self._outcome

    async def collect_garbage(self) -> int:
        return 0

    async def touch_services(self) -> None:
        self.touches += 1

    def stop(self) -> int:
        self.restarts += 1
        return 0

    def start(self) -> None:
        """Do nothing: the restart was counted by the stop."""

    async def snapshot(self) -> Snapshot:
        metadata = {"name": "web", "namespace": "x-a", "labels": self._labels(self.touches, self.restarts)}
        item = ENDPOINTS.decode(msgspec.json.encode({"metadata": metadata}))
        service = SERVICES.decode(msgspec.json.encode({"metadata": {"name": "web", "namespace": "x-a"}}))
        return Snapshot.of(endpoints=(item,), services=(service,))


def always(labels: Mapping[str, str]) -> Callable[[int, int], Mapping[str, str]]:
    return lambda touches, restarts: labels


def once_touched(touches: int, restarts: int) -> Mapping[str, str]:
    return RIGHT if touches else WRONG


def once_restarted(touches: int, restarts: int) -> Mapping[str, str]:
    return RIGHT if restarts else WRONG


async def lead(reference: FakeSide, candidate: FakeSide) -> tuple[Differential, list[str]]:
    told: list[str] = []
    sides = cast("tuple[Side, Side]", (reference, candidate))
    differential = Differential(PLAN, *sides, report=told.append, clock=ManualClock())
    await differential.run()
    return differential, told


async def test_clusters_that_agree_are_touched_only_once_at_the_end() -> None:
    reference, candidate = FakeSide("upstream", always(RIGHT)), FakeSide("endpointd", always(RIGHT))
    differential, told = await lead(reference, candidate)
    assert not differential.healed
    assert (reference.touches, reference.restarts, candidate.touches) == (1, 0, 1)
    assert told[-1].startswith("seed 1:")


async def test_a_difference_that_upstream_resolves_after_a_touch_counts_as_upstreams_oversight() -> None:
    differential, told = await lead(FakeSide("upstream", once_touched), FakeSide("endpointd", always(RIGHT)))
    assert [(healed.key, healed.by) for healed in differential.healed] == [("endpoints x-a/web", "touch")]
    assert any("healed by a touch: endpoints x-a/web" in line for line in told)


async def test_a_difference_that_upstream_resolves_after_a_restart_is_reported_as_such() -> None:
    differential, _ = await lead(FakeSide("upstream", once_restarted), FakeSide("endpointd", always(RIGHT)))
    assert differential.healed == [Healed(0, "endpoints x-a/web", "restart", ())]


async def test_a_candidate_that_is_correct_only_after_a_touch_is_a_failure() -> None:
    with pytest.raises(
        DifferenceError, match=r"^endpointd is right only after its services were touched"
    ) as caught:
        await lead(FakeSide("upstream", always(RIGHT)), FakeSide("endpointd", once_touched))
    assert "-  labels {team=red}\n+  labels {team=blue}" in str(caught.value)


async def test_a_persistent_difference_is_a_reproducible_failure() -> None:
    reference = FakeSide("upstream", always(RIGHT))
    with pytest.raises(DifferenceError, match=r"^they differ, and upstream keeps its version") as caught:
        await lead(reference, FakeSide("endpointd", always(WRONG)))
    assert reference.restarts == 1
    told = str(caught.value)
    assert "create       nodes          x-node-" in told
    assert "python -m tests.differential.differential --seed 1 --operations" in told


async def test_a_known_difference_is_noted_and_no_failure() -> None:
    labelled = {**RIGHT, "service.kubernetes.io/headless": ""}
    candidate = FakeSide("endpointd", always(RIGHT))
    differential, told = await lead(FakeSide("upstream", always(labelled)), candidate)
    assert differential.explained == {"endpoints x-a/web": "S-60, E-19b"}
    assert "as upstream is known for (S-60, E-19b): endpoints x-a/web" in told[0]
    assert candidate.touches == 1  # only the final one


async def test_an_operation_accepted_by_only_one_side_is_a_failure() -> None:
    with pytest.raises(DifferenceError, match=r"in two ways \(upstream: ok, endpointd: 422 Invalid\)"):
        await lead(FakeSide("upstream", always(RIGHT)), FakeSide("endpointd", always(RIGHT), "422 Invalid"))


async def test_controllers_that_exited_are_a_failure_with_their_last_log_lines() -> None:
    candidate = FakeSide("endpointd", always(RIGHT))
    candidate.exit_report = "the controllers of endpointd have ended with 1:\nout of luck"
    with pytest.raises(DifferenceError, match="out of luck"):
        await lead(FakeSide("upstream", always(RIGHT)), candidate)
