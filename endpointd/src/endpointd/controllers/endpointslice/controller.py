"""The EndpointSlice controller: from changes in the stores to service states to the queue to writes.

It is told of every change in the loop turn in which it is stored, keeps the state of each service, and puts the
services whose slices may be wrong into the queue. A worker then makes one plan and carries it out.
"""

import logging
from collections.abc import Iterator, Mapping

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
from endpointd.controllers.audit import differences
from endpointd.controllers.endpointslice.apply import SliceApplier
from endpointd.controllers.endpointslice.desired import service_of
from endpointd.controllers.endpointslice.node_zones import MISSING_NODE_GRACE_SECONDS, NodeZones
from endpointd.controllers.endpointslice.observer import NoObserver, SliceObserver
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable
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
"""How long a service waits after its failures. It is never given up (upstream drops it after 16 attempts)."""

# Each one learns of a slice that was changed or deleted by others; more than a few is a quarrel, and waits.
_REPLANS = 5


ZONES = ObjectKey("", "zones")
"""The key under which the queue and the audit handle what follows from the nodes' zones: nodes that have been missing for too
long, and the zones' parts of the CPU. No service has an empty namespace."""


class EndpointSliceSettings(msgspec.Struct, frozen=True):
    """What can be set. Durations are in seconds."""

    max_endpoints_per_slice: int = 100
    batch_period_seconds: float = 0.0
    writes_at_once: int = 32
    repair_interval_seconds: float = 1.0
    """How long a second repair of what somebody else changed in a service's slices waits after the first."""
    missing_node_grace_seconds: float = MISSING_NODE_GRACE_SECONDS
    """How long a Node that disappeared counts as present: its pods stay published."""


class SyncFailedError(ReconcileError):
    """Slices of a service could not be made right; the message says which and why."""


