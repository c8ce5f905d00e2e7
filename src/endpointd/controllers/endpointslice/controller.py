"""The EndpointSlice controller: from changes in the stores to service states to the queue to writes.

It is told of every change in the loop turn in which it is stored, keeps the state of each service, and puts the
services whose slices may be wrong into the queue. A worker then makes one plan and carries it out.
"""

import logging
from collections.abc import Mapping

import msgspec

from endpointd.api.core import SERVICES, Node, Pod, Service
from endpointd.api.discovery import EndpointSlice
from endpointd.api.meta import ObjectKey, key_of
from endpointd.api.selectors import matches
from endpointd.clock import Clock
from endpointd.controllers.endpointslice.apply import SliceApplier
from endpointd.controllers.endpointslice.desired import service_of
from endpointd.controllers.endpointslice.metrics import Result, SliceObserver
from endpointd.controllers.endpointslice.node_zones import MISSING_NODE_GRACE_SECONDS, NodeZones
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable
from endpointd.controllers.membership import Membership
from endpointd.controllers.recording import WriteRecorder, slice_content
from endpointd.controllers.rejections import Rejections
from endpointd.controllers.repair_pace import RepairPace
from endpointd.controllers.slice_writes import SliceFailure
from endpointd.runtime.backoff import ExponentialBackoff
from endpointd.runtime.events import EventRecorder, reference
from endpointd.runtime.failures import ReconcileError
from endpointd.runtime.queue import WorkQueue
from endpointd.runtime.store import Store
from endpointd.runtime.writer import Writer

log = logging.getLogger(__name__)

NAME = "endpointslice-controller"
EVENT_COMPONENT = "endpoint-slice-controller"
QUEUE_NAME = "endpoint_slice"
RETRY_BACKOFF = ExponentialBackoff(base_seconds=1.0, factor=2.0, cap_seconds=60.0)
"""How long a service waits after its failures. It is never given up (upstream drops it after 16 attempts)."""

# Each one learns of a slice that was changed or deleted by others; more than a few is a quarrel, and waits.
_REPLANS = 5


