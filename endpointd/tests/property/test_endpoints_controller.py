"""After any sequence of events and failures, the settled server matches the pods."""

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controllers.endpoints.builders import make_pod, make_service
from tests.unit.controllers.endpoints.world import World, change

from aiokube.api.core import NamedPort, Pod, Service, ServicePort
from aiokube.api.endpoints import ENDPOINTS, EndpointAddress, Endpoints, EndpointSubset
from aiokube.api.meta import NarrowMeta, ObjectKey, ObjectMeta
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.testing.memory_server import Call
from endpointd.controllers.endpoints.plan import Nothing, is_published
from endpointd.controllers.endpoints.state import ServiceState

pytestmark = pytest.mark.usefixtures("both_answers")

KEY = ObjectKey("ns", "svc")
FOREIGN = (EndpointSubset((EndpointAddress("6.7.8.9"),), None, None),)
ANOTHER = make_service(metadata=NarrowMeta("other", "ns", "s2", "1"), selector={"tier": "x"})

PODS = st.builds(
    lambda number, ready, phase, labels, port, at: make_pod(
        metadata=NarrowMeta(f"p{number}", "ns", f"u{number}", "1"),
        pod_ips=(f"10.0.0.{number}",),
        ready=ready,
        phase=phase,
        labels=labels,
        named_ports=(NamedPort("web", "TCP", port),),
        ready_since=f"2026-01-01T00:00:0{at}Z",
    ),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from(["Running", "Running", "Failed"]),
    st.sampled_from([{"foo": "bar"}, {"foo": "bar", "tier": "x"}, {"tier": "x"}]),
    st.integers(80, 81),
    st.integers(0, 9),
)
SERVICES = st.sampled_from(
    [
        make_service(),
        make_service(labels={"a": "b"}),
        make_service(ports=(ServicePort("w", "TCP", 80, "web"), ServicePort("n", "TCP", 81, 9000))),
        make_service(selector={"tier": "x"}),
        make_service(selector=None),
        make_service(type="ExternalName"),
        make_service(cluster_ip="None", ports=()),
        ANOTHER,
    ]
)
FAULTS = st.sampled_from(
    [
        ConnectionFailedError("refused"),
        api_error(Status(code=500, reason="InternalError", message="broken")),
        api_error(Status(code=409, reason="Conflict", message="somebody was faster")),
        api_error(Status(code=429, reason="TooManyRequests", message="busy"), retry_after_seconds=1.0),
    ]
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), PODS),
    st.tuples(st.just("put"), SERVICES),
    st.tuples(st.just("remove pod"), st.integers(0, 4)),
    st.tuples(st.just("remove service"), st.sampled_from(["svc", "other"])),
    st.tuples(st.just("edit"), st.sampled_from(["svc", "other"])),
    st.tuples(st.just("delete"), st.sampled_from(["svc", "other"])),
    st.tuples(st.just("create"), st.sampled_from(["svc", "other"])),
    st.tuples(st.just("watch"), st.integers(1, 3)),
)
STEPS = st.one_of(
    CHANGES,
    st.tuples(st.just("fail"), FAULTS, st.booleans()),
    st.just(("work",)),
    st.tuples(st.just("time"), st.floats(0.001, 2.0)),
)


async def step(world: World, action: str, *what: object) -> None:
    match action, what:
        case "put", (Service() | Pod() as item,):
            world.put(item)
        case "remove pod", (number,):
            pod = world.pods.get(ObjectKey("ns", f"p{number}"))
            if pod is not None:
                world.remove(pod)
        case "remove service", (str(name),):
            service = world.services.get(ObjectKey("ns", name))
            if service is not None:
                world.remove(service)
        case "edit", (str(name),):
            stored = world.stored(name)
            if stored is not None:
                world.server.update_foreign(ENDPOINTS, change(stored, subsets=FOREIGN))
        case "delete", (str(name),):
            if world.stored(name) is not None:
                world.server.delete_foreign(ENDPOINTS, ObjectKey("ns", name))
        case "create", (str(name),):
            if world.stored(name) is None:
                world.server.create_foreign(
                    ENDPOINTS, Endpoints(ObjectMeta(name=name, namespace="ns"), FOREIGN)
                )
        case "fail", (Exception() as error, bool(acts)):
            world.server.fail_next(error, acts=acts)
        case "watch", (int(count),):
            world.server.feed(ENDPOINTS, world.endpoints, count)
        case "work", ():
            await world.work()
        case "time", (float(seconds),):
            world.clock.now += seconds
        case _:
            raise AssertionError(action)


async def live(history: list[tuple[object, ...]], meanwhile: list[tuple[object, ...]], late: int) -> None:
    world = World()
    during = deque(meanwhile)

    async def interfere(call: Call) -> None:
        if during:
            action, *what = during.popleft()
            await step(world, str(action), *what)

    world.server.before_each = interfere
    world.server.after_each = interfere
    world.put(make_service())
    for action, *what in history[:late]:
        await step(world, str(action), *what)
    world.start()
    for action, *what in history[late:]:
        await step(world, str(action), *what)
    world.server.heal()
    await world.settle()
    assert not world.queue.statistics().failing
    for name in ("svc", "other"):
        key = ObjectKey("ns", name)
        service = world.services.get(key)
        assert world.controller.audit(key) is None
        assert world.endpoints.get(key) == world.stored(name)
        if service is not None and is_published(service):
            reference = ServiceState(service, world.membership.pods_of(key))
            assert isinstance(reference.plan(world.stored(name), None), Nothing)
    world.server.calls.clear()
    await world.settle()
    assert world.server.calls == []


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=40), st.lists(CHANGES, max_size=10), st.integers(0, 10))
def test_the_settled_server_matches_the_pods_and_nothing_more_is_written(
    history: list[tuple[object, ...]], meanwhile: list[tuple[object, ...]], late: int
) -> None:
    asyncio.run(live(history, meanwhile, late))
