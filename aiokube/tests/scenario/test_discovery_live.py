"""The live endpoints of one service, from a server that fails, loses history and goes silent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.discovery.slices import draining, endpoint, endpoint_slice, port
from tests.unit.discovery.world import LONG, World, ips_of, service, settle, virtually, web

from aiokube.api.status import Status
from aiokube.client.errors import ConfigError, ConnectionFailedError, api_error
from aiokube.discovery import LiveService, Location, ServiceEndpoints, watch_service
from aiokube.discovery.endpoint import ServicePortName
from aiokube.runtime.reflector_settings import NotSyncedError


class Follower:
    """Follows a live service in a task, and records every state."""

    def __init__(self, live: LiveService) -> None:
        self.live = live
        self.given: list[ServiceEndpoints] = []

    async def run(self) -> None:
        async for endpoints in self.live:
            self.given.append(endpoints)

    @property
    def ips(self) -> list[list[str]]:
        return [ips_of(endpoints) for endpoints in self.given]


@virtually
async def test_iteration_yields_the_current_endpoints_and_then_every_change() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    seen = []
    async with world.live(port="http") as live:
        async for endpoints in live:
            seen.append(ips_of(endpoints))
            if len(seen) == 1:
                world.put(web("b", "10.0.0.2"))
            elif len(seen) == 2:
                world.delete(web("a"))
            else:
                break
    assert seen == [["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ["10.0.0.2"]]
    assert (world.services.open_watches, world.slices.open_watches) == (0, 0)


@virtually
async def test_only_the_service_and_its_slices_are_requested() -> None:
    world = World(service())
    async with world.live():
        assert world.asked == [
            ("services", "ns1", "", "metadata.name=svc1"),
            ("endpointslices", "ns1", "kubernetes.io/service-name=svc1", ""),
        ]
        assert (world.services.open_watches, world.slices.open_watches) == (1, 1)


@virtually
async def test_a_slow_reader_skips_intermediate_states_but_receives_the_latest() -> None:
    """C-19: states are not queued."""
    world = World(service(), web("a", "10.0.0.1"))
    async with world.live() as live:
        states = aiter(live)
        await anext(states)
        for number in range(2, 50):
            world.put(web("a", f"10.0.0.{number}"))
            await settle()
        assert ips_of(await anext(states)) == ["10.0.0.49"]


@virtually
async def test_writes_without_relevant_changes_yield_nothing() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.live() as live, asyncio.TaskGroup() as group:
        states = aiter(live)
        await anext(states)

        async def next_state() -> ServiceEndpoints:
            return await anext(states)

        waiting = group.create_task(next_state())
        await settle()
        world.put(web("a", "10.0.0.1", annotations={"a": "b"}))  # a write without relevant changes
        await settle()
        assert not waiting.done()
        world.put(web("a", "10.0.0.2"))
        assert ips_of(await waiting) == ["10.0.0.2"]


@virtually
async def test_several_readers_can_iterate_independently() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with asyncio.TaskGroup() as group, world.live() as live:
        first, second = Follower(live), Follower(live)
        group.create_task(first.run())
        await settle()
        world.put(web("a", "10.0.0.2"))
        await settle()
        group.create_task(second.run())
        await settle()
    assert first.ips == [["10.0.0.1"], ["10.0.0.2"]]
    assert second.ips == [["10.0.0.2"]]


@virtually
async def test_leaving_the_context_ends_the_loops_of_all_readers() -> None:
    """Otherwise the task group above would wait forever; the last state stays readable."""
    world = World(service(), web("a", "10.0.0.1"))
    async with asyncio.TaskGroup() as group, world.live() as live:
        group.create_task(Follower(live).run())
        await settle()
    assert ips_of(live.current) == ["10.0.0.1"]
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(live))


# --------------------------------------------------------------------------- the service


@virtually
async def test_a_missing_service_can_be_created_and_deleted() -> None:
    """C-15: slices do not count before their service exists."""
    world = World(web("a", "10.0.0.1"))
    async with world.live(port="http") as live, asyncio.TaskGroup() as group:
        follower = Follower(live)
        task = group.create_task(follower.run())
        await settle()
        assert live.current.problem == "there is no service ns1/svc1"
        world.put(service())
        await settle()
        world.delete(service())
        await settle()
        task.cancel()
    assert follower.ips == [[], ["10.0.0.1"], []]
    assert [bool(each.problem) for each in follower.given] == [True, False, True]


@pytest.mark.parametrize(
    ("wanted", "found", "problem"),
    [
        ("http", "http", ""),
        (80, "http", ""),
        ("metrics", "metrics", ""),
        (9090, "metrics", ""),
        ("htp", None, "service ns1/svc1 has no TCP port 'htp'; it has: http 80/TCP, metrics 9090/TCP"),
        (8080, None, "service ns1/svc1 has no TCP port 8080; it has: http 80/TCP, metrics 9090/TCP"),
        (
            None,
            None,
            "service ns1/svc1 has several TCP ports, choose one of them: http 80/TCP, metrics 9090/TCP",
        ),
    ],
)
def test_a_port_is_selected_by_name_or_service_port_number(
    wanted: str | int | None, found: str | None, problem: str
) -> None:
    """C-27: the pods have a different port number."""
    ports = [port("http", 8080), port("metrics", 9091)]

    @virtually
    async def test() -> None:
        world = World(
            service(ports={"http": 80, "metrics": 9090}), endpoint_slice("a", [endpoint("10.0.0.1")], ports)
        )
        async with world.live(port=wanted) as live:
            assert live.current.problem == problem
            if found is not None:
                assert live.current.name == ServicePortName("ns1", "svc1", found)
            assert ips_of(live.current) == ([] if found is None else ["10.0.0.1"])

    test()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (service(type="ExternalName", clusterIP=""), "service ns1/svc1 is an ExternalName"),
        (service(ports={}, clusterIP="None"), "service ns1/svc1 has no UDP port; it has: http 80/TCP"),
    ],
)
def test_the_reason_for_missing_endpoints_is_reported(given: Any, problem: str) -> None:
    @virtually
    async def test() -> None:
        async with World(given).live(protocol="UDP") as live:
            assert live.current.problem.startswith(problem)

    test()


@virtually
async def test_a_headless_service_has_endpoints() -> None:
    """Beyond C-41 and C-84: DNS servers need them; all ready endpoints count."""
    world = World(service(clusterIP="None", clusterIPs=["None"]), web("a", "10.0.0.1", "10.0.0.2"))
    async with world.live() as live:
        assert (ips_of(live.current), live.current.problem) == (["10.0.0.1", "10.0.0.2"], "")


@pytest.mark.parametrize(
    ("families", "wanted", "expected"),
    [
        (["IPv4", "IPv6"], None, "10.0.0.1"),
        (["IPv6", "IPv4"], None, "2001:db8::1"),
        (["IPv4", "IPv6"], "IPv6", "2001:db8::1"),
    ],
)
def test_the_address_family_defaults_to_the_first_of_the_service(
    families: list[str], wanted: Any, expected: str
) -> None:
    """C-14."""
    ips = {"IPv4": "10.96.0.1", "IPv6": "fd00::1"}

    @virtually
    async def test() -> None:
        given = service(
            clusterIP=ips[families[0]], clusterIPs=[ips[each] for each in families], ipFamilies=families
        )
        world = World(given, web("a", "10.0.0.1"), web("b", "2001:db8::1", family="IPv6"))
        async with world.live(family=wanted) as live:
            assert ips_of(live.current) == [expected]

    test()


@virtually
async def test_traffic_policy_and_location_determine_the_usable_endpoints() -> None:
    """C-62: a change of the service's policy takes effect."""
    ours = endpoint("10.0.0.1", node="node-1")
    world = World(service(), endpoint_slice("a", [ours, endpoint("10.0.0.2", node="node-2")]))
    async with world.live(location=Location("node-1")) as live:
        states = aiter(live)
        assert ips_of(await anext(states)) == ["10.0.0.1", "10.0.0.2"]
        world.put(service(internalTrafficPolicy="Local"))
        assert ips_of(await anext(states)) == ["10.0.0.1"]
        world.put(
            endpoint_slice("a", [draining("10.0.0.1", node="node-1"), endpoint("10.0.0.2", node="node-2")])
        )
        assert ips_of(await anext(states)) == ["10.0.0.1"]
        assert live.current.select().local_is_draining