ZONES = ObjectKey("", "zones")
"""The key under which the queue handles nodes that have been missing for too long. No service has an empty namespace."""


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

    Call :meth:`start` once the stores have synced and membership has started; from then on feed it from the stores.
    :meth:`reconcile` is never called for one service twice at a time.
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        nodes: Store[Node],
        slices: Store[EndpointSlice],
        membership: Membership,
        writer: Writer,
        queue: WorkQueue[ObjectKey],
        recorder: EventRecorder,
        clock: Clock,
        settings: EndpointSliceSettings,
        observer: SliceObserver | None = None,
    ) -> None:
        self._services = services
        self._nodes = nodes
        self._slices = slices
        self._membership = membership
        self._queue = queue
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._observer = observer
        self._applier = SliceApplier(writer, self, writes_at_once=settings.writes_at_once, observer=observer)
        self._states: dict[ObjectKey, ServiceState] = {}
        self._slice_names: dict[ObjectKey, set[str]] = {}
        self._pace = RepairPace(clock, settings.repair_interval_seconds)
        self._zones = ZoneTable()
        self._node_zones = NodeZones(nodes, clock, settings.missing_node_grace_seconds)
        self._topology_aware: set[ObjectKey] = set()
        self.rejections = Rejections(recorder)
        self._writes = WriteRecorder(slices, slice_content)

    def start(self) -> None:
        """Build the state of every service, put into the queue what may be wrong, and listen from now on."""
        for piece in self._slices.values():
            owner = service_of(piece)
            if owner is not None:
                self._slice_names.setdefault(owner, set()).add(piece.metadata.name)
        for node in self._nodes.values():
            self._zones.set_node(node.metadata.name, node)
        self._node_zones.keep_published(self._membership.node_names(), self._slices.values, self._owner_of)
        self._await_expiry()
        for service in self._services.values():
            self._build(service)
        self._membership.subscribe(self)
        self._slices.subscribe(self.slice_changed)
        self._nodes.subscribe(self.node_changed)

    # ------------------------------------------------------------------------------------------ changes

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Build a service anew (S-1)."""
        if new is not None:
            self._build(new)
        elif old is not None:
            self._forget(key_of(old))  # S-10: its slices are left to garbage collection

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Look at one pod of one service (S-2)."""
        state = self._states.get(service)
        pod = new if new is not None else old
        if state is None or pod is None:
            return
        state.trigger_times.pod_changed(
            old.ready_since if old is not None else None, new.ready_since if new is not None else None
        )
        state.set_pod(pod.metadata.name, new)
        self.rejections.note(
            state.service, pod.metadata.name, state.rejection_of(new) if new is not None else None
        )
        to_be_planned = self._wake(service, state, self._settings.batch_period_seconds)
        if self._observer is not None and to_be_planned:
            self._observer.pod_changed(service)

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
            names = self._slice_names.get(was)
            if names is not None:
                names.discard(old.metadata.name)
                if not names:
                    del self._slice_names[was]
            self._observe(was, old.metadata.name, None)
        if now is not None and new is not None:
            self._slice_names.setdefault(now, set()).add(new.metadata.name)
            self._observe(now, new.metadata.name, new)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at the pods of a node that came or changed its zone (S-4 leaves them as they were).

        Those of a node that went are looked at once it has been missing for too long. Where the zones' parts of the CPU change with it, the services whose hints no longer fit are looked at, too.
        """
        node = new if new is not None else old
        if node is None:
            return
        if self._zones.set_node(node.metadata.name, new):
            self._zones_changed()
        if self._node_zones.node_changed(old, new):
            self._look_at_pods_on(node.metadata.name)
        if new is None:
            self._await_expiry()

    def _look_at_pods_on(self, node_name: str) -> None:
        for pod in list(self._membership.pods_on(node_name)):
            for service in self._membership.services_of(pod):
                state = self._states.get(service)
                if state is not None:
                    state.set_pod(pod.metadata.name, pod)
                    self.rejections.note(state.service, pod.metadata.name, state.rejection_of(pod))
                    self._wake(service, state, self._settings.batch_period_seconds)

    def _owner_of(self, piece: EndpointSlice) -> Service | None:
        key = service_of(piece)
        return self._services.get(key) if key is not None else None

    def _await_expiry(self) -> None:
        seconds = self._node_zones.seconds_until_expiry()
        if seconds is not None:
            self._queue.add_after(ZONES, seconds)

    def _expire_nodes(self) -> None:
        """Withdraw the pods of the nodes that have been missing for too long (S-31.4)."""
        for name in self._node_zones.expire():
            self._look_at_pods_on(name)
        self._await_expiry()

    def _zones_changed(self) -> None:
        """Look at the services whose hints cannot stay for the zones as they are, or were refused and can be given (S-98)."""
        for key in self._topology_aware:
            self._wake(key, self._states[key], self._settings.batch_period_seconds)

    def _build(self, service: Service) -> None:
        key = key_of(service)
        before = self._states.get(key)
        self._topology_aware.discard(key)
        if not _is_selected(service):  # S-11, S-12: what there is stays
            self._states.pop(key, None)
            self.rejections.forget(key)
            return
        state = self._states[key] = self._rebuilt(service)
        if state.is_topology_aware:
            self._topology_aware.add(key)
        if before is not None and before.service.metadata.uid == service.metadata.uid:
            state.take_over(before)
            selected = before.service.selector or {}
            if selected != service.selector:
                for pod in self._membership.pods_of(key):
                    if not matches(selected, pod.labels):
                        state.trigger_times.pod_changed(None, pod.ready_since)
        self.rejections.replace(
            service, ((pod.metadata.name, state.rejection_of(pod)) for pod in self._membership.pods_of(key))
        )
        self._describe(key)
        self._wake(key, state, 0.0)

    def _forget(self, service: ObjectKey) -> None:
        if self._observer is not None:
            self._observer.forgot(service)
        self._topology_aware.discard(service)
        self._states.pop(service, None)
        self.rejections.forget(service)

    def _describe(self, service: ObjectKey) -> None:
        state = self._states.get(service)
        if self._observer is not None and state is not None:
            self._observer.described(state.service, state.figures(self._settings.max_endpoints_per_slice))

    def _rebuilt(self, service: Service) -> ServiceState:
        key = key_of(service)
        found = (self._slices.get(ObjectKey(key.namespace, name)) for name in self._slice_names.get(key, ()))
        before = self._states.get(key)
        return ServiceState.build(
            service,
            self._node_zones.zone_of,
            self._membership.pods_of(key),
            (self._as_sent(piece) for piece in found if piece is not None),
            self._ratios,
            before.rejected if before is not None else None,
        )

    def _as_sent(self, piece: EndpointSlice) -> EndpointSlice:
        """Return what a slice counts as: what we sent, where it is what the server made of that.

        What others added to its annotations stays, as in any update.
        """
        sent = self._writes.sent_for(piece)
        if sent is None:
            return piece
        metadata = msgspec.structs.replace(
            piece.metadata, labels=sent.metadata.labels, owner_references=sent.metadata.owner_references
        )
        return msgspec.structs.replace(
            piece, metadata=metadata, endpoints=sent.endpoints or None, ports=sent.ports or None
        )

    def _ratios(self) -> Mapping[str, float] | None:
        return self._zones.ratios

    def _observe(self, service: ObjectKey, name: str, piece: EndpointSlice | None) -> None:
        state = self._states.get(service)
        if state is None:
            return
        state.observe(name, self._as_sent(piece) if piece is not None else None)
        if self._writes.under_way or not state.needs_plan:
            return
        self._wake(service, state, self._pace.delay_seconds(service))

    def _wake(self, service: ObjectKey, state: ServiceState, delay_seconds: float) -> bool:
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
            self._expire_nodes()
            return
        failures = await self._sync(key)
        for _ in range(_REPLANS):
            if not failures or not all(failure.outdated for failure in failures):
                break
            self._tell("stale")
            failures = await self._sync(key)
        state = self._states.get(key)
        if state is None:
            self._tell("success")
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
            self._tell("error")
            waits = [failure.retry_after_seconds for failure in failures if failure.retry_after_seconds]
            raise SyncFailedError(text, retry_after_seconds=max(waits, default=None))
        self._tell("success")

    def _tell(self, result: Result) -> None:
        if self._observer is not None:
            self._observer.synced(result)

    async def _sync(self, key: ObjectKey) -> list[SliceFailure]:
        state = self._states.get(key)
        if state is None:
            return []
        taken = state.trigger_times.take()
        plan = state.plan(self._settings.max_endpoints_per_slice, taken)
        hint_events = state.hint_events(plan)
        failures: list[SliceFailure] = []
        observer = self._observer
        if observer is not None:
            family_plans = [family_plan for _, family_plan in plan.families]
            observer.planned(state.service, family_plans, families=len(state.translator.address_types))
        try:
            if not plan.is_empty:
                failures = await self._applier.apply(state.service, plan)
        except BaseException:
            state.trigger_times.put_back(taken)
            if observer is not None:
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
        if observer is not None:
            if failures:
                observer.failed(key)
            else:
                observer.completed(key, wrote=not plan.is_empty)
            self._describe(key)
        return failures

    def _leave_out(self, key: ObjectKey, failure: SliceFailure) -> SliceFailure:
        """Leave out the endpoints that a failure names as rejected; then the slice can be written without them."""
        state = self._states.get(key)
        left_out = False
        for endpoint, problem in failure.rejected:
            pod = state.reject(endpoint, problem) if state is not None else None
            if pod is not None and state is not None:
                self.rejections.note(state.service, pod, problem)
                left_out = True
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
            if state is not None:
                state.observe(stored.metadata.name, self._as_sent(stored))

    def found(self, item: EndpointSlice) -> None:
        """Take in a slice that the server has in the place of what was expected."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that a slice is gone."""
        self._writes.record_gone(key, uid)

    # ------------------------------------------------------------------------------------------ auditing

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services there are to audit."""
        return list(self._states.keys() | {key_of(service) for service in self._services.values()})

    def audit(self, key: ObjectKey) -> str | None:
        """Rebuild one service from the listers; where it differs, put it in place and return what was wrong.

        One that is due for a sync anyway is passed over. Costs O(the service), and O(slices of its namespace).
        """
        wrong = [] if self._repair_names(key) else ["the names of the slices"]
        state = self._states.get(key)
        service = self._services.get(key)
        if service is None or not _is_selected(service):
            if state is not None:
                self._forget(key)
                wrong.append("a state where there should be none")
            return ", ".join(wrong) or None
        if state is None:
            self._build(service)
            return ", ".join([*wrong, "no state"])
        if state.needs_plan and not wrong:
            return None
        rebuilt = self._rebuilt(service)
        mine, theirs = state.snapshot(), rebuilt.snapshot()
        wrong += [part for part, value in theirs.items() if mine.get(part) != value]
        if not wrong and self._plan_is_empty(rebuilt):
            return None
        rebuilt.take_over(state)
        self._states[key] = rebuilt
        self._queue.add(key)
        return ", ".join(wrong) or "the plan"

    def _repair_names(self, service: ObjectKey) -> bool:
        """Compare the names of a service's slices with the store, mend them, and tell whether they were right."""
        names = {
            piece.metadata.name
            for piece in self._slices.in_namespace(service.namespace)
            if service_of(piece) == service
        }
        if names == self._slice_names.get(service, set()):
            return True
        if names:
            self._slice_names[service] = names
        else:
            del self._slice_names[service]
        return False

    def _plan_is_empty(self, state: ServiceState) -> bool:
        return state.plan(self._settings.max_endpoints_per_slice, None).is_empty


def _is_selected(service: Service) -> bool:
    return bool(service.selector) and not service.is_external_name
