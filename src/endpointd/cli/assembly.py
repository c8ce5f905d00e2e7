"""What ``endpointd run`` is made of: one client, an informer for each resource, the controllers, a manager."""

import asyncio
import contextlib
import gc
import logging
import random
import socket
import sys
import uuid
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

import msgspec

from endpointd import __version__
from endpointd.api.core import NODES, PODS, SERVICES
from endpointd.api.discovery import ENDPOINT_SLICES
from endpointd.api.endpoints import ENDPOINTS
from endpointd.api.meta import KubernetesObject, ObjectKey
from endpointd.api.resource import Resource
from endpointd.cli.health import Health
from endpointd.cli.metrics import Metrics
from endpointd.cli.serving import Server
from endpointd.cli.serving_address import BindAddress, ListenError, open_listener
from endpointd.cli.serving_answers import Answers
from endpointd.cli.serving_secrets import ServingFileError, ServingFiles, ServingSecrets
from endpointd.cli.tracing import Tracing, TracingSettings, TracingUnavailableError, open_tracing
from endpointd.client.config import ClusterConfig
from endpointd.client.discover import load_config
from endpointd.client.errors import ConfigError
from endpointd.client.http import RetryPolicy
from endpointd.client.ratelimit import RateLimiter
from endpointd.client.rest import Client
from endpointd.clock import Clock, SystemClock
from endpointd.controllers.audit import Audited, Auditor
from endpointd.controllers.endpoints import controller as endpoints
from endpointd.controllers.endpointslice import controller as slices
from endpointd.controllers.endpointslice.metrics import SliceMetrics
from endpointd.controllers.membership import Membership
from endpointd.controllers.mirroring import controller as mirroring
from endpointd.controllers.mirroring.metrics import MirroringMetrics
from endpointd.controllers.writes import Writer
from endpointd.runtime.backoff import ExponentialBackoff, RetryLimiter
from endpointd.runtime.controller import Controller, ControllerStop, Reconcile
from endpointd.runtime.events import ClientEventSink, EventWriter
from endpointd.runtime.health import ElectorPulse
from endpointd.runtime.informer import Informer
from endpointd.runtime.leader_election import LeaderElector, LeaseLostError, request_seconds
from endpointd.runtime.leader_election_fence import Fence, FencedWriter
from endpointd.runtime.leader_election_machine import Rules
from endpointd.runtime.manager import Manager, Part, PartFailedError
from endpointd.runtime.metrics import QueueTimes
from endpointd.runtime.queue import QueueObserver, WorkQueue
from endpointd.runtime.shutdown import stop_on_signals

logger = logging.getLogger(__name__)

EXIT_DONE = 0
EXIT_LEASE_LOST = 1
EXIT_UNUSABLE = 2
ELECTION_COMPONENT = "endpointd"
FIRST_AUDIT_AFTER_SECONDS = 60.0
T = TypeVar("T", bound=KubernetesObject)


class ElectionSettings(msgspec.Struct, frozen=True):
    """The flags ``--leader-elect-*``. Durations are in seconds."""

    lease_seconds: float
    renew_deadline_seconds: float
    retry_seconds: float
    name: str
    namespace: str


class RunSettings(msgspec.Struct, frozen=True):
    """The flags of ``endpointd run``. Durations are in seconds."""

    kubeconfig: str
    context: str
    controllers: tuple[str, ...]
    concurrent_endpoint_syncs: int
    concurrent_service_endpoint_syncs: int
    max_endpoints_per_slice: int
    endpoint_batch_seconds: float
    slice_batch_seconds: float
    mirroring_concurrent_syncs: int
    mirroring_max_endpoints_per_subset: int
    mirroring_batch_seconds: float
    qps: float
    burst: int
    metrics_address: BindAddress | None = None
    election: ElectionSettings | None = None
    """None writes without asking anybody."""
    serving_files: ServingFiles = ServingFiles()
    tracing: TracingSettings | None = None
    shadow_grace_seconds: float | None = None
    """How long a difference has to stand to be reported, where nothing is written; None writes."""


class Outlets(NamedTuple):
    """What tells others how the program is: nothing, unless asked for."""

    listener: socket.socket | None = None
    secrets: ServingSecrets | None = None
    tracing: Tracing | None = None


_NO_OUTLETS = Outlets()