@virtually
async def test_unusable_entries_are_reported() -> None:
    given = endpoint_slice("a", [endpoint("nonsense"), endpoint("10.0.0.1")])
    async with World(service(), given).live() as live:
        assert ips_of(live.current) == ["10.0.0.1"]
        assert live.problems() == {given.metadata.key: ("endpoints[0] has 'nonsense' as its address",)}


# ------------------------------------------------------------------------------------------------- recovery


@virtually
async def test_changes_missed_by_a_broken_watch_arrive_together_with_the_relist() -> None:
    """Dropped events, a compacted history, and no partial state ever visible."""
    world = World(service(), web("a", "10.0.0.1"), web("b", "10.0.0.2"))
    async with world.live() as live, asyncio.TaskGroup() as group:
        follower = Follower(live)
        task = group.create_task(follower.run())
        await settle()
        world.delete(web("a"), silently=True)
        world.slices.modify(web("b", "10.0.0.3"), silently=True)
        world.slices.create(web("c", "10.0.0.4"), silently=True)
        world.slices.compact()
        world.slices.break_watches()
        await asyncio.sleep(LONG)
        task.cancel()
    assert follower.ips == [["10.0.0.1", "10.0.0.2"], ["10.0.0.3", "10.0.0.4"]]


@virtually
async def test_the_last_state_is_kept_while_the_server_is_unreachable() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.live() as live:
        for source in (world.services, world.slices):
            source.fail_next(*[ConnectionFailedError("refused")] * 6)
            source.break_watches()
        await asyncio.sleep(5.0)
        assert ips_of(live.current) == ["10.0.0.1"]
        world.put(web("a", "10.0.0.2"))
        await asyncio.sleep(LONG)
        assert ips_of(live.current) == ["10.0.0.2"]
        assert [each.reflector.phase for each in live.statistics()] == ["watching", "watching"]


