"""One pod: container order, phases, termination, and resumption from its status."""

import math
from typing import Any

import msgspec

from tinykube.simulate.container_lifecycle import StartPlan, end
from tinykube.simulate.pod_lifecycle import PodRun, new_run, step
from tinykube.simulate.pod_status import pod_status, run_of_status
from tinykube.simulate.pods import Container, PodStatus, SimulatedPod

MOMENT = "2026-01-01T00:00:00Z"


def make(metadata: dict[str, Any] | None = None, **spec: Any) -> SimulatedPod:
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", **(metadata or {})},
        "spec": {"nodeName": "n", "containers": [{"name": "main"}], **spec},
    }
    return msgspec.convert(body, SimulatedPod)


class Life:
    """A pod that is advanced from one change to the next."""

    def __init__(self, pod: SimulatedPod, run: PodRun | None = None) -> None:
        self.pod = pod
        self.now = 0.0
        self.run = run or new_run(pod, 0.0, MOMENT)
        self.next = 0.0

    def start_plan(self, container: Container, starts: int) -> StartPlan:
        inits = self.pod.spec.init_containers or ()
        is_init = container in inits and container.restart_policy != "Always"
        return StartPlan(
            pull_seconds=2.0 if starts == 0 else 0.0, complete_after_seconds=1.0 if is_init else None
        )

    def at(self, now: float) -> PodStatus:
        """Advance to ``now``, waking at each change."""
        while True:
            self.run, self.next = step(
                self.pod, self.run, self.now, MOMENT, self.start_plan, stop_seconds=5.0
            )
            if self.next > now:
                break
            assert self.next > self.now, "each change must be in the future"
            self.now = self.next
        self.now = now
        return self.status()

    def status(self) -> PodStatus:
        return pod_status(self.pod, self.run, MOMENT, pod_ips=("10.0.0.1",), host_ips=("172.18.0.2",))

    def change(self, metadata: dict[str, Any]) -> None:
        fields = msgspec.convert(metadata, dict[str, Any])
        self.pod = msgspec.structs.replace(
            self.pod, metadata=msgspec.structs.replace(self.pod.metadata, **fields)
        )


def conditions(status: PodStatus) -> dict[str, str]:
    return {each.type: each.status for each in status.conditions or ()}


def states(status: PodStatus) -> dict[str, str]:
    found = {}
    for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        state = each.state
        if state.waiting is not None:
            found[each.name] = state.waiting.reason
        else:
            found[each.name] = "running" if state.running is not None else "ended"
    return found


def test_a_pod_is_pending_while_its_image_is_pulled_and_then_runs() -> None:
    life = Life(make())
    status = life.at(1.0)
    assert (status.phase, states(status)) == ("Pending", {"main": "ContainerCreating"})
    assert conditions(status) == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }
    status = life.at(2.0)
    assert (status.phase, states(status), conditions(status)["Ready"]) == (
        "Running",
        {"main": "running"},
        "True",
    )
    assert life.next == math.inf, "a stable pod needs no wake-up"


def test_init_containers_run_in_sequence_and_sidecars_keep_running() -> None:
    inits = [{"name": "a"}, {"name": "side", "restartPolicy": "Always"}, {"name": "b"}]
    life = Life(make(initContainers=inits))
    seen = [(now, life.at(now)) for now in (2.0, 3.0, 5.0, 7.0, 8.0, 10.0)]
    assert [states(status) for _, status in seen] == [
        {"a": "running", "side": "PodInitializing", "b": "PodInitializing", "main": "PodInitializing"},
        {"a": "ended", "side": "ContainerCreating", "b": "PodInitializing", "main": "PodInitializing"},
        {"a": "ended", "side": "running", "b": "ContainerCreating", "main": "PodInitializing"},
        {"a": "ended", "side": "running", "b": "running", "main": "PodInitializing"},
        {"a": "ended", "side": "running", "b": "ended", "main": "ContainerCreating"},
        {"a": "ended", "side": "running", "b": "ended", "main": "running"},
    ]
    assert [status.phase for _, status in seen] == ["Pending"] * 5 + ["Running"]
    assert [conditions(status)["Initialized"] for _, status in seen] == ["False"] * 4 + ["True"] * 2


def test_a_pod_with_restart_policy_never_succeeds_or_fails_and_stops_its_sidecars() -> None:
    for code, phase in (("0", "Succeeded"), ("4", "Failed")):
        annotations = {
            "simulate.tinykube.dev/complete-after": "3s",
            "simulate.tinykube.dev/exit-code": code,
        }
        side = {"name": "side", "restartPolicy": "Always"}
        life = Life(make({"annotations": annotations}, restartPolicy="Never", initContainers=[side]))
        status = life.at(100.0)
        assert status.phase == phase
        assert states(status) == {"side": "ended", "main": "ended"}
        assert conditions(status)["Ready"] == "False"
        assert life.next == math.inf


