"""Wires ``endpointd run``: one informer per resource, the controllers and a manager."""

import logging
import random
from collections.abc import Collection
from typing import Any, TypeVar

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.client.rest import Client
from aiokube.clock import Clock
from aiokube.runtime.controller import Controller, Reconcile
from aiokube.runtime.events import ClientEventSink, EventWriter
from aiokube.runtime.health import ElectorPulse
from aiokube.runtime.informer import Informer
from aiokube.runtime.leader_election import LeaderElector
from aiokube.runtime.leader_election_clock import SinceBoot, since_boot
from aiokube.runtime.leader_election_fence import Fence, FencedWriter
from aiokube.runtime.leader_election_machine import Rules
from aiokube.runtime.manager import Manager, Runnable
from aiokube.runtime.metrics import QueueTimes
from aiokube.runtime.pacing import LoopPacer, Steps
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.relist_gate import RelistGate
from aiokube.runtime.writer import Writer
from aiokube.work_queue import QueueObserver, WorkQueue
from endpointd.cli.assembly_parts import AuditRunnable, Observability, StartOnce, Workers, in_one_step
from endpointd.cli.health import Health
from endpointd.cli.metrics import Metrics
from endpointd.cli.run_settings import ElectionSettings, RunSettings
from endpointd.cli.serving import Server
from endpointd.cli.serving_answers import Answers, HealthAnswers, RenderLimit
from endpointd.cli.write_log import ChangeTimes, LoggingWriter, Stored, is_logged
from endpointd.controllers.audit import Auditor
from endpointd.controllers.endpoints import controller as endpoints
from endpointd.controllers.endpointslice import controller as slices
from endpointd.controllers.endpointslice.metrics import SliceMetrics
from endpointd.controllers.membership import Membership
from endpointd.controllers.mirroring import controller as mirroring
from endpointd.controllers.mirroring.metrics import MirroringMetrics

logger = logging.getLogger(__name__)

ELECTION_COMPONENT = "endpointd"
FIRST_AUDIT_AFTER_SECONDS = 60.0
# Listing pages costs the server half as much as the initial events of a watch, and start-up time is dominated
# by the server.
FOLLOWING = ReflectorSettings(initial="list")
NO_OBSERVABILITY = Observability()
T = TypeVar("T", bound=KubernetesObject)