@virtually
async def test_a_silent_connection_is_detected() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.live() as live:
        await asyncio.sleep(100.0)
        world.slices.abandon_watches()
        world.put(web("a", "10.0.0.2"))
        await asyncio.sleep(1000.0)
        assert ips_of(live.current) == ["10.0.0.2"]


# --------------------------------------------------------------------------- entering and leaving


@virtually
async def test_nothing_is_returned_before_the_service_and_its_slices_are_synced() -> None:
    """C-8, C-88: both the service and the slices; an unknown state is never reported as empty."""
    world = World(service(), web("a", "10.0.0.1"))
    for source in (world.services, world.slices):
        source.fail_next(ConnectionFailedError("refused"), on="watch")
    live = world.live()
    with pytest.raises(RuntimeError, match="nothing is known about service ns1/svc1 yet"):
        _ = live.current
    async with live:
        assert ips_of(live.current) == ["10.0.0.1"]


@virtually
async def test_a_missing_permission_is_raised_immediately() -> None:
    """It used to be retried for the whole timeout: 30.5 s for a response that came after a millisecond."""
    world = World(service())
    message = 'endpointslices is forbidden: User "u" cannot list resource "endpointslices"'
    forbidden = api_error(Status(code=403, reason="Forbidden", message=message))
    world.slices.fail_next(*[forbidden] * 50)
    began = asyncio.get_running_loop().time()
    with pytest.raises(NotSyncedError, match=r"slices of ns1/svc1: cannot be read: .*\(grant list and watch"):
        async with world.live():
            pass
    assert asyncio.get_running_loop().time() - began < 1
    assert world.services.open_watches == 0


@virtually
async def test_a_404_for_the_resource_is_retried_until_the_sync_timeout() -> None:
    world = World(service())
    missing = api_error(Status(code=404, reason="NotFound", message="page not found"))
    world.slices.fail_next(*[missing] * 50)
    with pytest.raises(NotSyncedError, match="slices of ns1/svc1: not synced after 30 s"):
        async with world.live():
            pass


@virtually
async def test_the_last_state_is_kept_after_a_permission_is_revoked() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.live() as live:
        forbidden = api_error(Status(code=403, reason="Forbidden", message="no more"))
        world.slices.fail_next(*[forbidden] * 50)
        world.slices.break_watches()
        await asyncio.sleep(LONG)
        assert ips_of(live.current) == ["10.0.0.1"]


@virtually
async def test_an_error_raised_in_the_body_propagates_unwrapped() -> None:
    world = World(service())
    with pytest.raises(KeyError, match="mine"):
        async with world.live():
            raise KeyError("mine")
    assert world.slices.open_watches == 0


@virtually
async def test_iteration_can_be_cancelled_while_waiting_for_a_change() -> None:
    world = World(service())

    async def follow() -> None:
        async with world.live() as live:
            async for _ in live:
                pass

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await settle()
        task.cancel()
    assert task.cancelled()
    assert world.slices.open_watches == 0


@virtually
async def test_entering_can_be_cancelled() -> None:
    world = World(service())
    world.slices.hang_next(10)

    async def enter() -> None:
        async with world.live():
            pass

    async with asyncio.TaskGroup() as group:
        task = group.create_task(enter())
        await asyncio.sleep(5.0)
        task.cancel()
    assert task.cancelled()
    assert world.services.open_watches == 0


@virtually
async def test_an_unexpected_error_in_a_watch_cancels_the_body_and_is_raised() -> None:
    """Readers must not continue with endpoints that will never change again."""
    world = World(service(), web("a", "10.0.0.1"))

    async def follow() -> None:
        async with world.live() as live:
            await settle()
            world.slices.break_watches(ZeroDivisionError("a bug"))
            await Follower(live).run()

    with pytest.raises(ExceptionGroup) as raised:
        await follow()
    assert raised.group_contains(ZeroDivisionError, match="a bug")


@virtually
async def test_a_live_service_cannot_be_reused() -> None:
    live = World(service()).live()
    async with live:
        pass
    with pytest.raises(RuntimeError, match="ns1/svc1 was used before"):
        await live.__aenter__()


@pytest.mark.parametrize("name", ["svc1", "/svc1", "ns1/", "a/b/c", ""])
def test_a_service_name_without_namespace_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="must be 'namespace/name', as in 'shop/web'"):
        watch_service(None, name)


@virtually
async def test_a_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        async with watch_service(tmp_path / "missing", "ns1/svc1"):
            pass
