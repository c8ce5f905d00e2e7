"""The metrics of the EndpointSlice controller (behaviour 2.12), from a controller at work."""

import random

import msgspec
import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Service
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.status import Status
from aiokube.client.errors import InternalServerError
from aiokube.testing.builders import edited, make_node, make_pod, make_pods, make_service, make_service_port
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import ManualClock
from endpointd.controllers.endpointslice.controller import EndpointSliceController, EndpointSliceSettings
from endpointd.controllers.endpointslice.metrics import SliceMetrics
from endpointd.controllers.endpointslice.service_counts import ServiceCounts

pytestmark = pytest.mark.usefixtures("both_answers")

WEB = ObjectKey("default", "web")
SIZE = 2


class CountedWorld(SliceWorld):
    """A world with metrics on its controller; two endpoints fit into a slice."""

    def __init__(self, server: MemoryServer | None = None, *, batch_period_seconds: float = 0.0) -> None:
        super().__init__(server=server)
        self.metrics = SliceMetrics(self.clock)
        self.controller = EndpointSliceController(
            services=self.services,
            pods=self.pods,
            nodes=self.nodes,
            slices=self.slices,
            membership=self.membership,
            writer=self.server,
            queue=self.queue,
            recorder=self,
            clock=self.clock,
            settings=EndpointSliceSettings(
                max_endpoints_per_slice=SIZE, batch_period_seconds=batch_period_seconds
            ),
            observer=self.metrics,
        )

    @property
    def gauges(self) -> tuple[int, int, int]:
        """Endpoints, slices, slices desired."""
        return self.metrics.endpoints, self.metrics.slices, self.metrics.slices_desired


async def started(*services: Service, pods: int = 5, world: CountedWorld | None = None) -> CountedWorld:
    world = world or CountedWorld()
    world.put(make_node(), *services, *make_pods(pods))
    world.start()
    await world.settle()
    return world


def broken() -> InternalServerError:
    return InternalServerError(Status(code=500, reason="InternalError", message="no"), "PUT", "/x")


async def test_actual_and_minimal_numbers_of_slices_are_counted() -> None:
    world = await started(make_service())
    assert world.gauges == (5, 3, 3)
    assert world.metrics.changes == {"create": 3, "update": 0, "delete": 0}
    assert (world.metrics.added.count, world.metrics.added.sum) == (1, 5)
    for name in ("pod-00001", "pod-00003"):  # two slices with one endpoint each
        world.remove(world.pods.get(ObjectKey("default", name)) or make_pod())
        await world.settle()
    assert world.gauges == (3, 3, 2)
    assert world.metrics.removed.sum == 2
    world.remove(make_service())
    assert world.gauges == (0, 0, 0)


async def test_a_service_without_pods_counts_its_placeholder() -> None:
    world = await started(make_service(), pods=0)
    assert world.gauges == (0, 1, 1)
    assert world.metrics.changes["create"] == 1


async def test_both_address_types_of_a_service_are_counted_unlike_upstream() -> None:
    world = CountedWorld()
    world.put(make_node(), make_service(ip_families=("IPv4", "IPv6")))
    world.put(*(make_pod(f"pod-{n}", f"10.0.0.{n}", f"fd00::{n}") for n in (1, 2, 3)))
    world.start()
    await world.settle()
    assert world.gauges == (6, 4, 4)
    assert world.metrics.added.count == 2  # one observation an address type


async def test_an_address_type_with_nothing_to_do_is_observed_as_zero() -> None:
    world = CountedWorld()
    world.put(make_node(), make_service(ip_families=("IPv4", "IPv6")), make_pod("a", "10.0.0.1", "fd00::1"))
    world.start()
    await world.settle()
    changed = world.metrics.slices_changed["Disabled", ""]
    before = changed.count
    world.put(make_pod("b", "10.0.0.2"))
    await world.settle()
    assert (world.metrics.added.count, world.metrics.added.sum) == (4, 3)
    assert changed.count - before == 2
    assert changed.sum == 3


async def test_a_start_counts_slices_that_need_no_write() -> None:
    first = await started(make_service())
    second = CountedWorld(first.server)
    await started(make_service(), world=second)
    assert second.metrics.changes == {"create": 0, "update": 0, "delete": 0}
    assert second.gauges == (5, 3, 3)


