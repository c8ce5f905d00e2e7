"""One pod on its node: its containers in their order, its restarts and its end. Pure; time is simulated seconds."""

import math
from collections.abc import Callable

import msgspec

from tinykube.simulate.annotations import AnnotationOverrides, annotation_overrides
from tinykube.simulate.container_lifecycle import ContainerRun, StartPlan, backoff, begin, end, look, start
from tinykube.simulate.pods import Container, SimulatedPod, is_terminating

StartPlanner = Callable[[Container, int], StartPlan]
"""Draws the course of a container's next start; the number is that of its earlier starts."""

_CREATED = "ContainerCreating"
_MOST_STEPS = 1000


class PodRun(msgspec.Struct, frozen=True):
    """Where a pod's containers stand."""

    inits: tuple[ContainerRun, ...]
    containers: tuple[ContainerRun, ...]
    started: str
    """The time of day at which its node took it."""
    stops_at: float | None = None
    """When its containers will have ended, once it is deleted."""

    @property
    def has_ended(self) -> bool:
        """Tell whether none of its containers runs, or is going to."""
        return all(each.phase == "ended" for each in (*self.containers, *self.inits))


def new_run(pod: SimulatedPod, now: float, moment: str) -> PodRun:
    """Return the beginning of a pod's life: nothing runs."""
    fresh = ContainerRun(since=now)
    return PodRun(
        inits=(fresh,) * len(pod.spec.init_containers or ()),
        containers=(fresh,) * len(pod.spec.containers),
        started=moment,
    )


def step(
    pod: SimulatedPod, run: PodRun, now: float, moment: str, plan_start: StartPlanner, stop_seconds: float
) -> tuple[PodRun, float]:
    """Return the pod as it is by now, and when to look again (infinity: not before something happens to it).

    ``moment`` is the time of day; ``stop_seconds`` is how long the containers would take to end.
    """
    overrides = annotation_overrides(pod.metadata.annotations)
    if is_terminating(pod):
        run = _stopping(pod, run, now, overrides, stop_seconds)
        if run.stops_at is not None and run.stops_at <= now:
            return _stopped(run, now, moment), math.inf
    look_again = math.inf
    for _ in range(_MOST_STEPS):
        if is_over(pod, run):
            run, look_again = _without_sidecars(run, now, moment), math.inf
            break
        after, look_again = _advance(pod, run, overrides, now, moment, plan_start)
        if after == run:
            break
        run = after
    if run.stops_at is not None:
        look_again = min(look_again, run.stops_at)
    return run, look_again


def restarts(pod: SimulatedPod, container: Container, exit_code: int, *, init: bool) -> bool:
    """Tell whether a container that ended is started again."""
    if init and container.restart_policy == "Always":
        return True
    policy = pod.spec.restart_policy
    if init:
        return exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def is_over(pod: SimulatedPod, run: PodRun) -> bool:
    """Tell whether all containers have ended and none will start again, or an init container has failed for good."""
    if failed_init(pod, run):
        return True
    return bool(run.containers) and all(
        each.phase == "ended"
        and each.ended is not None
        and not restarts(pod, container, each.ended.exit_code, init=False)
        for container, each in zip(pod.spec.containers, run.containers, strict=True)
    )


def failed_init(pod: SimulatedPod, run: PodRun) -> bool:
    """Tell whether an init container has failed and is not tried again."""
    return any(
        each.phase == "ended"
        and each.ended is not None
        and each.ended.exit_code != 0
        and not restarts(pod, container, each.ended.exit_code, init=True)
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
    )


def is_initialized(pod: SimulatedPod, run: PodRun) -> bool:
    """Tell whether all init containers are done, and all sidecars up."""
    return all(
        _is_up(each) if container.restart_policy == "Always" else _is_done(each)
        for container, each in zip(pod.spec.init_containers or (), run.inits, strict=True)
    )


def _is_up(run: ContainerRun) -> bool:
    """Tell whether a sidecar is up, or was: one that crashes later holds up nobody."""
    return run.passed or run.restarts > 0


def _is_done(run: ContainerRun) -> bool:
    return run.phase == "ended" and run.ended is not None and run.ended.exit_code == 0


def _stopping(
    pod: SimulatedPod, run: PodRun, now: float, overrides: AnnotationOverrides, stop_seconds: float
) -> PodRun:
    """Begin the end; a shorter grace period than before shortens it."""
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
    """Let each container go one step, the init containers one after the other before the rest."""
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
    """Return a pod that is over: the sidecars go when the last container has gone; what never began stays as it is."""
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
    """Let one container go one step; return when to look at it again."""
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
            outcome = look(container, run, overrides, now)
            if outcome.exit_code is None:
                return outcome.run, outcome.look_again
            seen = msgspec.structs.replace(outcome.run, crash_seen=overrides.crash or outcome.run.crash_seen)
            return end(seen, now, moment, outcome.exit_code), now
        case "ended":
            code = run.ended.exit_code if run.ended is not None else 0
            if is_terminating(pod) or not restarts(pod, container, code, init=init):
                return run, math.inf
            return backoff(run, now), now
