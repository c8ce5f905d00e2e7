"""The time at which a watcher saw a change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.client.errors import ResponseTruncatedError
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle
from benchmarks.control_watch import ObserverError
from benchmarks.observer import Observer
from benchmarks.published import (
    Judge,
    ObservedEndpoints,
    ObservedSlice,
    Published,
    _Address,
    _Conditions,
    _Endpoint,
    _Meta,
    _Subset,
    _Target,
)

WEB = ObjectKey("bench-0", "web")
POD = ObjectKey("bench-0", "a")


def slice_of(*, ready: bool, name: str = "web-1") -> ObservedSlice:
    endpoint = _Endpoint(("10.0.0.1",), _Conditions(ready), _Target("a"))
    metadata = _Meta(name=name, namespace="bench-0", labels={"kubernetes.io/service-name": "web"})
    return ObservedSlice(metadata, (endpoint,))


def endpoints_of(*, ready: bool) -> ObservedEndpoints:
    shown = (_Address(_Target("a")),)
    subset = _Subset(addresses=shown) if ready else _Subset(not_ready_addresses=shown)
    return ObservedEndpoints(NarrowMeta(name="web", namespace="bench-0"), (subset,))


class World:
    """A running observer on fake sources."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.slices: FakeSource[ObservedSlice] = FakeSource()
        self.endpoints: FakeSource[ObservedEndpoints] = FakeSource()
        self.judge = Judge()
        self.observer = Observer(self.slices, self.endpoints, self.judge, self.clock)

    def expect(self, *, ready: bool) -> None:
        self.judge.expect_service(WEB)
        self.judge.expect(POD, Published(WEB, "10.0.0.1", ready))
        self.observer.look_again()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.observer.run(), name="observer")
            await self.observer.wait_watching()
            yield
            task.cancel()


async def test_a_change_is_observed_when_a_slice_first_shows_it() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        world.slices.create(slice_of(ready=True))
        await world.clock.sleep(1.0)
        world.expect(ready=False)
        seen = world.observer.seen(POD)
        await world.clock.sleep(2.0)
        world.slices.modify(slice_of(ready=True))  # written, but not with this change
        await world.clock.sleep(3.0)
        assert not seen.done()
        world.slices.modify(slice_of(ready=False))
        assert await seen == 6.0


async def test_a_second_wait_for_the_same_pod_is_rejected() -> None:
    world = World()
    world.expect(ready=True)
    world.observer.seen(POD)
    with pytest.raises(ValueError, match="one change of a pod at a time"):
        world.observer.seen(POD)


async def test_slices_and_endpoints_have_separate_times_of_becoming_correct() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        await world.clock.sleep(1.0)
        world.slices.create(slice_of(ready=True))
        await world.clock.sleep(1.0)
        world.endpoints.create(endpoints_of(ready=True))
        rightness = await world.observer.until_right()
        assert (rightness.slices_since, rightness.endpoints_since) == (1.0, 2.0)
        assert rightness.since == 2.0


async def test_a_new_expectation_restarts_the_time_of_becoming_correct() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        world.slices.create(slice_of(ready=True))
        world.endpoints.create(endpoints_of(ready=True))
        await world.observer.until_right()
        await world.clock.sleep(5.0)
        world.expect(ready=False)
        world.slices.modify(slice_of(ready=False))
        await world.clock.sleep(1.0)
        world.endpoints.modify(endpoints_of(ready=False))
        rightness = await world.observer.until_right()
        assert (rightness.slices_since, rightness.endpoints_since) == (5.0, 6.0)


async def test_objects_that_precede_the_watch_count_from_the_list() -> None:
    world = World()
    world.slices.create(slice_of(ready=True))
    world.endpoints.create(endpoints_of(ready=True))
    world.expect(ready=True)
    async with world.running():
        assert (await world.observer.until_right()).since == 0.0


async def test_the_cluster_is_empty_when_the_last_object_is_deleted() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        world.slices.create(slice_of(ready=True))
        world.endpoints.create(endpoints_of(ready=True))
        await settle()
        async with asyncio.TaskGroup() as group:
            empty = group.create_task(world.observer.until_empty(), name="empty")
            world.slices.delete(ObjectKey("bench-0", "web-1"))
            await settle()
            assert not empty.done()
            world.endpoints.delete(WEB)


async def test_a_change_is_observed_after_the_watch_was_cut_off_and_its_version_expired() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        world.slices.create(slice_of(ready=True))
        world.endpoints.create(endpoints_of(ready=True))
        await settle()
        world.expect(ready=False)
        seen = world.observer.seen(POD)
        await world.clock.sleep(1.0)
        world.slices.end_watches()
        world.slices.modify(slice_of(ready=False))
        world.slices.compact()
        assert round(await seen, 3) == 1.0
        world.endpoints.end_watches()
        world.endpoints.modify(endpoints_of(ready=False))
        assert round((await world.observer.until_right()).since, 3) == 1.0
        assert world.observer.restarts == 3  # disconnected twice, and once the version had expired


async def test_slices_deleted_while_the_watch_was_down_are_forgotten() -> None:
    world = World()
    world.expect(ready=True)
    async with world.running():
        world.slices.create(slice_of(ready=True))
        await settle()
        world.slices.end_watches()
        world.slices.delete(ObjectKey("bench-0", "web-1"))
        world.slices.compact()
        await world.observer.until_empty()
        assert not world.judge.are_slices_right()


async def lose_its_watch(world: World) -> None:
    async with world.running():
        world.slices.break_watches()
        world.slices.fail_next(*[ResponseTruncatedError("the connection was reset")] * 20)
        await world.clock.sleep(60.0)


async def test_a_benchmark_watch_that_cannot_be_resumed_ends_the_benchmark() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await lose_its_watch(World())
    assert caught.group_contains(ObserverError, match="own watch of EndpointSlices was cut off")
