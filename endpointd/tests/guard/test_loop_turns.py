"""The work per turn of the event loop does not grow with the cluster: measured in operations, not seconds.

A turn is the code between two polls of the sockets. Counted operations are the expensive ones: pods
translated, endpoints compared, plans made, objects dispatched to handlers.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from tests.guard.counting import without_collector
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Pod, Service
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey, key_of
from aiokube.clock import SystemClock
from aiokube.runtime import pacing
from aiokube.runtime.controller import Controller
from aiokube.runtime.pacing import LoopPacer
from aiokube.runtime.store import Store
from aiokube.testing.builders import address_number, make_node, make_pod, make_pods, make_service
from endpointd.controllers.audit import Auditor
from endpointd.controllers.endpoints import desired
from endpointd.controllers.endpoints import state as endpoints_state
from endpointd.controllers.endpoints.controller import EndpointsController, EndpointsSettings
from endpointd.controllers.endpointslice import address_type_state as family
from endpointd.controllers.endpointslice import state
from endpointd.controllers.endpointslice.audit import ZONES
from endpointd.controllers.endpointslice.controller import EndpointSliceController
from endpointd.controllers.membership import Membership

WEB = ObjectKey("default", "web")
STEPS_A_TURN = 250
SLACK = 2 * pacing.STEPS_A_YIELD + 110
"""A slice ends at the first yield after its step budget is spent; an EndpointSlice of 100 endpoints is one stretch."""


class TurnCounts:
    """The maximum number of operations of each kind in one turn of the loop."""

    def __init__(self) -> None:
        self.turns = 0
        self.largest: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def count(self, kind: str) -> None:
        self._now[kind] = count = self._now.get(kind, 0) + 1
        if count > self.largest.get(kind, 0):
            self.largest[kind] = count

    def next_turn(self) -> None:
        self.turns += 1
        self._now.clear()


@contextmanager
def counted(counts: TurnCounts) -> Iterator[None]:
    """Count within the block."""
    places: list[tuple[Any, str, str]] = [
        (state.ServiceState, "set_pod", "pods"),
        (family, "same_identity", "endpoints"),
        (endpoints_state.ServiceState, "pod_changed", "changes of Endpoints"),
        (desired.DesiredEndpoints, "set", "pods of Endpoints"),
        (EndpointSliceController, "pod_changed", "changes"),
        (EndpointSliceController, "_enqueue", "services checked"),
        (Membership, "services_of", "lookups"),
        (Membership, "_add_service", "services indexed"),
    ]

    def counting(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            counts.count(kind)
            return function(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, kind in places:
            patch.setattr(owner, name, counting(getattr(owner, name), kind))
        yield


def largest_turn(work: Callable[[], Coroutine[Any, Any, object]]) -> TurnCounts:
    """Run the work next to a task that runs once in every turn of the loop."""
    counts = TurnCounts()

    async def measure() -> None:
        loop = asyncio.get_running_loop()
        handle: asyncio.Handle | None = None

        def tick() -> None:
            nonlocal handle
            counts.next_turn()
            handle = loop.call_soon(tick)

        tick()
        with counted(counts):
            await work()
        if handle is not None:
            handle.cancel()

    with without_collector():
        asyncio.run(measure())
    return counts


def one_service(pods: int) -> SliceWorld:
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(pods))
    return world


def many_services(number: int, *, topology_mode: str | None = None) -> SliceWorld:
    world = SliceWorld()
    world.put(*(make_node(f"node-{zone}", zone=zone, allocatable_cpu_milli=4000) for zone in "abc"))
    items: list[Service | Pod] = []
    for service in range(number):
        name = f"s{service:05d}"
        items.append(make_service(name, selector={"app": name}, topology_mode=topology_mode))
        items += [
            make_pod(
                f"{name}-{zone}",
                address_number(service * 3 + place),
                labels={"app": name},
                node_name=f"node-{zone}",
            )
            for place, zone in enumerate("abc", 1)
        ]
    world.put(*items)
    return world


def pacer() -> LoopPacer:
    """Return a pacer that ends a slice only by its steps, so that counts do not depend on the machine."""
    return LoopPacer(SystemClock(), slice_seconds=3600.0, slice_steps=STEPS_A_TURN)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition was never met")


def assert_bounded(counts: TurnCounts) -> None:
    assert counts.largest != {}
    assert {kind: count for kind, count in counts.largest.items() if count > STEPS_A_TURN + SLACK} == {}


@pytest.mark.parametrize("pods", [1_000, 20_000])
def test_the_state_of_a_service_is_built_in_slices(pods: int) -> None:
    world = one_service(pods)
    world.start()

    async def work() -> None:
        world.controller._pacer = pacer()
        state = await world.controller._completed_state(WEB)
        assert state is not None
        assert len(next(state.address_type_states()).desired_endpoints()) == pods

    assert_bounded(largest_turn(work))


@pytest.mark.parametrize("services", [100, 3_000])
def test_starting_reads_a_bounded_number_of_objects_per_turn(services: int) -> None:
    world = many_services(services)

    async def work() -> None:
        shared = pacer()
        await shared.run(world.membership.start_steps())
        await shared.run(world.controller.start_steps())

    counts = largest_turn(work)
    assert_bounded(counts)
    assert len(world.queue) == services


def test_workers_that_never_wait_share_the_turns() -> None:
    world = many_services(1_000)
    world.start()

    async def work() -> None:
        shared = pacer()
        world.controller._pacer = shared
        controller = Controller(
            "slices", world.queue, world.controller.reconcile, workers=5, clock=SystemClock(), pacer=shared
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name="controller")
            await until(lambda: len(world.queue) == 0)
            await controller.stop(1.0)

    assert_bounded(largest_turn(work))


@pytest.mark.parametrize("pods", [1_000, 20_000])
def test_an_audit_of_one_service_takes_bounded_slices(pods: int) -> None:
    world = one_service(pods)
    world.start()
    asyncio.run(world.settle())

    async def work() -> None:
        shared = pacer()
        for audited in (world.membership, world.controller):
            for key in audited.audited_keys():
                assert await shared.run(audited.audit_steps(key)) is None

    counts = largest_turn(work)
    assert_bounded(counts)
    assert counts.turns > pods // STEPS_A_TURN


def test_the_auditor_audits_in_slices() -> None:
    world = one_service(2_000)
    world.start()
    asyncio.run(world.settle())

    async def work() -> None:
        auditor = Auditor(clock=SystemClock(), min_pause_seconds=0.0, share=1.0, pacer=pacer())
        auditor.add("slices", world.controller)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(auditor.run(), name="audit")
            await until(lambda: auditor.statistics().rounds > 0)
            task.cancel()
        assert auditor.statistics().parts["slices"].mismatches == 0

    assert_bounded(largest_turn(work))


@pytest.mark.parametrize("pods", [1_000, 20_000])
def test_an_endpoints_is_built_and_audited_in_slices(pods: int) -> None:
    world = one_service(pods)
    world.membership.start()
    controller = EndpointsController(
        services=world.services,
        endpoints=Store[Endpoints]("endpoints"),
        membership=world.membership,
        writer=world.server,
        queue=world.queue,
        recorder=world,
        clock=world.clock,
        settings=EndpointsSettings(),
        pacer=pacer(),
    )

    async def work() -> None:
        controller.start()
        await controller.reconcile(WEB)
        assert await pacer().run(controller.audit_steps(WEB)) is None

    assert_bounded(largest_turn(work))


@pytest.mark.parametrize("services", [100, 1_000])
def test_node_changes_cost_the_same_for_any_number_of_topology_aware_services(services: int) -> None:
    """A batch of node changes checks no service: one sliced pass follows, however many nodes changed."""
    world = many_services(services, topology_mode="Auto")
    world.start()
    asyncio.run(world.sync(limit=10 * services))
    world.watch()
    nodes = [make_node(f"extra-{number}", zone="a", allocatable_cpu_milli=4000) for number in range(100)]
    counts = TurnCounts()
    with counted(counts):
        world.put(*nodes)
    assert counts.largest == {}
    assert world.queue.get_nowait() == ZONES

    async def work() -> None:
        world.controller._pacer = pacer()
        await world.controller.reconcile(ZONES)

    counts = largest_turn(work)
    assert_bounded(counts)
    assert counts.largest["services checked"] > 0
    world.queue.done(ZONES)


async def test_a_zone_change_plans_only_services_whose_hints_no_longer_fit() -> None:
    world = many_services(20, topology_mode="Auto")
    small = make_service("small", selector={"app": "small"}, topology_mode="Auto")
    world.put(small, make_pod("small", "10.200.0.1", labels={"app": "small"}, node_name="node-a"))
    world.start()
    await world.settle()
    world.take_writes()
    world.put(make_node("node-d", zone="a", allocatable_cpu_milli=200))
    assert world.queue.get_nowait() == ZONES
    await world.controller.reconcile(ZONES)
    world.queue.done(ZONES)
    assert len(world.queue) == 0  # shares of 33.3 % became 34.4 %, and small still has too few endpoints
    world.put(make_node("node-d", zone="a", allocatable_cpu_milli=200_000))
    await world.settle()
    assert world.take_writes() != []
    assert key_of(small) in world.controller.states.topology_aware


@pytest.mark.parametrize("pods", [1_000, 10_000])
def test_the_changes_of_a_relist_are_dispatched_in_slices(pods: int) -> None:
    world = one_service(pods)
    world.start()
    asyncio.run(world.settle())
    flipped = [make_pod(f"pod-{n:05d}", address_number(n), ready=False) for n in range(1, pods + 1)]
    listed = [
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=str(20_000_000 + place))
        )
        for place, pod in enumerate(flipped)
    ]

    async def work() -> None:
        await pacer().run(world.pods.replace_steps(listed, "30000000"))

    counts = largest_turn(work)
    assert_bounded(counts)
    assert counts.turns >= pods // (STEPS_A_TURN + SLACK)
