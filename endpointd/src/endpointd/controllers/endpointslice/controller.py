"""The EndpointSlice controller: store events update service states, the queue syncs them, plans are written.

It handles every change in the loop turn in which it is stored, keeps the state of each service, and enqueues
services whose slices may be wrong. A worker then makes one plan and executes it.
"""

import logging

import msgspec

from aiokube.api.core import SERVICES, Node, Pod, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey, key_of
from aiokube.backoff import ExponentialBackoff
from aiokube.clock import Clock
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventRecorder, reference
from aiokube.runtime.pacing import STEPS_A_YIELD, LoopPacer, Steps, run_at_once
from aiokube.runtime.relist_gate import RelistGate
from aiokube.runtime.store import Store
from aiokube.runtime.writer import Writer
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpointslice.apply import SliceApplier
from endpointd.controllers.endpointslice.audit import ZONES, SliceAudit
from endpointd.controllers.endpointslice.desired import service_of
from endpointd.controllers.endpointslice.node_zones import MISSING_NODE_GRACE_SECONDS, NodeZones
from endpointd.controllers.endpointslice.observer import NoObserver, SliceObserver
from endpointd.controllers.endpointslice.service_states import ServiceStates, has_selector
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.indexes import (
    PODS_BY_NODE,
    SLICES_BY_SERVICE,
    node_names_of,
    service_names_of,
)
from endpointd.controllers.membership import Membership
from endpointd.controllers.recording import WriteRecorder, slice_content
from endpointd.controllers.rejections import Rejections
from endpointd.controllers.repair_throttle import RepairThrottle
from endpointd.controllers.slice_writes import SliceFailure

log = logging.getLogger(__name__)

NAME = "endpointslice-controller"
EVENT_COMPONENT = "endpoint-slice-controller"
QUEUE_NAME = "endpoint_slice"
RETRY_BACKOFF = ExponentialBackoff(base_seconds=1.0, factor=2.0, cap_seconds=60.0)
"""The backoff of a failing service. It is retried forever (upstream drops it after 16 attempts)."""

# Each attempt discovers a slice that another client changed or deleted; repeated conflicts fall back to
# backoff.
_REPLANS = 5


class EndpointSliceSettings(msgspec.Struct, frozen=True):
    """The settings of the controller. Durations are in seconds."""

    max_endpoints_per_slice: int = 100
    batch_period_seconds: float = 0.0
    max_concurrent_writes: int = 32
    repair_interval_seconds: float = 1.0
    """The minimum interval between repairs of external edits of one service's slices."""
    missing_node_grace_seconds: float = MISSING_NODE_GRACE_SECONDS
    """How long a missing Node counts as present, so that its pods stay published."""


class SyncFailedError(ReconcileError):
    """Slices of a service could not be written; the message names them and the cause."""


