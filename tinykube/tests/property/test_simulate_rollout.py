"""A rollout stays within its limits at every step, in any order of actions, and completes."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokube.api.apps import Deployment, ReplicaSet
from tinykube.simulate.annotations import AnnotationOverrides
from tinykube.simulate.container_lifecycle import ContainerRun, StartPlan, advance, start
from tinykube.simulate.deployment_plan import REVISION, ReplicaSetState, plan_deployment, set_document
from tinykube.simulate.int_or_percent import surge_and_unavailable
from tinykube.simulate.pods import Container, Probe
from tinykube.simulate.proportional_scaling import proportional_shares

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Set:
    """A ReplicaSet with counted pods: it creates or deletes one pod per turn."""

    def __init__(self, document: dict[str, Any], order: int) -> None:
        self.document = document
        document["metadata"] |= {"uid": document["metadata"]["name"], "creationTimestamp": f"{order:03d}"}
        self.pods = self.available = 0

    @property
    def wanted(self) -> int:
        wanted: int = self.document["spec"]["replicas"]
        return wanted

    def counted(self) -> ReplicaSetState:
        status = {"replicas": self.pods, "readyReplicas": self.available, "availableReplicas": self.available}
        item = msgspec.convert({**self.document, "status": status}, ReplicaSet)
        return ReplicaSetState(item, present=self.pods, active=self.pods, available=self.available)

    def act(self) -> bool:
        """Create or delete one pod; unavailable ones are deleted first."""
        if self.pods < self.wanted:
            self.pods += 1
        elif self.pods > self.wanted:
            self.pods -= 1
            self.available = min(self.available, self.pods)
        else:
            return False
        return True

    def mature(self) -> bool:
        """Let one pod become available."""
        if self.available == self.pods:
            return False
        self.available += 1
        return True


class Rollout:
    def __init__(self, replicas: int, surge: Any, unavailable: Any) -> None:
        self.spec: dict[str, Any] = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        }
        self.annotations: dict[str, str] = {}
        self.sets: list[Set] = []
        self.change(1)

    def change(self, number: int) -> None:
        self.spec["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": {"image": str(number)}}

    def plan(self) -> bool:
        """Take one step; return whether there was one."""
        meta = {"name": "web", "uid": "d", "annotations": self.annotations}
        deployment = msgspec.convert({"metadata": meta, "spec": self.spec}, Deployment)
        plan = plan_deployment(deployment, [each.counted() for each in self.sets], NOW)
        if plan.revision is not None:
            self.annotations[REVISION] = plan.revision
        if plan.create is not None:
            self.sets.append(Set(set_document(deployment, plan.create), len(self.sets)))
        for change in plan.changes:
            found = next(
                each for each in self.sets if each.document["metadata"]["name"] == change.item.metadata.name
            )
            if change.replicas is not None:
                found.document["spec"]["replicas"] = change.replicas
            annotations = {
                **(found.document["metadata"].get("annotations") or {}),
                **(change.annotations or {}),
            }
            found.document["metadata"]["annotations"] = annotations
        return plan.create is not None or bool(plan.changes)

    def finish(self) -> None:
        """Run until nothing is left to do."""
        for _ in range(2000):
            acted = [self.plan(), *(each.act() for each in self.sets), *(each.mature() for each in self.sets)]
            if not any(acted):
                return
        raise AssertionError("the rollout never completes")

    @property
    def pods(self) -> int:
        return sum(each.pods for each in self.sets)

    @property
    def available(self) -> int:
        return sum(each.available for each in self.sets)


LIMITS = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda share: f"{share}%"))


@settings(max_examples=150, deadline=None)
@given(
    replicas=st.integers(1, 12),
    surge=LIMITS,
    unavailable=LIMITS,
    moves=st.lists(st.tuples(st.sampled_from("pppaaammmc"), st.integers(0, 5)), max_size=60),
)
def test_a_rolling_update_respects_its_limits_at_every_step_and_completes(
    replicas: int, surge: Any, unavailable: Any, moves: list[tuple[str, int]]
) -> None:
    rollout = Rollout(replicas, surge, unavailable)
    rollout.finish()
    assert (rollout.pods, rollout.available) == (replicas, replicas)
    more, fewer = surge_and_unavailable(surge, unavailable, replicas)
    rollout.change(2)
    for move, number in moves:
        each = rollout.sets[number % len(rollout.sets)]
        match move:
            case "p":
                rollout.plan()
            case "a":
                each.act()
            case "m":
                each.mature()
            case "c":
                rollout.change(2 + number)
        assert rollout.pods <= replicas + more
        assert rollout.available >= replicas - fewer
    rollout.change(9)
    rollout.finish()
    assert (rollout.pods, rollout.available) == (replicas, replicas)
    left = [each for each in rollout.sets if each.pods]
    assert [each.document["spec"]["template"]["spec"]["image"] for each in left] == ["9"]


@given(
    total=st.integers(0, 40),
    sizes=st.lists(st.integers(0, 15), min_size=1, max_size=6),
    of=st.integers(1, 60),
)
def test_shares_sum_to_the_total_and_are_not_negative(total: int, sizes: list[int], of: int) -> None:
    shares = proportional_shares(total, [(size, of) for size in sizes])
    assert sum(shares) == total
    assert min(shares) >= 0


class Asked:
    """A probe that is executed at each of its times, for comparison."""

    def __init__(self, probe: Probe, first: float) -> None:
        self.probe, self.next = probe, first
        self.ready, self.equal = False, 0

    def until(self, now: float, answer: bool) -> None:
        """Probe at every time up to ``now``; ``answer`` is the result since the last change before it."""
        while self.next <= now:
            self.equal = self.equal + 1 if answer != self.ready else 0
            if self.equal >= (self.probe.success_threshold if answer else self.probe.failure_threshold):
                self.ready, self.equal = answer, 0
            self.next += self.probe.period_seconds


@given(
    probe=st.builds(Probe, st.integers(0, 7), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4)),
    more=st.lists(st.integers(0, 40), min_size=1, max_size=8),
)
def test_the_computed_readiness_equals_that_of_actual_probing(probe: Probe, more: list[int]) -> None:
    container = Container("main", readiness_probe=probe)
    run = start(ContainerRun(start_plan=StartPlan()), 0.0, "")
    asked, now, says = Asked(probe, float(probe.initial_delay_seconds)), 0.0, True
    for stay in (
        probe.period_seconds + extra for extra in more
    ):  # so that each result is probed at least once
        # The result changes just after the time, so that it never coincides with a probe.
        end = now + stay
        at = now + 0.5 if now else 0.0  # a container is evaluated when it starts
        while at < end:
            next_step = advance(container, run, AnnotationOverrides(ready=says), at)
            run = next_step.run
            at = min(max(next_step.next_change, at), end) if next_step.next_change < end else end
        run = advance(container, run, AnnotationOverrides(ready=says), end).run
        asked.until(end, says)
        assert run.ready == asked.ready, f"at {end}, saying {says}"
        now, says = end, not says
