"""The scenarios: changes to a cluster while one controller process is measured."""

import asyncio
import os
import random
from collections.abc import Awaitable, Sequence
from typing import NoReturn, TypeVar

import msgspec

from aiokube.clock import Clock
from benchmarks.control_write import ControlWrite
from benchmarks.load import Change, Load
from benchmarks.objects import BenchmarkPod
from benchmarks.observer import Observer, Rightness
from benchmarks.summary import percentile
from benchmarks.usage import Usage
from tinykube.testing.processes import ChildProcess

T = TypeVar("T")

Values = dict[str, float]
"""Measurements by name; the name includes the unit."""

WARM_UP_FLIPS = 4
_LOOK_SECONDS = 0.02
_IDLE_SHARE = 0.05
_IDLE_LOOKS = 2
_LONGEST_IDLING_SECONDS = 60.0
_ALIVE_POLL_SECONDS = 0.25
_RIGHT_SECONDS = 600.0
_SEEN_SECONDS = 60.0
_WRITES_AT_ONCE = 32  # enough for an idle server; more would only fill the queue of a busy one


class ScenarioError(RuntimeError):
    """A controller exited or did not converge in time; the message names it and shows its log."""


class FlipSettings(msgspec.Struct, frozen=True):
    """Number of readiness changes, sent one after the other."""

    flips: int


class ChurnSettings(msgspec.Struct, frozen=True):
    """Rate and duration of readiness changes: for churn, and for steady, which is a slow churn."""

    per_second: float
    seconds: float

    @property
    def changes(self) -> int:
        """Total number of changes."""
        return int(self.per_second * self.seconds)