def run_controllers(settings: RunSettings) -> int:
    """Run until a signal; return the exit code."""
    clock = SystemClock()
    try:
        config = load_config(settings.kubeconfig, settings.context, clock=clock)
        outlets = _open_outlets(settings, clock)
    except (ConfigError, ListenError, ServingFileError, TracingUnavailableError) as error:
        print(f"endpointd: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    # What is cached lives long and is never part of a cycle: looking through it again and again is for nothing.
    gc.set_threshold(50_000, 20, 100)
    with contextlib.closing(outlets.listener) if outlets.listener is not None else contextlib.nullcontext():
        return asyncio.run(_run(settings, config, clock, outlets))


def _open_outlets(settings: RunSettings, clock: Clock) -> Outlets:
    tracing = open_tracing(settings.tracing, clock=clock) if settings.tracing is not None else None
    if settings.metrics_address is None:
        return Outlets(tracing=tracing)
    secrets = ServingSecrets(settings.serving_files)
    return Outlets(open_listener(settings.metrics_address), secrets, tracing)


async def _run(settings: RunSettings, config: ClusterConfig, clock: Clock, outlets: Outlets) -> int:
    limiter = None
    if settings.qps > 0:
        burst = settings.burst or max(int(settings.qps * 1.5), 1)
        limiter = RateLimiter(per_second=settings.qps, burst=burst, clock=clock)
    stop = asyncio.Event()
    agent = f"endpointd/{__version__}"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.from_config(config, clock=clock, limiter=limiter, user_agent=agent)
        )
        if settings.shadow_grace_seconds is not None:
            from endpointd.diagnose.shadow import refuse_writes

            client = client.guarded(refuse_writes)  # nothing tries; this makes it certain
            logger.info("shadow mode, nothing is written: grace_seconds=%g", settings.shadow_grace_seconds)
        assembly = Assembly(settings, client, clock, outlets)
        if settings.election is not None:
            rules = election_rules(settings.election)
            # As upstream: a client of its own, that nothing else can slow down and that waits for nobody.
            leases = Client.from_config(
                config,
                clock=clock,
                user_agent=f"{agent}/leader-election",
                retry=RetryPolicy(attempts=0),
                timeout_seconds=request_seconds(rules),
            )
            assembly.elect(await stack.enter_async_context(leases), rules, settings.election)
        logger.info(
            "starting: version=%s server=%s config=%s controllers=%s",
            __version__,
            client.server,
            config.origin,
            ",".join(settings.controllers),
        )
        with stop_on_signals(stop):
            try:
                await assembly.manager().run(stop)
            except PartFailedError as error:
                if not isinstance(error.__cause__, LeaseLostError):
                    raise
                logger.error("ended, start it again to have it wait for its turn: cause=%s", error.__cause__)
                return EXIT_LEASE_LOST
    logger.info("stopped")
    return EXIT_DONE


def election_rules(settings: ElectionSettings) -> Rules:
    """Return the rules for this process, under a name that no other one has: as upstream, host and chance."""
    return Rules(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lease_seconds=settings.lease_seconds,
        renew_deadline_seconds=settings.renew_deadline_seconds,
        retry_seconds=settings.retry_seconds,
    )


