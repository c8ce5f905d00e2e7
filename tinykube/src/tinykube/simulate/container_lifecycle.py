"""The state machine of one container: start, probes, crashes and restarts. Pure; time is simulated seconds.

Probes are not polled. The probe results are known in advance, so the time at which a threshold is reached is
computed. Between these times a container costs nothing.
"""

import math
from typing import Literal

import msgspec

from tinykube.simulate.annotations import CRASH_LOOP, AnnotationOverrides
from tinykube.simulate.pods import Container, Probe

_CRASH_CODE = 1
_KILLED_CODE = 137
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 300.0
_FORGIVEN_AFTER_SECONDS = 600.0
_LOOP_SECONDS = 1.0


_MISSING_TAGS = frozenset({"404", "does-not-exist", "nonexistent"})


class StartPlan(msgspec.Struct, frozen=True):
    """The randomly drawn course of one start of a container."""

    pull_seconds: float = 0.0
    """Infinite: the image cannot be pulled."""
    startup_seconds: float = 0.0
    """The time after its start until probes succeed."""
    crash_after_seconds: float | None = None
    complete_after_seconds: float | None = None


class Ended(msgspec.Struct, frozen=True):
    """The last termination of a container; ``started`` and ``finished`` are wall-clock times."""

    exit_code: int
    reason: str
    started: str
    finished: str


class ContainerRun(msgspec.Struct, frozen=True):
    """The state of a container."""

    phase: Literal["waiting", "running", "ended"] = "waiting"
    reason: str = "PodInitializing"
    """The reason for waiting."""
    since: float = 0.0
    """The start of this phase."""
    until: float = math.inf
    """The end of the wait."""
    started_at: str = ""
    """The wall-clock time of its start."""
    restarts: int = 0
    backoffs: int = 0
    """Starts since it last ran for long; the restart backoff doubles with each."""
    ended: Ended | None = None
    """The last termination."""
    ran_seconds: float = 0.0
    """The duration of the last run."""
    passed: bool = False
    """Whether the startup probe has succeeded, or there is no startup probe."""
    passed_at: float = 0.0
    ready: bool = False
    answer: bool = False
    """The current result of the readiness probe."""
    answer_since: float = 0.0
    live: bool = True
    live_since: float = 0.0
    crash_seen: str = ""
    """The last value of the crash annotation that was acted on."""
    start_plan: StartPlan = StartPlan()


def crossing(first: float, period_seconds: float, changed: float, threshold: int) -> float:
    """Return when a probe reaches its threshold, if its result changed at ``changed``.

    The probe runs at ``first`` and every period after it.
    """
    earlier_probes = max(0, math.ceil((changed - first) / period_seconds - 1e-9))
    return first + (earlier_probes + max(threshold, 1) - 1) * period_seconds


def has_no_image(image: str) -> bool:
    """Return whether an image cannot be pulled: its tag marks it as missing (``nonexistent``, ``404``)."""
    return image.rpartition(":")[2] in _MISSING_TAGS


def begin(run: ContainerRun, now: float, start_plan: StartPlan) -> ContainerRun:
    """Return a container in creation: its image is pulled first."""
    return msgspec.structs.replace(
        run,
        phase="waiting",
        reason="ImagePullBackOff" if math.isinf(start_plan.pull_seconds) else "ContainerCreating",
        since=now,
        until=now + start_plan.pull_seconds,
        start_plan=start_plan,
    )


def start(run: ContainerRun, now: float, moment: str, *, again: bool = False) -> ContainerRun:
    """Return the container running from ``now`` on."""
    return msgspec.structs.replace(
        run,
        phase="running",
        reason="",
        since=now,
        until=math.inf,
        started_at=moment,
        restarts=run.restarts + 1 if again else run.restarts,
        passed=False,
        ready=False,
        answer=False,
        answer_since=now,
        live=True,
        live_since=now,
    )


def end(run: ContainerRun, now: float, moment: str, exit_code: int, reason: str = "") -> ContainerRun:
    """Return the container terminated."""
    shown_reason = reason or ("Completed" if exit_code == 0 else "Error")
    return msgspec.structs.replace(
        run,
        phase="ended",
        reason="",
        since=now,
        until=math.inf,
        ended=Ended(exit_code, shown_reason, run.started_at or moment, moment),
        ran_seconds=now - run.since if run.phase == "running" else 0.0,
        passed=False,
        ready=False,
        answer=False,
    )