class Subject:
    """A running controller process and its cluster.

    Run :meth:`guard` concurrently with the scenarios. ``servers`` are the control plane's processes, whose CPU is
    reported separately.
    """

    def __init__(
        self, child: ChildProcess, servers: Sequence[Usage], load: Load, observer: Observer, clock: Clock
    ) -> None:
        self.child = child
        self.usage = Usage(child.pid)
        self.load = load
        self.observer = observer
        self.clock = clock
        self._servers = servers
        self._own = Usage(os.getpid())

    async def guard(self) -> NoReturn:
        """Watch the process. Raises ScenarioError when it exits."""
        while self.child.is_running:
            await self.clock.sleep(_ALIVE_POLL_SECONDS)
        raise ScenarioError(self._story(f"has ended with {self.child.exit_code}"))

    def server_cpu_seconds(self) -> float:
        """Return the CPU seconds of the control plane."""
        return sum(server.cpu_seconds() for server in self._servers)

    def own_cpu_seconds(self) -> float:
        """Return the CPU seconds of this process, which sends the changes and watches."""
        return self._own.cpu_seconds()

    async def right(self) -> Rightness:
        """Wait until everything published is correct; return since when. Raises ScenarioError on timeout."""
        return await self.in_time(self.observer.until_right(), _RIGHT_SECONDS)

    async def in_time(self, work: Awaitable[T], timeout_seconds: float) -> T:
        """Await the work. Raises ScenarioError with the remaining differences on timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await work
        except TimeoutError:
            complaint = self.observer.judge.complaint()
            raise ScenarioError(
                self._story(f"has not made things right in {timeout_seconds:g} s: {complaint}")
            ) from None

    async def settle(self) -> float:
        """Wait until everything is correct and the controller is idle; return since when everything is correct.

        Raises ScenarioError on timeout.
        """
        judge = self.observer.judge
        while True:
            since = (await self.right()).since
            try:
                async with asyncio.timeout(_LONGEST_IDLING_SECONDS):
                    await until_idle([self.usage], self.clock)
            except TimeoutError:
                raise ScenarioError(self._story("never stops working although nothing happens")) from None
            if judge.are_slices_right() and judge.are_endpoints_right():
                return since

    def _story(self, what: str) -> str:
        return f"{self.child.name} {what}\n--- end of its log ---\n{self.child.log_tail()}"


async def until_idle(processes: Sequence[Usage], clock: Clock) -> None:
    """Wait until all processes have used next to no CPU for a moment."""
    calm = 0
    before, then = sum(process.cpu_seconds() for process in processes), clock.monotonic()
    while calm < _IDLE_LOOKS:
        await clock.sleep(_LOOK_SECONDS)
        after, now = sum(process.cpu_seconds() for process in processes), clock.monotonic()
        calm = calm + 1 if after - before < _IDLE_SHARE * (now - then) else 0
        before, then = after, now


async def cold(subject: Subject, started: float, server_cpu_before: float) -> Values:
    """Measure a start without published objects; ``started`` is the process's start time.

    CPU and memory are read when everything is correct.
    """
    rightness = await subject.right()
    cpu_seconds, memory = subject.usage.cpu_seconds(), subject.usage.memory()
    return {
        "seconds": rightness.since - started,
        "slices_seconds": rightness.slices_since - started,
        "cpu_seconds": cpu_seconds,
        "resident_mib": memory.resident_mib,
        "peak_mib": memory.peak_mib,
        "server_cpu_seconds": subject.server_cpu_seconds() - server_cpu_before,
    }


async def flip(subject: Subject, settings: FlipSettings, chance: random.Random) -> Values:
    """Change one pod's readiness at a time; each change starts after the controller is idle again.

    Pods alternate between ready and not ready, so at most one is not ready. All CPU caused by a change counts,
    including Endpoints and delayed work.
    """
    pods = subject.load.workload.pods
    picked = [chance.choice(pods) for _ in range((WARM_UP_FLIPS + settings.flips + 1) // 2)]
    order = [pod for pod in picked for _ in range(2)]
    for pod in order[:WARM_UP_FLIPS]:
        await subject.in_time(subject.load.flip(pod), _SEEN_SECONDS)
        await subject.settle()
    tally = _Tally(subject)
    changes: list[Change] = []
    endpoints_ms: list[float] = []
    for pod in order[WARM_UP_FLIPS:][: settings.flips]:
        change = await subject.in_time(subject.load.flip(pod), _SEEN_SECONDS)
        rightness = await subject.right()
        if rightness.endpoints_since > change.sent:  # otherwise the change did not affect the Endpoints
            endpoints_ms.append(_ms(rightness.endpoints_since - change.sent))
        await subject.settle()
        changes.append(change)
    count = len(changes)
    values = {
        **_latencies(changes),
        **tally.per_change(count),
        "changes": float(count),
    }
    if endpoints_ms:
        values["endpoints_p50_ms"] = percentile(endpoints_ms, 50)
    return values


async def churn(subject: Subject, settings: ChurnSettings, chance: random.Random) -> Values:
    """Change readiness at a steady rate, whether or not the controller keeps up.

    A pod changes again only after its previous change was observed, so that changes can be told apart. The rate holds
    as long as such pods exist and the server accepts the writes; the achieved rate is reported. Also reported is the
    latency of the benchmark's own slice writes during that time: together with the write of the change, a lower bound
    for any controller.
    """
    subject.usage.reset_peak()
    clock = subject.clock
    tally = _Tally(subject)
    free: asyncio.Queue[BenchmarkPod] = asyncio.Queue()
    pods = list(subject.load.workload.pods)
    chance.shuffle(pods)
    for pod in pods:
        free.put_nowait(pod)
    changes: list[Change] = []
    control_write = ControlWrite(subject.load.client, clock)
    writing = asyncio.Semaphore(_WRITES_AT_ONCE)

    async def change(pod: BenchmarkPod) -> None:
        changes.append(await subject.load.flip(pod, writing))
        free.put_nowait(pod)

    async def play() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(settings.changes):
                await clock.sleep(started + number / settings.per_second - clock.monotonic())
                pod = await free.get()
                group.create_task(change(pod), name=f"change {pod.key}")

    async with control_write.running():
        started = clock.monotonic()
        await subject.in_time(play(), settings.seconds + _RIGHT_SECONDS)
    last_sent = max(change.sent for change in changes)
    right_since = await subject.settle()
    count = len(changes)
    return {
        **_latencies(changes),
        "peak_mib": subject.usage.memory().peak_mib,
        "settled_ms": _ms(right_since - last_sent),
        **tally.per_change(count),
        "changes_per_second": count / (last_sent - started),
        **control_write.values(),
    }


class _Tally:
    """CPU and writes since its creation."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._start = self._now()

    def per_change(self, count: int) -> Values:
        """Return the totals divided by the number of changes."""
        return {
            f"{name}_per_change": (value - self._start[name]) / count for name, value in self._now().items()
        }

    def _now(self) -> Values:
        subject, judge = self._subject, self._subject.observer.judge
        return {
            "cpu_ms": _ms(subject.usage.cpu_seconds()),
            "slice_writes": float(judge.slice_writes),
            "endpoints_writes": float(judge.endpoints_writes),
            "server_cpu_ms": _ms(subject.server_cpu_seconds()),
            "own_cpu_ms": _ms(subject.own_cpu_seconds()),
        }


def _latencies(changes: Sequence[Change]) -> Values:
    """Return the latencies from sending a change to observing it, and the part of the change's own write."""
    seen_ms = [_ms(change.seen - change.sent) for change in changes]
    # A watcher may see the slice before the response arrives: the controller's own latency is then below the resolution.
    lags_ms = [max(_ms(change.seen - change.answered), 0.0) for change in changes]
    return {
        "p50_ms": percentile(seen_ms, 50),
        "p99_ms": percentile(seen_ms, 99),
        "max_ms": max(seen_ms),
        "status_write_p50_ms": percentile([_ms(change.answered - change.sent) for change in changes], 50),
        "after_answer_p50_ms": percentile(lags_ms, 50),
        "after_answer_p99_ms": percentile(lags_ms, 99),
    }


def _ms(seconds: float) -> float:
    return seconds * 1000.0
