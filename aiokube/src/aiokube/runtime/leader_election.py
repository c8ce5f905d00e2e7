"""Leader election as a manager's gate: the driver of :mod:`aiokube.runtime.leader_election_machine`."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar, assert_never

import msgspec

from aiokube.api.coordination import LEASES, Lease
from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta
from aiokube.api.resource import Resource
from aiokube.client.errors import AlreadyExistsError, ClientError, ConflictError, NotFoundError
from aiokube.clock import Clock
from aiokube.runtime import leader_election_machine as machine
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventRecorder, reference
from aiokube.runtime.exposition import Family, Sample
from aiokube.runtime.leader_election_clock import SinceBoot, since_boot
from aiokube.runtime.leader_election_fence import Fence
from aiokube.runtime.leader_election_machine import JITTER_FACTOR, Moment, Rules, Step
from aiokube.runtime.reachability import Reachability

T = TypeVar("T", bound=KubernetesObject)

logger = logging.getLogger(__name__)

EVENT_REASON = "LeaderElection"
_LEAST_REQUEST_SECONDS = 1.0


class LeaseLostError(ReconcileError):
    """The lease was lost: another process may lead now, so writes must stop. Logged in one line."""


class Leases(Protocol):
    """The part of :class:`aiokube.client.rest.Client` that an elector needs."""

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read the lease from the server."""
        ...

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create the lease."""
        ...

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace the lease, at its resource version."""
        ...


class ElectionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of an elector's state."""

    name: str
    identity: str
    state: str
    """The name of the machine's state."""
    is_leader: bool
    """Whether this process may write at this moment."""
    holder: str
    """The last known holder of the lease; ``""`` if it is free."""
    slow_paths: int
    """Renewals that had to read the lease again (upstream's ``leader_election_slowpath_total``)."""
    failures: int
    """Failed requests about the lease."""
    last_error: str
    """The last failure, ``""`` if the last request succeeded."""
    left_seconds: float | None
    """Seconds until the right to write ends without another renewal; None unless leader."""


def check(
    lease_seconds: float, renew_deadline_seconds: float, retry_seconds: float
) -> tuple[str, str] | None:
    """Return the invalid duration (``lease``, ``renew-deadline`` or ``retry``) and the problem, or None.

    The rules are client-go's, plus one: the record has whole seconds, and these must exceed the renew
    deadline too.
    """
    if retry_seconds <= 0:
        return "retry", "it must be greater than zero"
    if renew_deadline_seconds <= JITTER_FACTOR * retry_seconds:
        return "renew-deadline", (
            f"{renew_deadline_seconds:g}s is not greater than {JITTER_FACTOR} times the retry period of "
            f"{retry_seconds:g}s: one failed renewal would already cost the lease"
        )
    if int(lease_seconds) <= renew_deadline_seconds:
        seconds = "" if lease_seconds == int(lease_seconds) else f", in whole seconds {int(lease_seconds)}s,"
        return "lease", (
            f"{lease_seconds:g}s{seconds} is not greater than the renew deadline of "
            f"{renew_deadline_seconds:g}s: another process could lead while this one still does"
        )
    return None


def request_seconds(rules: Rules) -> float:
    """Return the timeout of a lease request, as in upstream: a second request fits before the deadline."""
    return max(_LEAST_REQUEST_SECONDS, rules.renew_deadline_seconds / 2)