def backoff(run: ContainerRun, now: float) -> ContainerRun:
    """Return a terminated container waiting for its restart: immediately at first, then with doubling backoff."""
    backoffs = 0 if run.ran_seconds >= _FORGIVEN_AFTER_SECONDS else run.backoffs
    delay = 0.0
    if backoffs:
        delay = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(backoffs - 1, 10), _LONGEST_BACKOFF_SECONDS)
    return msgspec.structs.replace(
        run, phase="waiting", reason="CrashLoopBackOff", since=now, until=now + delay, backoffs=backoffs + 1
    )


class ContainerStep(msgspec.Struct, frozen=True):
    """The next state of a container, the time of its next change, and the exit code if it terminates now."""

    run: ContainerRun
    next_change: float = math.inf
    exit_code: int | None = None


def advance(
    container: Container, run: ContainerRun, overrides: AnnotationOverrides, now: float
) -> ContainerStep:
    """Advance a running container to ``now``."""
    code, ends_at = _end(run, overrides, now)
    if code is not None:
        return ContainerStep(run, exit_code=code)
    good_at = run.since + (
        run.start_plan.startup_seconds
        if overrides.ready_after_seconds is None
        else overrides.ready_after_seconds
    )
    times = [ends_at]
    if not run.passed:
        passes_at, fails_at = _startup(container.startup_probe, run.since, good_at)
        if fails_at <= now < passes_at:
            return ContainerStep(run, exit_code=_KILLED_CODE)
        if passes_at > now:
            return ContainerStep(run, min(passes_at, fails_at, *times))
        run = msgspec.structs.replace(run, passed=True, passed_at=passes_at)
    run, dies_at = _liveness(container.liveness_probe, run, overrides.live, now)
    if dies_at <= now:
        return ContainerStep(run, exit_code=_KILLED_CODE)
    run, changes_at = _readiness(container.readiness_probe, run, overrides.ready, good_at, now)
    return ContainerStep(run, min(dies_at, changes_at, *times))


def _end(run: ContainerRun, overrides: AnnotationOverrides, now: float) -> tuple[int | None, float]:
    """Return the exit code if the container has exited by ``now``, and the time of its exit."""
    if overrides.crash and overrides.crash not in (CRASH_LOOP, run.crash_seen):
        return _CRASH_CODE, now
    complete = run.start_plan.complete_after_seconds
    if overrides.complete_after_seconds is not None:
        complete = overrides.complete_after_seconds
    completes_at = math.inf if complete is None else run.since + complete
    crash = run.start_plan.crash_after_seconds
    if overrides.crash == CRASH_LOOP:
        crash = _LOOP_SECONDS
    crashes_at = math.inf if crash is None else run.since + crash
    if crashes_at <= now and crashes_at <= completes_at:
        return _CRASH_CODE, crashes_at
    if completes_at <= now:
        return overrides.exit_code, completes_at
    return None, min(crashes_at, completes_at)


def _startup(probe: Probe | None, since: float, good_at: float) -> tuple[float, float]:
    """Return when the startup probe will succeed, and when it will have failed."""
    if probe is None:
        return since, math.inf
    first, period = since + probe.initial_delay_seconds, max(probe.period_seconds, 1)
    passes_at = crossing(first, period, good_at, 1)
    gives_up_at = crossing(first, period, first, probe.failure_threshold)
    return (passes_at, math.inf) if passes_at <= gives_up_at else (math.inf, gives_up_at)


def _liveness(probe: Probe | None, run: ContainerRun, live: bool, now: float) -> tuple[ContainerRun, float]:
    if live != run.live:
        run = msgspec.structs.replace(run, live=live, live_since=now)
    if probe is None or live:
        return run, math.inf
    first = max(run.passed_at, run.since + probe.initial_delay_seconds)
    return run, crossing(first, max(probe.period_seconds, 1), run.live_since, probe.failure_threshold)


def _readiness(
    probe: Probe | None, run: ContainerRun, wanted: bool, good_at: float, now: float
) -> tuple[ContainerRun, float]:
    """Advance the probe result, and then the readiness that follows from it, to ``now``.

    A result that changes twice between two probes still resets the threshold count, although no probe saw it.
    """
    answer = wanted and now >= good_at
    if answer != run.answer:
        run = msgspec.structs.replace(run, answer=answer, answer_since=now)
    changes_at = good_at if wanted and not answer else math.inf
    if run.ready != answer:
        at = run.answer_since
        if probe is not None:
            first = max(run.passed_at, run.since + probe.initial_delay_seconds)
            threshold = probe.success_threshold if answer else probe.failure_threshold
            at = crossing(first, max(probe.period_seconds, 1), run.answer_since, threshold)
        if at <= now:
            run = msgspec.structs.replace(run, ready=answer)
        else:
            changes_at = min(changes_at, at)
    return run, changes_at
