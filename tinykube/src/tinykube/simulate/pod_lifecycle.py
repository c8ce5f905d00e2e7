"""The state machine of one pod: container order, restarts and termination. Pure; time is simulated seconds."""

import math
from collections.abc import Callable

import msgspec

from tinykube.simulate.annotations import AnnotationOverrides, annotation_overrides
from tinykube.simulate.container_lifecycle import ContainerRun, StartPlan, advance, backoff, begin, end, start
from tinykube.simulate.pods import Container, SimulatedPod, is_terminating

StartPlanner = Callable[[Container, int], StartPlan]
"""Draws the course of a container's next start; the number counts its earlier starts."""

_CREATED = "ContainerCreating"
_MOST_STEPS = 1000


class PodRun(msgspec.Struct, frozen=True):
    """The state of a pod's containers."""

    inits: tuple[ContainerRun, ...]
    containers: tuple[ContainerRun, ...]
    started: str
    """The wall-clock time at which the node accepted the pod."""
    stops_at: float | None = None
    """The time at which the containers of a deleted pod will have stopped."""

    @property
    def has_ended(self) -> bool:
        """Whether all containers have terminated."""
        return all(each.phase == "ended" for each in (*self.containers, *self.inits))


def new_run(pod: SimulatedPod, now: float, moment: str) -> PodRun:
    """Return the initial state of a pod, with no container running."""
    fresh = ContainerRun(since=now)
    return PodRun(
        inits=(fresh,) * len(pod.spec.init_containers or ()),
        containers=(fresh,) * len(pod.spec.containers),
        started=moment,
    )


def step(
    pod: SimulatedPod, run: PodRun, now: float, moment: str, plan_start: StartPlanner, stop_seconds: float
) -> tuple[PodRun, float]:
    """Return the pod's state at ``now``, and the time of its next change (infinity if it depends on external events).

    ``moment`` is the wall-clock time; ``stop_seconds`` is how long the containers take to stop.
    """
    overrides = annotation_overrides(pod.metadata.annotations)
    if is_terminating(pod):
        run = _stopping(pod, run, now, overrides, stop_seconds)
        if run.stops_at is not None and run.stops_at <= now:
            return _stopped(run, now, moment), math.inf
    next_change = math.inf
    for _ in range(_MOST_STEPS):
        if is_over(pod, run):
            run, next_change = _without_sidecars(run, now, moment), math.inf
            break
        after, next_change = _advance(pod, run, overrides, now, moment, plan_start)
        if after == run:
            break
        run = after
    if run.stops_at is not None:
        next_change = min(next_change, run.stops_at)
    return run, next_change


def restarts(pod: SimulatedPod, container: Container, exit_code: int, *, init: bool) -> bool:
    """Return whether a terminated container is restarted."""
    if init and container.restart_policy == "Always":
        return True
    policy = pod.spec.restart_policy
    if init:
        return exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def is_over(pod: SimulatedPod, run: PodRun) -> bool:
    """Return whether no container will run again: all have terminated, or an init container has failed permanently."""
    if failed_init(pod, run):
        return True
    return bool(run.containers) and all(
        each.phase == "ended"
        and each.ended is not None
        and not restarts(pod, container, each.ended.exit_code, init=False)
        for container, each in zip(pod.spec.containers, run.containers, strict=True)
    )


def failed_init(pod: SimulatedPod, run: PodRun) -> bool:
    """Return whether an init container has failed and is not retried."""
    return any(
        each.phase == "ended"
        and each.ended is not None
        and each.ended.exit_code != 0
        and not restarts(pod, container, each.ended.exit_code, init=True)
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
    )


def is_initialized(pod: SimulatedPod, run: PodRun) -> bool:
    """Return whether all init containers have completed and all sidecars have started."""
    return all(
        _is_up(each) if container.restart_policy == "Always" else _is_done(each)
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
    )


def _is_up(run: ContainerRun) -> bool:
    """Return whether a sidecar has started; one that crashes later does not block other containers."""
    return run.passed or run.restarts > 0


