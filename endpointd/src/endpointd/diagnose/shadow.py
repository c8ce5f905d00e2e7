"""Shadow mode: what endpointd would write is compared, all the time, with what somebody else has written. Nothing is written."""

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

_LINES_PER_WINDOW = 100
_WINDOW_SECONDS = 60.0
_PARTS = 3
_PART_LENGTH = 400

log = logging.getLogger(__name__)


class ShadowWriteError(RuntimeError):
    """Something was about to be written in shadow mode: an error of ours, and nothing was sent."""


def refuse_writes() -> NoReturn:
    """Refuse every write, as the guard of a client. Raises :class:`ShadowWriteError`."""
    raise ShadowWriteError("in shadow mode nothing is written; this write was not sent")


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How shadow mode goes about it. Durations are in seconds."""

    grace_seconds: float = 5.0
    """How long a difference has to be there, with nothing written, before it is reported."""
    settle_seconds: float = 1.0
    """How long after a change its service is looked at: what comes meanwhile is looked at together."""
    share: float = 0.1
    """The part of the time that looks at one service may take at the most; all of them together take half of it."""
    missing_node_grace_seconds: float = MISSING_NODE_GRACE_SECONDS
    """How long a Node that disappeared counts as present, as for the controller."""
    plan: Settings = Settings()
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS


class ShadowStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How shadow mode is, at one moment."""

    checks: int
    """Looks at a service since the start."""
    services: int
    """Services (and Endpoints without one) that have been looked at and are still there."""
    disagreeing: int
    """Those of them of which a difference stands."""
    begun: int
    """Differences that have begun to stand since the start."""


