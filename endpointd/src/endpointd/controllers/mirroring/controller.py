"""The EndpointSliceMirroring controller: store events enqueue Endpoints, each sync plans and writes (behaviour 3)."""

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
"""The backoff of a failing Endpoints. It is retried forever (upstream drops it after 16 attempts)."""

# Each attempt discovers a slice that another client changed or deleted; repeated conflicts fall back to
# backoff.
_REPLANS = 5


class MirroringSettings(msgspec.Struct, frozen=True):
    """The settings of the controller. Durations are in seconds."""

    max_endpoints_per_subset: int = 1000
    batch_period_seconds: float = 0.0
    """How long an external edit of a slice waits for further ones (M-4)."""
    max_concurrent_writes: int = 32
    repair_interval_seconds: float = 1.0
    """The minimum interval between repairs of external edits of one Endpoints' slices."""


class MirroringFailedError(ReconcileError):
    """Slices of an Endpoints could not be written; the message names them and the cause."""


class EndpointSliceMirroringController:
    """Mirrors hand-written Endpoints of services without a selector to EndpointSlices.

    Call :meth:`start` after the stores have synced; from then on it subscribes to them. :meth:`reconcile`
    must not run concurrently for one key, which the queue ensures. A key names an Endpoints and its service.

    Guarantees: the slices converge to their Endpoints after any failure or external edit, and are deleted
    when it must no longer be mirrored. Correct slices are not written. Slices without our label are never
    touched. Nothing is deleted because of an object missing from a cache until the server confirms its
    absence.
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
        self._writer = SliceWriter(writer, self, max_concurrent_writes=settings.max_concurrent_writes)
        self._relists = relists or RelistGate()
        self._repair_throttle = RepairThrottle(clock, settings.repair_interval_seconds)
        self._mirrors: dict[ObjectKey, MirrorState] = {}
        self._due: set[ObjectKey] = set()  # enqueued or failed since the start of their last sync
        # Keys being synced, with the slices that changed during the sync (name and version, or no version if
        # deleted). Most are our own writes, reported by a watch that was faster than the response.
        self._in_sync: dict[ObjectKey, set[tuple[str, str]]] = {}
        self._writes = WriteRecorder(slices, slice_content)

    def start(self) -> None:
        """Run all of :meth:`start_steps` immediately."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Subscribe to changes, and enqueue every mirrored Endpoints and every owner of mirrored slices.

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

    # ------------------------------------------------------------------------------------------ events

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Sync a service that started or stopped wanting mirroring; other changes do not matter (M-2)."""
        service = new if new is not None else old
        if service is not None and _wants(old) != _wants(new):
            self._enqueue(key_of(service))

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Sync an Endpoints that is, or was, mirrorable (M-3).

        Endpoints of services with a selector, the majority, are skipped here: selector changes arrive as
        service events.
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
        """Sync an Endpoints after another client created, changed or deleted a slice of it (M-4)."""
        if self._writes.observe(old, new):
            return  # it counts as our sent slice, which is already known
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
        changed_during_sync = self._in_sync.get(key)
        if changed_during_sync is not None:
            changed_during_sync.add((name, resource_version))
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
        """Bring the slices of an Endpoints up to date.

        Raises :class:`MirroringFailedError` if a write failed.

        If the server's state is newer than our stores, it is read and planned again immediately, without an
        Event.
        """
        started = self._clock.monotonic()
        self._due.discard(key)
        changed_during_sync = self._in_sync[key] = set()
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
            if changed_during_sync:
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
        state.set_version(item.metadata.resource_version)
        mirrored, plan = self._plan(item, state)
        self._report_problems(item, mirrored, state)
        self._observer.planned(key, plan.counts)
        state.abandoned = False
        if plan.is_empty:
            return ()
        writes = await self._writer.write(
            name_of(key), create=plan.create, update=plan.update, delete=plan.delete
        )
        state.abandoned = writes.abandoned
        self._observer.wrote(writes)
        return tuple(_omit_rejected(state, failure) for failure in writes.failures)

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

    def _report_problems(self, item: Endpoints, mirrored: Mirrored, state: MirrorState) -> None:
        """Emit Events for problems that are new (M-25 repeats them at every sync)."""
        problems = problems_of(item, mirrored, self._settings.max_endpoints_per_subset)
        for problem in state.new_problems(item.metadata.uid, problems):
            self._recorder.event(reference(ENDPOINTS, item), "Warning", problem.reason, problem.message)

    # ----------------------------------------------------------------------------------------- clean-up

    async def _clean_up(
        self, key: ObjectKey, item: Endpoints | None, service: Service | None
    ) -> tuple[SliceFailure, ...]:
        """Delete the slices of an Endpoints that is not mirrored (M-10); slices already deleted count as success."""
        to_delete = plan_clean_up(self._slices_of(key))
        if to_delete:
            if item is None or service is None:
                reason_to_keep = await self._confirm_missing(key, item, service)
                if reason_to_keep is not None:
                    return (reason_to_keep,)
            writes = await self._writer.delete_all(name_of(key), to_delete)
            if writes.failures:
                return (_combined_failure(key, len(to_delete), writes.failures),)
        if not self._slices_of(key):  # otherwise finalizers still hold some
            self._mirrors.pop(key, None)
        self._observer.forgot(key)
        return ()

    async def _confirm_missing(
        self, key: ObjectKey, item: Endpoints | None, service: Service | None
    ) -> SliceFailure | None:
        """Confirm with the server that the Endpoints or service does not exist; return why the slices stay, or None.

        Our caches of those may be behind the cache of slices, for example after a leader change, and deleting
        slices removes traffic. Objects that exist are added to the stores.
        """
        try:
            if service is None:
                service = await self._read_or_none(SERVICES, key)
                if service is not None:
                    self._services.record_read(service)
            if item is None:
                item = await self._read_or_none(ENDPOINTS, key)
                if item is not None:
                    self._endpoints.record_read(item)
        except ClientError as error:
            return SliceFailure(
                f"keeping slices of {name_of(key)}: cannot confirm its deletion: {error}",
                retry_after_seconds=error.retry_after_seconds if isinstance(error, ApiError) else None,
            )
        if item is None or service is None:
            return None
        return SliceFailure(
            f"keeping slices of {name_of(key)}: it exists and is only missing from the cache", outdated=True
        )

    async def _read_or_none(self, resource: Resource[T], key: ObjectKey) -> T | None:
        """Read an object from the server; return None if it does not exist."""
        try:
            return await self._server.get(resource, key)
        except ClientError as error:
            if is_gone(error, resource, key):
                return None
            raise

    # ----------------------------------------------------------- results of writes, reported by the slice writer

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Record the server's response to our write of a slice."""
        self._writes.record(sent, answer)
        key = mirrored_key(sent)
        if key is None:
            raise AssertionError("the slice has no mirroring label")
        self._in_sync[key].discard((answer.metadata.name, answer.metadata.resource_version))

    def found(self, item: EndpointSlice) -> None:
        """Record a slice that differs from our write's expectation."""
        self._writes.record_found(item)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of a slice."""
        self._writes.record_gone(key, uid)
        for mirrored, changed_during_sync in self._in_sync.items():
            if mirrored.namespace == key.namespace:
                changed_during_sync.discard((key.name, ""))

    # ------------------------------------------------------------------------------------------ audit

    def audited_keys(self) -> list[ObjectKey]:
        """Return the keys to audit: mirrored Endpoints and owners of mirrored slices. Costs O(services)."""
        wanting = {key_of(service) for service in self._services.values() if wants_mirroring(service)}
        return list(self._mirrors.keys() | wanting)

    def audit(self, key: ObjectKey) -> str | None:
        """Run all of :meth:`audit_steps` immediately."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Compare the state and slices of one Endpoints with a new plan.

        Enqueues a key that differs and returns the difference. Keys that are queued for a sync are skipped.
        One step, O(the Endpoints).
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
                wrong.append("slices that should not be mirrored")
        elif not (state is not None and state.abandoned):
            _, plan = self._plan(item, state or MirrorState())
            if not plan.is_empty:
                wrong.append("the slices")
        if wrong:
            self._enqueue(key)
        return ", ".join(wrong) or None


def _wants(service: Service | None) -> bool:
    return service is not None and wants_mirroring(service)


def _omit_rejected(state: MirrorState, failure: SliceFailure) -> SliceFailure:
    """Omit the endpoints that a failure names as rejected, so that the slice can be written without them."""
    if not failure.rejected:
        return failure
    state.rejected.update(identity_of(endpoint) for endpoint, _ in failure.rejected)
    return msgspec.structs.replace(failure, outdated=True)


def _combined_failure(key: ObjectKey, count: int, failures: tuple[SliceFailure, ...]) -> SliceFailure:
    """Return the failures of a clean-up as one, in the words of M-10."""
    return SliceFailure(
        f"error(s) deleting {len(failures)}/{count} EndpointSlices for {key} Endpoints,"
        f" including: {failures[0].text}",
        outdated=all(failure.outdated for failure in failures),
        retry_after_seconds=max(failure.retry_after_seconds or 0.0 for failure in failures) or None,
    )
