"""After the last fault, slices including hints equal those that a fresh start would keep, and writing ends.

Pods, nodes, zones, CPU and services change; slices and hints are edited; writes fail, or succeed without a
response; the watch lags; processes restart, and a standby with a stale cache takes over while a write of the
old leader is in flight. All with the real controller, store and queue. The oracles are independent readings
of the rules.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.support.slice_invariants import is_managed, slice_violations
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Service
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
)
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.resource import Resource, WatchEvent
from aiokube.api.status import Status
from aiokube.client.errors import ClientError, ConnectionFailedError, RequestTimedOutError, api_error
from aiokube.testing.builders import edited, make_node, make_pod, make_service
from aiokube.testing.memory_server import Call, MemoryServer, Verb
from endpointd.controllers.endpointslice.controller import EndpointSliceSettings, SyncFailedError
from tests.differential.hint_rules import broken_hint_rules
from tests.differential.normalise import Snapshot

R = TypeVar("R")

SERVICES = ["web", "api"]
PODS = [f"pod-{number:02}" for number in range(12)]
NODES = ["a1", "a2", "b1", "c1", "bare"]
ZONE_OF = {"a1": "zone-a", "a2": "zone-a", "b1": "zone-b", "c1": "zone-c", "bare": ""}

HINTS = [
    None,
    EndpointHints(),
    EndpointHints(for_zones=(ForZone("zone-a"),)),
    EndpointHints(for_zones=(ForZone("nowhere"),)),
    EndpointHints(for_zones=(ForZone("zone-a"), ForZone("zone-b"))),
    EndpointHints(for_nodes=(ForNode("b1"),)),
]

ERRORS: list[ClientError] = [
    RequestTimedOutError("no answer"),
    ConnectionFailedError("refused"),
    api_error(Status(code=503, reason="ServiceUnavailable", message="no")),
    api_error(Status(code=409, reason="Conflict", message="changed")),
    api_error(Status(code=422, reason="Invalid", message="refused")),
    api_error(Status(code=404, message="404 page not found")),
]


def _each(change: Callable[[Endpoint], Endpoint]) -> Callable[[EndpointSlice], EndpointSlice]:
    return lambda endpoint_slice: edited(
        endpoint_slice, endpoints=tuple(map(change, endpoint_slice.endpoints or ())) or None
    )


EDITS: list[Callable[[EndpointSlice], EndpointSlice]] = [
    *(_each(lambda endpoint, hints=hints: msgspec.structs.replace(endpoint, hints=hints)) for hints in HINTS),  # type: ignore[misc]
    _each(lambda endpoint: msgspec.structs.replace(endpoint, zone="zone-x")),
    lambda endpoint_slice: edited(endpoint_slice, endpoints=(endpoint_slice.endpoints or ())[1:] or None),
    lambda endpoint_slice: edited(endpoint_slice, endpoints=(endpoint_slice.endpoints or ())[::-1] or None),
    lambda endpoint_slice: edited(
        endpoint_slice, labels={**(endpoint_slice.metadata.labels or {}), "odd": "yes"}
    ),
    lambda endpoint_slice: edited(endpoint_slice, ports=None),
]


class _Recorder:
    """A store fed by a watch, with a log of its events: a standby may have processed fewer."""

    def __init__(self, world: SliceWorld, watch_events: list[WatchEvent[EndpointSlice]]) -> None:
        self._world = world
        self._watch_events = watch_events

    def apply(self, events: list[WatchEvent[Any]]) -> None:
        self._watch_events.extend(events)
        self._world.slices.apply(events)


class StrictServer(MemoryServer):
    """A server that detects controller updates without a change."""

    def __init__(self) -> None:
        super().__init__()
        self.without_change: list[ObjectKey] = []

    def _update(self, resource: Resource[Any], body: msgspec.Struct, key: ObjectKey) -> Any:
        before = self.objects(resource).get(key)
        after = super()._update(resource, body, key)
        ours = bool(body.metadata.resource_version)  # type: ignore[attr-defined]
        if (
            ours
            and before is not None
            and after.metadata.resource_version == before.metadata.resource_version
        ):
            self.without_change.append(key)
        return after


class RecordedWorld(SliceWorld):
    """A world that records its lists and watch events."""

    server: StrictServer

    def __init__(self, settings: EndpointSliceSettings, server: StrictServer) -> None:
        super().__init__(settings=settings, server=server)
        self.listed: tuple[list[EndpointSlice], str] = ([], "")
        self.watch_events: list[WatchEvent[EndpointSlice]] = []

    def start(self) -> None:
        self.listed = (list(self.server.objects(ENDPOINT_SLICES).values()), self.server.resource_version)
        super().start()

    def watch(self, count: int | None = None) -> int:
        return self.server.feed(ENDPOINT_SLICES, _Recorder(self, self.watch_events), count)

    def continue_from(self, before: "RecordedWorld", behind: int) -> None:
        """Start as the standby of another world, whose watch is this many events behind."""
        reached = max(len(before.watch_events) - behind, 0)
        self.listed, self.watch_events = before.listed, before.watch_events[:reached]
        self.server.rewind(ENDPOINT_SLICES, before.watch_events[reached:])
        self.slices.replace(*self.listed)
        self.slices.apply(self.watch_events)
        self.begin()


class RecoveryMachine(RuleBasedStateMachine):
    """A cluster of three zones with two services."""

    @initialize(limit=st.integers(1, 5), at_once=st.sampled_from([1, 8]))
    def start(self, limit: int, at_once: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.settings = EndpointSliceSettings(max_endpoints_per_slice=limit, max_concurrent_writes=at_once)
        self.limit = limit
        self.late: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        self.world = RecordedWorld(self.settings, StrictServer())
        self.world.put(make_service("web", topology_mode="Auto"), make_service("api"))
        self.spread(["a1", "b1", "c1"])
        self.world.start()
        self.run(self.world.settle())

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(work)

    def pod(self, number: int, node: str, *, ready: bool = True) -> Any:
        return make_pod(PODS[number], f"10.1.0.{number + 1}", node_name=node, ready=ready)

    # ------------------------------------------------------------------------------------- the cluster

    @rule(order=st.permutations(["a1", "a2", "b1", "b1", "c1", "c1"]))
    def spread(self, order: list[str]) -> None:
        """Put ready pods and eligible nodes in all zones, so that requested hints can be allocated."""
        self.world.put(*(make_node(name, zone=ZONE_OF[name]) for name in NODES if name != "bare"))
        self.world.put(*(self.pod(number, order[number % len(order)]) for number in range(len(PODS))))

    @rule(
        numbers=st.sets(st.integers(0, len(PODS) - 1), min_size=1, max_size=4),
        node=st.sampled_from([*NODES[:4] * 3, "bare", "nowhere"]),
        ready=st.sampled_from([True, True, False]),
    )
    def put_pods(self, numbers: set[int], node: str, ready: bool) -> None:
        self.world.put(*(self.pod(number, node, ready=ready) for number in sorted(numbers)))

    @rule(numbers=st.sets(st.integers(0, len(PODS) - 1), min_size=1, max_size=6))
    def flip_pods(self, numbers: set[int]) -> None:
        pods = [self.world.pods.get(ObjectKey("default", PODS[number])) for number in sorted(numbers)]
        self.world.put(
            *(msgspec.structs.replace(pod, ready=not pod.ready) for pod in pods if pod is not None)
        )

    @rule(numbers=st.sets(st.integers(0, len(PODS) - 1), min_size=1, max_size=6))
    def remove_pods(self, numbers: set[int]) -> None:
        pods = [self.world.pods.get(ObjectKey("default", PODS[number])) for number in sorted(numbers)]
        self.world.remove(*(pod for pod in pods if pod is not None))

    @rule(
        name=st.sampled_from(SERVICES),
        mode=st.sampled_from(["Auto", "Auto", "Auto", None]),
        distribution=st.sampled_from([None, "PreferClose", "PreferSameNode"]),
        publish=st.sampled_from([False, False, True]),
    )
    def change_service(self, name: str, mode: str | None, distribution: str | None, publish: bool) -> None:
        self.world.put(
            make_service(
                name,
                topology_mode=mode,
                traffic_distribution=distribution,
                publish_not_ready_addresses=publish,
            )
        )

    @rule(
        name=st.sampled_from(NODES),
        zone=st.sampled_from([None, None, None, None, "zone-a", "zone-b", ""]),
        ready=st.sampled_from([True, True, True, False]),
        control_plane=st.sampled_from([False, False, False, True]),
        cpu=st.sampled_from([1000, 1000, 3000, 16_000]),
    )
    def put_node(self, name: str, zone: str | None, ready: bool, control_plane: bool, cpu: int) -> None:
        self.world.put(
            make_node(
                name,
                zone=ZONE_OF[name] if zone is None else zone,
                ready=ready,
                control_plane=control_plane or name == "bare",
                allocatable_cpu_milli=cpu,
            )
        )

    @rule(names=st.sets(st.sampled_from(NODES), min_size=1, max_size=2))
    def remove_nodes(self, names: set[str]) -> None:
        nodes = [self.world.nodes.get(ObjectKey("", name)) for name in sorted(names)]
        self.world.remove(*(node for node in nodes if node is not None))

    # ------------------------------------------------------------------------------------------ faults

    @rule(place=st.integers(0, 20), edit=st.sampled_from(EDITS))
    def edit_slice(self, place: int, edit: Callable[[EndpointSlice], EndpointSlice]) -> None:
        found = sorted(self.world.server.objects(ENDPOINT_SLICES).items())
        if found:
            self.world.server.update_foreign(ENDPOINT_SLICES, edit(found[place % len(found)][1]))

    @rule(place=st.integers(0, 20))
    def delete_slice(self, place: int) -> None:
        found = sorted(self.world.server.objects(ENDPOINT_SLICES))
        if found:
            self.world.server.delete_foreign(ENDPOINT_SLICES, found[place % len(found)])

    @rule(
        error=st.sampled_from(ERRORS),
        verb=st.sampled_from([None, "get", "create", "update", "delete"]),
        answer_is_lost=st.booleans(),
        times=st.integers(1, 3),
    )
    def fail(self, error: ClientError, verb: Verb | None, answer_is_lost: bool, times: int) -> None:
        self.world.server.fail_next(error, verb=verb, acts=answer_is_lost, times=times)

    @rule()
    def restart(self) -> None:
        self.world = self.successor()
        self.world.start()

    @rule(behind=st.integers(0, 6), write_in_flight=st.booleans())
    def take_over(self, behind: int, write_in_flight: bool) -> None:
        before = self.world
        if write_in_flight:
            self.run(self.leave_a_write_in_flight(before))
        self.world = self.successor()
        self.world.continue_from(before, behind)

    def successor(self) -> RecordedWorld:
        after = RecordedWorld(self.settings, self.world.server)
        after.clock.now = self.world.clock.now
        after.put(*self.world.services.values(), *self.world.nodes.values(), *self.world.pods.values())
        return after

    async def leave_a_write_in_flight(self, leader: SliceWorld) -> None:
        """Let the leader reconcile until its first write, which reaches the server some time after the leader's end."""
        key = leader.queue.get_nowait()
        if key is None:
            return
        server = leader.server
        on_its_way, arrives = asyncio.Event(), asyncio.Event()

        async def hold(call: Call) -> None:
            if call.verb != "get":
                server.before_each = None
                on_its_way.set()
                await arrives.wait()

        async def lead() -> None:
            with contextlib.suppress(SyncFailedError):  # no worker is left to retry
                await leader.controller.reconcile(key)

        server.before_each = hold
        task = self.loop.create_task(lead(), name="former leader")
        waiter = self.loop.create_task(on_its_way.wait(), name="first write")
        await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
        server.before_each = None
        waiter.cancel()
        if not task.done():
            self.late.append((task, arrives))

    @rule()
    def deliver_late_writes(self) -> None:
        """Deliver writes that former leaders sent; they no longer see the response."""
        server = self.world.server

        async def end(_: Call) -> None:
            raise asyncio.CancelledError

        async def deliver() -> None:
            for task, arrives in self.late:
                arrives.set()
                server.after_each = end
                await asyncio.wait([task])
                server.after_each = None

        self.run(deliver())
        self.late.clear()

    # ------------------------------------------------------------------------------------- time

    @rule(count=st.sampled_from([1, 2, 5, None]))
    def watch(self, count: int | None) -> None:
        self.world.watch(count)

    @rule(
        error=st.sampled_from(ERRORS),
        answer_is_lost=st.booleans(),
        times=st.integers(1, 2),
        number=st.integers(0, len(PODS) - 1),
        mode=st.sampled_from([None, "Auto", "keep"]),
    )
    def change_while_updates_fail(
        self, error: ClientError, answer_is_lost: bool, times: int, number: int, mode: str | None
    ) -> None:
        """Let the writes after a change of one pod, or of the mode, fail partly."""
        self.run(self.world.settle())
        self.world.server.fail_next(error, verb="update", acts=answer_is_lost, times=times)
        if mode == "keep":
            pod = self.world.pods.get(ObjectKey("default", PODS[number]))
            if pod is not None:
                self.world.put(msgspec.structs.replace(pod, ready=not pod.ready))
        else:
            self.world.put(make_service("web", topology_mode=mode))
        self.run(self.world.sync(limit=100))

    @rule(edit=st.sampled_from(EDITS), place=st.integers(0, 20))
    def edit_when_settled(self, edit: Callable[[EndpointSlice], EndpointSlice], place: int) -> None:
        self.run(self.world.settle())
        found = sorted(self.world.server.objects(ENDPOINT_SLICES).items())
        if found:
            self.world.server.update_foreign(ENDPOINT_SLICES, edit(found[place % len(found)][1]))
        self.run(self.world.settle())

    @rule(seconds=st.sampled_from([0.0, 0.5, 2.0, 70.0]))
    def sync(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.run(self.world.sync(limit=100))

    @rule()
    def come_to_rest(self) -> None:
        """End the faults and advance time: then all rules hold, and not even a new process writes anything."""
        self.deliver_late_writes()
        world = self.world
        world.server.heal()
        for _ in range(4):
            self.run(world.settle())
            world.advance(100.0)
        self.run(world.settle())
        self.check()
        world.take_writes()
        assert world.server.without_change == [], "written without a change"
        for service in SERVICES:
            assert world.controller.audit(ObjectKey("default", service)) is None, service
            assert not world.controller.states.by_key[ObjectKey("default", service)].needs_plan, service
        self.run(world.settle())
        assert world.take_writes() == [], "writes although settled"
        self.world = self.successor()
        self.world.start()
        self.run(self.world.settle())
        assert self.world.take_writes() == [], "a new process writes"

    def check(self) -> None:
        world = self.world
        slices = list(world.server.objects(ENDPOINT_SLICES).values())
        assert {key_of(endpoint_slice): endpoint_slice for endpoint_slice in world.slices.values()} == {
            key_of(endpoint_slice): endpoint_slice for endpoint_slice in slices
        }
        services = list(world.services.values())
        for service in services:
            wrong = slice_violations(
                service, world.pods.values(), self.zone_of, slices, max_endpoints=self.limit
            )
            assert not wrong, wrong
            self.check_distribution(service, slices)
        snapshot = Snapshot.of(slices=slices, services=services)
        broken = broken_hint_rules(snapshot, list(world.nodes.values()))
        assert not broken, broken

    def check_distribution(self, service: Service, slices: list[EndpointSlice]) -> None:
        """S-84, S-85: hints that depend only on the endpoint."""
        if service.topology_mode is not None:
            return
        for endpoint_slice in slices:
            for endpoint in endpoint_slice.endpoints or () if is_managed(endpoint_slice, service) else ():
                hints = endpoint.hints or EndpointHints()
                asked = bool(endpoint.conditions.ready and service.traffic_distribution)
                zones = (ForZone(endpoint.zone),) if asked and endpoint.zone else None
                by_node = asked and service.traffic_distribution == "PreferSameNode"
                nodes = (ForNode(endpoint.node_name),) if by_node and endpoint.node_name else None
                assert (hints.for_zones or None, hints.for_nodes or None) == (zones, nodes), endpoint

    def zone_of(self, node: str) -> str | None:
        found = self.world.nodes.get(ObjectKey("", node))
        return found.zone if found is not None else None

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.come_to_rest()
            finally:
                self.loop.close()


TestRecovery = pytest.mark.timeout(300)(RecoveryMachine.TestCase)
TestRecovery.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