class LeaderElector:
    """A gate that becomes ready when this process leads, and fails when it no longer does.

    * While it leads, its ``fence`` is open, never longer than ``renew_deadline_seconds`` after the last
      successful renewal request was **sent**. Every guarded write must go through the fence.
    * If the lease is lost, the fence closes and :meth:`run` raises :class:`LeaseLostError`. A former leader
      is never a candidate again: restart the program.
    * Successful requests wake watches that wait for the same server (``reachability``).
    * :meth:`stop` releases the lease, so that the next leader need not wait. Call it when no guarded write
      is in progress. If a write has no response, the lease is not released, because the write may still take
      effect.

    Deleting the lease or editing its holder voids these guarantees.
    """

    name = "leader-election"

    def __init__(
        self,
        leases: Leases,
        key: ObjectKey,
        rules: Rules,
        *,
        fence: Fence,
        clock: Clock,
        rng: random.Random,
        recorder: EventRecorder | None = None,
        lease_clock: SinceBoot = since_boot,
        reachability: Reachability | None = None,
    ) -> None:
        problem = check(rules.lease_seconds, rules.renew_deadline_seconds, rules.retry_seconds)
        if problem is not None:
            raise ValueError(f"{problem[0]}: {problem[1]}")
        if not rules.identity:
            raise ValueError("an elector needs a unique identity")
        self._leases = leases
        self._key = key
        self._lease = str(key)
        self._rules = rules
        self._fence = fence
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._lease_clock = lease_clock
        self._reachability = reachability
        self._state: machine.State = machine.begin().state
        self._meta = ObjectMeta(name=key.name, namespace=key.namespace)
        self._led = asyncio.Event()
        self._stopping = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._leads_until: float | None = None
        self._told_holder = ""
        self._slow_paths = self._failures = 0
        self._last_error = self._told_error = ""

    async def run(self) -> None:
        """Be a candidate, then the leader, until :meth:`stop`. Raises :class:`LeaseLostError`.

        Cancelling it closes the fence immediately and lets the lease expire.
        """
        logger.info("election: lease=%s identity=%s", self._lease, self._rules.identity)
        step = machine.begin()
        told = False
        try:
            while not isinstance(step.action, machine.Finish):
                event: machine.Event = machine.Failed()
                if told or not self._stopping.is_set():
                    event = await self._carry_out(step.action)
                if self._stopping.is_set() and not told:
                    told = True
                    event = machine.Stopping(release=self._may_release())
                step = self._step(event)
        finally:
            self._end_term()
        if isinstance(step.state, machine.Ended) and step.state.lost:
            raise LeaseLostError(f"the lease {self._key} is lost: {step.state.lost}")

    async def wait_ready(self) -> None:
        """Wait until this process leads."""
        await self._led.wait()

    def why_not_ready(self) -> str:
        """Return the current leader, or why it is unknown."""
        if self._last_error:
            return f"the lease {self._key}: {self._last_error}{_advice(self._last_error)}"
        held_by = machine.holder(self._state)
        if not held_by or held_by == self._rules.identity:
            return f"the lease {self._key} is being acquired"
        return f"the lease {self._key} is held by {held_by}"

    async def stop(self, grace_seconds: float) -> None:
        """Make :meth:`run` release the lease and return, after at most two requests. Returns immediately."""
        self._stopping.set()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def statistics(self) -> ElectionStatistics:
        """Return a snapshot of the elector's state."""
        left = None if self._leads_until is None else max(0.0, self._leads_until - self._lease_clock())
        return ElectionStatistics(
            name=self._key.name,
            identity=self._rules.identity,
            state=type(self._state).__name__,
            is_leader=self._leads_until is not None and self._fence.is_open,
            holder=machine.holder(self._state),
            slow_paths=self._slow_paths,
            failures=self._failures,
            last_error=self._last_error,
            left_seconds=left,
        )

    def families(self) -> list[Family]:
        """Return upstream's leader election metrics."""
        now = self.statistics()
        labels = (("name", now.name),)
        return [
            Family(
                "leader_election_master_status",
                "gauge",
                "Whether this process leads: 1, or 0 for a standby.",
                (Sample(float(now.is_leader), labels),),
            ),
            Family(
                "leader_election_slowpath_total",
                "counter",
                "Renewals that had to read the lease again.",
                (Sample(now.slow_paths, labels),),
            ),
        ]

    # ------------------------------------------------------------------------------------------------ steps

    def _step(self, event: machine.Event) -> Step:
        at = Moment(self._lease_clock(), self._clock.wall(), self._rng.random())
        step = machine.step(self._state, event, at, self._rules)
        self._state = step.state
        self._slow_paths += step.slow
        if isinstance(event, machine.Found | machine.Written):
            self._meta = event.lease.metadata
        if step.leads_until is not None:
            self._lead_until(step.leads_until)
        elif self._leads_until is not None:
            self._end_term()
        holder = machine.holder(self._state)
        if holder and holder != self._told_holder:
            self._told_holder = holder
            logger.info("leader: lease=%s holder=%s", self._lease, holder)
        return step

    def _lead_until(self, moment: float) -> None:
        self._fence.open_until(moment)
        if self._leads_until is None:
            self._led.set()
            self._tell("became leader")
        self._leads_until = moment

    def _end_term(self) -> None:
        """Close the fence permanently, and record an Event if this process was the leader."""
        self._fence.close()
        if self._leads_until is not None:
            self._leads_until = None
            self._tell("stopped leading")

    def _tell(self, what: str) -> None:
        """Record an Event about the lease, in client-go's words."""
        if self._recorder is not None:
            about = reference(LEASES, Lease(metadata=self._meta))
            self._recorder.event(about, "Normal", EVENT_REASON, f"{self._rules.identity} {what}")

    def _may_release(self) -> bool:
        if self._fence.is_settled(self._rules.lease_seconds):
            return True
        if self._leads_until is not None:
            logger.warning("the lease is not released, a write has no response: lease=%s", self._lease)
        return False

    # ------------------------------------------------------------------------------------------- requests

    async def _carry_out(self, action: machine.Action) -> machine.Event:
        match action:
            case machine.Wait(until):
                return await self._wait(until)
            case machine.Read():
                return await self._request(self._read())
            case machine.Create(spec):
                lease = Lease(
                    metadata=ObjectMeta(name=self._key.name, namespace=self._key.namespace), spec=spec
                )
                return await self._request(
                    self._write(self._leases.create(LEASES, lease, namespace=self._key.namespace))
                )
            case machine.Replace(lease):
                return await self._request(self._write(self._leases.update(LEASES, lease, key=self._key)))
            case machine.Finish():
                raise AssertionError("no action follows the end")
            case _:
                assert_never(action)

    async def _wait(self, until: float) -> machine.Event:
        try:
            async with asyncio.timeout(max(0.0, until - self._lease_clock())):
                await self._stopping.wait()
        except TimeoutError:
            pass
        return machine.Due()

    async def _read(self) -> machine.Event:
        try:
            return machine.Found(await self._leases.get(LEASES, self._key))
        except NotFoundError as error:
            # A 404 that does not name the lease proves nothing: an API server that is starting sends it for
            # any request.
            details = error.status.details
            if details is None or details.name != self._key.name:
                raise
            return machine.Missing()

    async def _write(self, writing: Awaitable[Lease]) -> machine.Event:
        try:
            return machine.Written(await writing)
        except (ConflictError, AlreadyExistsError) as error:
            logger.debug("another candidate was faster: lease=%s error=%s", self._lease, error)
            return machine.Refused()

    async def _request(self, request: Coroutine[Any, Any, machine.Event]) -> machine.Event:
        """Send a request with a timeout that a leader's deadline limits too."""
        seconds = request_seconds(self._rules)
        if self._leads_until is not None:
            seconds = max(0.0, min(seconds, self._leads_until - self._lease_clock()))
        try:
            async with asyncio.timeout(seconds) as self._limit:
                event = await request
        except TimeoutError:
            if not self._stopping.is_set():
                self._complain(f"no response within {seconds:.3g} s")
            return machine.Failed()
        except ClientError as error:
            self._complain(str(error))
            return machine.Failed()
        finally:
            self._limit = None
        if self._told_error:
            logger.info("lease requests succeed again: lease=%s", self._lease)
        self._last_error = self._told_error = ""
        if self._reachability is not None:
            self._reachability.answered(self.name)
        return event

    def _complain(self, problem: str) -> None:
        """Log a failure: the first as a warning, repetitions of the same one at debug level."""
        self._failures += 1
        self._last_error = problem
        level = logging.DEBUG if problem == self._told_error else logging.WARNING
        self._told_error = problem
        logger.log(level, "lease request failed: lease=%s error=%s", self._lease, problem)


def _advice(problem: str) -> str:
    """Return a remedy if one is known."""
    if "cannot get resource" in problem or "cannot create resource" in problem or "cannot update" in problem:
        return " (grant it get, create and update of leases: a role, and a binding to that user)"
    return ""
