"""The status that a kubelet writes for a pod, derived from the state of its containers. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from tinykube.simulate.container_lifecycle import ContainerRun, Ended, StartPlan
from tinykube.simulate.pod_lifecycle import PodRun, failed_init, is_initialized, is_over
from tinykube.simulate.pods import (
    Container,
    ContainerState,
    ContainerStatus,
    PodAddress,
    PodCondition,
    PodStatus,
    Running,
    SimulatedPod,
    Terminated,
    Waiting,
    condition_of,
    is_terminating,
)

OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_status(
    pod: SimulatedPod,
    run: PodRun,
    moment: str,
    *,
    pod_ips: Sequence[str],
    host_ips: Sequence[str],
    node_ready: bool = True,
    ready_while_terminating: bool = True,
) -> PodStatus:
    """Return the whole status, with only the kubelet's own conditions. Unchanged conditions keep their timestamps."""
    phase = _phase(pod, run)
    quiet = is_terminating(pod) and not ready_while_terminating
    inits = tuple(
        _container_status(pod, container, each, init=True)
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
    )
    containers = tuple(
        _container_status(pod, container, each, init=False, quiet=quiet)
        for container, each in zip(pod.spec.containers, run.containers, strict=True)
    )
    return PodStatus(
        phase=phase,
        conditions=_conditions(pod, run, phase, (*inits, *containers), moment, node_ready=node_ready),
        host_ip=host_ips[0] if host_ips else None,
        host_ips=tuple(map(PodAddress, host_ips)) or None,
        pod_ip=pod_ips[0] if pod_ips else None,
        pod_ips=tuple(map(PodAddress, pod_ips)) or None,
        start_time=run.started,
        init_container_statuses=inits or None,
        container_statuses=containers or None,
    )


def _phase(pod: SimulatedPod, run: PodRun) -> str:
    if run.stops_at is not None and run.has_ended:
        return "Failed" if any(_code(each) for each in run.containers) else "Succeeded"
    if failed_init(pod, run):
        return "Failed"
    if is_over(pod, run):
        return "Failed" if any(_code(each) for each in run.containers) else "Succeeded"
    begun = all(each.phase != "waiting" or each.ended is not None for each in run.containers)
    return "Running" if begun and is_initialized(pod, run) else "Pending"


def _code(run: ContainerRun) -> int:
    return run.ended.exit_code if run.ended is not None else 0


def _conditions(
    pod: SimulatedPod,
    run: PodRun,
    phase: str,
    statuses: Sequence[ContainerStatus],
    moment: str,
    *,
    node_ready: bool,
) -> tuple[PodCondition, ...]:
    sidecars = {each.name for each in pod.spec.init_containers or () if each.restart_policy == "Always"}
    regular = {each.name for each in pod.spec.containers}
    unready = [each.name for each in statuses if each.name in sidecars | regular and not each.ready]
    initialized = is_initialized(pod, run)
    finished = phase in ("Succeeded", "Failed")
    if finished:
        containers_ready: tuple[str, str, str] = (
            "False",
            "PodCompleted" if phase == "Succeeded" else "PodFailed",
            "",
        )
    elif unready:
        containers_ready = (
            "False",
            "ContainersNotReady",
            f"containers with unready status: [{' '.join(unready)}]",
        )
    else:
        containers_ready = ("True", "", "")
    ready = containers_ready
    if ready[0] == "True":
        missing = [
            gate.condition_type
            for gate in pod.spec.readiness_gates or ()
            if not _holds(pod, gate.condition_type)
        ]
        if missing:
            told = "; ".join(
                f'corresponding condition of pod readiness gate "{name}" is not "True"' for name in missing
            )
            ready = ("False", "ReadinessGatesNotReady", f"{told}.")
        elif not node_ready:
            ready = ("False", "NodeNotReady", "the node is not ready")
    uninitialized = [
        container.name
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
        if not (each.phase == "ended" and _code(each) == 0)
    ]
    incomplete = (
        "False",
        "ContainersNotInitialized",
        f"containers with incomplete status: [{' '.join(uninitialized)}]",
    )
    values = {
        "PodReadyToStartContainers": ("False", "", "") if finished else ("True", "", ""),
        "Initialized": ("True", "", "") if initialized else incomplete,
        "Ready": ready,
        "ContainersReady": containers_ready,
        "PodScheduled": ("True", "", ""),
    }
    return tuple(_condition(pod, kind, *values[kind], moment) for kind in OWN_CONDITIONS)


