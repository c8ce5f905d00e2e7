"""The Endpoints controller: from changes in the stores to service states to the queue to one write.

It is told of every change in the loop turn in which it is stored, keeps the state of each service, and puts the
services whose Endpoints may be wrong into the queue. A worker then makes one plan and carries it out.
"""

from collections.abc import Iterator

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, key_of
from aiokube.backoff import ExponentialBackoff
from aiokube.clock import Clock
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventRecorder
from aiokube.runtime.pacing import STEPS_A_YIELD, LoopPacer, Steps, run_at_once
from aiokube.runtime.relist_gate import RelistGate
from aiokube.runtime.store import Store
from aiokube.runtime.writer import Writer
from aiokube.work_queue import WorkQueue
from endpointd.controllers.audit import differences
from endpointd.controllers.endpoints.apply import EndpointsApplier, WriteFailure
from endpointd.controllers.endpoints.plan import Nothing, is_published, plan_without_service
from endpointd.controllers.endpoints.state import ServiceState
from endpointd.controllers.endpoints.subsets import MAX_ADDRESSES
from endpointd.controllers.membership import Membership
from endpointd.controllers.recording import WriteRecorder
from endpointd.controllers.rejections import Rejections
from endpointd.controllers.repair_throttle import RepairThrottle

NAME = "endpoints-controller"
EVENT_COMPONENT = "endpoint-controller"
QUEUE_NAME = "endpoint"
RETRY_BACKOFF = ExponentialBackoff(base_seconds=0.005, factor=2.0, cap_seconds=60.0)
"""How long a service waits after its failures. It is never given up (upstream drops it after 16 attempts)."""

_SHORTEST_REST_SECONDS = 0.005
"""A rest shorter than this, of a small service, is not worth a timer."""

_ATTEMPTS = 3
"""How often one reconcile plans anew from what the server showed, before it leaves that to the backoff."""


class EndpointsSettings(msgspec.Struct, frozen=True):
    """What can be set. Durations are in seconds."""

    batch_period_seconds: float = 0.0
    """How long a change of a pod waits for others (E-2): a window that the first one opens."""
    rest_seconds_per_address: float = 0.0001
    """How long a service rests after a write before pods cause another, for each of its addresses: an Endpoints is
    written whole, and a large one that changes all the time must not take the time that slices need."""
    repair_interval_seconds: float = 1.0
    """How long a second repair of what somebody else changed in an Endpoints waits after the first."""
    orphan_grace_seconds: float = 1.0
    """How long the API server has to delete the Endpoints with its service, as it does, before we do."""


