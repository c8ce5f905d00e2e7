"""Health checks by the time since the last sign of life: event loop, watches, workers, elector.

A check returns the problem, or ``""`` if all is well. *Liveness* fails if the program itself is stuck, which
only a restart fixes; an unreachable or refusing server never affects it. *Readiness* fails if the program
cannot do its work now, and names the cause.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn, Protocol, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.clock import Clock
from aiokube.runtime.controller import ControllerStatistics
from aiokube.runtime.errors import describe
from aiokube.runtime.permissions import missing_right, with_hint
from aiokube.runtime.reflector_settings import ReflectorSettings, ReflectorStatistics
from aiokube.work_queue import QueueStatistics

T = TypeVar("T", bound=KubernetesObject)

logger = logging.getLogger(__name__)

Check = Callable[[], str]
"""Returns the problem in one line, with a remedy if one is known; ``""`` if all is well."""

BEAT_SECONDS = 1.0
LATE_BEAT_SECONDS = 15.0
IDLE_WORKERS_SECONDS = 900.0
WATCH_GONE_SECONDS = 60.0
ELECTION_SILENCE_FACTOR = 10.0
_LEAST_ELECTION_SILENCE_SECONDS = 60.0
_WATCHDOG_MARGIN_SECONDS = 60.0


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    cause: str
    """The problem; ``""`` if all is well."""

    @property
    def ok(self) -> bool:
        """Whether all is well."""
        return not self.cause


class Checks:
    """Named checks in the order of registration; a check that raises counts as failed."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the checks."""
        return tuple(self._checks)

    def add(self, name: str, check: Check) -> None:
        """Add a check. Raises ``ValueError`` if the name is taken."""
        if name in self._checks:
            raise ValueError(f"a check {name!r} already exists")
        self._checks[name] = check

    def results(self, names: Iterable[str] | None = None) -> tuple[CheckResult, ...]:
        """Run the named checks, or all of them. Raises ``KeyError`` for an unknown name."""
        return tuple(
            CheckResult(name, _ask(name, self._checks[name]))
            for name in (self._checks if names is None else names)
        )


def _ask(name: str, check: Check) -> str:
    try:
        return check()
    except Exception as error:
        logger.exception("a health check raised: check=%s", name)
        return f"the check raised: {describe(error)}"


class Heartbeat:
    """Wakes once a second on the event loop, to detect a blocked loop."""

    name = "heartbeat"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None

    async def run(self) -> NoReturn:
        """Beat until cancelled."""
        while True:
            self._last = self._clock.monotonic()
            await self._clock.sleep(BEAT_SECONDS)

    def check(self) -> str:
        """Report a blocked event loop; ``""`` before the first beat."""
        if self._last is None:
            return ""
        silent = self._clock.monotonic() - self._last
        return f"the event loop has been blocked for {silent:.0f} s" if silent > LATE_BEAT_SECONDS else ""


def longest_quiet_seconds(settings: ReflectorSettings) -> float:
    """Return how long a reflector may show no progress, by its own watchdogs plus a margin."""
    return _WATCHDOG_MARGIN_SECONDS + max(
        settings.request_seconds,
        settings.longest_stream_seconds,
        settings.silence_seconds,
    )


def watch_alive(reflector: ReflectorStatistics, now: float, quiet_seconds: float) -> str:
    """Report a reflector without progress for longer than its watchdogs allow: its driver is stuck.

    Any response, failure or new phase is progress. A stopped reflector is not stuck, nor is one that waits
    to retry, however long the server asked it to wait.
    """
    if reflector.phase in ("stopped", "waiting"):
        return ""
    proofs = (reflector.since, reflector.last_contact, reflector.last_error_at)
    silent = now - max(proof for proof in proofs if proof is not None)
    if silent <= quiet_seconds:
        return ""
    return f"{reflector.phase} for {silent:.0f} s without a response or a failure, the limit is {quiet_seconds:.0f} s"


def watch_ready(reflector: ReflectorStatistics, now: float, gone_seconds: float = WATCH_GONE_SECONDS) -> str:
    """Report a cache that has not synced, was never watched, or has lost its server, and the cause.

    A cache that has synced stays ready through interruptions of less than ``gone_seconds``.
    """
    trouble = with_hint(reflector.last_error) if reflector.last_error else "no errors so far"
    if not reflector.synced:
        return f"not synced, {reflector.phase}: {trouble}"
    if not reflector.followed:
        return f"listed but not yet watched, {reflector.phase}: {trouble}"
    if reflector.failures and reflector.last_contact is not None:
        silent = now - reflector.last_contact
        if silent > gone_seconds:
            return f"no response for {silent:.0f} s, {reflector.phase}: {trouble}"
    return ""


class WorkersPulse:
    """Liveness of a controller's workers: reconciles must end while there is work."""

    def __init__(
        self,
        controller: Callable[[], ControllerStatistics],
        queue: Callable[[], QueueStatistics],
        *,
        idle_seconds: float = IDLE_WORKERS_SECONDS,
    ) -> None:
        self._controller = controller
        self._queue = queue
        self._idle_seconds = idle_seconds

    def alive(self) -> str:
        """Report stuck workers: keys have been due or held for long, and no reconcile has ended."""
        queue, controller = self._queue(), self._controller()
        wanted = max(queue.oldest_age_seconds, queue.longest_running_seconds)
        ended = controller.last_end_age_seconds
        silent = wanted if ended is None else min(wanted, ended)
        if controller.state != "running" or silent <= self._idle_seconds:
            return ""
        return f"no reconcile has ended for {silent:.0f} s, with {queue.depth} keys due and {queue.in_flight} in progress"

    def ready(self) -> str:
        """Report a missing permission of the last reconcile, until one succeeds."""
        controller = self._controller()
        if controller.failing_since_success and missing_right(controller.last_failure) is not None:
            return f"cannot write: {with_hint(controller.last_failure)}"
        return ""


class Leases(Protocol):
    """The part of a client that an elector uses."""

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read the lease."""
        ...

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create the lease."""
        ...

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace the lease."""
        ...


class ElectorPulse:
    """Wraps an elector's client to record when a request last ended: the elector's liveness.

    A refusal counts as well as a success; the elector reports refusals itself.
    """

    def __init__(self, leases: Leases, *, clock: Clock, retry_seconds: float) -> None:
        self._leases = leases
        self._clock = clock
        self._silence_seconds = max(_LEAST_ELECTION_SILENCE_SECONDS, ELECTION_SILENCE_FACTOR * retry_seconds)
        self._last: float | None = None

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Forward the request."""
        return await self._noted(self._leases.get(resource, key))

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Forward the request."""
        return await self._noted(self._leases.create(resource, body, namespace=namespace))

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Forward the request."""
        return await self._noted(self._leases.update(resource, body, key=key, subresource=subresource))

    def alive(self) -> str:
        """Report an elector without recent requests; ``""`` before the first one."""
        if self._last is None:
            return ""
        silent = self._clock.monotonic() - self._last
        if silent <= self._silence_seconds:
            return ""
        return f"no request about the lease has ended for {silent:.0f} s"

    async def _noted(self, request: Awaitable[T]) -> T:
        try:
            return await request
        finally:
            self._last = self._clock.monotonic()