async def test_endpoints_of_unwanted_ports_count_as_removed() -> None:
    world = await started(make_service(), pods=1)
    world.put(make_service(ports=(make_service_port(target_port=9090),)))
    await world.settle()
    assert world.metrics.removed.sum == 1
    assert world.metrics.added.sum == 2
    assert world.metrics.changes == {"create": 1, "update": 1, "delete": 0}
    assert world.gauges == (1, 1, 1)


async def test_a_sync_that_fails_is_an_error_and_counts_no_change() -> None:
    world = await started(make_service(), pods=1)
    assert world.metrics.syncs == {"success": 1, "stale": 0, "error": 0}
    written = world.metrics.slices_changed["Disabled", ""].count
    world.server.fail_next(broken(), verb="update")
    world.put(make_pod("pod-00001", "10.9.9.9"))
    await world.sync()
    assert world.metrics.syncs == {"success": 1, "stale": 0, "error": 1}
    assert world.metrics.changes["update"] == 0
    assert world.metrics.slices_changed["Disabled", ""].count == written


async def test_a_stale_sync_is_counted_and_repeated_immediately() -> None:
    world = await started(make_service(), pods=1)
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, endpoints=()))
    world.put(make_pod("pod-00001", "10.0.0.1", ready=False))
    await world.sync()
    assert world.metrics.syncs == {"success": 2, "stale": 1, "error": 0}


async def test_syncing_a_deleted_service_is_a_success() -> None:
    world = await started(make_service(), pods=1)
    world.put(make_pod("pod-00001", "10.9.9.9"))
    world.remove(make_service())
    await world.sync()
    assert world.metrics.syncs["success"] == 2


async def test_a_pod_omitted_for_its_unknown_node_makes_the_sync_an_error() -> None:
    world = CountedWorld()
    world.put(make_service(), make_pod("lost", node_name="nowhere"))
    world.start()
    await world.sync()
    assert world.metrics.syncs["error"] == 1
    assert world.metrics.lag.seconds.count == 0


@pytest.mark.parametrize("distribution", ["PreferClose", "PreferSameZone", "PreferSameNode"])
async def test_services_are_counted_by_effective_distribution(distribution: str) -> None:
    world = await started(make_service(traffic_distribution=distribution))
    assert world.metrics.distributions[distribution] == 1
    assert world.metrics.slices_changed["Disabled", distribution].sum == 3
    world.put(make_service(traffic_distribution=distribution, topology_mode="Auto"))
    await world.settle()
    assert world.metrics.distributions[distribution] == 0
    assert ("Auto", "") in world.metrics.slices_changed
    world.put(make_service(traffic_distribution="Whatever"))
    await world.settle()
    assert "Whatever" not in world.metrics.distributions


async def test_the_lag_runs_from_storing_the_change_to_the_response() -> None:
    world = await started(make_service(), pods=1, world=CountedWorld(batch_period_seconds=2.0))
    lag = world.metrics.lag.seconds
    assert lag.count == 0
    world.put(make_pod("pod-00001", "10.9.9.9"))
    world.advance(1.5)
    world.put(make_pod("pod-00001", "10.9.9.8"))
    world.advance(0.5)
    await world.sync()
    assert (lag.count, lag.sum) == (1, 2.0)


async def test_the_lag_includes_failed_attempts() -> None:
    world = await started(make_service(), pods=1)
    world.server.fail_next(broken(), verb="update")
    world.put(make_pod("pod-00001", "10.9.9.9"))
    await world.sync()
    assert world.metrics.lag.seconds.count == 0
    world.advance(30.0)
    assert world.metrics.lag.oldest_seconds() == 30.0
    await world.sync()
    assert (world.metrics.lag.seconds.count, world.metrics.lag.seconds.sum) == (1, 30.0)


async def test_an_aborted_sync_keeps_its_lag() -> None:
    world = await started(make_service(), pods=1)
    world.server.fail_next(RuntimeError("a bug"), verb="update")
    world.put(make_pod("pod-00001", "10.9.9.9"))
    with pytest.raises(RuntimeError):
        await world.controller.reconcile(WEB)
    world.advance(1.0)
    world.put(make_pod("pod-00001", "10.9.9.8"))
    world.advance(1.0)
    assert world.metrics.lag.oldest_seconds() == 2.0
    await world.controller.reconcile(WEB)
    assert (world.metrics.lag.seconds.count, world.metrics.lag.seconds.sum) == (1, 2.0)


