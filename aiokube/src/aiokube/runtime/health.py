"""Health as the time since the last proof of life: of the event loop, of each watch, of workers, of an elector.

A check is a function that returns what is wrong, ``""`` where nothing is. *Alive* asks whether the program itself has come
to a halt, which only a restart mends: a server that is down or says no never makes it dead. *Ready* asks whether it could do its
work now, and tells what keeps it from that.
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
"""Returns what is wrong, in one line, with what to do about it where that is known; ``""`` where all is well."""

BEAT_SECONDS = 1.0
LATE_BEAT_SECONDS = 15.0
IDLE_WORKERS_SECONDS = 900.0
WATCH_GONE_SECONDS = 60.0
ELECTION_SILENCE_FACTOR = 10.0
_LEAST_ELECTION_SILENCE_SECONDS = 60.0
_WATCHDOG_MARGIN_SECONDS = 60.0


class CheckResult(msgspec.Struct, frozen=True):
    """What one check has found."""

    name: str
    cause: str
    """What is wrong; ``""`` where nothing is."""

    @property
    def ok(self) -> bool:
        """Whether all is well."""
        return not self.cause


class Checks:
    """Checks by name, in the order in which they were added; a check that fails itself counts as one that found something."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names there are."""
        return tuple(self._checks)

    def add(self, name: str, check: Check) -> None:
        """Ask this too. Raises ``ValueError`` where the name is taken."""
        if name in self._checks:
            raise ValueError(f"there is a check {name!r} already")
        self._checks[name] = check

    def results(self, names: Iterable[str] | None = None) -> tuple[CheckResult, ...]:
        """Return what the checks of these names, or all of them, find now. Raises ``KeyError`` for an unknown name."""
        return tuple(
            CheckResult(name, _ask(name, self._checks[name]))
            for name in (self._checks if names is None else names)
        )


def _ask(name: str, check: Check) -> str:
    try:
        return check()
    except Exception as error:
        logger.exception("a health check failed itself: check=%s", name)
        return f"the check itself failed: {describe(error)}"


class Heartbeat:
    """A part that turns with the event loop once a second, and can tell when the loop does not."""

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
        """Tell where the last beat is too long ago; before the first there is nothing to tell."""
        if self._last is None:
            return ""
        silent = self._clock.monotonic() - self._last
        return f"the event loop has not turned for {silent:.0f} s" if silent > LATE_BEAT_SECONDS else ""


def longest_quiet_seconds(settings: ReflectorSettings) -> float:
    """Return how long a reflector may stay as it is, by its own watchdogs, and a margin."""
    return _WATCHDOG_MARGIN_SECONDS + max(
        settings.request_seconds,
        settings.longest_stream_seconds,
        settings.silence_seconds,
    )


def watch_alive(reflector: ReflectorStatistics, now: float, quiet_seconds: float) -> str:
    """Tell of a reflector that has done nothing for longer than its watchdogs allow: its driver is stuck.

    Any answer, any failure and any new phase is a proof of life. One that is not running is not stuck, nor one that waits
    to try again, for as long as the server may have asked for.
    """
    if reflector.phase in ("stopped", "waiting"):
        return ""
    proofs = (reflector.since, reflector.last_contact, reflector.last_error_at)
    silent = now - max(proof for proof in proofs if proof is not None)
    if silent <= quiet_seconds:
        return ""
    return f"{reflector.phase} for {silent:.0f} s without an answer or a failure, {quiet_seconds:.0f} s at most are due"


def watch_ready(reflector: ReflectorStatistics, now: float, gone_seconds: float = WATCH_GONE_SECONDS) -> str:
    """Tell of a cache that is not complete, that was never watched, or that has lost its server for a while; and why, and since when.

    A cache that was complete once stays ready through interruptions of less than ``gone_seconds``.
    """
    trouble = with_hint(reflector.last_error) if reflector.last_error else "nothing went wrong so far"
    if not reflector.synced:
        return f"not complete, {reflector.phase}: {trouble}"
    if not reflector.followed:
        return f"listed and not yet watched, {reflector.phase}: {trouble}"
    if reflector.failures and reflector.last_contact is not None:
        silent = now - reflector.last_contact
        if silent > gone_seconds:
            return f"nothing heard for {silent:.0f} s, {reflector.phase}: {trouble}"
    return ""


class WorkersPulse:
    """The proof of life of a controller's workers: that reconciles end, as long as there are any to be made."""

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
        """Tell where something has been due, or worked on, for long, and no reconcile has ended meanwhile."""
        queue, controller = self._queue(), self._controller()
        wanted = max(queue.oldest_age_seconds, queue.longest_running_seconds)
        ended = controller.last_end_age_seconds
        silent = wanted if ended is None else min(wanted, ended)
        if controller.state != "running" or silent <= self._idle_seconds:
            return ""
        return f"no reconcile has ended for {silent:.0f} s, with {queue.depth} keys due and {queue.in_flight} held"

    def ready(self) -> str:
        """Tell of the last reconcile where it lacked a right, as long as none has succeeded since."""
        controller = self._controller()
        if controller.failing_since_success and missing_right(controller.last_failure) is not None:
            return f"cannot write: {with_hint(controller.last_failure)}"
        return ""


class Leases(Protocol):
    """What an elector needs of a client."""

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read the lease."""
        ...

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create it."""
        ...

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace it."""
        ...


class ElectorPulse:
    """Stands between an elector and its client, and notes when a request last ended: the elector's proof of life.

    A refusal proves life as well as an answer does; the elector tells of refusals itself.
    """

    def __init__(self, leases: Leases, *, clock: Clock, retry_seconds: float) -> None:
        self._leases = leases
        self._clock = clock
        self._silence_seconds = max(_LEAST_ELECTION_SILENCE_SECONDS, ELECTION_SILENCE_FACTOR * retry_seconds)
        self._last: float | None = None

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Pass it on."""
        return await self._noted(self._leases.get(resource, key))

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Pass it on."""
        return await self._noted(self._leases.create(resource, body, namespace=namespace))

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Pass it on."""
        return await self._noted(self._leases.update(resource, body, key=key, subresource=subresource))

    def alive(self) -> str:
        """Tell where the last request is too long ago; before the first one there is nothing to tell."""
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
