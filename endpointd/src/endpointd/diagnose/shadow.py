"""Shadow mode: continuously compare endpointd's plans with the objects in the cluster, without writing."""

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import NoReturn

import msgspec

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
    EndpointSlice,
)
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, key_of
from aiokube.clock import Clock
from aiokube.runtime.controller import RequeueAfter
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpointslice.desired import service_of
from endpointd.controllers.endpointslice.node_zones import MISSING_NODE_GRACE_SECONDS, NodeZones
from endpointd.controllers.endpointslice.topology import ZoneTable
from endpointd.controllers.indexes import (
    PODS_BY_NODE,
    SLICES_BY_SERVICE,
    node_names_of,
    service_name_of,
    service_names_of,
)
from endpointd.controllers.membership import Membership
from endpointd.diagnose.changes import (
    ALL_CONTROLLERS,
    ControllerName,
    ObjectChange,
    Settings,
    changes_of,
    managed_by,
)
from endpointd.diagnose.changes_text import change_lines
from endpointd.diagnose.persistent_diffs import PersistentDiffs, Resolved, Started
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

NAME = "shadow"
QUEUE_NAME = "shadow"

_MAX_LINES_PER_WINDOW = 100
_WINDOW_SECONDS = 60.0
_MAX_ELEMENTS = 3
_MAX_ELEMENT_CHARACTERS = 400

log = logging.getLogger(__name__)


class ShadowWriteError(RuntimeError):
    """A write was attempted in shadow mode. It was not sent, and it indicates a bug in endpointd."""


def refuse_writes() -> NoReturn:
    """Reject every write; used as the guard of a client. Raises :class:`ShadowWriteError`."""
    raise ShadowWriteError("shadow mode does not write; this write was not sent")


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of shadow mode. Durations are in seconds."""

    grace_seconds: float = 5.0
    """How long a difference must persist, without writes, before it is reported."""
    settle_seconds: float = 1.0
    """The delay between a change and the check of its service; changes within it are checked together."""
    max_share: float = 0.1
    """The maximum share of the time for checks of one service; all checks together take at most half of
    it."""
    missing_node_grace_seconds: float = MISSING_NODE_GRACE_SECONDS
    """How long a missing Node counts as present, as for the controller."""
    plan: Settings = Settings()
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS


class ShadowStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of shadow mode's counters."""

    checks: int
    """Checks of services since the start."""
    services: int
    """Services, and Endpoints without one, that have been checked and still exist."""
    disagreeing: int
    """Services among them with a persistent difference."""
    differences_started: int
    """Differences that have become persistent since the start."""


