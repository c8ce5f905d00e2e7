"""The number of slice writes: one per changed slice, and no more than upstream writes."""

import random
from collections.abc import Iterator

import pytest
from tests.guard.counting import counted, without_collector
from tests.guard.upstream_rule import UpstreamService
from tests.guard.world import FIRST_NEW_POD, ChainWorld, PodFacts

PODS = 1_000


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with without_collector():
        yield


async def settled_world(pods: int) -> ChainWorld:
    world = await ChainWorld(1, pods).start()
    world.rest()
    return world


def slice_writes(world: ChainWorld) -> int:
    return sum(plural == "endpointslices" for _, plural, _ in world.writer.bodies)


async def test_50_simultaneous_pod_changes_in_one_slice_are_one_write() -> None:
    world = await settled_world(PODS)
    await world.tell(world.changed(*(PodFacts(number, ready=False) for number in range(50))))
    assert slice_writes(world) == 1
    assert sum(not ready for ready in world.published().values()) == 50


async def test_simultaneous_changes_in_ten_slices_are_ten_writes() -> None:
    world = await settled_world(PODS)
    await world.tell(world.changed(*(PodFacts(number, ready=False) for number in range(0, PODS, 20))))
    assert slice_writes(world) == 10


async def test_a_pod_that_changes_back_within_one_batch_causes_no_write() -> None:
    world = await settled_world(PODS)
    there_and_back = world.changed(PodFacts(5, ready=False)) + world.changed(PodFacts(5))
    await world.tell(there_and_back)
    assert slice_writes(world) == 0


async def test_a_relist_without_changes_compares_and_writes_nothing() -> None:
    world = await settled_world(PODS)
    with counted() as operations:
        world.pods.replace(world.pods.values(), "1000000")
        await world.settle()
        assert operations().pods_examined == 0
    assert slice_writes(world) == 0


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("surge", "in_order"), [(1, False), (25, False), (250, False), (250, True)])
async def test_a_rolling_update_writes_no_more_slices_than_upstream_would(
    surge: int, in_order: bool, together: bool
) -> None:
    """Repeatedly add ``surge`` new pods, then delete as many old ones, like a Deployment with only ``maxSurge``.

    With ``together``, both happen in one batch. Upstream's model is generous: it syncs as rarely as we do,
    once per batch. The bound is that of any rule that never repacks: new pods fill one slice (or ``surge`` /
    100 new ones), and old ones leave the slices that they were in.
    """
    pods = 300 if surge == 1 else PODS
    world = await settled_world(pods)
    upstream = UpstreamService()
    present = {PodFacts(number).name for number in range(pods)}
    upstream.sync(present)
    going = list(range(pods))
    if not in_order:
        random.Random(20_261_121).shuffle(going)
    bound = theirs = 0
    for start in range(0, pods, surge):
        joining = [PodFacts(FIRST_NEW_POD + number) for number in range(start, min(start + surge, pods))]
        leaving = [PodFacts(number) for number in going[start : start + surge]]
        bound += len(joining) // 100 + 1
        present |= {pod.name for pod in joining}
        chunk = world.changed(*joining, verb="ADDED")
        if not together:
            await world.tell(chunk)
            theirs += upstream.sync(present)
            chunk = b""

        names = {pod.name for pod in leaving}
        bound += sum(bool(names & names_of(endpoint_slice)) for endpoint_slice in world.slices.values())
        present -= names
        await world.tell(chunk + world.changed(*leaving, verb="DELETED"))
        theirs += upstream.sync(present)
    assert set(world.published()) == present
    assert slice_writes(world) <= theirs
    assert slice_writes(world) <= bound
    # Among equally full slices upstream picks any (S-45), so one more or less may remain.
    assert len(world.slices) <= len(upstream.slices) + 1


def names_of(endpoint_slice: object) -> set[str]:
    return {
        endpoint.target_ref.name
        for endpoint in getattr(endpoint_slice, "endpoints", None) or ()
        if endpoint.target_ref is not None
    }


def test_the_model_of_upstream_matches_upstreams_test_vectors() -> None:
    """S-47: 250 new endpoints make slices of 100, 100 and 50; 62 and 61 kept with 127 new make one new slice and one update."""
    first = UpstreamService()
    assert first.sync(f"pod-{number:03d}" for number in range(250)) == 3
    assert sorted(map(len, first.slices)) == [50, 100, 100]

    second = UpstreamService()
    second.slices = [{f"a{number}" for number in range(62)}, {f"b{number}" for number in range(61)}]
    desired = set.union(*second.slices) | {f"c{number:03d}" for number in range(127)}
    assert second.sync(desired) == 2
    assert sorted(map(len, second.slices)) == [61, 89, 100]
