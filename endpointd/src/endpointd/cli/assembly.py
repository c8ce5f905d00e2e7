"""What ``endpointd run`` is made of: an informer for each resource, the controllers, a manager."""

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
from endpointd.cli.assembly_parts import AuditPart, Begin, Outlets, Workers, in_one_step
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
# Pages of a list cost the server half of what the initial events of a watch do, and a start waits for the server.
FOLLOWING = ReflectorSettings(initial="list")
NO_OUTLETS = Outlets()
T = TypeVar("T", bound=KubernetesObject)


class Assembly:
    """Puts the parts together: what no selected controller needs is not watched."""

    def __init__(
        self, settings: RunSettings, client: Client, clock: Clock, outlets: Outlets = NO_OUTLETS
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._rng = random.Random()  # noqa: S311 - for jitter, not for secrets
        self._reachability = Reachability(clock=clock, rng=self._rng, server=client.server)
        self._events = EventWriter(ClientEventSink(client), clock=clock, rng=self._rng)
        self._outlets = outlets
        self._metrics = Metrics(clock) if outlets.listener is not None else None
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
        # What is written is watched: the answers need not repeat it.
        self._writing = client.metadata_only()
        self._writer: Writer = self._writing
        self._gate: Runnable | None = None
        self._membership: Membership | None = None
        self._begin_membership: Begin | None = None

    def elect(self, leases: Client, rules: Rules, settings: ElectionSettings) -> None:
        """Have nothing written but by the leader; to be called before :meth:`manager`."""
        fence = Fence()
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
        )
        self._gate = elector
        self._health.add_election(pulse, elector.statistics)
        self._writer = FencedWriter(self._writing.guarded(fence.check), fence)
        if self._metrics is not None:
            self._metrics.add(elector.families)

    def manager(self) -> Manager:
        """Return the program."""
        if self._outlets.tracing is not None:
            self._writer = self._outlets.tracing.writer(self._writer)
        if self._settings.shadow_grace_seconds is None:
            self._add_controllers()
        else:
            self._add_shadow(self._settings.shadow_grace_seconds)
        manager = Manager(
            clock=self._clock,
            services=[self._events, *self._services_that_tell()],
            informers=list(self._informers.values()),
            gate=self._gate,
            controllers=[*self._workers, AuditPart(self._auditor)],
        )
        self._health.add_manager(manager.statistics)
        return manager

    def _services_that_tell(self) -> list[Runnable]:
        listener, healthz_listener, secrets, tracing = self._outlets
        parts: list[Runnable] = [] if tracing is None else [tracing]
        if listener is not None or healthz_listener is not None:
            parts.append(self._health.heartbeat)
        live, ready = self._health.live, self._health.ready
        if healthz_listener is not None:
            health = HealthAnswers(live=live, ready=ready)
            parts.append(Server(healthz_listener, health.answer, clock=self._clock, name="serving-healthz"))
        if self._metrics is not None and listener is not None and secrets is not None:
            self._metrics.add_audit(self._auditor.statistics)
            self._metrics.add_events(self._events.statistics)
            render = RenderLimit(self._metrics.render, self._clock)
            answers = Answers(live=live, ready=ready, metrics=render, admits=secrets.admits)
            parts.append(Server(listener, answers.answer, secrets=secrets, clock=self._clock))
        return parts

    def _add_controllers(self) -> None:
        if slices.NAME in self._settings.controllers:  # first: an Endpoints must not delay the slices
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
        part = shadow.Shadow(
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
            self._metrics.add(lambda: shadow_families(part))
        self._work(
            shadow.NAME,
            queue,
            part.reconcile,
            1,
            reads=(SERVICES, PODS, NODES, ENDPOINTS, ENDPOINT_SLICES),
            begins=[
                self._membership_begin(),
                Begin(self._members(), lambda: in_one_step(part.start), self._pacer),
            ],
        )

    def _following_since(self) -> float | None:
        """Return since when every cache has been following its server, None while one does not."""
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
        begin = Begin(controller, controller.start_steps, self._pacer)
        self._auditor.add(endpoints.NAME, begin)
        self._work(
            endpoints.NAME,
            queue,
            controller.reconcile,
            self._settings.concurrent_endpoint_syncs,
            reads=(SERVICES, PODS, ENDPOINTS),
            begins=[self._membership_begin(), begin],
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
        begin = Begin(controller, controller.start_steps, self._pacer)
        self._auditor.add(slices.NAME, begin)
        self._work(
            slices.NAME,
            queue,
            controller.reconcile,
            self._settings.concurrent_service_endpoint_syncs,
            reads=(SERVICES, PODS, NODES, ENDPOINT_SLICES),
            begins=[self._membership_begin(), begin],
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
        begin = Begin(controller, controller.start_steps, self._pacer)
        self._auditor.add(mirroring.NAME, begin)
        self._work(
            mirroring.NAME,
            queue,
            controller.reconcile,
            self._settings.mirroring_concurrent_syncs,
            reads=(SERVICES, ENDPOINTS, ENDPOINT_SLICES),
            begins=[begin],
        )

    def _logging_writer(self, controller: str) -> Writer:
        """Return the writer of a controller, which logs what it writes where that is asked for."""
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
        """Return the one membership; the first who asks has pods watched."""
        if self._membership is None:
            pods = self._informer(PODS)
            membership = self._membership = Membership(self._services.store, pods.store)

            def start() -> Steps[None]:
                self._services.store.subscribe(membership.service_changed)
                pods.store.subscribe(membership.pod_changed)
                yield from membership.start_steps()

            self._begin_membership = Begin(membership, start, self._pacer)
            self._auditor.add("membership", self._begin_membership)
        return self._membership

    def _membership_begin(self) -> Begin:
        self._members()
        if self._begin_membership is None:
            raise RuntimeError("there is no membership")
        return self._begin_membership

    def _informer(self, resource: Resource[T]) -> Informer[T]:
        """Return the one informer of a resource; the first who asks has it watched."""
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
        if self._outlets.tracing is not None:
            observer = self._outlets.tracing.queue_observer(times)
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
        begins: Collection[Begin],
    ) -> None:
        controller = Controller(
            name,
            queue,
            reconcile,
            workers,
            clock=self._clock,
            observer=self._outlets.tracing,
            reachability=self._reachability,
            pacer=self._pacer,
        )
        self._health.add_controller(controller)
        self._workers.append(Workers(controller, [resource.full_name for resource in reads], begins))
