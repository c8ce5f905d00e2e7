"""The EndpointSliceMirroring controller: from changes in the stores to the queue to plans to writes (behaviour 3)."""

from typing import TypeVar

import msgspec

from aiokube.api.core import SERVICES, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.resource import Resource
from aiokube.backoff import ExponentialBackoff
from aiokube.client.errors import ApiError, ClientError, is_gone
from aiokube.clock import Clock
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.events import EventRecorder, reference
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps, run_at_once
from aiokube.runtime.relist_gate import RelistGate
from aiokube.runtime.store import Store
from aiokube.runtime.writer import Writer
from aiokube.work_queue import WorkQueue
from endpointd.controllers.indexes import SLICES_BY_SERVICE, service_names_of
from endpointd.controllers.mirroring.desired import (
    Mirrored,
    identity_of,
    is_mirrorable,
    mirror,
    mirrored_key,
    name_of,
    wants_mirroring,
    without,
)
from endpointd.controllers.mirroring.observer import MirroringObserver, NoObserver
from endpointd.controllers.mirroring.plan import (
    MirrorPlan,
    plan_clean_up,
    plan_mirror,
    problems_of,
)
from endpointd.controllers.mirroring.state import MirrorState
from endpointd.controllers.recording import WriteRecorder, slice_content
from endpointd.controllers.repair_throttle import RepairThrottle
from endpointd.controllers.slice_writes import SliceFailure, SliceWriter

T = TypeVar("T", bound=KubernetesObject)

NAME = "endpointslice-mirroring-controller"
EVENT_COMPONENT = "endpoint-slice-mirroring-controller"
QUEUE_NAME = "endpoint_slice_mirroring"
RETRY_BACKOFF = ExponentialBackoff(base_seconds=1.0, factor=2.0, cap_seconds=60.0)
"""How long an Endpoints waits after its failures. It is never given up (upstream drops it after 16 attempts)."""

# Each one learns of a slice that was changed or deleted by others; more than a few is a quarrel, and waits.
_REPLANS = 5


class MirroringSettings(msgspec.Struct, frozen=True):
    """What can be set. Durations are in seconds."""

    max_endpoints_per_subset: int = 1000
    batch_period_seconds: float = 0.0
    """How long a change of a slice by somebody else waits for others (M-4)."""
    writes_at_once: int = 32
    repair_interval_seconds: float = 1.0
    """How long a second repair of what somebody else changed in an Endpoints' slices waits after the first."""


class MirroringFailedError(ReconcileError):
    """Slices of an Endpoints could not be made right; the message says which and why."""