class _Begin:
    """Something that is built from the caches once they are complete, once; the audit leaves it alone until then."""

    def __init__(self, audited: Audited, begin: Callable[[], None]) -> None:
        self._audited = audited
        self._begin = begin
        self._has_begun = False

    def __call__(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._begin()

    def audited_keys(self) -> Collection[ObjectKey]:
        return self._audited.audited_keys() if self._has_begun else ()

    def audit(self, key: ObjectKey) -> str | None:
        return self._audited.audit(key)


class _Workers:
    """A controller's workers, for which those caches alone are needed that it reads."""

    def __init__(
        self, controller: Controller[ObjectKey], informers: Collection[str], begins: Collection[_Begin]
    ) -> None:
        self._controller = controller
        self._begins = begins
        self.name = controller.name
        self.needed_informers = informers

    async def run(self) -> None:
        for begin in self._begins:
            begin()
        gc.freeze()
        await self._controller.run()

    async def stop(self, grace_seconds: float) -> ControllerStop:
        return await self._controller.stop(grace_seconds)


class _Audit:
    """The audit, which needs no cache: what has not begun is left alone."""

    name = Auditor.name
    needed_informers: Collection[str] = ()

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    async def run(self) -> None:
        await self._auditor.run()


class Assembly:
    """Puts the parts together: what no selected controller needs is not watched."""

    def __init__(
        self, settings: RunSettings, client: Client, clock: Clock, outlets: Outlets = _NO_OUTLETS
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._rng = random.Random()  # noqa: S311 - for jitter, not for secrets
        self._events = EventWriter(ClientEventSink(client), clock=clock, rng=self._rng)
        self._outlets = outlets
        self._metrics = Metrics(clock) if outlets.listener is not None else None
        self._health = Health(clock)
        self._informers: dict[str, Informer[Any]] = {}
        self._workers: list[Part] = []
        self._auditor = Auditor(clock=clock, first_round_after_seconds=FIRST_AUDIT_AFTER_SECONDS)
        self._services = self._informer(SERVICES)
        self._writer: Writer = client
        self._gate: Part | None = None
        self._membership: Membership | None = None
        self._begin_membership: _Begin | None = None

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
        )
        self._gate = elector
        self._health.add_election(pulse, elector.statistics)
        self._writer = FencedWriter(self._client.guarded(fence.check), fence)
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
            controllers=[*self._workers, _Audit(self._auditor)],
        )
        self._health.add_manager(manager.statistics)
        return manager

    def _services_that_tell(self) -> list[Part]:
        listener, secrets, tracing = self._outlets
        parts: list[Part] = [] if tracing is None else [tracing]
        if self._metrics is None or listener is None or secrets is None:
            return parts
        self._metrics.add_audit(self._auditor.statistics)
        self._metrics.add_events(self._events.statistics)
        answers = Answers(
            live=self._health.live,
            ready=self._health.ready,
            metrics=self._metrics.render,
            admits=secrets.admits,
        )
        server = Server(listener, answers.answer, secrets=secrets, clock=self._clock)
        return [*parts, self._health.heartbeat, server]

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
            nodes=self._informer(NODES).store,
            endpoints=self._informer(ENDPOINTS).store,
            slices=self._informer(ENDPOINT_SLICES).store,
            membership=self._members(),
            queue=queue,
            clock=self._clock,
            settings=shadow.ShadowSettings(
                grace_seconds=grace_seconds,
                plan=changes.Settings(
                    max_endpoints_per_slice=self._settings.max_endpoints_per_slice,
                    mirroring_max_endpoints_per_subset=self._settings.mirroring_max_endpoints_per_subset,
                ),
                controllers=frozenset(names[name] for name in self._settings.controllers),
            ),
            sight=self._following_since,
        )
        if self._metrics is not None:
            self._metrics.add(lambda: shadow_families(part))
        self._work(
            shadow.NAME,
            queue,
            part.reconcile,
            1,
            reads=(SERVICES, PODS, NODES, ENDPOINTS, ENDPOINT_SLICES),
            begins=[self._membership_begin(), _Begin(self._members(), part.start)],
        )

    def _following_since(self) -> float | None:
        """Return since when every cache has been following its server, None while one does not."""
        reflectors = [informer.statistics().reflector for informer in self._informers.values()]
        if any(reflector.phase != "watching" for reflector in reflectors):
            return None
        return max(reflector.since for reflector in reflectors)

    def _add_endpoints(self) -> None:
        queue = self._queue(endpoints.QUEUE_NAME, endpoints.RETRY_BACKOFF)
        controller = endpoints.EndpointsController(
            services=self._services.store,
            endpoints=self._informer(ENDPOINTS).store,
            membership=self._members(),
            writer=self._writer,
            queue=queue,
            recorder=self._events.recorder(endpoints.EVENT_COMPONENT),
            clock=self._clock,
            settings=endpoints.EndpointsSettings(batch_period_seconds=self._settings.endpoint_batch_seconds),
        )
        begin = _Begin(controller, controller.start)
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
            nodes=self._informer(NODES).store,
            slices=self._informer(ENDPOINT_SLICES).store,
            membership=self._members(),
            writer=self._writer,
            queue=queue,
            recorder=self._events.recorder(slices.EVENT_COMPONENT),
            clock=self._clock,
            settings=slices.EndpointSliceSettings(
                max_endpoints_per_slice=self._settings.max_endpoints_per_slice,
                batch_period_seconds=self._settings.slice_batch_seconds,
            ),
            observer=observer,
        )
        begin = _Begin(controller, controller.start)
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
            writer=self._writer,
            queue=queue,
            recorder=self._events.recorder(mirroring.EVENT_COMPONENT),
            clock=self._clock,
            settings=mirroring.MirroringSettings(
                max_endpoints_per_subset=self._settings.mirroring_max_endpoints_per_subset,
                batch_period_seconds=self._settings.mirroring_batch_seconds,
            ),
            observer=observer,
        )
        begin = _Begin(controller, controller.start)
        self._auditor.add(mirroring.NAME, begin)
        self._work(
            mirroring.NAME,
            queue,
            controller.reconcile,
            self._settings.mirroring_concurrent_syncs,
            reads=(SERVICES, ENDPOINTS, ENDPOINT_SLICES),
            begins=[begin],
        )

    def _members(self) -> Membership:
        """Return the one membership; the first who asks has pods watched."""
        if self._membership is None:
            pods = self._informer(PODS)
            membership = self._membership = Membership(self._services.store, pods.store)

            def start() -> None:
                membership.start()
                self._services.store.subscribe(membership.service_changed)
                pods.store.subscribe(membership.pod_changed)

            self._begin_membership = _Begin(membership, start)
            self._auditor.add("membership", self._begin_membership)
        return self._membership

    def _membership_begin(self) -> _Begin:
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
            self._client.source(resource), name=resource.full_name, clock=self._clock, rng=self._rng
        )
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
        begins: Collection[_Begin],
    ) -> None:
        controller = Controller(
            name, queue, reconcile, workers, clock=self._clock, observer=self._outlets.tracing
        )
        self._health.add_controller(controller)
        self._workers.append(_Workers(controller, [resource.full_name for resource in reads], begins))