class Shadow:
    """Plans each changed service as the controllers would, and reports the writes that they would make.

    Guarantees:

    * **No writes:** no objects, Events or Leases. It has no writer.
    * **Every service is checked** once after :meth:`start`, and again within ``settle_seconds`` of any change
      of the service, its pods, their nodes, its Endpoints or slices (and of the zones' CPU, if it has
      topology-aware hints).
    * **Bounded cost.** A check is O(service). Checks of one service take at most ``max_share`` of the time,
      however large it is and however fast it changes, and all checks together at most half of it; they are
      delayed, never skipped.
    * **A difference is reported once** when it becomes persistent (see
      :class:`~endpointd.diagnose.persistent_diffs.PersistentDiffs`) and once when it is resolved, by a log
      line: at most 100 lines a minute, then a count of the suppressed ones.
    * **While a watch is down, nothing is reported.** No service is checked unless all caches are current, and
      the time before they were does not count.

    ``caches_current_since`` returns the time (in monotonic seconds) since which all caches have been current,
    or None if one is not. Trigger times (``endpoints.kubernetes.io/last-change-trigger-time``) are no
    difference. ``membership`` must be started before :meth:`start` and must receive changes before this does.
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        pods: Store[Pod],
        nodes: Store[Node],
        endpoints: Store[Endpoints],
        slices: Store[EndpointSlice],
        membership: Membership,
        queue: WorkQueue[ObjectKey],
        clock: Clock,
        settings: ShadowSettings | None = None,
        caches_current_since: Callable[[], float | None] = lambda: 0.0,
    ) -> None:
        self._caches_current_since = caches_current_since
        self._services = services
        self._pods = pods
        self._nodes = nodes
        self._endpoints = endpoints
        self._slices = slices
        pods.add_index(PODS_BY_NODE, node_names_of)
        slices.add_index(SLICES_BY_SERVICE, service_names_of)
        self._membership = membership
        self._queue = queue
        self._clock = clock
        self._settings = settings or ShadowSettings()
        self._zones = ZoneTable()
        self._node_zones = NodeZones(nodes, clock, self._settings.missing_node_grace_seconds)
        self._checked: set[ObjectKey] = set()
        self._not_before: dict[ObjectKey, float] = {}
        self._checks = 0
        self._differences_started = 0
        self._window_since = 0.0
        self._window_lines = 0
        self._suppressed = 0
        self.persistent_diffs = PersistentDiffs(self._settings.grace_seconds)

    def start(self) -> None:
        """Enqueue every service and subscribe to changes."""
        for node in self._nodes.values():
            self._zones.set_node(node.metadata.name, node)
        node_names = map(str, self._pods.index_keys(PODS_BY_NODE))
        self._node_zones.keep_published(node_names, self._slices.values, self._owner_of)
        keys = {key_of(service) for service in self._services.values()}
        keys.update(key_of(item) for item in self._endpoints.values())
        keys.update(
            key
            for endpoint_slice in self._slices.values()
            if (key := service_name_of(endpoint_slice)) is not None
        )
        for key in sorted(keys):
            self._queue.add(key)
        self._membership.subscribe(self)
        self._endpoints.subscribe(self.endpoints_changed)
        self._slices.subscribe(self.slice_changed)
        self._nodes.subscribe(self.node_changed)

    # ------------------------------------------------------------------------------------------ events

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Check a service after it was created, updated or deleted."""
        service = new if new is not None else old
        if service is not None:
            self._enqueue(key_of(service))

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Check a service after a pod of it was created, updated or deleted."""
        self._enqueue(service)

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Check the service of an Endpoints."""
        item = new if new is not None else old
        if item is not None:
            self._enqueue(key_of(item))

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Check the service of a slice, and the previous one if its label changed."""
        was = service_name_of(old) if old is not None else None
        now = service_name_of(new) if new is not None else None
        if was is not None and was != now:
            self._enqueue(was)
        if now is not None:
            self._enqueue(now)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Check the services of a node's pods if its zone changes, and those with topology-aware hints if CPU ratios change."""
        node = new if new is not None else old
        if node is None:
            return
        if self._zones.set_node(node.metadata.name, new):
            for service in self._services.values():
                if service.topology_mode is not None:
                    self._enqueue(key_of(service))
        # The services of a deleted node are checked again when its grace period expires.
        if self._node_zones.node_changed(old, new) or new is None:
            self._enqueue_pods_on(node.metadata.name)

    def _enqueue_pods_on(self, node_name: str) -> None:
        for pod in self._pods.by_index(PODS_BY_NODE, node_name):
            for key in self._membership.services_of(pod):
                self._enqueue(key)

    def _enqueue(self, key: ObjectKey) -> None:
        self._queue.add_after(key, self._settings.settle_seconds)

    def _owner_of(self, endpoint_slice: EndpointSlice) -> Service | None:
        key = service_of(endpoint_slice)
        return self._services.get(key) if key is not None else None

    # ------------------------------------------------------------------------------------------ checks

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Check one service; requeue it if a difference is about to become persistent."""
        started = self._clock.monotonic()
        early_seconds = self._not_before.get(key, started) - started
        if early_seconds > 0:
            return RequeueAfter(early_seconds)
        current_since = self._caches_current_since()
        if current_since is None:
            return RequeueAfter(self._settings.settle_seconds)
        self._not_before.pop(key, None)
        outcome = self._check(key, started, current_since)
        took = self._clock.monotonic() - started
        rest_seconds = took * (1 / self._settings.max_share - 1)
        if rest_seconds > self._settings.settle_seconds:  # a shorter rest has no effect
            self._not_before[key] = started + took + rest_seconds
        await self._clock.sleep(took)
        return outcome

    def _check(self, key: ObjectKey, now: float, current_since: float) -> RequeueAfter | None:
        for name in self._node_zones.expire():
            self._enqueue_pods_on(name)
        snapshot = self._snapshot(key)
        index = ClusterIndex(snapshot)
        found: list[ObjectChange] = []
        if _exists(index):
            settings = self._settings
            found += changes_of(index, key, settings.plan, settings.controllers, self._zones.ratios)
            self._checked.add(key)
        else:
            self._checked.discard(key)
        self._checks += 1
        outcome = self.persistent_diffs.record_check(key, found, _versions(index), now, current_since)
        for started in outcome.started:
            self._log_started(started, now)
        for resolved in outcome.resolved:
            self._log_resolved(resolved, now)
        waits = [outcome.recheck_seconds]
        if snapshot.missing_zones:
            waits.append(self._node_zones.seconds_until_expiry())
        recheck_seconds = min((seconds for seconds in waits if seconds is not None), default=None)
        return None if recheck_seconds is None else RequeueAfter(recheck_seconds)

    def _snapshot(self, key: ObjectKey) -> Snapshot:
        """Return a snapshot of exactly the inputs of one service's plans."""
        service = self._services.get(key)
        item = self._endpoints.get(key)
        pods = tuple(self._membership.pods_of(key))
        node_names = {pod.node_name for pod in pods}
        nodes = {name: self._nodes.get(ObjectKey("", name)) for name in node_names}
        missing = {name: self._node_zones.zone_of(name) for name, node in nodes.items() if node is None}
        return Snapshot(
            services=() if service is None else (service,),
            pods=pods,
            nodes=tuple(node for node in nodes.values() if node is not None),
            missing_zones={name: zone for name, zone in missing.items() if zone is not None},
            endpoints=() if item is None else (item,),
            slices=tuple(self._slices.by_index(SLICES_BY_SERVICE, key)),
        )

    # ------------------------------------------------------------------------------------------ reports

    def statistics(self) -> ShadowStatistics:
        """Return the current counters."""
        return ShadowStatistics(
            checks=self._checks,
            services=len(self._checked),
            disagreeing=self.persistent_diffs.disagreeing_services,
            differences_started=self._differences_started,
        )

    @property
    def controllers(self) -> frozenset[ControllerName]:
        """The controllers that are compared."""
        return self._settings.controllers

    def _log_started(self, started: Started, now: float) -> None:
        self._differences_started += 1
        if self._may_log(now):
            difference = started.difference
            log.warning(
                "difference found: controller=%s would=%s kind=%s namespace=%s name=%s service=%s what=%s",
                difference.controller,
                difference.operation,
                difference.kind,
                difference.service.namespace,
                difference.name,
                difference.service.name,
                summary(started.change),
            )

    def _log_resolved(self, resolved: Resolved, now: float) -> None:
        if self._may_log(now):
            difference = resolved.difference
            log.info(
                "difference resolved: controller=%s would=%s kind=%s namespace=%s name=%s service=%s after_seconds=%.0f",
                difference.controller,
                difference.operation,
                difference.kind,
                difference.service.namespace,
                difference.name,
                difference.service.name,
                resolved.seconds,
            )

    def _may_log(self, now: float) -> bool:
        if now - self._window_since >= _WINDOW_SECONDS:
            if self._suppressed:
                log.warning("too many differences to log each: suppressed=%d", self._suppressed)
            self._window_since, self._window_lines, self._suppressed = now, 0, 0
        self._window_lines += 1
        self._suppressed += self._window_lines > _MAX_LINES_PER_WINDOW
        return self._window_lines <= _MAX_LINES_PER_WINDOW


