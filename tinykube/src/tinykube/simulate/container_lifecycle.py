"""One container: start, probes, crashes and restarts. Pure; time is simulated seconds.

Probes are not polled. The container's answers are known, so the time at which enough equal answers have been given is
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
    """How long after the start it begins to answer."""
    crash_after_seconds: float | None = None
    complete_after_seconds: float | None = None


class Ended(msgspec.Struct, frozen=True):
    """How a container ended; ``started`` and ``finished`` are times of day."""

    exit_code: int
    reason: str
    started: str
    finished: str


class ContainerRun(msgspec.Struct, frozen=True):
    """Where a container stands."""

    phase: Literal["waiting", "running", "ended"] = "waiting"
    reason: str = "PodInitializing"
    """Why it waits."""
    since: float = 0.0
    """When this phase began."""
    until: float = math.inf
    """When its wait is over."""
    started_at: str = ""
    """The time of day of its start."""
    restarts: int = 0
    backoffs: int = 0
    """Starts since it last ran for long: what the wait before the next one grows with."""
    ended: Ended | None = None
    """How it ended last."""
    ran_seconds: float = 0.0
    """How long it had run then."""
    passed: bool = False
    """Whether its startup probe is content, or it has none."""
    passed_at: float = 0.0
    ready: bool = False
    answer: bool = False
    """What it answers its readiness probe."""
    answer_since: float = 0.0
    live: bool = True
    live_since: float = 0.0
    crash_seen: str = ""
    """The crash that was asked for last, which has happened."""
    start_plan: StartPlan = StartPlan()


def crossing(first: float, period_seconds: float, changed: float, threshold: int) -> float:
    """Return when a probe has got the same answer so often, where the answer changed at ``changed``.

    The probe asks at ``first`` and every period after it.
    """
    asked = max(0, math.ceil((changed - first) / period_seconds - 1e-9))
    return first + (asked + max(threshold, 1) - 1) * period_seconds


def has_no_image(image: str) -> bool:
    """Return whether an image cannot be pulled: its tag says that it does not exist (``nonexistent``, ``404``)."""
    return image.rpartition(":")[2] in _MISSING_TAGS


def begin(run: ContainerRun, now: float, start_plan: StartPlan) -> ContainerRun:
    """Return a container that is being created: its image is pulled first."""
    return msgspec.structs.replace(
        run,
        phase="waiting",
        reason="ImagePullBackOff" if math.isinf(start_plan.pull_seconds) else "ContainerCreating",
        since=now,
        until=now + start_plan.pull_seconds,
        start_plan=start_plan,
    )


def start(run: ContainerRun, now: float, moment: str, *, again: bool = False) -> ContainerRun:
    """Return the container running, from now on."""
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
    """Return the container ended."""
    said = reason or ("Completed" if exit_code == 0 else "Error")
    return msgspec.structs.replace(
        run,
        phase="ended",
        reason="",
        since=now,
        until=math.inf,
        ended=Ended(exit_code, said, run.started_at or moment, moment),
        ran_seconds=now - run.since if run.phase == "running" else 0.0,
        passed=False,
        ready=False,
        answer=False,
    )


def backoff(run: ContainerRun, now: float) -> ContainerRun:
    """Return an ended container waiting to start again: not at all at first, then twice as long each time."""
    backoffs = 0 if run.ran_seconds >= _FORGIVEN_AFTER_SECONDS else run.backoffs
    delay = 0.0
    if backoffs:
        delay = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(backoffs - 1, 10), _LONGEST_BACKOFF_SECONDS)
    return msgspec.structs.replace(
        run, phase="waiting", reason="CrashLoopBackOff", since=now, until=now + delay, backoffs=backoffs + 1
    )


class Outcome(msgspec.Struct, frozen=True):
    """A container after a look at it, when to look again, and with what code it has to end now, if it has to."""

    run: ContainerRun
    look_again: float = math.inf
    exit_code: int | None = None


def look(container: Container, run: ContainerRun, overrides: AnnotationOverrides, now: float) -> Outcome:
    """Let a running container become what it should be by now."""
    code, ends_at = _end(run, overrides, now)
    if code is not None:
        return Outcome(run, exit_code=code)
    good_at = run.since + (
        run.start_plan.startup_seconds
        if overrides.ready_after_seconds is None
        else overrides.ready_after_seconds
    )
    times = [ends_at]
    if not run.passed:
        passes_at, fails_at = _startup(container.startup_probe, run.since, good_at)
        if fails_at <= now < passes_at:
            return Outcome(run, exit_code=_KILLED_CODE)
        if passes_at > now:
            return Outcome(run, min(passes_at, fails_at, *times))
        run = msgspec.structs.replace(run, passed=True, passed_at=passes_at)
    run, dies_at = _liveness(container.liveness_probe, run, overrides.live, now)
    if dies_at <= now:
        return Outcome(run, exit_code=_KILLED_CODE)
    run, changes_at = _readiness(container.readiness_probe, run, overrides.ready, good_at, now)
    return Outcome(run, min(dies_at, changes_at, *times))


def _end(run: ContainerRun, overrides: AnnotationOverrides, now: float) -> tuple[int | None, float]:
    """Return with what code it ends by now, if it does, and when it will."""
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
    """Return when the startup probe will be content, and when it will have given up."""
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
    """Let what the container answers, and then what the probe makes of it, become what it should be by now.

    An answer that comes and goes between two questions begins the count of the other anew, though nobody heard it.
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
