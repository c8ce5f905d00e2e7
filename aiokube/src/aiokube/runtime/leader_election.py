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
    """Somebody else may lead now; nothing may be written any more. One line tells it all."""


class Leases(Protocol):
    """The part of :class:`aiokube.client.rest.Client` that an elector needs."""

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read the lease from the server."""
        ...

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create it."""
        ...

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace it, at the version it carries."""
        ...


class ElectionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How an elector is, at one moment."""

    name: str
    identity: str
    state: str
    """The name of the machine's state."""
    is_leader: bool
    """Whether it may write at this moment."""
    holder: str
    """Who holds the lease as far as is known; ``""`` for nobody."""
    slow_paths: int
    """Renewals that needed a second look at the record (upstream's ``leader_election_slowpath_total``)."""
    failures: int
    """Requests about the lease without a good answer."""
    last_error: str
    """The last failure, ``""`` where the last request went well."""
    left_seconds: float | None
    """For how long one may still write without another renewal; None for who is not the leader."""


def check(
    lease_seconds: float, renew_deadline_seconds: float, retry_seconds: float
) -> tuple[str, str] | None:
    """Return which of the three times makes no sense (``lease``, ``renew-deadline``, ``retry``) and why, or None.

    The rules are client-go's, and one more: what others read in the record are whole seconds, and these must be
    longer than the renew deadline as well.
    """
    if retry_seconds <= 0:
        return "retry", "it has to be greater than zero"
    if renew_deadline_seconds <= JITTER_FACTOR * retry_seconds:
        return "renew-deadline", (
            f"{renew_deadline_seconds:g}s is not greater than {JITTER_FACTOR} times the retry period of "
            f"{retry_seconds:g}s: one failed renewal would already cost the lease"
        )
    if int(lease_seconds) <= renew_deadline_seconds:
        seconds = "" if lease_seconds == int(lease_seconds) else f", in whole seconds {int(lease_seconds)}s,"
        return "lease", (
            f"{lease_seconds:g}s{seconds} is not greater than the renew deadline of "
            f"{renew_deadline_seconds:g}s: another one could lead while this one still does"
        )
    return None


def request_seconds(rules: Rules) -> float:
    """Return how long a request about the lease may take, as upstream has it, so that a second one fits in."""
    return max(_LEAST_REQUEST_SECONDS, rules.renew_deadline_seconds / 2)


class LeaderElector:
    """A gate that is ready once this process leads, and that fails when it does not any more.

    * While it leads its ``fence`` is open, and never for longer than ``renew_deadline_seconds`` after the request of the
      last successful renewal was **sent**. Everything that is guarded has to go through the fence.
    * :meth:`run` raises :class:`LeaseLostError` when the lease is lost, with the fence closed before. What was the
      leader once is not a candidate again: make a new program of it.
    * What it is answered wakes the watches that wait for the same server (``reachability``).
    * :meth:`stop` gives the lease back, so that the next one need not wait. Call it when nothing is under way that the
      lease guards; where a write got no answer it is not given back, as the write may still come.

    Whoever deletes the lease, or edits its holder, takes these promises away.
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
            raise ValueError("an elector needs an identity that no other one has")
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

        Cancelling it closes the fence at once and leaves the lease to run out.
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
        """Return once this process leads."""
        await self._led.wait()

    def why_not_ready(self) -> str:
        """Return who leads, or what keeps us from knowing it."""
        if self._last_error:
            return f"the lease {self._key}: {self._last_error}{_advice(self._last_error)}"
        held_by = machine.holder(self._state)
        if not held_by or held_by == self._rules.identity:
            return f"the lease {self._key} is about to be taken"
        return f"the lease {self._key} is held by {held_by}"

    async def stop(self, grace_seconds: float) -> None:
        """Have :meth:`run` give back what it holds and return. Returns at once; it takes two requests at most."""
        self._stopping.set()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def statistics(self) -> ElectionStatistics:
        """Return how it is now."""
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
        """Return what upstream's metrics tell of an election."""
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
                "Renewals that needed a second look at the lease.",
                (Sample(now.slow_paths, labels),),
            ),
        ]

    # ------------------------------------------------------------------------------------------- one step

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
        """Close the fence, for good, and say so where there was a term."""
        self._fence.close()
        if self._leads_until is not None:
            self._leads_until = None
            self._tell("stopped leading")

    def _tell(self, what: str) -> None:
        """Write an Event about the lease, in client-go's words."""
        if self._recorder is not None:
            about = reference(LEASES, Lease(metadata=self._meta))
            self._recorder.event(about, "Normal", EVENT_REASON, f"{self._rules.identity} {what}")

    def _may_release(self) -> bool:
        if self._fence.is_settled(self._rules.lease_seconds):
            return True
        if self._leads_until is not None:
            logger.warning("the lease is left to run out, a write has no answer: lease=%s", self._lease)
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
                raise AssertionError("nothing follows the end")
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
            # A 404 that does not name it says less: an API server that is starting answers so to anything.
            details = error.status.details
            if details is None or details.name != self._key.name:
                raise
            return machine.Missing()

    async def _write(self, writing: Awaitable[Lease]) -> machine.Event:
        try:
            return machine.Written(await writing)
        except (ConflictError, AlreadyExistsError) as error:
            logger.debug("somebody was quicker: lease=%s error=%s", self._lease, error)
            return machine.Refused()

    async def _request(self, request: Coroutine[Any, Any, machine.Event]) -> machine.Event:
        """Send a request, with a bound on its time: a leader's right to write is one."""
        seconds = request_seconds(self._rules)
        if self._leads_until is not None:
            seconds = max(0.0, min(seconds, self._leads_until - self._lease_clock()))
        try:
            async with asyncio.timeout(seconds) as self._limit:
                event = await request
        except TimeoutError:
            if not self._stopping.is_set():
                self._complain(f"no answer within {seconds:.3g} s")
            return machine.Failed()
        except ClientError as error:
            self._complain(str(error))
            return machine.Failed()
        finally:
            self._limit = None
        if self._told_error:
            logger.info("the lease is answered again: lease=%s", self._lease)
        self._last_error = self._told_error = ""
        if self._reachability is not None:
            self._reachability.answered(self.name)
        return event

    def _complain(self, problem: str) -> None:
        """Say what went wrong: loudly once, as the same again and again tells nothing new."""
        self._failures += 1
        self._last_error = problem
        level = logging.DEBUG if problem == self._told_error else logging.WARNING
        self._told_error = problem
        logger.log(level, "no answer about the lease: lease=%s error=%s", self._lease, problem)


def _advice(problem: str) -> str:
    """Return what to do about it, where that is known."""
    if "cannot get resource" in problem or "cannot create resource" in problem or "cannot update" in problem:
        return " (grant it get, create and update of leases: a role, and a binding to that user)"
    return ""