class EndpointSliceMirroringController:
    """Keeps slices like the Endpoints that people write for services without a selector.

    Call :meth:`start` once the stores have synced; from then on it listens to them. :meth:`reconcile` must never be
    called for one key twice at a time, which the queue sees to. A key is that of an Endpoints, and of its service.

    It promises: the slices of an Endpoints become what that says, whatever failed before and whoever changed them, and
    they go when it is not to be mirrored any more. Slices that are right are not written. Slices without our label are
    never touched. Nothing is taken away because something is missing here before the server has said so itself.
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        endpoints: Store[Endpoints],
        slices: Store[EndpointSlice],
        writer: Writer,
        queue: WorkQueue[ObjectKey],
        recorder: EventRecorder,
        clock: Clock,
        settings: MirroringSettings,
        observer: MirroringObserver | None = None,
        relists: RelistGate | None = None,
    ) -> None:
        self._services = services
        self._endpoints = endpoints
        self._slices = slices
        slices.add_index(SLICES_BY_SERVICE, service_names_of)
        self._server = writer
        self._queue = queue
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._observer: MirroringObserver = observer or NoObserver()
        self._writer = SliceWriter(writer, self, writes_at_once=settings.writes_at_once)
        self._relists = relists or RelistGate()
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._mirrors: dict[ObjectKey, MirrorState] = {}
        self._due: set[ObjectKey] = set()  # woken since their last sync began, or failed in it
        # What is in a sync, with the slices that changed meanwhile (name and version, none where it went): most of
        # those are our own writes, told by a watch that was faster than the answer.
        self._in_sync: dict[ObjectKey, set[tuple[str, str]]] = {}
        self._writes = WriteRecorder(slices, slice_content)

    def start(self) -> None:
        """Do all of :meth:`start_steps` at once."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Listen from now on, and put into the queue what is mirrored, or has slices that say so.

        Costs O(services + slices).
        """
        self._services.subscribe(self.service_changed)
        self._endpoints.subscribe(self.endpoints_changed)
        self._slices.subscribe(self.slice_changed)
        for count, name in enumerate(self._slices.keys(), 1):
            endpoint_slice = self._slices.get(name)
            key = mirrored_key(endpoint_slice) if endpoint_slice is not None else None
            if key is not None:
                self._mirror_of(key)
                self._enqueue(key)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        for count, key in enumerate(self._services.keys(), 1):
            if _wants(self._services.get(key)) and self._endpoints.get(key) is not None:
                self._enqueue(key)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ changes

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Look at a service that began or ceased to want mirroring; no other change matters (M-2)."""
        service = new if new is not None else old
        if service is not None and _wants(old) != _wants(new):
            self._enqueue(key_of(service))

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Look at an Endpoints that is mirrorable, or was (M-3).

        Most are made from selectors: those are passed over here already, as a change of heart comes from the service.
        """
        item = new if new is not None else old
        if item is None or not (
            (old is not None and is_mirrorable(old)) or (new is not None and is_mirrorable(new))
        ):
            return
        key = key_of(item)
        if _wants(self._services.get(key)):
            self._enqueue(key)

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Look at an Endpoints of which somebody else changed, made or deleted a slice (M-4)."""
        if self._writes.observe(old, new):
            return  # it counts as what was sent, which is known
        was = mirrored_key(old) if old is not None else None
        now = mirrored_key(new) if new is not None else None
        if was is not None and old is not None and was != now:
            self._repair(was, old.metadata.name, "")
        if now is not None and new is not None:
            self._mirror_of(now)
            self._repair(now, new.metadata.name, new.metadata.resource_version)

    def _repair(self, key: ObjectKey, name: str, resource_version: str) -> None:
        if self._writes.under_way:
            return
        changed_meanwhile = self._in_sync.get(key)
        if changed_meanwhile is not None:
            changed_meanwhile.add((name, resource_version))
        else:
            self._enqueue_repair(key)

    def _enqueue_repair(self, key: ObjectKey) -> None:
        self._enqueue(key, max(self._settings.batch_period_seconds, self._repair_throttle.delay_seconds(key)))

    def _enqueue(self, key: ObjectKey, delay_seconds: float = 0.0) -> None:
        self._due.add(key)
        self._queue.add_after(key, delay_seconds)

    def _mirror_of(self, key: ObjectKey) -> MirrorState:
        found = self._mirrors.get(key)
        if found is None:
            found = self._mirrors[key] = MirrorState()
        return found

    # ------------------------------------------------------------------------------------------ syncing

    async def reconcile(self, key: ObjectKey) -> None:
        """Make the slices of an Endpoints right. Raises :class:`MirroringFailedError` where something was not written.

        Where the server knows better than our stores, what it has is taken in and planned again, at once and quietly.
        """
        started = self._clock.monotonic()
        self._due.discard(key)
        changed_meanwhile = self._in_sync[key] = set()
        failures: tuple[SliceFailure, ...] | None = None
        try:
            failures = await self._sync(key)
            for _ in range(_REPLANS):
                if not failures or not all(failure.outdated for failure in failures):
                    break
                failures = await self._sync(key)
        finally:
            del self._in_sync[key]
            if failures != ():
                self._due.add(key)
            if changed_meanwhile:
                self._enqueue_repair(key)
            self._observer.synced(self._clock.monotonic() - started)
        if failures:
            texts = list(dict.fromkeys(failure.text for failure in failures))
            waits = [failure.retry_after_seconds or 0.0 for failure in failures]
            raise MirroringFailedError(
                "; ".join(texts),
                retry_after_seconds=max(waits) or None,
                unavailable=all(failure.unavailable for failure in failures),
            )

    async def _sync(self, key: ObjectKey) -> tuple[SliceFailure, ...]:
        await self._relists.wait_open()
        item = self._endpoints.get(key)
        service = self._services.get(key)
        if item is None or not is_mirrorable(item) or not _wants(service):
            return await self._clean_up(key, item, service)
        state = self._mirror_of(key)
        state.begin(item.metadata.resource_version)
        mirrored, plan = self._plan(item, state)
        self._tell(item, mirrored, state)
        self._observer.planned(key, plan.counts)
        state.abandoned = False
        if plan.is_empty:
            return ()
        writes = await self._writer.write(
            name_of(key), create=plan.create, update=plan.update, delete=plan.delete
        )
        state.abandoned = writes.abandoned
        self._observer.wrote(writes)
        return tuple(_leave_out(state, failure) for failure in writes.failures)

    def _plan(self, item: Endpoints, state: MirrorState) -> tuple[Mirrored, MirrorPlan]:
        mirrored = mirror(item, self._settings.max_endpoints_per_subset)
        if state.rejected:
            mirrored = without(mirrored, state.rejected)
        slices = self._slices_of(key_of(item))
        sent = {
            endpoint_slice.metadata.name: sent
            for endpoint_slice in slices
            if (sent := self._writes.sent_for(endpoint_slice))
        }
        return mirrored, plan_mirror(item, mirrored, slices, sent)

    def _slices_of(self, key: ObjectKey) -> list[EndpointSlice]:
        return [
            endpoint_slice
            for endpoint_slice in self._slices.by_index(SLICES_BY_SERVICE, key)
            if mirrored_key(endpoint_slice) == key
        ]

    def _tell(self, item: Endpoints, mirrored: Mirrored, state: MirrorState) -> None:
        """Have Events written of what is not mirrored, where that is news (M-25 repeats them at every sync)."""
        problems = problems_of(item, mirrored, self._settings.max_endpoints_per_subset)
        for problem in state.news(item.metadata.uid, problems):
            self._recorder.event(reference(ENDPOINTS, item), "Warning", problem.reason, problem.message)

    # ----------------------------------------------------------------------------------------- cleaning up

    async def _clean_up(
        self, key: ObjectKey, item: Endpoints | None, service: Service | None
    ) -> tuple[SliceFailure, ...]:
        """Take away the slices of what is not mirrored (M-10); those that are gone already are what was wanted."""
        doomed = plan_clean_up(self._slices_of(key))
        if doomed:
            if item is None or service is None:
                kept = await self._ask_for_what_is_missing(key, item, service)
                if kept is not None:
                    return (kept,)
            writes = await self._writer.delete_all(name_of(key), doomed)
            if writes.failures:
                return (_one_failure(key, len(doomed), writes.failures),)
        if not self._slices_of(key):  # else somebody's finalizers hold some
            self._mirrors.pop(key, None)
        self._observer.forgot(key)
        return ()

    async def _ask_for_what_is_missing(
        self, key: ObjectKey, item: Endpoints | None, service: Service | None
    ) -> SliceFailure | None:
        """Ask the server whether there is no Endpoints, or no service; return why the slices stay, None where they go.

        Our knowledge of those may be behind that of slices, after a change of leaders for one, and to take slices away is
        to take traffic away. What the server has enters the stores.
        """
        try:
            if service is None:
                service = await self._found(SERVICES, key)
                if service is not None:
                    self._services.record_read(service)
            if item is None:
                item = await self._found(ENDPOINTS, key)
                if item is not None:
                    self._endpoints.record_read(item)
        except ClientError as error:
            return SliceFailure(
                f"slices of {name_of(key)} kept, as the server does not say whether it is gone: {error}",
                retry_after_seconds=error.retry_after_seconds if isinstance(error, ApiError) else None,
            )
        if item is None or service is None:
            return None
        return SliceFailure(
            f"slices of {name_of(key)} kept, for it is there, and only missing in the cache", outdated=True
        )

    async def _found(self, resource: Resource[T], key: ObjectKey) -> T | None:
        """Read an object from the server; return None where that says that there is none of this name."""
        try:
            return await self._server.get(resource, key)
        except ClientError as error:
            if is_gone(error, resource, key):
                return None
            raise

    # ----------------------------------------------------------- what came of writes, told by the slice writer

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Take in a slice as the server answered our write."""
        self._writes.record(sent, answer)
        key = mirrored_key(sent)
        if key is None:
            raise AssertionError("only mirrored slices are written here")
        self._in_sync[key].discard((answer.metadata.name, answer.metadata.resource_version))

    def found(self, item: EndpointSlice) -> None:
        """Take in a slice that was not what our write expected."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that a slice is no more."""
        self._writes.record_gone(key, uid)
        for mirrored, changed_meanwhile in self._in_sync.items():
            if mirrored.namespace == key.namespace:
                changed_meanwhile.discard((key.name, ""))

    # ------------------------------------------------------------------------------------------ auditing

    def audited_keys(self) -> list[ObjectKey]:
        """Return what there is to audit: all that is mirrored, or has slices that say so. Costs O(services)."""
        wanting = {key_of(service) for service in self._services.values() if wants_mirroring(service)}
        return list(self._mirrors.keys() | wanting)

    def audit(self, key: ObjectKey) -> str | None:
        """Do all of :meth:`audit_steps` at once."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Compare what is remembered of one Endpoints, and what there is of it, with a look at everything.

        Where something differs it is repaired, or the key is queued; returns what was wrong. One that is due for a sync,
        and queued, is passed over. One step, O(the Endpoints).
        """
        yield STEPS_A_YIELD
        wrong: list[str] = []
        if key in self._due or key in self._in_sync:
            if self._queue.is_pending(key):
                return None
            wrong.append("a lost wake-up")
        state = self._mirrors.get(key)
        item = self._endpoints.get(key)
        if item is None or not is_mirrorable(item) or not _wants(self._services.get(key)):
            if plan_clean_up(self._slices_of(key)):
                wrong.append("slices of what is not mirrored")
        elif not (state is not None and state.abandoned):
            _, plan = self._plan(item, state or MirrorState())
            if not plan.is_empty:
                wrong.append("the slices")
        if wrong:
            self._enqueue(key)
        return ", ".join(wrong) or None


def _wants(service: Service | None) -> bool:
    return service is not None and wants_mirroring(service)


def _leave_out(state: MirrorState, failure: SliceFailure) -> SliceFailure:
    """Leave out the endpoints that a failure names as rejected; then the slice can be written without them."""
    if not failure.rejected:
        return failure
    state.rejected.update(identity_of(endpoint) for endpoint, _ in failure.rejected)
    return msgspec.structs.replace(failure, outdated=True)


def _one_failure(key: ObjectKey, count: int, failures: tuple[SliceFailure, ...]) -> SliceFailure:
    """Return the failures of a clean-up as one, in the words of M-10."""
    return SliceFailure(
        f"error(s) deleting {len(failures)}/{count} EndpointSlices for {key} Endpoints,"
        f" including: {failures[0].text}",
        outdated=all(failure.outdated for failure in failures),
        retry_after_seconds=max(failure.retry_after_seconds or 0.0 for failure in failures) or None,
    )