def summary(change: ObjectChange) -> str:
    """Summarise a write in one line of bounded length: changed fields first, each element truncated separately."""
    lines = change_lines(change)
    shown = "; ".join(
        line if len(line) <= _MAX_ELEMENT_CHARACTERS else f"{line[:_MAX_ELEMENT_CHARACTERS]}…"
        for line in lines[:_MAX_ELEMENTS]
    )
    more = len(lines) - _MAX_ELEMENTS
    return f"{shown} (and {more} more)" if more > 0 else shown


def _exists(index: ClusterIndex) -> bool:
    return bool(len(index.services) or len(index.endpoints) or len(index.slices))


def _versions(index: ClusterIndex) -> Mapping[ControllerName, Hashable]:
    """Return a value for each controller that changes when any of its objects is written."""

    def slice_versions(manager: str) -> Hashable:
        return frozenset(
            (endpoint_slice.metadata.name, endpoint_slice.metadata.resource_version)
            for endpoint_slice in index.slices.values()
            if managed_by(endpoint_slice) == manager
        )

    return {
        "endpoints": frozenset(item.metadata.resource_version for item in index.endpoints.values()),
        "endpointslice": slice_versions(MANAGED_BY_ENDPOINTSLICE_CONTROLLER),
        "mirroring": slice_versions(MANAGED_BY_MIRRORING_CONTROLLER),
    }
