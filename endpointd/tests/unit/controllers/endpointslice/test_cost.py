"""The cost of one pod's change does not grow with the service: counted in calls, independent of the machine."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.core import Pod
from aiokube.testing.builders import address_number, make_node, make_pod, make_pods, make_service

pytestmark = pytest.mark.usefixtures("both_answers")

SMALL, LARGE = 100, 5_000


async def world_of(pods: int, *, spare: int = 0) -> SliceWorld:
    """Return a settled world whose slices are full, except for ``spare`` endpoints in the last."""
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(pods - spare))
    world.start()
    await world.settle()
    return world


class Calls:
    """Counts every call of our functions, by name, and of builtins, while it is entered."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "endpointd" in frame.f_code.co_filename:
            self.counts[frame.f_code.co_qualname] += 1
        elif event == "c_call" and "endpointd" in frame.f_code.co_filename:
            self.counts[f"{frame.f_code.co_qualname} > {argument.__name__}"] += 1


def flip(world: SliceWorld) -> None:
    world.put(make_pod("pod-00007", address_number(7), ready=False))


def remove(world: SliceWorld) -> None:
    world.remove(make_pod("pod-00007"))


def add(world: SliceWorld) -> None:
    world.put(make_pod("zz-new", "10.99.0.1"))


def replace(world: SliceWorld) -> None:
    remove(world)
    add(world)


def move(world: SliceWorld) -> None:
    world.put(make_pod("pod-00007", "10.99.0.1"))


def nothing(world: SliceWorld) -> None:
    world.put(make_pod("pod-00007", address_number(7)))


@pytest.mark.parametrize("change", [flip, remove, add, replace, move, nothing])
async def test_a_pods_change_costs_the_same_in_a_service_of_any_size(
    change: Callable[[SliceWorld], None],
) -> None:
    counted: list[Counter[str]] = []
    for pods in (SMALL, LARGE):
        world = await world_of(pods, spare=1 if change is add else 0)
        with Calls() as calls:
            change(world)
            await world.sync()
            world.watch()
            await world.sync()
        counted.append(calls.counts)
        assert not world.failures
    small, large = counted
    assert {name: count for name, count in large.items() if count > small[name]} == {}
    assert small["SliceWorld.sync"] == 2
    assert not any("ServiceState.build" in name for name in large)


async def test_the_cost_of_a_hundred_simultaneous_changes_is_that_of_their_slices() -> None:
    """A burst over the whole service reads each slice once, not once per pod."""
    world = await world_of(LARGE)
    world.take_writes()
    pods: list[Pod] = [
        make_pod(f"pod-{number:05d}", address_number(number), ready=False) for number in range(1, LARGE, 50)
    ]
    with Calls() as calls:
        world.put(*pods)
        await world.sync()
    assert [call.verb for call in world.take_writes()] == ["update"] * 50
    assert calls.counts["_keep"] == 50
    assert calls.counts["plan_address_type"] == 1


async def test_a_change_in_one_service_reads_no_other() -> None:
    counted: list[Counter[str]] = []
    for services in (2, 200):
        world = SliceWorld()
        world.put(
            make_node(),
            *(
                make_service(f"s{number}", selector={"app": "web", "of": str(number)})
                for number in range(services)
            ),
            *(
                make_pod(f"pod-{number}", f"10.0.0.{number + 1}", labels={"app": "web", "of": str(number)})
                for number in range(services)
            ),
        )
        world.start()
        await world.settle()
        with Calls() as calls:
            world.put(make_pod("pod-1", "10.0.0.2", labels={"app": "web", "of": "1"}, ready=False))
            await world.sync()
        counted.append(calls.counts)
    small, large = counted
    assert {name: count for name, count in large.items() if count > small[name]} == {}


async def test_a_node_change_without_a_new_zone_reads_no_pod() -> None:
    """S-5: nodes send status updates all the time."""
    world = await world_of(SMALL)
    with Calls() as calls:
        world.put(make_node(ready=False, allocatable_cpu_milli=7))
    assert calls.counts["EndpointSliceController.node_changed"] == 1
    assert calls.counts["ServiceState.set_pod"] == 0