class Shadow:
    """Looks at each service that a change has touched, plans it as the controllers would, and tells what would be written.

    It promises:

    * **Nothing is written,** neither objects nor Events nor a Lease. It has nothing to write with.
    * **Every service is looked at** once after :meth:`start`, and again within ``settle_seconds`` of any change of itself, its pods,
      their nodes, its Endpoints or slices (and of the zones' CPU, where it has topology-aware hints).
    * **What it costs is bounded.** A look takes O(the service). Looks at one service take at most ``share`` of the time, however large
      it is and however fast it changes, and all looks together take at most half of it; later is all that it gets.
    * **A difference is told once** when it begins to stand (:class:`~endpointd.diagnose.persistent_diffs.PersistentDiffs` says when that is) and
      once when it is gone, by a line in the log: at most 100 lines a minute, and then their number.
    * **Blind, it tells nothing.** While one of the caches does not follow its server nothing is looked at, and time before all of them
      did does not count.

    ``caches_current_since`` returns since when (monotonic seconds) all caches have been following their server, None while one does not. The times of triggers (``endpoints.kubernetes.io/last-change-trigger-time``) are no difference. ``membership`` has to be started
    before :meth:`start` and be told of changes before this is.
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
        self._looked_at: set[ObjectKey] = set()
        self._not_before: dict[ObjectKey, float] = {}
        self._checks = 0
        self._begun = 0
        self._window_since = 0.0
        self._window_lines = 0
        self._untold = 0
        self.persistent_diffs = PersistentDiffs(self._settings.grace_seconds)

    def start(self) -> None:
        """Have everything looked at, and listen from now on."""
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

    # ------------------------------------------------------------------------------------------ changes

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Look at a service that came, went or changed."""
        service = new if new is not None else old
        if service is not None:
            self._touch(key_of(service))

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Look at a service whose pod came, went or changed."""
        self._touch(service)

    def endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Look at the service of an Endpoints."""
        item = new if new is not None else old
        if item is not None:
            self._touch(key_of(item))

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Look at the service of a slice, and at the one it was taken from."""
        was = service_name_of(old) if old is not None else None
        now = service_name_of(new) if new is not None else None
        if was is not None and was != now:
            self._touch(was)
        if now is not None:
            self._touch(now)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at the services of a node's pods where its zone changes, and at those with hints by CPU where that changes."""
        node = new if new is not None else old
        if node is None:
            return
        if self._zones.set_node(node.metadata.name, new):
            for service in self._services.values():
                if service.topology_mode is not None:
                    self._touch(key_of(service))
        # Those of a node that went ask to be looked at again when it has been missing for too long.
        if self._node_zones.node_changed(old, new) or new is None:
            self._touch_pods_on(node.metadata.name)

    def _touch_pods_on(self, node_name: str) -> None:
        for pod in self._pods.by_index(PODS_BY_NODE, node_name):
            for key in self._membership.services_of(pod):
                self._touch(key)

    def _touch(self, key: ObjectKey) -> None:
        self._queue.add_after(key, self._settings.settle_seconds)

    def _owner_of(self, endpoint_slice: EndpointSlice) -> Service | None:
        key = service_of(endpoint_slice)
        return self._services.get(key) if key is not None else None

    # ------------------------------------------------------------------------------------------ looking

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Look at one service; ask to be called again where a difference is about to stand."""
        begun = self._clock.monotonic()
        early_seconds = self._not_before.get(key, begun) - begun
        if early_seconds > 0:
            return RequeueAfter(early_seconds)
        current_since = self._caches_current_since()
        if current_since is None:
            return RequeueAfter(self._settings.settle_seconds)
        self._not_before.pop(key, None)
        outcome = self._look(key, begun, current_since)
        took = self._clock.monotonic() - begun
        rest_seconds = took * (1 / self._settings.share - 1)
        if rest_seconds > self._settings.settle_seconds:  # less than that has no effect
            self._not_before[key] = begun + took + rest_seconds
        await self._clock.sleep(took)
        return outcome

    def _look(self, key: ObjectKey, now: float, current_since: float) -> RequeueAfter | None:
        for name in self._node_zones.expire():
            self._touch_pods_on(name)
        snapshot = self._snapshot(key)
        world = ClusterIndex(snapshot)
        found: list[ObjectChange] = []
        if _is_there(world):
            settings = self._settings
            found += changes_of(world, key, settings.plan, settings.controllers, self._zones.ratios)
            self._looked_at.add(key)
        else:
            self._looked_at.discard(key)
        self._checks += 1
        outcome = self.persistent_diffs.look(key, found, _versions(world), now, current_since)
        for begun in outcome.started:
            self._tell_begun(begun, now)
        for gone in outcome.resolved:
            self._tell_gone(gone, now)
        waits = [outcome.look_again_seconds]
        if snapshot.missing_zones:
            waits.append(self._node_zones.seconds_until_expiry())
        look_again_seconds = min((seconds for seconds in waits if seconds is not None), default=None)
        return None if look_again_seconds is None else RequeueAfter(look_again_seconds)

    def _snapshot(self, key: ObjectKey) -> Snapshot:
        """Return what one service's plans are made from, and nothing else."""
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

    # ------------------------------------------------------------------------------------------ telling

    def statistics(self) -> ShadowStatistics:
        """Return how it is now."""
        return ShadowStatistics(
            checks=self._checks,
            services=len(self._looked_at),
            disagreeing=self.persistent_diffs.disagreeing_services,
            begun=self._begun,
        )

    @property
    def controllers(self) -> frozenset[ControllerName]:
        """Whose work is looked at."""
        return self._settings.controllers

    def _tell_begun(self, begun: Started, now: float) -> None:
        self._begun += 1
        if self._may_tell(now):
            difference = begun.difference
            log.warning(
                "difference stands: controller=%s would=%s kind=%s namespace=%s name=%s service=%s what=%s",
                difference.controller,
                difference.operation,
                difference.kind,
                difference.service.namespace,
                difference.name,
                difference.service.name,
                summary(begun.change),
            )

    def _tell_gone(self, gone: Resolved, now: float) -> None:
        if self._may_tell(now):
            difference = gone.difference
            log.info(
                "difference gone: controller=%s would=%s kind=%s namespace=%s name=%s service=%s after_seconds=%.0f",
                difference.controller,
                difference.operation,
                difference.kind,
                difference.service.namespace,
                difference.name,
                difference.service.name,
                gone.seconds,
            )

    def _may_tell(self, now: float) -> bool:
        if now - self._window_since >= _WINDOW_SECONDS:
            if self._untold:
                log.warning(
                    "more differences came and went than are told one by one: untold=%d", self._untold
                )
            self._window_since, self._window_lines, self._untold = now, 0, 0
        self._window_lines += 1
        self._untold += self._window_lines > _LINES_PER_WINDOW
        return self._window_lines <= _LINES_PER_WINDOW


def summary(change: ObjectChange) -> str:
    """Return in one line of bounded length what a write would change: changed fields first, each part cut by itself."""
    lines = change_lines(change)
    shown = "; ".join(
        line if len(line) <= _PART_LENGTH else f"{line[:_PART_LENGTH]}…" for line in lines[:_PARTS]
    )
    more = len(lines) - _PARTS
    return f"{shown} (and {more} more)" if more > 0 else shown


def _is_there(world: ClusterIndex) -> bool:
    return bool(len(world.services) or len(world.endpoints) or len(world.slices))


def _versions(world: ClusterIndex) -> Mapping[ControllerName, Hashable]:
    """Return for each controller what differs as soon as any of its objects is written."""

    def of_slices(manager: str) -> Hashable:
        return frozenset(
            (endpoint_slice.metadata.name, endpoint_slice.metadata.resource_version)
            for endpoint_slice in world.slices.values()
            if managed_by(endpoint_slice) == manager
        )

    return {
        "endpoints": frozenset(item.metadata.resource_version for item in world.endpoints.values()),
        "endpointslice": of_slices(MANAGED_BY_ENDPOINTSLICE_CONTROLLER),
        "mirroring": of_slices(MANAGED_BY_MIRRORING_CONTROLLER),
    }
