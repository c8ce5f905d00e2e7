"""One simulated cluster: API servers, replicas of endpointd, consumers, and the script that disturbs them."""

import asyncio
import contextlib
import gc
import hashlib
import logging
import random
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES, MANAGED_BY_ENDPOINTSLICE_CONTROLLER, SERVICE_NAME_LABEL
from aiokube.api.endpoints import ENDPOINTS, HEADLESS_LABEL
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.http import RetryPolicy
from aiokube.client.rest import MERGE_PATCH
from aiokube.discovery.cache import EndpointSliceCache
from aiokube.discovery.live import FAMILIES
from aiokube.discovery.service_map import ServiceMap, watch_services
from aiokube.runtime.leader_election import LeaseLostError, request_seconds
from aiokube.runtime.leader_election_machine import Rules
from aiokube.runtime.manager import PartFailedError
from aiokube.testing.simulated_loop import Schedule, SimulatedHost, SimulatedLoop, forbid_real_time
from aiokube.testing.virtual_time import FakeClock
from endpointd.cli.assembly import Assembly
from endpointd.cli.options import CONTROLLERS
from endpointd.cli.run_settings import ElectionSettings, RunSettings
from endpointd.diagnose.changes import Settings, changes_of_all
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot
from tests.differential.normalise import Snapshot as ComparedSnapshot
from tests.differential.normalise import slice_names_in_order
from tests.differential.operations import RESOURCES, Operation, SliceOf
from tests.simulation.invariants import HistoryInvariants, StoreInvariants, WatchChecker
from tests.simulation.oracle import judge
from tests.simulation.script import NAMESPACES, REPLICAS, Event, Script
from tinykube.server.objects import GroupResource
from tinykube.server.storage.model import StorageSettings
from tinykube.testing.simulated_client import simulated_client
from tinykube.testing.simulated_network import Latency, Link, Request
from tinykube.testing.simulated_server import LaggingApiServer, SimulatedApiServer

ELECTION = ElectionSettings(15.0, 10.0, 2.0, name="endpointd", namespace="kube-system")
MISSING_NODE_GRACE_SECONDS = 5.0
CONVERGENCE_SECONDS = 240.0
"""Upper bound after the last fault: a lease (15 s), a retry (at most a minute), a stalled watch (42 s) and a relist in sequence."""
SETTLED_SECONDS = 10.0
"""The state is judged after a leader has written nothing for this long: it may just have been elected."""
MAX_CALLBACKS = 1_500_000

_UID = re.compile(r"\$\(uid:([^)]*)\)")
_READ: tuple[Resource[Any], ...] = (SERVICES, PODS, NODES, ENDPOINTS, ENDPOINT_SLICES)


@dataclass(slots=True)
class Violation:
    """A violated invariant."""

    invariant: str
    what: str
    at_seconds: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what} (at {self.at_seconds:.3f} s)"


@dataclass(slots=True)
class Outcome:
    """Result of one simulation."""

    violations: list[Violation]
    story: list[str]
    choices: Mapping[int, int]
    callbacks: int
    virtual_seconds: float
    writes: int
    requests: int
    digest: str
    published: dict[str, list[str]]
    """For each service, the final content of its slices."""
    deliveries: dict[str, int]
    """For each replica, the number of chunks delivered by watches."""
    fenced_writes: dict[str, int]
    """For each replica, the number of writes except leases and Events."""