class EndpointSliceController:
    """Keeps the EndpointSlices of services with a selector up to date (behaviour 2).

    Call :meth:`start` after the stores have synced and membership has started; from then on membership and
    the stores deliver events. :meth:`reconcile` never runs concurrently for one service.

    No step takes long, even for a large service: the worker that syncs a service builds its state in slices
    of a loop turn (``pacer``), and so does the audit. The exception is a plan: it is made in one step of
    O(changes).
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        pods: Store[Pod],
        nodes: Store[Node],
        slices: Store[EndpointSlice],
        membership: Membership,
        writer: Writer,
        queue: WorkQueue[ObjectKey],
        recorder: EventRecorder,
        clock: Clock,
        settings: EndpointSliceSettings,
        observer: SliceObserver | None = None,
        pacer: LoopPacer | None = None,
        relists: RelistGate | None = None,
    ) -> None:
        self._services = services
        self._pods = pods
        self._nodes = nodes
        self._slices = slices
        pods.add_index(PODS_BY_NODE, node_names_of)
        slices.add_index(SLICES_BY_SERVICE, service_names_of)
        self._membership = membership
        self._queue = queue
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._observer: SliceObserver = observer or NoObserver()
        self._applier = SliceApplier(
            writer, self, max_concurrent_writes=settings.max_concurrent_writes, observer=self._observer
        )
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._node_zones = NodeZones(nodes, clock, settings.missing_node_grace_seconds)
        self.rejections = Rejections(recorder)
        self._writes = WriteRecorder(slices, slice_content)
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        self.states = ServiceStates(
            services=services,
            slices=slices,
            membership=membership,
            node_zones=self._node_zones,
            writes=self._writes,
            queue=queue,
            rejections=self.rejections,
            observer=self._observer,
        )
        self._audit = SliceAudit(
            self.states,
            services=services,
            nodes=nodes,
            node_zones=self._node_zones,
            queue=queue,
            max_endpoints_per_slice=settings.max_endpoints_per_slice,
        )

    def start(self) -> None:
        """Run all of :meth:`start_steps` immediately."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Subscribe to changes, and enqueue every service: the workers build the states.

        Costs O(services + nodes).
        """
        self._membership.subscribe(self)
        self._slices.subscribe(self.slice_changed)
        self._nodes.subscribe(self.node_changed)
        for count, key in enumerate(self._nodes.keys(), 1):
            self.states.zones.set_node(key.name, self._nodes.get(key))
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        node_names = map(str, self._pods.index_keys(PODS_BY_NODE))
        self._node_zones.keep_published(node_names, self._slices.values, self._owner_of)
        self._schedule_expiry()
        for count, key in enumerate(self._services.keys(), 1):
            service = self._services.get(key)
            if service is not None and has_selector(service):
                self._queue.add(key)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ events

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Rebuild the state of a service in its next sync (S-1)."""
        if new is not None:
            self.states.reset(new)
        elif old is not None:
            self.states.forget(key_of(old))  # S-10: its slices are left to garbage collection

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Apply a change of one pod of one service (S-2)."""
        state = self.states.by_key.get(service) or self.states.create(service)
        pod = new if new is not None else old
        if state is None or pod is None:
            return
        try:
            state.trigger_times.pod_changed(
                old.ready_since if old is not None else None, new.ready_since if new is not None else None
            )
            self.states.set_pod(service, state, pod.metadata.name, new)
            needs_plan = self._enqueue(service, state, self._settings.batch_period_seconds)
        except Exception:
            self.states.schedule_rebuild(service)
            raise
        if needs_plan:
            self._observer.pod_changed(service)

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Apply a change of one slice; external edits are repaired immediately (S-3 waits, and misses some)."""
        if (
            self._writes.observe(old, new)
            and old is not None
            and new is not None
            and old.unknown == new.unknown
        ):
            return  # it counts as our sent slice, which is already known
        was = service_of(old) if old is not None else None
        now = service_of(new) if new is not None else None
        if was is not None and old is not None and was != now:
            self._observe(was, old.metadata.name, None)
        if now is not None and new is not None:
            self._observe(now, new.metadata.name, new)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Update the pods of a node that was added or changed its zone (S-4 leaves them unchanged).

        The pods of a deleted node are updated when its grace period expires. If the zones' CPU ratios change,
        services whose hints no longer fit are synced, too.
        """
        node = new if new is not None else old
        if node is None:
            return
        if self.states.zones.set_node(node.metadata.name, new) and self.states.topology_aware:
            self._queue.add(ZONES)
        if self._node_zones.node_changed(old, new):
            self._update_pods_on(node.metadata.name)
        if new is None:
            self._schedule_expiry()

    def _update_pods_on(self, node_name: str) -> None:
        for pod in self._pods.by_index(PODS_BY_NODE, node_name):
            for service in self._membership.services_of(pod):
                state = self.states.by_key.get(service)
                if state is None:
                    continue
                try:
                    self.states.set_pod(service, state, pod.metadata.name, pod)
                    self._enqueue(service, state, self._settings.batch_period_seconds)
                except Exception:
                    log.exception("cannot apply a change of node %s to service %s", pod.node_name, service)
                    self.states.schedule_rebuild(service)

    def _owner_of(self, endpoint_slice: EndpointSlice) -> Service | None:
        key = service_of(endpoint_slice)
        return self._services.get(key) if key is not None else None

    def _schedule_expiry(self) -> None:
        seconds = self._node_zones.seconds_until_expiry()
        if seconds is not None:
            self._queue.add_after(ZONES, seconds)

    def _expire_nodes(self) -> Steps[None]:
        """Withdraw the pods of nodes whose grace period has expired (S-31.4)."""
        try:
            for name in self._node_zones.expire():
                self._update_pods_on(name)
                yield STEPS_A_YIELD
        finally:
            self._schedule_expiry()

    def _recheck_hints(self) -> Steps[None]:
        """Sync services whose hints no longer fit the zones, or were refused and are now possible (S-98).

        Costs O(topology-aware services) for any number of node changes, and plans only affected services.
        """
        for count, key in enumerate(list(self.states.topology_aware), 1):
            state = self.states.by_key.get(key)
            if state is not None:
                self._enqueue(key, state, self._settings.batch_period_seconds)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    def _describe(self, service: ObjectKey) -> None:
        state = self.states.by_key.get(service)
        if state is not None:
            self._observer.described(state.service, state.counts(self._settings.max_endpoints_per_slice))

    def _observe(self, service: ObjectKey, name: str, endpoint_slice: EndpointSlice | None) -> None:
        state = self.states.by_key.get(service)
        if state is None:
            return
        try:
            as_sent = self.states.as_sent(endpoint_slice) if endpoint_slice is not None else None
            self.states.apply_slice(service, state, name, as_sent)
        except Exception:
            self.states.schedule_rebuild(service)
            raise
        if self._writes.under_way or not state.needs_plan:
            return
        self._enqueue(service, state, self._repair_throttle.delay_seconds(service))

    def _enqueue(self, service: ObjectKey, state: ServiceState, delay_seconds: float) -> bool:
        """Enqueue a service if it may need a sync; return whether a write may be needed."""
        needs_plan = state.needs_plan
        if not needs_plan:
            # The recorded times changed nothing published: a later write must not carry them (0.6).
            state.trigger_times.take()
            if not state.missing_nodes:
                return False
        if delay_seconds > 0:
            self._queue.add_after(service, delay_seconds)
        else:
            self._queue.add(service)
        return needs_plan

    # ------------------------------------------------------------------------------------------ syncing

    async def reconcile(self, key: ObjectKey) -> None:
        """Bring the slices of a service up to date. Raises :class:`SyncFailedError` if a write failed.

        If the server's state is newer than our store, it is read and planned again immediately, without an
        Event.
        """
        if key == ZONES:
            await self._pacer.run(self._expire_nodes())
            await self._pacer.run(self._recheck_hints())
            return
        failures = await self._sync(key)
        for _ in range(_REPLANS):
            if not failures or not all(failure.outdated for failure in failures):
                break
            self._observer.synced("stale")
            failures = await self._sync(key)
        state = self.states.by_key.get(key)
        if state is None:
            self._observer.synced("success")
            return
        texts = [failure.text for failure in failures]
        texts += [
            f"skipping Pod {pod} for Service {key}: Node {node} Not Found"  # S-31.4
            for pod, node in sorted(state.missing_nodes.items())
        ]
        if texts:
            distinct = list(dict.fromkeys(texts))
            text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
            self._recorder.event(
                reference(SERVICES, state.service),
                "Warning",
                "FailedToUpdateEndpointSlices",
                f"Error updating Endpoint Slices for Service {key}: {text}",
            )
            self._observer.synced("error")
            waits = [failure.retry_after_seconds for failure in failures if failure.retry_after_seconds]
            raise SyncFailedError(
                text,
                retry_after_seconds=max(waits, default=None),
                unavailable=bool(failures) and all(failure.unavailable for failure in failures),
            )
        self._observer.synced("success")

    async def _completed_state(self, key: ObjectKey) -> ServiceState | None:
        """Return the completed state of a service, or None if the service selects nothing.

        Returns in a loop turn without a partially dispatched relist, so a plan sees all of a relist or
        nothing.
        """
        while True:
            state = self.states.by_key.get(key) or self.states.create(key)
            if state is None:
                return None
            if state.is_complete and self._relists.is_open:
                return state
            if state.is_complete:
                await self._relists.wait_open()
                continue
            await self._pacer.run(self.states.fill_steps(key, state))
            if self.states.by_key.get(key) is state:
                self.rejections.retain(state.service, lambda pod: self._membership.is_member(key, pod))
                self._describe(key)

    async def _sync(self, key: ObjectKey) -> list[SliceFailure]:
        state = await self._completed_state(key)
        if state is None:
            return []
        taken = state.trigger_times.take()
        plan = state.plan(self._settings.max_endpoints_per_slice, taken)
        hint_events = state.hint_events(plan)
        failures: list[SliceFailure] = []
        observer = self._observer
        address_type_plans = [address_type_plan for _, address_type_plan in plan.address_type_plans]
        observer.planned(state.service, address_type_plans, address_types=len(state.translator.address_types))
        is_written = not plan.is_empty
        try:
            if is_written:
                failures = await self._applier.apply(state.service, plan)
        except BaseException:
            state.trigger_times.put_back(taken)
            observer.failed(key)
            raise
        finally:  # S-75: whether or not the writes succeeded
            for event in hint_events:
                self._recorder.event(
                    reference(SERVICES, state.service), event.type, event.reason, event.message
                )
        if failures:
            state.trigger_times.put_back(taken)
            failures = [self._omit_rejected(key, failure) for failure in failures]
        if failures:
            observer.failed(key)
        else:
            observer.completed(key, wrote=is_written)
        self._describe(key)
        return failures

    def _omit_rejected(self, key: ObjectKey, failure: SliceFailure) -> SliceFailure:
        """Omit the endpoints that a failure names as rejected, so that the slice can be written without them."""
        if not failure.rejected:
            return failure
        self.states.audited = None  # a rebuilt state does not know of it
        state = self.states.by_key.get(key)
        is_omitted = state is not None and self.rejections.omit_rejected(
            state.service, failure.rejected, state.reject
        )
        return msgspec.structs.replace(failure, outdated=True) if is_omitted else failure

    # The applier reports its writes into the store; our own handler runs within the call.

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Record the server's response to a write."""
        self._writes.record(sent, answer)
        stored = self._slices.get(key_of(answer))
        if stored is not None and self._writes.sent_for(stored) is not None:
            # The store dispatched no event if the watch was faster, or if the write changed nothing.
            owner = service_of(stored)
            state = self.states.by_key.get(owner) if owner is not None else None
            if owner is not None and state is not None:
                self.states.apply_slice(owner, state, stored.metadata.name, self.states.as_sent(stored))

    def found(self, item: EndpointSlice) -> None:
        """Record the server's current slice in place of the expected one."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of a slice."""
        self._writes.record_gone(key, uid)

    # ------------------------------------------------------------------------------------------ audit

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services to audit, and the key of the zone table."""
        return self._audit.audited_keys()

    def audit(self, key: ObjectKey) -> str | None:
        """Run all of :meth:`audit_steps` immediately."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Audit one key: see :class:`~endpointd.controllers.endpointslice.audit.SliceAudit`."""
        return self._audit.audit_steps(key)
