"""The slice controller's audit finds and repairs corrupted state, and has no false positives."""

import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.meta import ObjectKey
from aiokube.testing.builders import edited, make_node, make_pod, make_pods, make_service, make_slice
from endpointd.controllers.endpointslice.audit import ZONES

pytestmark = pytest.mark.usefixtures("both_answers")

WEB = ObjectKey("default", "web")


async def world_at_rest(pods: int = 3) -> SliceWorld:
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(pods))
    world.start()
    await world.settle()
    world.take_writes()
    return world


@pytest.mark.parametrize("pods", [0, 1, 3])
async def test_a_correct_service_passes_the_audit(pods: int) -> None:
    world = await world_at_rest(pods)
    assert list(world.controller.audited_keys()) == [ZONES, WEB]
    assert world.controller.audit(WEB) is None
    world.put(make_service())  # another version with the same content
    world.put(*make_pods(pods))
    assert world.controller.audit(WEB) is None
    assert len(world.queue) == 0


async def test_a_queued_service_is_skipped() -> None:
    world = await world_at_rest()
    world.put(make_pod("new", "10.9.9.9"))
    assert world.controller.audit(WEB) is None


async def test_a_deleted_or_selectorless_key_is_no_finding() -> None:
    world = await world_at_rest()
    world.remove(make_service())
    assert world.controller.audit(WEB) is None
    world.put(make_service("alias", service_type="ExternalName"), make_service("none", selector=None))
    for name in ("alias", "none", "unheard-of"):
        assert world.controller.audit(ObjectKey("default", name)) is None


async def test_a_lost_endpoint_is_found_and_written() -> None:
    world = await world_at_rest()
    world.controller.states.by_key[WEB].set_pod("pod-00002", None)
    world.queue.add(WEB)
    await world.settle()
    assert "pod-00002" not in world.published()
    finding = world.controller.audit(WEB)
    assert finding is not None
    assert "desired IPv4 endpoints" in finding
    await world.settle()
    assert world.published() == {"pod-00001": True, "pod-00002": True, "pod-00003": True}
    assert world.controller.audit(WEB) is None


async def test_a_service_without_a_state_and_a_state_without_a_service_are_found() -> None:
    world = await world_at_rest()
    del world.controller.states.by_key[WEB]
    assert world.controller.audit(WEB) == "no state"
    await world.settle()
    assert world.controller.audit(WEB) is None
    world.services._namespaces.clear()
    assert WEB in world.controller.audited_keys()
    assert world.controller.audit(WEB) == "an unexpected state"
    assert world.controller.audit(WEB) is None


async def test_a_clean_state_that_differs_from_a_rebuilt_one_is_found() -> None:
    world = await world_at_rest()
    stray = world.server.create_foreign(ENDPOINT_SLICES, make_slice(make_service(), "web-stray", owned=False))
    world.watch()
    (family,) = world.controller.states.by_key[WEB].address_type_states()
    family._not_owned.clear()
    finding = world.controller.audit(WEB)
    assert finding == "observed IPv4 slices"
    await world.settle()
    assert stray.metadata.key not in world.server.objects(ENDPOINT_SLICES)


async def test_a_wrong_slice_that_is_not_dirty_is_found() -> None:
    world = await world_at_rest()
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(
        ENDPOINT_SLICES, edited(endpoint_slice, endpoints=(endpoint_slice.endpoints or ())[:1] * 2)
    )
    world.watch()
    (family,) = world.controller.states.by_key[WEB].address_type_states()
    family._dirty.clear()
    family._unplaced.clear()
    assert world.controller.audit(WEB) == "IPv4 endpoints without a slice"
    await world.settle()
    assert world.published() == {"pod-00001": True, "pod-00002": True, "pod-00003": True}
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(
        ENDPOINT_SLICES, edited(endpoint_slice, labels={**(endpoint_slice.metadata.labels or {}), "a": "b"})
    )
    world.watch()
    family = next(iter(world.controller.states.by_key[WEB].address_type_states()))
    family._dirty.clear()
    assert world.controller.audit(WEB) == "the plan"


async def test_published_data_is_kept_when_a_state_is_replaced() -> None:
    world = await world_at_rest()
    times = world.controller.states.by_key[WEB].trigger_times
    world.controller.states.by_key[WEB].set_pod("pod-00001", None)
    assert world.controller.audit(WEB) is not None
    assert world.controller.states.by_key[WEB].trigger_times is times