class Replica:
    """One replica of endpointd: started, paused, killed and restarted, as a kubelet does."""

    def __init__(self, cluster: "Cluster", name: str, clock_rate: float, clock_offset: float) -> None:
        self.name = name
        self.link = cluster.link(name)
        self.link.on_sent = self._sent
        self.host = SimulatedHost(name)
        self.host.is_dead = True
        self.assembly: Assembly | None = None
        self.identity = ""
        self._cluster = cluster
        self._clock = (clock_rate, clock_offset)
        self._starts = 0
        self._stop: asyncio.Event | None = None
        self._kill_at: Event | None = None
        self._writes_left = 0
        self.writes = 0

    def start(self) -> None:
        """Start a new process, unless one runs."""
        if not self.host.is_dead:
            return
        self._starts += 1
        self.identity = f"{self.name}-{self._starts}"
        rate, offset = self._clock
        self.host = SimulatedHost(self.identity, clock_rate=rate, clock_offset_seconds=offset)
        self._cluster.tell(self.name, "starts")
        self._cluster.loop.start(
            self.host, self._run(self.host, random.Random(f"{self._cluster.script.seed} {self.identity}"))
        )

    def kill(self, downtime_seconds: float) -> None:
        """Kill the process, and start another one later."""
        if self.host.is_dead:
            return
        self._cluster.tell(self.name, "is killed")
        self._cluster.loop.kill(self.host)
        self.link.close_all()
        self.assembly = None
        self._cluster.later(downtime_seconds, self.start)

    def stop(self, downtime_seconds: float) -> None:
        """Stop the process with SIGTERM, and start another one after it has ended."""
        if self._stop is not None and not self.host.is_dead:
            self._cluster.tell(self.name, "is asked to stop")
            self._stop.set()
        del downtime_seconds  # it restarts one second after its end

    def kill_at_write(self, event: Event) -> None:
        """Kill the process as one of its next writes leaves."""
        self._kill_at, self._writes_left = event, event.count

    def _sent(self, verb: str, resource: str, target: str, body: bytes) -> None:
        self._cluster.requests += 1
        self._cluster.history.sent(self.identity, verb, resource, target)
        if resource in ("leases", "events"):
            return
        self.writes += 1
        if self._kill_at is None:
            return
        self._writes_left -= 1
        if self._writes_left == 0:
            event, self._kill_at = self._kill_at, None
            # The request is under way: a process killed before that has sent nothing.
            delay = 0.03 if event.acted else 0.0
            self._cluster.later(delay, lambda: self.kill(event.seconds))

    async def _run(self, host: SimulatedHost, rng: random.Random) -> None:
        try:
            await self._run_program(rng)
        except PartFailedError as error:
            if not isinstance(error.__cause__, LeaseLostError):
                self._cluster.report("no-crash", f"{self.identity} ends with {error}")
            self._cluster.tell(self.name, f"ends: {error.__cause__}")
        except Exception as error:  # noqa: BLE001 - any exception that ends a replica is a finding
            self._cluster.report("no-crash", f"{self.identity} ends with {error!r}")
        else:
            self._cluster.tell(self.name, "has stopped")
        host.is_dead = True
        self.link.close_all()
        self.assembly = None
        self._cluster.later(1.0, self.start)

    async def _run_program(self, rng: random.Random) -> None:
        clock = FakeClock()
        script = self._cluster.script
        settings = RunSettings(
            kubeconfig="",
            controllers=CONTROLLERS,
            max_endpoints_per_slice=script.max_endpoints,
            missing_node_grace_seconds=MISSING_NODE_GRACE_SECONDS,
            election=ELECTION,
        )
        rules = Rules(
            identity=self.identity,
            lease_seconds=ELECTION.lease_seconds,
            renew_deadline_seconds=ELECTION.renew_deadline_seconds,
            retry_seconds=ELECTION.retry_seconds,
        )
        self._stop = asyncio.Event()
        client = simulated_client(self.link, clock=clock, user_agent="endpointd")
        leases = simulated_client(
            self.link,
            clock=clock,
            user_agent="endpointd/leader-election",
            retry=RetryPolicy(attempts=0),
            timeout_seconds=request_seconds(rules),
        )
        assembly = Assembly(settings, client, clock, rng=rng)
        assembly.elect(leases, rules, ELECTION, lease_clock=clock.monotonic)
        manager = assembly.manager()
        for informer in assembly._informers.values():
            where = f"the cache of {informer.name} on {self.identity}"
            informer.store.subscribe(StoreInvariants(where, self._cluster.report))
        self.assembly = assembly
        await manager.run(self._stop)