def _is_done(run: ContainerRun) -> bool:
    return run.phase == "ended" and run.ended is not None and run.ended.exit_code == 0


def _stopping(
    pod: SimulatedPod, run: PodRun, now: float, overrides: AnnotationOverrides, stop_seconds: float
) -> PodRun:
    """Start the termination; a grace period shorter than before shortens it."""
    grace = pod.metadata.deletion_grace_period_seconds
    limit = float(pod.spec.termination_grace_period_seconds if grace is None else grace)
    wanted = stop_seconds if overrides.stop_after_seconds is None else overrides.stop_after_seconds
    if not any(each.phase == "running" for each in (*run.containers, *run.inits)):
        wanted = 0.0
    at = now + min(wanted, limit)
    return msgspec.structs.replace(run, stops_at=at if run.stops_at is None else min(run.stops_at, at))


def _stopped(run: PodRun, now: float, moment: str) -> PodRun:
    def stopped(each: ContainerRun) -> ContainerRun:
        return each if each.phase == "ended" else end(each, now, moment, 0)

    return msgspec.structs.replace(
        run, inits=tuple(map(stopped, run.inits)), containers=tuple(map(stopped, run.containers))
    )


def _advance(
    pod: SimulatedPod,
    run: PodRun,
    overrides: AnnotationOverrides,
    now: float,
    moment: str,
    plan_start: StartPlanner,
) -> tuple[PodRun, float]:
    """Advance each container by one step; init containers run in order before the others."""
    times = [math.inf]
    inits: list[ContainerRun] = []
    blocked = False
    for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True):
        sidecar = container.restart_policy == "Always"
        if blocked:
            inits.append(each)
            continue
        at = math.inf
        if sidecar or not _is_done(each):
            asked = (
                msgspec.structs.replace(overrides, complete_after_seconds=None)
                if sidecar
                else AnnotationOverrides()
            )
            each, at = _one(pod, container, each, asked, now, moment, plan_start, init=True)
        inits.append(each)
        times.append(at)
        blocked = not (_is_up(each) if sidecar else _is_done(each))
    containers = list(run.containers)
    if not blocked:
        for index, (container, each) in enumerate(zip(pod.spec.containers, run.containers, strict=True)):
            containers[index], at = _one(pod, container, each, overrides, now, moment, plan_start, init=False)
            times.append(at)
    return msgspec.structs.replace(run, inits=tuple(inits), containers=tuple(containers)), min(times)


def _without_sidecars(run: PodRun, now: float, moment: str) -> PodRun:
    """Stop the sidecars of a finished pod; containers that never started keep their state."""
    inits = tuple(end(each, now, moment, 0) if each.phase == "running" else each for each in run.inits)
    return msgspec.structs.replace(run, inits=inits)


def _one(
    pod: SimulatedPod,
    container: Container,
    run: ContainerRun,
    overrides: AnnotationOverrides,
    now: float,
    moment: str,
    plan_start: StartPlanner,
    *,
    init: bool,
) -> tuple[ContainerRun, float]:
    """Advance one container by one step; return the time of its next change."""
    starts = run.restarts + (1 if run.ended is not None else 0)
    match run.phase:
        case "waiting":
            if is_terminating(pod):
                return run, math.inf
            if run.reason == "PodInitializing":
                return begin(run, now, plan_start(container, starts)), now
            if run.until > now:
                return run, run.until
            if run.reason == _CREATED:
                return start(run, now, moment), now
            start_plan = plan_start(container, starts)
            again = start(run, now, moment, again=True)
            return msgspec.structs.replace(again, start_plan=start_plan), now
        case "running":
            next_step = advance(container, run, overrides, now)
            if next_step.exit_code is None:
                return next_step.run, next_step.next_change
            seen = msgspec.structs.replace(
                next_step.run, crash_seen=overrides.crash or next_step.run.crash_seen
            )
            return end(seen, now, moment, next_step.exit_code), now
        case "ended":
            code = run.ended.exit_code if run.ended is not None else 0
            if is_terminating(pod) or not restarts(pod, container, code, init=init):
                return run, math.inf
            return backoff(run, now), now