class Assembly:
    """Builds the program; watches only the resources that the selected controllers need."""

    def __init__(
        self,
        settings: RunSettings,
        client: Client,
        clock: Clock,
        observability: Observability = NO_OBSERVABILITY,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - for jitter, not for secrets
        self._reachability = Reachability(clock=clock, rng=self._rng, server=client.server)
        self._events = EventWriter(ClientEventSink(client), clock=clock, rng=self._rng)
        self._observability = observability
        self._metrics = Metrics(clock) if observability.listener is not None else None
        self._health = Health(clock)
        self._informers: dict[str, Informer[Any]] = {}
        self._workers: list[Runnable] = []
        self._pacer = LoopPacer(clock)
        self._relists = RelistGate()
        self._auditor = Auditor(
            clock=clock,
            first_round_after_seconds=FIRST_AUDIT_AFTER_SECONDS,
            pacer=self._pacer,
            relists=self._relists,
        )
        self._services = self._informer(SERVICES)
        # Our writes also arrive through the watch, so metadata is enough as a response.
        self._metadata_client = client.metadata_only()
        self._writer: Writer = self._metadata_client
        self._gate: Runnable | None = None
        self._membership: Membership | None = None
        self._start_membership: StartOnce | None = None

    def elect(
        self, leases: Client, rules: Rules, settings: ElectionSettings, lease_clock: SinceBoot = since_boot
    ) -> None:
        """Allow writes only while holding the Lease. Call it before :meth:`manager`."""
        fence = Fence(clock=lease_clock)
        pulse = ElectorPulse(leases, clock=self._clock, retry_seconds=rules.retry_seconds)
        elector = LeaderElector(
            pulse,
            ObjectKey(settings.namespace, settings.name),
            rules,
            fence=fence,
            clock=self._clock,
            rng=self._rng,
            recorder=self._events.recorder(ELECTION_COMPONENT),
            reachability=self._reachability,
            lease_clock=lease_clock,
        )
        self._gate = elector
        self._health.add_election(pulse, elector.statistics)
        self._writer = FencedWriter(self._metadata_client.guarded(fence.check), fence)
        if self._metrics is not None:
            self._metrics.add(elector.families)

    def manager(self) -> Manager:
        """Return the assembled program."""
        if self._observability.tracing is not None:
            self._writer = self._observability.tracing.writer(self._writer)
        if self._settings.shadow_grace_seconds is None:
            self._add_controllers()
        else:
            self._add_shadow(self._settings.shadow_grace_seconds)
        manager = Manager(
            clock=self._clock,
            services=[self._events, *self._observability_runnables()],
            informers=list(self._informers.values()),
            gate=self._gate,
            controllers=[*self._workers, AuditRunnable(self._auditor)],
        )
        self._health.add_manager(manager.statistics)
        return manager

    def _observability_runnables(self) -> list[Runnable]:
        listener, healthz_listener, secrets, tracing = self._observability
        runnables: list[Runnable] = [] if tracing is None else [tracing]
        if listener is not None or healthz_listener is not None:
            runnables.append(self._health.heartbeat)
        live, ready = self._health.live, self._health.ready
        if healthz_listener is not None:
            health = HealthAnswers(live=live, ready=ready)
            runnables.append(
                Server(healthz_listener, health.answer, clock=self._clock, name="serving-healthz")
            )
        if self._metrics is not None and listener is not None and secrets is not None:
            self._metrics.add_audit(self._auditor.statistics)
            self._metrics.add_events(self._events.statistics)
            render = RenderLimit(self._metrics.render, self._clock)
            answers = Answers(live=live, ready=ready, metrics=render, admits=secrets.admits)
            runnables.append(Server(listener, answers.answer, secrets=secrets, clock=self._clock))
        return runnables

    def _add_controllers(self) -> None:
        if slices.NAME in self._settings.controllers:  # first: slices must not wait for Endpoints
            self._add_endpoint_slices()
        if endpoints.NAME in self._settings.controllers:
            self._add_endpoints()
        if mirroring.NAME in self._settings.controllers:
            self._add_mirroring()

    def _add_shadow(self, grace_seconds: float) -> None:
        from endpointd.diagnose import changes, shadow
        from endpointd.diagnose.shadow_metrics import shadow_families

        names: dict[str, changes.ControllerName] = {
            endpoints.NAME: "endpoints",
            slices.NAME: "endpointslice",
            mirroring.NAME: "mirroring",
        }
        queue = self._queue(shadow.QUEUE_NAME, slices.RETRY_BACKOFF)
        comparison = shadow.Shadow(
            services=self._services.store,
            pods=self._informer(PODS).store,
            nodes=self._informer(NODES).store,
            endpoints=self._informer(ENDPOINTS).store,
            slices=self._informer(ENDPOINT_SLICES).store,
            membership=self._members(),
            queue=queue,
            clock=self._clock,
            settings=shadow.ShadowSettings(
                grace_seconds=grace_seconds,
                missing_node_grace_seconds=self._settings.missing_node_grace_seconds,
                plan=changes.Settings(
                    max_endpoints_per_slice=self._settings.max_endpoints_per_slice,
                    mirroring_max_endpoints_per_subset=self._settings.mirroring_max_endpoints_per_subset,
                ),
                controllers=frozenset(names[name] for name in self._settings.controllers),
            ),
            caches_current_since=self._following_since,
        )
        if self._metrics is not None:
            self._metrics.add(lambda: shadow_families(comparison))
        self._work(
            shadow.NAME,
            queue,
            comparison.reconcile,
            1,
            reads=(SERVICES, PODS, NODES, ENDPOINTS, ENDPOINT_SLICES),
            starts=[
                self._membership_start(),
                StartOnce(self._members(), lambda: in_one_step(comparison.start), self._pacer),
            ],
        )

    def _following_since(self) -> float | None:
        """Return the time since which every cache has been current, or None if one is not."""
        moments = [informer.statistics().reflector.following_since for informer in self._informers.values()]
        known = [moment for moment in moments if moment is not None]
        return max(known) if len(known) == len(moments) else None

    def _add_endpoints(self) -> None:
        queue = self._queue(endpoints.QUEUE_NAME, endpoints.RETRY_BACKOFF)
        controller = endpoints.EndpointsController(
            services=self._services.store,
            endpoints=self._informer(ENDPOINTS).store,
            membership=self._members(),
            writer=self._logging_writer(endpoints.NAME),
            queue=queue,
            recorder=self._events.recorder(endpoints.EVENT_COMPONENT),
            clock=self._clock,
            settings=endpoints.EndpointsSettings(batch_period_seconds=self._settings.endpoint_batch_seconds),
            pacer=self._pacer,
            relists=self._relists,
        )
        if self._metrics is not None:
            self._metrics.add_rejections(endpoints.NAME, controller.rejections)
        start_once = StartOnce(controller, controller.start_steps, self._pacer)
        self._auditor.add(endpoints.NAME, start_once)
        self._work(
            endpoints.NAME,
            queue,
            controller.reconcile,
            self._settings.concurrent_endpoint_syncs,
            reads=(SERVICES, PODS, ENDPOINTS),
            starts=[self._membership_start(), start_once],
        )

    def _add_endpoint_slices(self) -> None:
        queue = self._queue(slices.QUEUE_NAME, slices.RETRY_BACKOFF)
        observer = None
        if self._metrics is not None:
            observer = SliceMetrics(self._clock)
            self._metrics.add(observer.families)
            self._metrics.add_lag(slices.NAME, observer.lag)
        controller = slices.EndpointSliceController(
            services=self._services.store,
            pods=self._informer(PODS).store,
            nodes=self._informer(NODES).store,
            slices=self._informer(ENDPOINT_SLICES).store,
            membership=self._members(),
            writer=self._logging_writer(slices.NAME),
            queue=queue,
            recorder=self._events.recorder(slices.EVENT_COMPONENT),
            clock=self._clock,
            settings=slices.EndpointSliceSettings(
                max_endpoints_per_slice=self._settings.max_endpoints_per_slice,
                batch_period_seconds=self._settings.slice_batch_seconds,
                missing_node_grace_seconds=self._settings.missing_node_grace_seconds,
            ),
            observer=observer,
            pacer=self._pacer,
            relists=self._relists,
        )
        if self._metrics is not None:
            self._metrics.add_rejections(slices.NAME, controller.rejections)
        start_once = StartOnce(controller, controller.start_steps, self._pacer)
        self._auditor.add(slices.NAME, start_once)
        self._work(
            slices.NAME,
            queue,
            controller.reconcile,
            self._settings.concurrent_service_endpoint_syncs,
            reads=(SERVICES, PODS, NODES, ENDPOINT_SLICES),
            starts=[self._membership_start(), start_once],
        )

    def _add_mirroring(self) -> None:
        queue = self._queue(mirroring.QUEUE_NAME, mirroring.RETRY_BACKOFF)
        observer = None
        if self._metrics is not None:
            observer = MirroringMetrics()
            self._metrics.add(observer.families)
        controller = mirroring.EndpointSliceMirroringController(
            services=self._services.store,
            endpoints=self._informer(ENDPOINTS).store,
            slices=self._informer(ENDPOINT_SLICES).store,
            writer=self._logging_writer(mirroring.NAME),
            queue=queue,
            recorder=self._events.recorder(mirroring.EVENT_COMPONENT),
            clock=self._clock,
            settings=mirroring.MirroringSettings(
                max_endpoints_per_subset=self._settings.mirroring_max_endpoints_per_subset,
                batch_period_seconds=self._settings.mirroring_batch_seconds,
            ),
            observer=observer,
            relists=self._relists,
        )
        start_once = StartOnce(controller, controller.start_steps, self._pacer)
        self._auditor.add(mirroring.NAME, start_once)
        self._work(
            mirroring.NAME,
            queue,
            controller.reconcile,
            self._settings.mirroring_concurrent_syncs,
            reads=(SERVICES, ENDPOINTS, ENDPOINT_SLICES),
            starts=[start_once],
        )

    def _logging_writer(self, controller: str) -> Writer:
        """Return the writer of a controller; with -v=2 or higher it logs every write."""
        if not is_logged():
            return self._writer
        changes = ChangeTimes(self._clock)
        endpoints_store = self._informer(ENDPOINTS).store if controller != slices.NAME else None
        slices_store = self._informer(ENDPOINT_SLICES).store if controller != endpoints.NAME else None
        if controller == mirroring.NAME and endpoints_store is not None:
            endpoints_store.subscribe(changes.endpoints_changed)
        else:
            self._members().subscribe(changes)
        stored: dict[str, Stored] = {}
        if endpoints_store is not None:
            stored[ENDPOINTS.plural] = endpoints_store.get
        if slices_store is not None:
            stored[ENDPOINT_SLICES.plural] = slices_store.get
        return LoggingWriter(self._writer, controller, self._clock, changes, stored)

    def _members(self) -> Membership:
        """Return the shared membership index, and create it on first use, which adds an informer for pods."""
        if self._membership is None:
            pods = self._informer(PODS)
            membership = self._membership = Membership(self._services.store, pods.store)

            def start() -> Steps[None]:
                self._services.store.subscribe(membership.service_changed)
                pods.store.subscribe(membership.pod_changed)
                yield from membership.start_steps()

            self._start_membership = StartOnce(membership, start, self._pacer)
            self._auditor.add("membership", self._start_membership)
        return self._membership

    def _membership_start(self) -> StartOnce:
        self._members()
        if self._start_membership is None:
            raise RuntimeError("the membership index has no start step")
        return self._start_membership

    def _informer(self, resource: Resource[T]) -> Informer[T]:
        """Return the shared informer of a resource, and create it on first use."""
        known = self._informers.get(resource.full_name)
        if known is not None:
            return known
        informer = Informer(
            self._client.source(resource),
            name=resource.full_name,
            clock=self._clock,
            rng=self._rng,
            settings=FOLLOWING,
            reachability=self._reachability,
            pacer=self._pacer,
        )
        self._relists.add(informer.store)
        self._informers[resource.full_name] = informer
        self._health.add_informer(informer)
        if self._metrics is not None:
            self._metrics.add_informer(informer)
        return informer

    def _queue(self, name: str, backoff: ExponentialBackoff) -> WorkQueue[ObjectKey]:
        times = QueueTimes() if self._metrics is not None else None
        observer: QueueObserver | None = times
        if self._observability.tracing is not None:
            observer = self._observability.tracing.queue_observer(times)
        queue: WorkQueue[ObjectKey] = WorkQueue(
            name, clock=self._clock, limiter=RetryLimiter(backoff, rng=self._rng), observer=observer
        )
        if self._metrics is not None and times is not None:
            self._metrics.add_queue(queue, times)
        return queue

    def _work(
        self,
        name: str,
        queue: WorkQueue[ObjectKey],
        reconcile: Reconcile[ObjectKey],
        workers: int,
        *,
        reads: Collection[Resource[Any]],
        starts: Collection[StartOnce],
    ) -> None:
        controller = Controller(
            name,
            queue,
            reconcile,
            workers,
            clock=self._clock,
            observer=self._observability.tracing,
            reachability=self._reachability,
            pacer=self._pacer,
        )
        self._health.add_controller(controller)
        self._workers.append(Workers(controller, [resource.full_name for resource in reads], starts))