class EndpointsController:
    """Keeps the Endpoints of services with a selector right (behaviour 1).

    Call :meth:`start` once the stores have synced and membership has started; from then on it is told by membership
    and the store of Endpoints. :meth:`reconcile` must never be called for one service twice at a time, which the
    queue sees to.

    Promises: a service's Endpoints becomes what its pods say, whatever failed before, and what others change in it is
    repaired. Nothing is written that is right already. Endpoints of services without selector, ExternalName services
    and leader elections are never touched; those without a service are deleted only when their service goes, and at
    the start (E-3, E-5, E-10 to E-12).
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        endpoints: Store[Endpoints],
        membership: Membership,
        writer: Writer,
        queue: WorkQueue[ObjectKey],
        recorder: EventRecorder,
        clock: Clock,
        settings: EndpointsSettings,
        pacer: LoopPacer | None = None,
        relists: RelistGate | None = None,
    ) -> None:
        self._services = services
        self._endpoints = endpoints
        self._membership = membership
        self._queue = queue
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._applier = EndpointsApplier(writer, self)
        # A published service has a state from its first sync on; before that it is in the queue.
        self._states: dict[ObjectKey, ServiceState] = {}
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        # What the audit is rebuilding: it must hear of the changes that come meanwhile.
        self._audited: tuple[ObjectKey, ServiceState] | None = None
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._writes = WriteRecorder(endpoints, _content)
        self.rejections = Rejections(recorder)

    def start(self) -> None:
        """Do all of :meth:`start_steps` at once."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Listen from now on, and put into the queue every service, and every Endpoints that lost its service.

        Costs O(services + endpoints): states are built by the workers, service by service.
        """
        self._membership.subscribe(self)
        self._endpoints.subscribe(self.endpoints_changed)
        for count, key in enumerate(self._services.keys(), 1):
            service = self._services.get(key)
            if service is not None and is_published(service):
                self._queue.add(key)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        for count, key in enumerate(self._endpoints.keys(), 1):  # E-5
            if self._services.get(key) is None:
                self._queue.add_after(key, self._settings.orphan_grace_seconds)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ changes

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Look at a service that came, went or changed: at once (E-1)."""
        if new is None:
            if old is not None:
                key = key_of(old)
                self._forget(key)
                self._queue.add_after(key, self._settings.orphan_grace_seconds)  # E-10
            return
        key = key_of(new)
        if not is_published(new):  # E-11, E-12: what there is stays
            self._forget(key)
            return
        state = self._states.get(key)
        if state is not None:
            state.service_changed(new)
        self._queue.add(key)

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Look at one pod of one service, after the batch period (E-2), and not while the service rests."""
        state = self._states.get(service) or self._begin(service)
        if state is None:
            return
        pod = new if new is not None else old
        try:
            touched = state.pod_changed(old, new)
            if self._audited is not None and self._audited[0] == service:
                self._audited[1].pod_changed(old, new)
            if pod is not None:
                self._note_rejection(state, pod.metadata.name, new)
        except Exception:  # the change may have been applied in part
            self._distrust(service)
            raise
        if touched:
            delay_seconds = self._settings.batch_period_seconds
            self._queue.add_after(service, max(delay_seconds, self._rest_seconds(state)))
        elif not state.needs_plan:
            # Nothing published depends on this change: a later, unrelated write must not carry its time (0.6).
            state.trigger_times.take()

    def _begin(self, key: ObjectKey) -> ServiceState | None:
        """Return a new, incomplete state of a service, None if it is not published."""
        service = self._services.get(key)
        if service is None or not is_published(service):
            return None
        state = self._states[key] = ServiceState(service)
        return state

    def _distrust(self, key: ObjectKey) -> None:
        """Have a service's next sync build its state again from the caches."""
        before = self._states.pop(key, None)
        state = self._begin(key)
        if state is not None:
            if before is not None:
                state.take_over(before)
            self._queue.add(key)

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Look at an Endpoints that somebody else wrote or deleted, and repair it if that is due.

        Upstream looks at deletions alone, and leaves an edit until something else happens (E-3).
        """
        endpoints = new if new is not None else old
        if self._writes.observe(old, new) or self._writes.under_way or endpoints is None:
            return
        key = key_of(endpoints)
        service = self._services.get(key)
        if service is None or not is_published(service):
            return
        state = self._states.get(key)
        if state is None or not state.is_complete:
            self._queue.add(key)
            return
        if new is not None and isinstance(state.plan(new, None), Nothing):
            return
        state.needs_plan = True
        self._queue.add_after(key, self._repair_throttle.delay_seconds(key))

    def _observed(self, key: ObjectKey) -> Endpoints | None:
        """Return what a service's Endpoints counts as: what we sent, where it is what the server made of that.

        What others added to its annotations stays, as in any update.
        """
        stored = self._endpoints.get(key)
        sent = self._writes.sent_for(stored) if stored is not None else None
        if stored is None or sent is None:
            return stored
        annotations = {**(stored.metadata.annotations or {}), **(sent.metadata.annotations or {})}
        metadata = msgspec.structs.replace(
            stored.metadata, labels=sent.metadata.labels, annotations=annotations or None
        )
        return msgspec.structs.replace(stored, metadata=metadata, subsets=sent.subsets)

    def _rest_seconds(self, state: ServiceState) -> float:
        """Return how long a service still rests from its last write."""
        rest_seconds = min(len(state.desired), MAX_ADDRESSES) * self._settings.rest_seconds_per_address
        if state.written_at is None or rest_seconds < _SHORTEST_REST_SECONDS:
            return 0.0
        return state.written_at + rest_seconds - self._clock.monotonic()

    def _forget(self, key: ObjectKey) -> None:
        self._states.pop(key, None)
        self.rejections.forget(key)

    # ------------------------------------------------------------------------------------------ syncing

    async def reconcile(self, key: ObjectKey) -> None:
        """Make the Endpoints of a service right, or delete it where the service is gone.

        Where the server knows better than our store, what it has is taken in and planned again at once. Raises
        ``ReconcileError`` where it could not be written; an Event has told of it (E-22).
        """
        failure: WriteFailure | None = None
        for _ in range(_ATTEMPTS):
            failure = await self._sync(key)
            if failure is None or not failure.outdated:
                break
        if failure is None:
            return
        if failure.reason is not None and failure.regarding is not None:
            self._recorder.event(failure.regarding, "Warning", failure.reason, failure.text)
        raise ReconcileError(
            failure.text, retry_after_seconds=failure.retry_after_seconds, unavailable=failure.unavailable
        )

    async def _complete(self, key: ObjectKey) -> ServiceState | None:
        """Return the state of a service once it is complete, None if the service is not published any more."""
        while True:
            state = self._states.get(key) or self._begin(key)
            if state is None or (state.is_complete and self._relists.is_open):
                return state
            if state.is_complete:
                await self._relists.wait_open()
                continue
            await self._pacer.run(state.fill(self._members(key, state)))
            if self._states.get(key) is state:
                self.rejections.retain(state.service, lambda pod: self._membership.is_member(key, pod))

    def _members(self, key: ObjectKey, state: ServiceState) -> Iterator[Pod]:
        """Yield the members of a service, and note after each one whether its address is rejected."""
        for pod in self._membership.pods_of(key):
            yield pod
            self._note_rejection(state, pod.metadata.name, pod)

    def _note_rejection(self, state: ServiceState, name: str, pod: Pod | None) -> None:
        self.rejections.note(state.service, name, state.rejection_of(pod) if pod is not None else None)

    async def _sync(self, key: ObjectKey) -> WriteFailure | None:
        service = self._services.get(key)
        observed = self._observed(key)
        if service is None:
            return await self._applier.apply(plan_without_service(observed), observed)
        if not is_published(service):
            return None
        state = await self._complete(key)
        if state is None:
            return None
        observed = self._observed(key)  # as it is now: completing the state may have taken a while
        taken = state.trigger_times.take()  # E-14: consumed even where nothing is written
        state.needs_plan = False
        plan = state.plan(observed, taken)
        if isinstance(plan, Nothing):
            return None
        state.written_at = self._clock.monotonic()  # when it began: what changes meanwhile rests, too
        failure: WriteFailure | None = None
        written = False
        try:
            failure = await self._applier.apply(plan, observed)
            written = failure is None
        finally:
            if not written:
                state.trigger_times.put_back(taken)
                state.needs_plan = True
        return self._leave_out(key, failure) if failure is not None else None

    def _leave_out(self, key: ObjectKey, failure: WriteFailure) -> WriteFailure:
        """Leave out the addresses that a failure names as rejected; then the object can be written without them."""
        if not failure.rejected:
            return failure
        self._audited = None  # a rebuilt state knows nothing of it
        state = self._states.get(key)
        left_out = state is not None and self.rejections.leave_out(
            state.service, failure.rejected, state.reject
        )
        return msgspec.structs.replace(failure, outdated=True) if left_out else failure

    # What the applier tells enters the store; our own handler hears of it within the call, and looks away.

    def wrote(self, sent: Endpoints, answer: Endpoints) -> None:
        """Take in the server's answer to a write."""
        state = self._states.get(key_of(answer))
        if state is not None:
            state.written_version = answer.metadata.resource_version
        self._writes.record(sent, answer)

    def found(self, item: Endpoints) -> None:
        """Take in an Endpoints that was not what our write expected."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that an Endpoints is no more."""
        self._writes.record_gone(key, uid)

    # ------------------------------------------------------------------------------------------ auditing

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services there are to audit."""
        published = {key_of(service) for service in self._services.values() if is_published(service)}
        return list(self._states.keys() | published)

    def audit(self, key: ObjectKey) -> str | None:
        """Do all of :meth:`audit_steps` at once."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Rebuild one service from the caches; where its state differs, have it built again, and return what was wrong.

        One that needs a sync that nobody has queued is queued. Costs O(the service).
        """
        state = self._states.get(key)
        service = self._services.get(key)
        if service is None or not is_published(service):
            if state is None:
                return None
            self._forget(key)
            return "a state where there should be none"
        if state is None or not state.is_complete:
            if self._queue.is_pending(key):
                return None
            self._queue.add(key)
            return "no state" if state is None else "a lost wake-up"
        rebuilt = ServiceState(service, rejected=state.rejected)
        self._audited = key, rebuilt
        try:
            yield from rebuilt.fill(self._membership.pods_of(key))
            was_fed = self._audited is not None
        finally:
            self._audited = None
        if not was_fed or self._states.get(key) is not state or not state.is_complete:
            return None
        mine, theirs = state.snapshot(), rebuilt.snapshot()
        is_looked_at = state.needs_plan and self._queue.is_pending(key)
        is_lost = not is_looked_at and not isinstance(rebuilt.plan(self._observed(key), None), Nothing)
        lost = "a lost wake-up" if state.needs_plan else "what is stored"
        wrong = yield from differences(mine, theirs)
        if is_lost and not wrong:
            wrong.append(lost)
        if wrong:
            self._distrust(key)
        return ", ".join(wrong) or None


def _content(item: Endpoints) -> tuple[object, ...]:
    """Return what of an Endpoints the controller decides on."""
    return item.metadata.labels or None, item.metadata.annotations or None, item.subsets or None