def test_failed_containers_are_restarted_with_policies_on_failure_and_always() -> None:
    annotations = {"simulate.tinykube.dev/complete-after": "3s", "simulate.tinykube.dev/exit-code": "1"}
    for policy in ("OnFailure", "Always"):
        life = Life(make({"annotations": annotations}, restartPolicy=policy))
        status = life.at(9.0)  # 2 s pull, ends at 5, restarts immediately, ends at 8, waits for 10 s
        assert status.phase == "Running"
        assert states(status) == {"main": "CrashLoopBackOff"}
        assert (status.container_statuses or ())[0].restart_count == 1
        assert (status.container_statuses or ())[0].last_state.terminated is not None


def test_a_permanently_failed_init_container_fails_the_pod() -> None:
    pod = make(initContainers=[{"name": "a"}], restartPolicy="Never")
    life = Life(pod)
    life.at(2.5)
    init = life.run.inits[0]
    life.run = msgspec.structs.replace(life.run, inits=(end(init, 2.5, MOMENT, 1),))
    status = life.at(10.0)
    assert status.phase == "Failed"
    assert states(status)["main"] == "PodInitializing"


def test_a_deleted_pod_ends_within_its_grace_period_and_starts_no_containers() -> None:
    for grace, ends_at in ((30, 15.0), (2, 12.0), (0, 10.0)):
        life = Life(make())
        life.at(10.0)
        life.change({"deletion_timestamp": MOMENT, "deletion_grace_period_seconds": grace})
        life.at(10.0)
        assert life.run.stops_at == ends_at
        if ends_at > 10.0:
            assert conditions(life.status())["Ready"] == "True"
        status = life.at(ends_at)
        assert life.run.has_ended
        assert (status.phase, conditions(status)["Ready"]) == ("Succeeded", "False")
    waiting = Life(make())
    waiting.at(1.0)
    waiting.change({"deletion_timestamp": MOMENT, "deletion_grace_period_seconds": 30})
    waiting.at(1.0)
    assert waiting.run.has_ended, "a container that never ran ends immediately"


def test_a_second_deletion_can_only_shorten_the_grace_period() -> None:
    life = Life(make())
    life.at(10.0)
    life.change({"deletion_timestamp": MOMENT, "deletion_grace_period_seconds": 30})
    life.at(11.0)
    life.change({"deletion_grace_period_seconds": 1})
    life.at(11.0)
    assert life.run.stops_at == 12.0
    life.change({"deletion_grace_period_seconds": 30})
    life.at(11.5)
    assert life.run.stops_at == 12.0


def test_readiness_depends_on_readiness_gates_and_the_node() -> None:
    life = Life(make(readinessGates=[{"conditionType": "gate"}]))
    status = life.at(5.0)
    assert (conditions(status)["ContainersReady"], conditions(status)["Ready"]) == ("True", "False")
    plain = Life(make())
    plain.at(5.0)
    status = pod_status(plain.pod, plain.run, MOMENT, pod_ips=(), host_ips=(), node_ready=False)
    assert (conditions(status)["ContainersReady"], conditions(status)["Ready"]) == ("True", "False")


def test_condition_times_change_only_with_their_status() -> None:
    life = Life(make())
    status = life.at(5.0)
    stored = msgspec.structs.replace(life.pod, status=status)
    later = pod_status(
        stored, life.run, "2026-01-02T00:00:00Z", pod_ips=("10.0.0.1",), host_ips=("172.18.0.2",)
    )
    assert later == status


def test_a_pod_is_resumed_from_its_status() -> None:
    life = Life(make(initContainers=[{"name": "a"}]))
    status = life.at(50.0)
    pod = msgspec.structs.replace(life.pod, status=status)
    again = Life(pod, run_of_status(pod, 0.0, lambda _: 47.0, ""))
    assert again.at(0.0) == status
    assert again.next == math.inf


def test_a_crash_annotation_crashes_a_new_pod_once_or_in_a_loop() -> None:
    prefix = "simulate.tinykube.dev/"
    once = Life(make({"annotations": {f"{prefix}crash": "1"}}))
    status = once.at(100.0)
    assert (status.container_statuses or ())[0].restart_count == 1
    assert conditions(status)["Ready"] == "True"
    looping = Life(make({"annotations": {f"{prefix}crash": "loop"}}))
    status = looping.at(100.0)  # starts at 2, 3, 14, 35 and 76, each for one second
    assert (status.container_statuses or ())[0].restart_count == 4
    assert states(status) == {"main": "CrashLoopBackOff"}
