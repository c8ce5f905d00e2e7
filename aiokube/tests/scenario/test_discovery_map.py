"""All services of a cluster from the viewpoint of a node (sections 1, 4 and 6)."""

import asyncio

import msgspec
import pytest
from tests.unit.discovery.slices import endpoint, endpoint_slice, port
from tests.unit.discovery.world import LONG, World, ips_of, node, service, settle, virtually, web

from aiokube.api.meta import ObjectKey
from aiokube.discovery import ServicePortName

SVC1, SVC2 = ObjectKey("ns1", "svc1"), ObjectKey("ns1", "svc2")
HTTP = ServicePortName("ns1", "svc1", "http")


@virtually
async def test_the_requests_use_the_selectors_of_kube_proxy() -> None:
    """Section 1, C-1, C-2, C-5, C-6, C-9: neither Endpoints nor topology annotations are requested."""
    world = World(node())
    async with world.map(node_name="node-1"):
        assert world.asked == [
            ("services", "", "!service.kubernetes.io/service-proxy-name", "spec.clusterIP!=None"),
            ("endpointslices", "", "!service.kubernetes.io/headless", ""),
            ("nodes", "", "", "metadata.name=node-1"),
        ]
    world = World()
    async with world.map():
        assert len(world.asked) == 2


@virtually
async def test_services_and_slices_are_joined_by_port_name_and_protocol() -> None:
    """C-27, C-15, C-64."""
    world = World(
        service(),
        service("empty"),
        service("headless", clusterIP="None"),
        endpoint_slice("a", [endpoint("10.0.0.1")], [port("http", 8080), port("other", 1)]),
        web("b", "10.0.0.2", service="unknown"),
    )
    async with world.map() as services:
        assert {str(name): ips_of(found) for name, found in services.snapshot().items()} == {
            "ns1/svc1:http/TCP": ["10.0.0.1"],
            "ns1/empty:http/TCP": [],
        }
        found, view = services.get(HTTP), services.port(HTTP)
        assert found is not None
        assert view is not None
        assert found.endpoints[0].port == 8080
        assert view.port == 80
        assert services.get(ServicePortName("ns1", "svc1", "other")) is None
        assert services.get(HTTP, "IPv6") is None


@virtually
async def test_the_first_batch_contains_everything_and_later_ones_only_changes() -> None:
    """C-48, C-70: changes by service, with the endpoints, which kube-proxy omits (C-82)."""
    world = World(service(), service("svc2"), web("a", "10.0.0.1"))
    async with world.map() as services:
        changes = services.changes()
        first = await anext(changes)
        assert first.updated == {SVC1, SVC2}
        world.put(web("a", "10.0.0.2"))
        second = await anext(changes)
        assert second.updated == {SVC1}
        (found,) = second.endpoints["IPv4"].ports.values()
        assert ([each.ip for each in found.added], [each.ip for each in found.removed]) == (
            ["10.0.0.2"],
            ["10.0.0.1"],
        )
        world.put(service("svc2", internalTrafficPolicy="Local"))
        assert (await anext(changes)).updated == {SVC2}


@virtually
async def test_changes_during_processing_are_delivered_in_one_batch() -> None:
    """C-19."""
    world = World(service(), web("a", "10.0.0.1"))
    async with world.map() as services:
        changes = services.changes()
        await anext(changes)
        world.put(web("a", "10.0.0.2"), service("svc2"), web("b", "10.0.0.3", service="svc2"))
        await settle()
        world.put(web("a", "10.0.0.4"))
        await settle()
        found = await anext(changes)
        assert found.updated == {SVC1, SVC2}
        assert [each.ip for each in found.endpoints["IPv4"].ports[HTTP].added] == ["10.0.0.4"]


@virtually
async def test_readers_are_independent_and_end_with_the_map() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.map() as services:
        first, cursor = services.changes(), services.cursor()
        await anext(first)
        world.put(web("a", "10.0.0.2"))
        await anext(first)
        told = services.changes_since(cursor)
        assert [each.ip for each in told.endpoints["IPv4"].ports[HTTP].added] == ["10.0.0.2"]
        assert not services.changes_since(cursor)
    with pytest.raises(StopAsyncIteration):
        await anext(first)


@virtually
async def test_an_empty_cluster_yields_an_empty_first_batch() -> None:
    async with World().map() as services:
        assert not await anext(services.changes())


@virtually
async def test_a_change_of_the_nodes_zone_is_reported() -> None:
    """C-9, C-10: another zone selects other endpoints; without a node there is no zone."""
    world = World(
        service(),
        endpoint_slice("a", [endpoint("10.0.0.1", zones=["zone-a"]), endpoint("10.0.0.2", zones=["zone-b"])]),
        node("zone-a"),
        node("zone-b", "node-2"),
    )
    async with world.map(node_name="node-1") as services:
        changes = services.changes()
        await anext(changes)

        def used() -> list[str]:
            found = services.get(HTTP)
            assert found is not None
            return ips_of(found)

        assert used() == ["10.0.0.1"]
        world.put(node("zone-b"))
        found = await anext(changes)
        assert (found.location, found.updated, used()) == (True, frozenset(), ["10.0.0.2"])
        world.delete(node())
        assert (await anext(changes)).location
        assert (services.location.zone, used()) == ("", ["10.0.0.1", "10.0.0.2"])