class _ErrorLog(logging.Handler):
    """Collects log records with a traceback: each is a bug that some code caught."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__(logging.ERROR)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            self._cluster.report("no-crash", f"{record.getMessage()}: {record.exc_info[1]!r}")


class Cluster:
    """A simulation that runs once: see :func:`simulate`."""

    def __init__(self, script: Script, loop: SimulatedLoop) -> None:
        self.script = script
        self.loop = loop
        self.violations: list[Violation] = []
        self.story: list[tuple[float, str, str]] = []
        self.requests = 0
        seed = script.seed
        self.server = SimulatedApiServer(
            loop,
            random.Random(f"{seed} server"),
            self.tell,
            storage=StorageSettings(history_changes=script.history_changes),
            has_lifecycle=script.has_lifecycle,
        )
        if script.has_webhook:
            self.server.admission = _annotate
        self.twin = (
            LaggingApiServer(
                self.server, random.Random(f"{seed} twin"), self.tell, lag_seconds=script.lag_seconds
            )
            if script.has_twin
            else None
        )
        self.history = HistoryInvariants(self.server.disk, self.report, max_endpoints=script.max_endpoints)
        self.replicas = {
            name: Replica(self, name, rate, offset)
            for name, rate, offset in zip(REPLICAS, script.clock_rates, script.clock_offsets, strict=True)
        }
        self.consumer: ServiceMap | None = None
        self.published: dict[str, list[str]] = {}
        self.checker: WatchChecker | None = None

    # ------------------------------------------------------------------------------------------------- parts

    def link(self, name: str, *, perfect: bool = False) -> Link:
        """Return a new link from a host to the API servers."""
        frontends: list[Any] = [self.server]
        if self.twin is not None and not perfect:
            frontends.append(self.twin)
        latency = Latency(slow_share=0.0 if perfect else self.script.slow_share, slow_seconds=2.0)
        link = Link(
            self.loop, name, frontends, random.Random(f"{self.script.seed} link {name}"), self.tell, latency
        )
        self.server.links.append(link)
        return link

    def tell(self, who: str, what: str) -> None:
        """Append a line to the story."""
        self.story.append((self.loop.now, who, what))

    def report(self, invariant: str, what: str) -> None:
        """Record a violated invariant."""
        if len(self.violations) < 5:
            self.violations.append(Violation(invariant, what, self.loop.now))
            self.tell("VIOLATION", f"{invariant}: {what}")

    def later(self, seconds: float, action: Any) -> None:
        """Schedule an action that belongs to no host."""
        self.replicas[REPLICAS[0]].link.call_later(seconds, action)

    # ------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Run the script to its end, then verify that everything becomes correct and stays so."""
        self.server.start()
        await self.server.wait_ready()
        for namespace in NAMESPACES:
            body = msgspec.json.encode({"metadata": {"name": namespace}})
            await self.server.call("POST", "/api/v1/namespaces", body)
        for number, replica in enumerate(self.replicas.values()):
            self.later(number * 0.5, replica.start)
        self._start_consumers()
        for event in self.script.events:
            if event.at > self.loop.now:
                await asyncio.sleep(event.at - self.loop.now)
            if self._is_over():
                return
            await self._happen(event)
        await asyncio.sleep(max(self.script.ends_at - self.loop.now, 0))
        self._end_disturbances()
        await self._converge()

    def _is_over(self) -> bool:
        if self.loop.callbacks > MAX_CALLBACKS:
            self.report("bounded-work", f"{self.loop.callbacks} callbacks ran by {self.loop.now:.1f} s")
        return bool(self.violations)

    def _start_consumers(self) -> None:
        seed = self.script.seed
        watcher = SimulatedHost("watcher")
        link = self.link("watcher")
        client = simulated_client(link, clock=FakeClock())
        self.checker = WatchChecker(
            client,
            self.server.disk,
            self.report,
            random.Random(f"{seed} watcher"),
            lambda what: self.tell("watcher", what),
        )
        self.loop.start(watcher, self.checker.run(asyncio.sleep))
        consumer = SimulatedHost("consumer")
        self.loop.start(consumer, self._consume(self.link("consumer"), random.Random(f"{seed} consumer")))

    async def _consume(self, link: Link, rng: random.Random) -> None:
        client = simulated_client(link, clock=FakeClock())
        services = watch_services(client, clock=FakeClock(), rng=rng, timeout_seconds=100_000.0)
        async with services:
            self.consumer = services
            await asyncio.get_running_loop().create_future()

    async def _happen(self, event: Event) -> None:
        replica = self.replicas.get(event.host)
        match event.kind:
            case "operation" if event.operation is not None:
                await self._operate(event.operation)
                return
            case "fault" if replica is not None and event.fault is not None:
                replica.link.faults.append(event.fault)
            case "cut" if replica is not None:
                replica.link.cut()
                self.later(event.seconds, replica.link.restore)
            case "pause" if replica is not None and not replica.host.is_paused:
                host = replica.host
                self.loop.pause(host)
                self.later(event.seconds, lambda: self.loop.resume(host))
            case "withhold" if replica is not None:
                replica.link.withheld[event.count] = event.seconds
            case "kill" if replica is not None:
                replica.kill(event.seconds)
            case "kill-at-write" if replica is not None:
                replica.kill_at_write(event)
            case "stop" if replica is not None:
                replica.stop(event.seconds)
            case "server-kill" if not self.server.host.is_dead:
                self.server.kill(after_sync=event.acted)
                self.later(event.seconds, self._restart_server)
            case "freeze" if self.twin is not None:
                twin = self.twin
                twin.freeze(frozen=True)
                self.later(event.seconds, lambda: twin.freeze(frozen=False))
        self.tell("script", str(event).strip())

    def _restart_server(self) -> None:
        if self.server.host.is_dead:
            self.server.start()

    def _end_disturbances(self) -> None:
        self.tell("script", "no more faults")
        self._restart_server()
        if self.twin is not None:
            self.twin.freeze(frozen=False)
        for replica in self.replicas.values():
            replica.link.faults.clear()
            replica.link.restore()
            replica._kill_at = None
            if replica.host.is_paused:
                self.loop.resume(replica.host)

    async def _operate(self, operation: Operation) -> None:
        """Apply an external operation immediately; a rejected one has no effect."""
        if self.server.host.is_dead or not self.server._ready.done():
            self._restart_server()
            await self.server.wait_ready()
        resource = RESOURCES[operation.resource]
        name = operation.name
        if isinstance(name, SliceOf):
            found = self._slice(operation.namespace, name)
            if found is None:
                return
            name = found
        body = operation.body
        for service in sorted(set(_UID.findall(body))):
            stored = self._find(SERVICES, operation.namespace, service)
            if stored is None:
                return
            body = body.replace(f"$(uid:{service})", stored.metadata.uid)
        path = resource.object_path(ObjectKey(operation.namespace, name))
        match operation.verb:
            case "create":
                answer = await self.server.call("POST", resource.path(operation.namespace), body.encode())
            case "patch":
                answer = await self.server.call("PATCH", path, body.encode(), MERGE_PATCH)
            case "patch-status":
                answer = await self.server.call("PATCH", f"{path}/status", body.encode(), MERGE_PATCH)
            case "delete":
                options: dict[str, Any] = {}
                if operation.grace_seconds is not None:
                    options["gracePeriodSeconds"] = operation.grace_seconds
                answer = await self.server.call("DELETE", path, msgspec.json.encode(options))
        del answer

    # ------------------------------------------------------------------------------------------------- judging

    def _objects(self, resource: Resource[Any]) -> list[Any]:
        group = resource.group
        storage = self.server.backend.storage
        snapshot = storage.snapshot(GroupResource(group, resource.plural))
        return [resource.decode(stored.encoded) for stored in snapshot.after("", "")]

    def _find(self, resource: Resource[Any], namespace: str, name: str) -> Any:
        key = ObjectKey(namespace, name)
        return next((item for item in self._objects(resource) if item.metadata.key == key), None)

    def _slice(self, namespace: str, target: SliceOf) -> str | None:
        raw = tuple(
            msgspec.json.decode(ENDPOINT_SLICES.encode(item))
            for item in self._objects(ENDPOINT_SLICES)
            if item.metadata.namespace == namespace
        )
        snapshot = ComparedSnapshot(
            raw_endpoints=(),
            raw_slices=raw,
            services=tuple(self._objects(SERVICES)),
            pods=tuple(self._objects(PODS)),
        )
        names = slice_names_in_order(
            snapshot, ObjectKey(namespace, target.service), MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        )
        return names[target.index % len(names)] if names else None

    def _planned(self) -> list[str]:
        """Return the writes that a newly started controller would send."""
        snapshot = Snapshot(
            services=tuple(self._objects(SERVICES)),
            pods=tuple(self._objects(PODS)),
            nodes=tuple(self._objects(NODES)),
            endpoints=tuple(self._objects(ENDPOINTS)),
            slices=tuple(self._objects(ENDPOINT_SLICES)),
            missing_zones={},
        )
        settings = Settings(max_endpoints_per_slice=self.script.max_endpoints)
        index = ClusterIndex(snapshot)
        found = []
        for change in changes_of_all(index, settings):
            if self.script.has_webhook and change.operation == "update":
                continue  # a new controller rewrites each object that a webhook changed (guarantee 2)
            if change.kind == "Endpoints":
                # Endpoints without a service are collected once per start, not when they appear (E-5); a manual edit of
                # Endpoints stays until the service or a pod changes (E-3).
                if change.operation == "delete" and index.services.get(change.service) is None:
                    continue
                if change.operation == "update" and self.history.last_editor(change.service) == "test":
                    continue
            found.append(f"{change.operation} {change.kind} {change.name} of {change.service}")
        return found

    def _last_write(self) -> int:
        """Return the last revision written by a replica, except leases and Events."""
        for written in reversed(self.server.disk.history):
            if written.row.plural not in ("leases", "events") and written.author.startswith("replica"):
                return written.row.revision
        return 0

    async def _converge(self) -> None:
        await self.server.wait_ready()
        deadline = self.loop.now + CONVERGENCE_SECONDS
        state: tuple[int, str] = (-1, "")
        since = self.loop.now
        while not self._is_over():
            await asyncio.sleep(2.0)
            leader = self._leader()
            latest = self._last_write(), leader.identity if leader is not None else ""
            if latest != state:
                state, since = latest, self.loop.now
            elif leader is not None and self.loop.now - since >= SETTLED_SECONDS and not self._planned():
                break
            if self.loop.now > deadline:
                planned = self._planned()
                no_leader = "" if leader is not None else "; no replica leads"
                self.report(
                    "liveness",
                    f"{CONVERGENCE_SECONDS:g} s after the last fault a new controller would still"
                    f" {'; '.join(planned[:5]) or 'write nothing'}{no_leader}",
                )
                return
        converged = self._last_write()
        self.tell("script", "everything is right")
        end = self.loop.now + self.script.quiet_seconds
        while self.loop.now < end and not self._is_over():
            await asyncio.sleep(min(5.0, end - self.loop.now))
            if self._last_write() != converged:
                self.report(
                    "quiet", f"a write at {self._last_write()} though everything was right at {converged}"
                )
        if not self.violations:
            self._judge_views()
            self._note_published()

    def _leader(self) -> Replica | None:
        return next(
            (
                one
                for one in self.replicas.values()
                if one.identity == self.history.holder and not one.host.is_dead
            ),
            None,
        )

    def _judge_views(self) -> None:
        """Compare caches and consumers with the state, and run the audit."""
        stored = {
            resource.full_name: {
                item.metadata.key: item.metadata.resource_version for item in self._objects(resource)
            }
            for resource in _READ
        }
        for replica in self.replicas.values():
            if replica.assembly is None:
                continue
            for name, informer in replica.assembly._informers.items():
                cached = {
                    item.metadata.key: item.metadata.resource_version for item in informer.store.values()
                }
                if cached != stored[name]:
                    self.report(
                        "caches",
                        f"{replica.identity} sees another state of {name}: {_difference(cached, stored[name])}",
                    )
            audit = replica.assembly._auditor.statistics()
            if audit.last_mismatch:
                self.report("audit", audit.last_mismatch)
        for wrong in judge(
            self._objects(SERVICES), self._objects(PODS), self._objects(NODES), self._objects(ENDPOINT_SLICES)
        ):
            self.report("published", wrong)
        self._judge_consumer()

    def _note_published(self) -> None:
        for item in self._objects(ENDPOINT_SLICES):
            service = (item.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
            found = self.published.setdefault(f"{item.metadata.namespace}/{service} {item.address_type}", [])
            found += [f"{one.addresses} {one.conditions} {item.ports}" for one in item.endpoints or ()]
        for endpoints in self.published.values():
            endpoints.sort()

    def _judge_consumer(self) -> None:
        if self.consumer is None:
            self.report("consumer", "it has not read everything")
            return
        for family in FAMILIES:
            fresh = EndpointSliceCache(family)
            for item in self._objects(ENDPOINT_SLICES):
                if HEADLESS_LABEL not in (item.metadata.labels or {}):  # kube-proxy does not read those (C-2)
                    fresh.update(item)
            for name, seen in self.consumer.snapshot(family).items():
                expected = fresh.snapshot().get(name, ())
                if seen.endpoints != expected:
                    self.report("consumer", f"{family} {name}: sees {seen.endpoints}, not {expected}")


def _annotate(request: Request) -> None:
    """Act as a mutating webhook: annotate every created or updated slice."""
    if request.method in ("POST", "PUT") and "/endpointslices" in request.path:
        document = msgspec.json.decode(request.body)
        document["metadata"].setdefault("annotations", {})["example.com/injected"] = "yes"
        request.body = msgspec.json.encode(document)
        request.content_length = len(request.body)


def _difference(mine: dict[Any, str], theirs: dict[Any, str]) -> str:
    keys = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
    return ", ".join(f"{key} {mine.get(key)} instead of {theirs.get(key)}" for key in keys[:3])


@contextlib.contextmanager
def _isolated(cluster: Cluster) -> Iterator[None]:
    """Isolate a simulation from logs, the garbage collector and real time."""
    root = logging.getLogger()
    handler = _ErrorLog(cluster)
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    was_enabled = gc.isenabled()
    gc.disable()  # finalizers would run at unpredictable moments
    try:
        with forbid_real_time(), mock.patch.object(gc, "freeze"):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        if was_enabled:
            gc.enable()


def simulate(script: Script, choices: Mapping[int, int] | None = None) -> Outcome:
    """Run one simulation; with recorded choices its callbacks run in that order, otherwise in asyncio's."""
    schedule = (
        Schedule(script.seed, disorder=script.disorder or 1e-12)
        if choices is None
        else Schedule.replay(choices)
    )
    loop = SimulatedLoop(schedule)
    cluster = Cluster(script, loop)
    with _isolated(cluster):
        try:
            loop.run_until_complete(cluster.run())
        except Exception as error:  # noqa: BLE001 - any exception that ends a simulation is a finding
            cluster.report("no-crash", f"the simulation ends with {type(error).__name__}: {error}")
        finally:
            story = [f"{at:9.4f}  {who:12} {what}" for at, who, what in cluster.story]
            violations = list(cluster.violations)
            loop.close()
    digest = hashlib.sha256("\n".join(story).encode())
    digest.update(struct.pack(">qd", loop.callbacks, loop.now))
    for written in cluster.server.disk.history:
        digest.update(repr(written).encode())
    return Outcome(
        violations=violations,
        story=story,
        choices=schedule.choices,
        callbacks=loop.callbacks,
        virtual_seconds=loop.now,
        writes=cluster.history.writes,
        requests=cluster.requests,
        digest=digest.hexdigest(),
        published=cluster.published,
        deliveries={name: replica.link.deliveries for name, replica in cluster.replicas.items()},
        fenced_writes={name: replica.writes for name, replica in cluster.replicas.items()},
    )