class EndpointSliceController:
    """Keeps the EndpointSlices of services with a selector right (behaviour 2).

    Call :meth:`start` once the stores have synced and membership has started; from then on it is told by membership
    and the stores. :meth:`reconcile` is never called for one service twice at a time.

    No step of it takes long, however large a service is: the state of a service is built by the worker that syncs it,
    in slices of a loop turn (``pacer``), and so is the audit's. Plans are the exception: a plan is made in one step,
    which takes O(what changed).
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
            writer, self, writes_at_once=settings.writes_at_once, observer=self._observer
        )
        self._states: dict[ObjectKey, ServiceState] = {}
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._zones = ZoneTable()
        self._node_zones = NodeZones(nodes, clock, settings.missing_node_grace_seconds)
        self._topology_aware: set[ObjectKey] = set()
        self.rejections = Rejections(recorder)
        self._writes = WriteRecorder(slices, slice_content)
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        # What the audit is rebuilding: it must hear of the changes that come meanwhile.
        self._audited: tuple[ObjectKey, ServiceState] | None = None

    def start(self) -> None:
        """Do all of :meth:`start_steps` at once."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Listen from now on, and put every service into the queue: the workers build their states.

        Costs O(services + nodes).
        """
        self._membership.subscribe(self)
        self._slices.subscribe(self.slice_changed)
        self._nodes.subscribe(self.node_changed)
        for count, key in enumerate(self._nodes.keys(), 1):
            self._zones.set_node(key.name, self._nodes.get(key))
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        node_names = map(str, self._pods.index_keys(PODS_BY_NODE))
        self._node_zones.keep_published(node_names, self._slices.values, self._owner_of)
        self._await_expiry()
        for count, key in enumerate(self._services.keys(), 1):
            service = self._services.get(key)
            if service is not None and _is_selected(service):
                self._queue.add(key)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ changes

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Have the state of a service built again by its next sync (S-1)."""
        if new is not None:
            self._renew(new)
        elif old is not None:
            self._forget(key_of(old))  # S-10: its slices are left to garbage collection

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Look at one pod of one service (S-2)."""
        state = self._states.get(service) or self._begin(service)
        pod = new if new is not None else old
        if state is None or pod is None:
            return
        try:
            state.trigger_times.pod_changed(
                old.ready_since if old is not None else None, new.ready_since if new is not None else None
            )
            self._set_pod(service, state, pod.metadata.name, new)
            to_be_planned = self._enqueue(service, state, self._settings.batch_period_seconds)
        except Exception:
            self._distrust(service)
            raise
        if to_be_planned:
            self._observer.pod_changed(service)

    def _set_pod(self, service: ObjectKey, state: ServiceState, name: str, pod: Pod | None) -> None:
        state.set_pod(name, pod)
        if self._audited is not None and self._audited[0] == service:
            self._audited[1].set_pod(name, pod)
        self._note_rejection(service, state, name, pod)

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Look at one slice; what somebody else changed is repaired at once (S-3 waits, and misses some)."""
        if (
            self._writes.observe(old, new)
            and old is not None
            and new is not None
            and old.unknown == new.unknown
        ):
            return  # it counts as what was sent, which is known
        was = service_of(old) if old is not None else None
        now = service_of(new) if new is not None else None
        if was is not None and old is not None and was != now:
            self._observe(was, old.metadata.name, None)
        if now is not None and new is not None:
            self._observe(now, new.metadata.name, new)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at the pods of a node that came or changed its zone (S-4 leaves them as they were).

        Those of a node that went are looked at once it has been missing for too long. Where the zones' parts of the CPU change with it, the services whose hints no longer fit are looked at, too.
        """
        node = new if new is not None else old
        if node is None:
            return
        if self._zones.set_node(node.metadata.name, new) and self._topology_aware:
            self._queue.add(ZONES)
        if self._node_zones.node_changed(old, new):
            self._look_at_pods_on(node.metadata.name)
        if new is None:
            self._await_expiry()

    def _look_at_pods_on(self, node_name: str) -> None:
        for pod in self._pods.by_index(PODS_BY_NODE, node_name):
            for service in self._membership.services_of(pod):
                state = self._states.get(service)
                if state is None:
                    continue
                try:
                    self._set_pod(service, state, pod.metadata.name, pod)
                    self._enqueue(service, state, self._settings.batch_period_seconds)
                except Exception:
                    log.exception(
                        "a change of node %s could not be applied to service %s", pod.node_name, service
                    )
                    self._distrust(service)

    def _owner_of(self, endpoint_slice: EndpointSlice) -> Service | None:
        key = service_of(endpoint_slice)
        return self._services.get(key) if key is not None else None

    def _await_expiry(self) -> None:
        seconds = self._node_zones.seconds_until_expiry()
        if seconds is not None:
            self._queue.add_after(ZONES, seconds)

    def _expire_nodes(self) -> Steps[None]:
        """Withdraw the pods of the nodes that have been missing for too long (S-31.4)."""
        try:
            for name in self._node_zones.expire():
                self._look_at_pods_on(name)
                yield STEPS_A_YIELD
        finally:
            self._await_expiry()

    def _reconsider_zones(self) -> Steps[None]:
        """Look at the services whose hints cannot stay for the zones as they are, or were refused and can be given (S-98).

        Costs O(topology-aware services) for any number of changes of nodes, and plans only what they affect.
        """
        for count, key in enumerate(list(self._topology_aware), 1):
            state = self._states.get(key)
            if state is not None:
                self._enqueue(key, state, self._settings.batch_period_seconds)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    def _new_state(self, service: Service) -> ServiceState:
        return ServiceState(service, self._node_zones.zone_of, self._ratios)

    def _begin(self, key: ObjectKey) -> ServiceState | None:
        """Return a new, incomplete state of a service, None if it selects nothing (S-11, S-12: what there is stays)."""
        service = self._services.get(key)
        if service is None or not _is_selected(service):
            return None
        state = self._states[key] = self._new_state(service)
        if state.is_topology_aware:
            self._topology_aware.add(key)
        else:
            self._topology_aware.discard(key)
        return state

    def _renew(self, service: Service) -> None:
        """Have a service's next sync build its state again from the caches."""
        key = key_of(service)
        before = self._states.get(key)
        self._topology_aware.discard(key)
        if not _is_selected(service):  # S-11, S-12: what there is stays
            self._states.pop(key, None)
            self.rejections.forget(key)
            return
        self._queue.add(key)
        state = self._begin(key)
        if state is not None and before is not None and before.service.metadata.uid == service.metadata.uid:
            state.take_over(before)

    def _distrust(self, key: ObjectKey) -> None:
        """Build the state of a service again after a change was applied to it in part."""
        service = self._services.get(key)
        if service is not None:
            self._renew(service)

    def _forget(self, service: ObjectKey) -> None:
        self._observer.forgot(service)
        self._topology_aware.discard(service)
        self._states.pop(service, None)
        self.rejections.forget(service)

    def _describe(self, service: ObjectKey) -> None:
        state = self._states.get(service)
        if state is not None:
            self._observer.described(state.service, state.counts(self._settings.max_endpoints_per_slice))

    def _filling(self, key: ObjectKey, state: ServiceState) -> Steps[None]:
        """Take what the caches hold of a service into an incomplete state."""
        names = sorted(
            key_of(endpoint_slice) for endpoint_slice in self._slices.by_index(SLICES_BY_SERVICE, key)
        )
        found = (self._slices.get(name) for name in names)  # as they are when their turn comes
        return state.fill(
            self._members(key, state),
            (
                counted
                for endpoint_slice in found
                if endpoint_slice and service_of(counted := self._as_sent(endpoint_slice)) == key
            ),
        )

    def _members(self, key: ObjectKey, state: ServiceState) -> Iterator[Pod]:
        """Yield the members of a service, and note after each one whether its endpoint is rejected."""
        for pod in self._membership.pods_of(key):
            yield pod
            self._note_rejection(key, state, pod.metadata.name, pod)

    def _note_rejection(self, key: ObjectKey, state: ServiceState, name: str, pod: Pod | None) -> None:
        if self._states.get(key) is state:
            problem = state.rejection_of(pod) if pod is not None else None
            self.rejections.note(state.service, name, problem)

    def _as_sent(self, endpoint_slice: EndpointSlice) -> EndpointSlice:
        """Return what a slice counts as: what we sent, where it is what the server made of that.

        What others added to its annotations stays, as in any update.
        """
        sent = self._writes.sent_for(endpoint_slice)
        if sent is None:
            return endpoint_slice
        metadata = msgspec.structs.replace(
            endpoint_slice.metadata,
            labels=sent.metadata.labels,
            owner_references=sent.metadata.owner_references,
        )
        return msgspec.structs.replace(
            endpoint_slice, metadata=metadata, endpoints=sent.endpoints or None, ports=sent.ports or None
        )

    def _ratios(self) -> Mapping[str, float] | None:
        return self._zones.ratios

    def _observe(self, service: ObjectKey, name: str, endpoint_slice: EndpointSlice | None) -> None:
        state = self._states.get(service)
        if state is None:
            return
        try:
            counted = self._as_sent(endpoint_slice) if endpoint_slice is not None else None
            self._take_in(service, state, name, counted)
        except Exception:
            self._distrust(service)
            raise
        if self._writes.under_way or not state.needs_plan:
            return
        self._enqueue(service, state, self._repair_throttle.delay_seconds(service))

    def _take_in(
        self, service: ObjectKey, state: ServiceState, name: str, counted: EndpointSlice | None
    ) -> None:
        state.observe(name, counted)
        if self._audited is not None and self._audited[0] == service:
            self._audited[1].observe(name, counted)

    def _enqueue(self, service: ObjectKey, state: ServiceState, delay_seconds: float) -> bool:
        """Have a service looked at where it may need it; return whether something may have to be written."""
        needs_plan = state.needs_plan
        if not needs_plan:
            # What was noted of times changed nothing that is written: a later write must not tell of it (0.6).
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
        """Make the slices of a service right. Raises :class:`SyncFailedError` where something could not be written.

        Where the server knows better than our store, what it has is taken in and planned again, at once and quietly.
        """
        if key == ZONES:
            await self._pacer.run(self._expire_nodes())
            await self._pacer.run(self._reconsider_zones())
            return
        failures = await self._sync(key)
        for _ in range(_REPLANS):
            if not failures or not all(failure.outdated for failure in failures):
                break
            self._observer.synced("stale")
            failures = await self._sync(key)
        state = self._states.get(key)
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

    async def _complete(self, key: ObjectKey) -> ServiceState | None:
        """Return the state of a service once it is complete, None if the service selects nothing.

        It is returned in a turn in which no relist is told in part, so a plan sees all of a relist or nothing.
        """
        while True:
            state = self._states.get(key) or self._begin(key)
            if state is None:
                return None
            if state.is_complete and self._relists.is_open:
                return state
            if state.is_complete:
                await self._relists.wait_open()
                continue
            await self._pacer.run(self._filling(key, state))
            if self._states.get(key) is state:
                self.rejections.retain(state.service, lambda pod: self._membership.is_member(key, pod))
                self._describe(key)

    async def _sync(self, key: ObjectKey) -> list[SliceFailure]:
        state = await self._complete(key)
        if state is None:
            return []
        taken = state.trigger_times.take()
        plan = state.plan(self._settings.max_endpoints_per_slice, taken)
        hint_events = state.hint_events(plan)
        failures: list[SliceFailure] = []
        observer = self._observer
        family_plans = [family_plan for _, family_plan in plan.families]
        observer.planned(state.service, family_plans, families=len(state.translator.address_types))
        is_written = not plan.is_empty
        try:
            if is_written:
                failures = await self._applier.apply(state.service, plan)
        except BaseException:
            state.trigger_times.put_back(taken)
            observer.failed(key)
            raise
        finally:  # S-75: whatever became of the writes
            for event in hint_events:
                self._recorder.event(
                    reference(SERVICES, state.service), event.type, event.reason, event.message
                )
        if failures:
            state.trigger_times.put_back(taken)
            failures = [self._leave_out(key, failure) for failure in failures]
        if failures:
            observer.failed(key)
        else:
            observer.completed(key, wrote=is_written)
        self._describe(key)
        return failures

    def _leave_out(self, key: ObjectKey, failure: SliceFailure) -> SliceFailure:
        """Leave out the endpoints that a failure names as rejected; then the slice can be written without them."""
        if not failure.rejected:
            return failure
        self._audited = None  # a rebuilt state knows nothing of it
        state = self._states.get(key)
        left_out = state is not None and self.rejections.leave_out(
            state.service, failure.rejected, state.reject
        )
        return msgspec.structs.replace(failure, outdated=True) if left_out else failure

    # What the applier tells of its writes enters the store; our own handler hears of it within the call.

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Take in the server's answer to a write."""
        self._writes.record(sent, answer)
        stored = self._slices.get(key_of(answer))
        if stored is not None and self._writes.sent_for(stored) is not None:
            # The store has told nothing where the watch was faster, or where the write changed nothing.
            owner = service_of(stored)
            state = self._states.get(owner) if owner is not None else None
            if owner is not None and state is not None:
                self._take_in(owner, state, stored.metadata.name, self._as_sent(stored))

    def found(self, item: EndpointSlice) -> None:
        """Take in a slice that the server has in the place of what was expected."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that a slice is gone."""
        self._writes.record_gone(key, uid)

    # ------------------------------------------------------------------------------------------ auditing

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services there are to audit, and the table of zones."""
        return [ZONES, *(self._states.keys() | {key_of(service) for service in self._services.values()})]

    def audit(self, key: ObjectKey) -> str | None:
        """Do all of :meth:`audit_steps` at once."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Rebuild one service from the caches; where its state differs, have it built again, and return what was wrong.

        One that needs a sync that nobody has queued is queued. Costs O(the service).
        """
        if key == ZONES:
            return self._audit_zones()
        wrong: list[str] = []
        state = self._states.get(key)
        service = self._services.get(key)
        if service is None or not _is_selected(service):
            if state is not None:
                self._forget(key)
                wrong.append("a state where there should be none")
            return ", ".join(wrong) or None
        if state is None or not state.is_complete:
            if not self._queue.is_pending(key):
                self._queue.add(key)
                wrong.append("no state" if state is None else "a lost wake-up")
        elif (key in self._topology_aware) != state.is_topology_aware:
            wrong.append("the topology-aware services")
        elif not wrong:
            wrong = yield from self._compare(key, service, state)
        if wrong and state is not None and self._states.get(key) is state:
            self._distrust(key)
        return ", ".join(wrong) or None

    def _compare(self, key: ObjectKey, service: Service, state: ServiceState) -> Steps[list[str]]:
        """Rebuild a complete state, and return what differs, or would be written although nobody has queued it."""
        rebuilt = self._new_state(service)
        rebuilt.rejected.update(state.rejected)
        self._audited = key, rebuilt
        try:
            yield from self._filling(key, rebuilt)
            was_fed = self._audited is not None
        finally:
            self._audited = None
        if not was_fed or self._states.get(key) is not state or ZONES in self._queue.held():
            return []
        at_rest = not state.needs_plan
        mine, theirs = state.snapshot(at_rest=at_rest), rebuilt.snapshot(at_rest=at_rest)
        is_looked_at = not at_rest and self._queue.is_pending(key)
        is_lost = not is_looked_at and not self._plan_is_empty(rebuilt)
        wrong = yield from differences(mine, theirs)
        if is_lost and not wrong:
            wrong.append("the plan" if at_rest else "a lost wake-up")
        return wrong

    def _audit_zones(self) -> str | None:
        """Compare the table of zones with the nodes, and replace it if it differs. Costs O(nodes)."""
        rebuilt = ZoneTable()
        for node in self._nodes.values():
            rebuilt.set_node(node.metadata.name, node)
        seconds = self._node_zones.seconds_until_expiry()
        if seconds is not None and not self._queue.is_pending(ZONES):
            self._queue.add_after(ZONES, seconds)
            return "a lost wake-up"
        if rebuilt.snapshot() == self._zones.snapshot():
            return None
        self._zones = rebuilt
        self._queue.add(ZONES)
        return "the table of zones"

    def rebuilt(self, service: Service) -> ServiceState:
        """Return what the state of a service should be, built from the caches in one go: for tests."""
        state = self._new_state(service)
        current = self._states.get(key_of(service))
        if current is not None:
            state.rejected.update(current.rejected)
        run_at_once(self._filling(key_of(service), state))
        return state

    def _plan_is_empty(self, state: ServiceState) -> bool:
        return state.plan(self._settings.max_endpoints_per_slice, None).is_empty


def _is_selected(service: Service) -> bool:
    return bool(service.selector) and not service.is_external_name
