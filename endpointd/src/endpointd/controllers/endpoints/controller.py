"""The Endpoints controller: store events update service states, the queue syncs them, each sync makes one write.

It handles every change in the loop turn in which it is stored, keeps the state of each service, and enqueues
services whose Endpoints may be wrong. A worker then makes one plan and executes it.
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
"""The backoff of a failing service. It is retried forever (upstream drops it after 16 attempts)."""

_MIN_REST_SECONDS = 0.005
"""A shorter rest, as of a small service, is not worth a timer."""

_ATTEMPTS = 3
"""The number of plans per reconcile with newer server state, before the backoff applies."""


class EndpointsSettings(msgspec.Struct, frozen=True):
    """The settings of the controller. Durations are in seconds."""

    batch_period_seconds: float = 0.0
    """How long a pod change waits for further ones (E-2): a window that the first change opens."""
    rest_seconds_per_address: float = 0.0001
    """How long a service rests between writes caused by pods, per address: an Endpoints is written as a
    whole, and a large, constantly changing one must not take the time that slices need."""
    repair_interval_seconds: float = 1.0
    """The minimum interval between repairs of external edits of one Endpoints."""
    orphan_grace_seconds: float = 1.0
    """How long the API server has to delete the Endpoints together with its service before we delete it."""


class EndpointsController:
    """Keeps the Endpoints of services with a selector up to date (behaviour 1).

    Call :meth:`start` after the stores have synced and membership has started; from then on membership and
    the store of Endpoints deliver events. :meth:`reconcile` must not run concurrently for one service, which
    the queue ensures.

    Guarantees: a service's Endpoints converges to its pods after any failure, and external edits are
    repaired. Correct objects are not written. Endpoints of services without selector, ExternalName services
    and leader elections are never touched; Endpoints without a service are deleted only when their service is
    deleted, and at the start (E-3, E-5, E-10 to E-12).
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
        # A published service has a state from its first sync on; before that it is queued.
        self._states: dict[ObjectKey, ServiceState] = {}
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        # The state that the audit is rebuilding: it must receive concurrent changes.
        self._audited: tuple[ObjectKey, ServiceState] | None = None
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._writes = WriteRecorder(endpoints, _content)
        self.rejections = Rejections(recorder)

    def start(self) -> None:
        """Run all of :meth:`start_steps` immediately."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Subscribe to changes, and enqueue every service and every Endpoints without a service.

        Costs O(services + endpoints): workers build the states, service by service.
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

    # ------------------------------------------------------------------------------------------ events

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Sync a service that was created, updated or deleted immediately (E-1)."""
        if new is None:
            if old is not None:
                key = key_of(old)
                self._forget(key)
                self._queue.add_after(key, self._settings.orphan_grace_seconds)  # E-10
            return
        key = key_of(new)
        if not is_published(new):  # E-11, E-12: existing Endpoints stay
            self._forget(key)
            return
        state = self._states.get(key)
        if state is not None:
            state.service_changed(new)
        self._queue.add(key)

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Apply a change of one pod of one service; sync after the batch period (E-2) and the service's rest."""
        state = self._states.get(service) or self._create_state(service)
        if state is None:
            return
        pod = new if new is not None else old
        try:
            changed = state.pod_changed(old, new)
            if self._audited is not None and self._audited[0] == service:
                self._audited[1].pod_changed(old, new)
            if pod is not None:
                self._record_rejection(state, pod.metadata.name, new)
        except Exception:  # the change may have been applied partially
            self._schedule_rebuild(service)
            raise
        if changed:
            delay_seconds = self._settings.batch_period_seconds
            self._queue.add_after(service, max(delay_seconds, self._rest_seconds(state)))
        elif not state.needs_plan:
            # The change affects nothing published: a later, unrelated write must not carry its time (0.6).
            state.trigger_times.take()

    def _create_state(self, key: ObjectKey) -> ServiceState | None:
        """Return a new, incomplete state of a service, or None if it is not published."""
        service = self._services.get(key)
        if service is None or not is_published(service):
            return None
        state = self._states[key] = ServiceState(service)
        return state

    def _schedule_rebuild(self, key: ObjectKey) -> None:
        """Rebuild a service's state from the caches in its next sync."""
        before = self._states.pop(key, None)
        state = self._create_state(key)
        if state is not None:
            if before is not None:
                state.inherit(before)
            self._queue.add(key)

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Check an Endpoints that another client wrote or deleted, and schedule a repair if needed.

        Upstream handles only deletions, and repairs an edit at the next other event (E-3).
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
        """Return the stored Endpoints, or our sent one if the server stored it with modifications.

        Annotations added by other clients are kept, as in any update.
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
        """Return the remaining rest of a service after its last write."""
        rest_seconds = min(len(state.desired), MAX_ADDRESSES) * self._settings.rest_seconds_per_address
        if state.written_at is None or rest_seconds < _MIN_REST_SECONDS:
            return 0.0
        return state.written_at + rest_seconds - self._clock.monotonic()

    def _forget(self, key: ObjectKey) -> None:
        self._states.pop(key, None)
        self.rejections.forget(key)

    # ------------------------------------------------------------------------------------------ syncing

    async def reconcile(self, key: ObjectKey) -> None:
        """Bring the Endpoints of a service up to date, or delete it if the service is deleted.

        If the server's state is newer than our store, it is read and planned again immediately. Raises
        ``ReconcileError`` if the write failed; an Event reports it (E-22).
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
        """Return the completed state of a service, or None if the service is no longer published."""
        while True:
            state = self._states.get(key) or self._create_state(key)
            if state is None or (state.is_complete and self._relists.is_open):
                return state
            if state.is_complete:
                await self._relists.wait_open()
                continue
            await self._pacer.run(state.fill(self._members(key, state)))
            if self._states.get(key) is state:
                self.rejections.retain(state.service, lambda pod: self._membership.is_member(key, pod))

    def _members(self, key: ObjectKey, state: ServiceState) -> Iterator[Pod]:
        """Yield the members of a service, and record for each whether its address is rejected."""
        for pod in self._membership.pods_of(key):
            yield pod
            self._record_rejection(state, pod.metadata.name, pod)

    def _record_rejection(self, state: ServiceState, name: str, pod: Pod | None) -> None:
        self.rejections.record(state.service, name, state.rejection_of(pod) if pod is not None else None)

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
        observed = self._observed(key)  # read again: completing the state may have taken a while
        taken = state.trigger_times.take()  # E-14: consumed even if nothing is written
        state.needs_plan = False
        plan = state.plan(observed, taken)
        if isinstance(plan, Nothing):
            return None
        state.written_at = (
            self._clock.monotonic()
        )  # the start of the write: changes during the write rest, too
        failure: WriteFailure | None = None
        written = False
        try:
            failure = await self._applier.apply(plan, observed)
            written = failure is None
        finally:
            if not written:
                state.trigger_times.put_back(taken)
                state.needs_plan = True
        return self._omit_rejected(key, failure) if failure is not None else None

    def _omit_rejected(self, key: ObjectKey, failure: WriteFailure) -> WriteFailure:
        """Omit the addresses that a failure names as rejected, so that the object can be written without them."""
        if not failure.rejected:
            return failure
        self._audited = None  # a rebuilt state does not know of it
        state = self._states.get(key)
        is_omitted = state is not None and self.rejections.omit_rejected(
            state.service, failure.rejected, state.reject
        )
        return msgspec.structs.replace(failure, outdated=True) if is_omitted else failure

    # The applier reports into the store; our own handler runs within the call and ignores the event.

    def wrote(self, sent: Endpoints, answer: Endpoints) -> None:
        """Record the server's response to a write."""
        state = self._states.get(key_of(answer))
        if state is not None:
            state.written_version = answer.metadata.resource_version
        self._writes.record(sent, answer)

    def found(self, item: Endpoints) -> None:
        """Record an Endpoints that differs from our write's expectation."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of an Endpoints."""
        self._writes.record_gone(key, uid)

    # ------------------------------------------------------------------------------------------ audit

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services to audit."""
        published = {key_of(service) for service in self._services.values() if is_published(service)}
        return list(self._states.keys() | published)

    def audit(self, key: ObjectKey) -> str | None:
        """Run all of :meth:`audit_steps` immediately."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Rebuild one service from the caches; if its state differs, schedule a rebuild and return the difference.

        Enqueues a service that needs a sync but is not queued. Costs O(the service).
        """
        state = self._states.get(key)
        service = self._services.get(key)
        if service is None or not is_published(service):
            if state is None:
                return None
            self._forget(key)
            return "an unexpected state"
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
        current, expected = state.snapshot(), rebuilt.snapshot()
        is_queued = state.needs_plan and self._queue.is_pending(key)
        is_lost = not is_queued and not isinstance(rebuilt.plan(self._observed(key), None), Nothing)
        lost = "a lost wake-up" if state.needs_plan else "the stored object"
        wrong = yield from differences(current, expected)
        if is_lost and not wrong:
            wrong.append(lost)
        if wrong:
            self._schedule_rebuild(key)
        return ", ".join(wrong) or None


def _content(item: Endpoints) -> tuple[object, ...]:
    """Return the parts of an Endpoints that the controller manages."""
    return item.metadata.labels or None, item.metadata.annotations or None, item.subsets or None