def _holds(pod: SimulatedPod, kind: str) -> bool:
    condition = condition_of(pod, kind)
    return condition is not None and condition.status == "True"


def _condition(
    pod: SimulatedPod, kind: str, status: str, reason: str, message: str, moment: str
) -> PodCondition:
    before = condition_of(pod, kind)
    since = before.last_transition_time if before is not None and before.status == status else None
    return PodCondition(kind, status, since or moment, reason, message)


def _container_status(
    pod: SimulatedPod, container: Container, run: ContainerRun, *, init: bool, quiet: bool = False
) -> ContainerStatus:
    sidecar = init and container.restart_policy == "Always"
    last = ContainerState()
    if run.phase != "ended" and run.ended is not None:
        last = ContainerState(terminated=_terminated(run.ended))
    done = init and not sidecar and run.phase == "ended" and _code(run) == 0
    number = run.restarts + 1
    return ContainerStatus(
        name=container.name,
        image=container.image,
        image_id=f"simulated://{container.image}" if run.started_at else "",
        container_id=f"simulated://{pod.metadata.uid}/{container.name}/{number}" if run.started_at else "",
        ready=done or (run.ready and not quiet),
        started=run.phase == "running" and run.passed,
        restart_count=run.restarts,
        state=_state(run),
        last_state=last,
    )


def _state(run: ContainerRun) -> ContainerState:
    match run.phase:
        case "waiting":
            return ContainerState(waiting=Waiting(run.reason))
        case "running":
            return ContainerState(running=Running(run.started_at))
        case "ended":
            return ContainerState(terminated=_terminated(run.ended or Ended(0, "Completed", "", "")))


def _terminated(ended: Ended) -> Terminated:
    return Terminated(ended.exit_code, ended.reason, ended.started or None, ended.finished or None)


# --------------------------------------------------------------------------------------------- from status


def run_of_status(
    pod: SimulatedPod, now: float, elapsed: Callable[[str | None], float], crash_seen: str
) -> PodRun:
    """Return the container states of a pod that started before the simulation, reconstructed from its status.

    Running containers keep running and keep their readiness; running init containers count as completed.
    ``elapsed`` returns the simulated seconds since a timestamp.
    """

    def runs(
        containers: Sequence[Container], statuses: Sequence[ContainerStatus], *, init: bool
    ) -> tuple[ContainerRun, ...]:
        by_name = {status.name: status for status in statuses}
        found: list[ContainerRun] = []
        for each in containers:
            run = _run_of(by_name.get(each.name, ContainerStatus()), now, elapsed, crash_seen)
            if init and each.restart_policy != "Always" and run.phase == "running":
                run = msgspec.structs.replace(run, start_plan=StartPlan(complete_after_seconds=0.0))
            found.append(run)
        return tuple(found)

    return PodRun(
        inits=runs(pod.spec.init_containers or (), pod.status.init_container_statuses or (), init=True),
        containers=runs(pod.spec.containers, pod.status.container_statuses or (), init=False),
        started=pod.status.start_time or "",
    )


def _run_of(
    status: ContainerStatus, now: float, elapsed: Callable[[str | None], float], crash_seen: str
) -> ContainerRun:
    ended = status.state.terminated or status.last_state.terminated
    fresh = ContainerRun(
        since=now,
        restarts=status.restart_count,
        backoffs=status.restart_count,
        crash_seen=crash_seen,
        started_at=(ended.started_at or "") if ended is not None else "",
        ended=None
        if ended is None
        else Ended(ended.exit_code, ended.reason, ended.started_at or "", ended.finished_at or ""),
    )
    if status.state.running is not None:
        started_at = status.state.running.started_at
        return msgspec.structs.replace(
            fresh,
            phase="running",
            reason="",
            since=now - elapsed(started_at),
            started_at=started_at or "",
            passed=bool(status.started),
            passed_at=now,
            ready=status.ready,
            answer=status.ready,
            answer_since=now,
            live_since=now,
        )
    if status.state.terminated is not None:
        return msgspec.structs.replace(fresh, phase="ended", reason="")
    if ended is not None:
        return msgspec.structs.replace(fresh, reason="CrashLoopBackOff", until=now)
    return fresh