async def test_a_reverted_change_causes_no_lag_and_an_empty_sync() -> None:
    world = await started(make_service(), pods=1)
    changed = world.metrics.slices_changed["Disabled", ""]
    assert (changed.count, changed.sum) == (1, 1)
    world.put(*make_pods(1, ready=False))
    world.advance(1.0)
    world.put(*make_pods(1))
    await world.sync()
    assert world.take_writes()[-1].verb == "create"
    assert (changed.count, changed.sum) == (2, 1)
    assert world.metrics.lag.seconds.count == 0
    assert world.metrics.lag.oldest_seconds() == 0.0


async def test_a_change_without_effect_on_published_data_causes_no_lag() -> None:
    world = await started(make_service(), pods=1)
    world.put(*(msgspec.structs.replace(pod, ready_since="2026-03-03T00:00:00Z") for pod in make_pods(1)))
    world.advance(1.0)
    assert world.metrics.lag.oldest_seconds() == 0.0


@pytest.mark.parametrize("seed", range(8))
async def test_incremental_sums_equal_a_recount(seed: int) -> None:
    rng = random.Random(seed)
    world = CountedWorld()
    world.put(make_node(), make_service())
    world.start()
    for _ in range(60):
        match rng.randrange(6):
            case 0:
                families = rng.choice([("IPv4",), ("IPv6",), ("IPv4", "IPv6")])
                port = make_service_port(target_port=rng.choice([80, 81]))
                name = rng.choice(["web", "api"])
                world.put(make_service(name, ip_families=families, ports=(port,)))
            case 1:
                world.remove(*(s for s in world.services.values() if rng.random() < 0.3))
            case 2:
                world.remove(*(p for p in world.pods.values() if rng.random() < 0.3))
            case 3:
                await world.settle()
            case _:
                number = rng.randrange(1, 9)
                addresses = rng.choice([(f"10.0.0.{number}",), (f"10.0.0.{number}", f"fd00::{number}")])
                world.put(make_pod(f"pod-{number}", *addresses, ready=rng.random() < 0.5))
    for service in world.services.values():
        world.queue.add(key_of(service))
    await world.settle()
    each = [world.controller.states.rebuilt(service).counts(SIZE) for service in world.services.values()]
    assert world.gauges == (
        sum(one.endpoints for one in each),
        sum(one.slices for one in each),
        sum(one.slices_desired for one in each),
    )


def test_every_known_label_starts_at_zero() -> None:
    samples = {
        (family.name.removeprefix("endpoint_slice_controller_"), sample.labels): sample.value
        for family in SliceMetrics(ManualClock()).families()
        for sample in family.samples
        if sample.suffix in ("", "_count")
    }
    assert set(samples.values()) == {0}
    assert {labels for name, labels in samples if name == "changes"} == {
        (("operation", "create"),),
        (("operation", "update"),),
        (("operation", "delete"),),
    }
    assert {labels for name, labels in samples if name == "syncs"} == {
        (("result", "success"),),
        (("result", "stale"),),
        (("result", "error"),),
    }
    assert ("endpoints_desired", ()) in samples
    assert ("endpoints_added_per_sync", ()) in samples
    assert (
        "endpointslices_changed_per_sync",
        (("topology", "Disabled"), ("traffic_distribution", "")),
    ) in samples


def test_new_counts_of_a_service_replace_its_previous_ones() -> None:
    # The numbers of upstream's own test of its sums (behaviour 5.6), except those that are not sums.
    metrics = SliceMetrics(ManualClock())
    steps = [
        (make_service("a"), ServiceCounts(30, 13, 2), (2, 13, 30)),
        (make_service("b"), ServiceCounts(80, 2, 2), (4, 15, 110)),
        (make_service("a"), ServiceCounts(60, 26, 4), (6, 28, 140)),
        (make_service("b"), ServiceCounts(130, 0, 2), (6, 26, 190)),
    ]
    for service, figures, expected in steps:
        metrics.described(service, figures)
        assert (metrics.slices_desired, metrics.slices, metrics.endpoints) == expected
    metrics.forgot(ObjectKey("default", "b"))
    metrics.forgot(ObjectKey("default", "unheard-of"))
    assert (metrics.slices_desired, metrics.slices, metrics.endpoints) == (4, 26, 60)