@virtually
async def test_each_address_family_has_its_own_map() -> None:
    """C-14."""
    dual = service(clusterIP="10.96.0.1", clusterIPs=["10.96.0.1", "fd00::1"], ipFamilies=["IPv4", "IPv6"])
    world = World(dual, web("a", "10.0.0.1"), web("b", "2001:db8::1", family="IPv6"))
    async with world.map() as services:
        assert [ips_of(services.snapshot(each)[HTTP]) for each in ("IPv4", "IPv6")] == [
            ["10.0.0.1"],
            ["2001:db8::1"],
        ]
    async with world.map(families=["IPv4"]) as services:
        assert list((await anext(services.changes())).endpoints) == ["IPv4"]


@virtually
async def test_health_check_ports_and_local_endpoint_counts_are_available() -> None:
    """C-71, C-71a."""
    balanced = service(
        type="LoadBalancer",
        externalTrafficPolicy="Local",
        healthCheckNodePort=345,
    )
    world = World(
        balanced,
        endpoint_slice("a", [endpoint("10.0.0.1", node="node-1"), endpoint("10.0.0.2", node="node-2")]),
        node(),
    )
    async with world.map(node_name="node-1") as services:
        assert services.health_check_ports() == {SVC1: 345}
        assert services.local_ready_counts() == {SVC1: 1}


@virtually
async def test_a_relist_recovers_events_missed_on_every_watch() -> None:
    world = World(service(), web("a", "10.0.0.1"), node())
    async with world.map(node_name="node-1") as services:
        changes = services.changes()
        await anext(changes)
        world.delete(service(), silently=True)
        world.services.create(service("svc2"), silently=True)
        world.slices.modify(web("a", "10.0.0.2", service="svc2"), silently=True)  # relabelled, too (C-16)
        for source in (world.services, world.slices):
            source.compact()
            source.break_watches()
        await asyncio.sleep(LONG)
        assert (await anext(changes)).updated == {SVC1, SVC2}
        assert {str(name): ips_of(found) for name, found in services.snapshot().items()} == {
            "ns1/svc2:http/TCP": ["10.0.0.2"]
        }
        figures = services.statistics()
        assert [each.store.replaces for each in figures.informers] == [2, 2, 1]
        assert (figures.service_ports, figures.caches[0].slices) == (1, 1)


@virtually
async def test_a_slice_without_service_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """C-12."""
    world = World(service(), endpoint_slice("lost", [endpoint("10.0.0.1")], service=None))
    async with world.map() as services:
        assert services.snapshot()[HTTP].endpoints == ()
        assert "ignored a slice without a service label: slice=ns1/lost" in caplog.text


@virtually
async def test_slices_of_a_service_of_another_proxy_are_cached_but_not_used() -> None:
    """C-4; the endpoints are available when the service returns."""
    theirs = msgspec.structs.replace(service(), proxy_name="other")
    world = World(theirs, web("a", "10.0.0.1"))
    async with world.map() as services:
        assert services.get(HTTP) is None
        assert services.statistics().caches[0].slices == 1
        world.put(service())
        await settle()
        found = services.get(HTTP)
        assert found is not None
        assert ips_of(found) == ["10.0.0.1"]


@virtually
async def test_unusable_entries_of_a_slice_are_reported() -> None:
    world = World(service(), endpoint_slice("a", [endpoint()]))
    async with world.map() as services:
        assert services.problems() == {ObjectKey("ns1", "a"): ("endpoints[0] has no address",)}


@virtually
async def test_trigger_times_before_the_start_are_ignored() -> None:
    """C-52: the clock of the tests starts on the first of January."""
    world = World(service(), web("a", "10.0.0.1"))
    async with world.map() as services:
        changes = services.changes()
        await anext(changes)
        world.put(web("a", "10.0.0.2", triggered="2025-12-31T23:59:59Z"))
        assert (await anext(changes)).endpoints["IPv4"].trigger_times == {}
        world.put(web("a", "10.0.0.3", triggered="2026-01-01T00:00:01Z"))
        (times,) = (await anext(changes)).endpoints["IPv4"].trigger_times.values()
        assert [time.second for time in times] == [1]


@virtually
async def test_nothing_is_reported_before_the_initial_list_is_complete() -> None:
    """C-8, C-88."""
    services = World(service(), web("a", "10.0.0.1")).map()
    for ask in (
        services.snapshot,
        services.health_check_ports,
        services.local_ready_counts,
        lambda: services.changes_since(services.cursor()),
        lambda: services.get(HTTP),
        lambda: services.port(HTTP),
    ):
        with pytest.raises(RuntimeError, match="enter the map"):
            ask()


@virtually
async def test_a_map_cannot_be_reused() -> None:
    services = World().map()
    async with services:
        pass
    with pytest.raises(RuntimeError, match="used before"):
        await services.__aenter__()
