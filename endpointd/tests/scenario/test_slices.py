"""The EndpointSlice controller with lag, failures and external edits (behaviour 2, reliability 7b, 7c).

The store, queue, membership and controller are real; the server is in memory.
"""

import contextlib
from collections.abc import Callable

import msgspec
import pytest
from tests.support.slice_world import SliceWorld

from aiokube.api.addresses import rejected_range
from aiokube.api.core import Service
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    EndpointHints,
    EndpointSlice,
    ForZone,
)
from aiokube.api.endpoints import LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.api.meta import ObjectKey
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, RequestTimedOutError, api_error
from aiokube.runtime.errors import is_unavailable
from aiokube.testing.builders import (
    DEFAULT_TIME,
    address_number,
    edited,
    make_endpoint,
    make_node,
    make_pod,
    make_pods,
    make_service,
    make_service_port,
    make_slice,
)
from aiokube.testing.memory_server import Call
from endpointd.controllers.endpointslice.controller import EndpointSliceSettings

pytestmark = pytest.mark.usefixtures("both_answers")

WEB = ObjectKey("default", "web")
LATER = "2026-01-01T00:00:09Z"
LATER_STILL = "2026-01-01T00:00:10Z"


def trigger_time(endpoint_slice: EndpointSlice) -> str | None:
    return (endpoint_slice.metadata.annotations or {}).get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION)


def verbs(calls: list[Call]) -> list[str]:
    return [call.verb for call in calls]


def labels_of(endpoint_slice: EndpointSlice) -> dict[str, str]:
    return dict(endpoint_slice.metadata.labels or {})


async def world_with(pods: int = 3, *, settings: EndpointSliceSettings | None = None) -> SliceWorld:
    """Return a settled world: a service, its pods on one node, their slices written and observed."""
    world = SliceWorld(settings=settings)
    world.put(make_node(), make_service(), *make_pods(pods))
    world.start()
    await world.settle()
    world.take_writes()
    return world


# ------------------------------------------------------------------------------------- mutating webhooks


def _hinted(body: EndpointSlice) -> EndpointSlice:
    hints = EndpointHints(for_zones=(ForZone("webhook"),))
    return edited(
        body, endpoints=tuple(msgspec.structs.replace(one, hints=hints) for one in body.endpoints or ())
    )


def _labelled(body: EndpointSlice) -> EndpointSlice:
    return edited(body, labels={**(body.metadata.labels or {}), "mesh": "on"})


@pytest.mark.parametrize("admission", [_hinted, _labelled])
async def test_a_mutating_webhook_is_not_fought(
    admission: Callable[[EndpointSlice], EndpointSlice],
) -> None:
    world = SliceWorld()
    world.server.admission = admission
    world.put(make_node(), make_service(), *make_pods(250))
    world.start()
    for _ in range(5):
        await world.settle()
        world.advance(10.0)
    assert [call.verb for call in world.take_writes()] == ["create"] * 3
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    for _ in range(5):
        await world.settle()
        world.advance(10.0)
        assert world.controller.audit(WEB) is None
    assert [call.verb for call in world.take_writes()] == ["update"]
    assert world.published()["pod-00001"] is False


async def test_after_a_restart_each_slice_is_sent_through_a_webhook_once() -> None:
    before = SliceWorld()
    before.server.admission = _hinted
    before.put(make_node(), make_service(), *make_pods(250))
    before.start()
    await before.settle()
    stored = before.slices_of()
    before.take_writes()
    world = SliceWorld(server=before.server)
    world.put(make_node(), make_service(), *make_pods(250))
    world.start()
    for _ in range(5):
        await world.settle()
        world.advance(10.0)
        assert world.controller.audit(WEB) is None
    assert [call.verb for call in world.take_writes()] == ["update"] * 3
    assert world.slices_of() == stored, "the writes changed nothing"


async def test_an_external_edit_through_a_webhook_is_repaired_once() -> None:
    world = SliceWorld()
    world.server.admission = _hinted
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    await world.settle()
    world.take_writes()
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, annotations={"somebody": "else"}))
    for _ in range(5):
        world.watch()
        await world.settle()
        world.advance(10.0)
    assert [call.verb for call in world.take_writes()] == ["update"]
    (endpoint_slice,) = world.slices_of()
    assert endpoint_slice.metadata.annotations == {"somebody": "else"}


# ------------------------------------------------------------------------------------- a newer server


async def test_fields_of_a_newer_server_survive_a_flip() -> None:
    def newer(body: EndpointSlice) -> EndpointSlice:
        document = msgspec.json.decode(ENDPOINT_SLICES.encode(body))
        document["futureTop"] = 1
        for endpoint in document["endpoints"] or ():
            endpoint.setdefault("weight", 5)
        return ENDPOINT_SLICES.decode(msgspec.json.encode(document))

    world = SliceWorld()
    world.server.admission = newer
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    await world.settle()
    assert [call.verb for call in world.take_writes()] == ["create"]
    (endpoint_slice,) = world.slices_of()
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(endpoint_slice))
    document["endpoints"][1]["weight"] = 9  # another client sets it
    world.server.update_foreign(ENDPOINT_SLICES, ENDPOINT_SLICES.decode(msgspec.json.encode(document)))
    world.watch()
    world.advance(10.0)
    world.put(make_pod("pod-00002", address_number(2), ready=False))
    await world.settle()
    assert [call.verb for call in world.take_writes()] == ["update"]
    (endpoint_slice,) = world.slices_of()
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(endpoint_slice))
    assert [one["weight"] for one in document["endpoints"]] == [5, 9, 5]
    assert document["endpoints"][1]["conditions"]["ready"] is False
    assert (document["futureTop"], document["metadata"]["generateName"]) == (1, "web-")
    assert world.controller.audit(WEB) is None
    world.advance(10.0)
    await world.settle()
    assert world.take_writes() == []


# ------------------------------------------------------------------------- endpoints rejected by the server


def _rejects(*addresses: str) -> Callable[[str], str | None]:
    return lambda address: "forbidden" if address in addresses else rejected_range(address)


async def test_a_pod_with_an_address_that_the_server_rejects_does_not_block_its_slice() -> None:
    world = await world_with(100)
    world.put(make_pod("bad", "169.254.1.1"))
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    world.remove(make_pod("pod-00002", address_number(2)))
    await world.settle()
    assert world.published()["pod-00001"] is False
    assert "pod-00002" not in world.published()
    assert [call.verb for call in world.take_writes()] == ["update"]
    assert world.failures == []
    assert [(event.type, event.reason, event.message) for event in world.events] == [
        (
            "Warning",
            "EndpointRejected",
            "Pod default/bad is omitted because the API server rejects its endpoint: address 169.254.1.1 is link-local",
        )
    ]
    assert len(world.controller.rejections) == 1
    assert world.controller.audit(WEB) is None
    world.put(make_pod("bad", "10.7.7.7"))
    await world.settle()
    assert world.published()["bad"] is True
    assert len(world.controller.rejections) == 0


async def test_a_pod_rejected_by_an_unknown_server_rule_is_isolated() -> None:
    """A 422 names the endpoint; the slice is immediately written without it, and it is tried again after a change."""
    world = SliceWorld()
    world.server.rejected_range = _rejects("10.7.7.7")
    world.put(make_node(), make_service(), *make_pods(3), make_pod("bad", "10.7.7.7"))
    world.start()
    await world.settle()
    assert sorted(world.published()) == ["pod-00001", "pod-00002", "pod-00003"]
    assert world.failures == []
    (event,) = world.events
    assert event.message.startswith(
        'Pod default/bad is omitted because the API server rejects its endpoint: Invalid value: "10.7.7.7"'
    )
    assert len(world.controller.rejections) == 1
    assert world.controller.audit(WEB) is None
    world.take_writes()
    for number in range(3):
        world.put(make_pod("pod-00001", address_number(1), ready=bool(number % 2)))
        await world.settle()
    assert [call.verb for call in world.take_writes()] == ["update"] * 3, "it is not retried repeatedly"
    world.put(make_service(labels={"some": "label"}))
    await world.settle()
    assert [call.verb for call in world.take_writes()] == ["update"]
    assert len(world.events) == 1
    world.put(make_pod("bad", "10.7.7.8"))
    await world.settle()
    assert world.published()["bad"] is True
    assert len(world.controller.rejections) == 0


async def test_a_rejection_of_most_endpoints_does_not_withdraw_them() -> None:
    world = await world_with(4)
    world.server.rejected_range = lambda address: "any"
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    assert len(world.published()) == 4
    assert len(world.failures) == 1
    world.server.rejected_range = rejected_range
    world.advance(60.0)
    await world.settle()
    assert world.published()["pod-00001"] is False


async def test_rejections_are_forgotten_with_their_pod_and_service() -> None:
    world = await world_with(1)
    bad, worse = make_pod("bad", "127.0.0.1"), make_pod("worse", "fe80::1")
    world.put(bad, worse)
    await world.settle()
    assert len(world.controller.rejections) == 2
    world.remove(bad)
    await world.settle()
    assert len(world.controller.rejections) == 1
    world.remove(make_service())
    await world.settle()
    assert len(world.controller.rejections) == 0


# ------------------------------------------------------------------------------------- own writes


async def test_the_first_sync_of_a_service_writes_everything_in_one_slice_and_no_more() -> None:
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    await world.settle()
    assert verbs(world.take_writes()) == ["create"]
    (endpoint_slice,) = world.slices_of()
    assert endpoint_slice.metadata.name.startswith("web-")
    assert len(endpoint_slice.endpoints or ()) == 3
    assert trigger_time(endpoint_slice) == DEFAULT_TIME


async def test_own_writes_are_never_repaired_when_the_watch_reports_them() -> None:
    """k/k#87979: own writes triggered another sync."""
    world = await world_with(3)
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    world.watch()
    assert await world.sync() == 0
    assert verbs(world.take_writes()) == ["update"]


@pytest.mark.parametrize("flips", [1, 2, 3, 10])
async def test_a_watch_that_lags_behind_our_writes_loses_no_flip(flips: int) -> None:
    """k/k#125638, #117193: the cache still equalled the desired state, and the write was skipped permanently."""
    world = await world_with(3)
    for flip in range(1, flips + 1):
        world.put(make_pod("pod-00001", address_number(1), ready=flip % 2 == 0))
        await world.sync()
        assert world.published()["pod-00001"] is (flip % 2 == 0)
    while world.watch(1):  # stale events, one by one
        assert await world.sync() == 0
    assert world.published()["pod-00001"] is (flips % 2 == 0)
    assert len(world.take_writes()) == flips
    assert not world.failures


async def test_a_second_sync_before_the_watch_knows_of_the_first_creates_nothing_twice() -> None:
    """k/k#93374, #100033, #100103: the create was not in the cache yet, an identical slice was created."""
    world = SliceWorld()
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    await world.sync()
    world.put(make_pod("pod-00009", address_number(9)))
    await world.sync()
    assert verbs(world.take_writes()) == ["create", "update"]
    assert len(world.slices_of()) == 1
    world.watch()
    assert await world.sync() == 0


async def test_a_watch_faster_than_the_response_causes_no_second_write() -> None:
    world = await world_with(3)

    async def watch_first(call: Call) -> None:
        world.watch()

    world.server.after_each = watch_first
    world.put(*make_pods(150))
    await world.settle()
    assert sorted(verbs(world.take_writes())) == ["create", "update"]
    assert len(world.published()) == 150


async def test_a_pod_that_changes_while_its_write_is_under_way_is_written_again() -> None:
    world = await world_with(1)
    states = [False, True]

    async def flip(call: Call) -> None:
        if states:
            world.put(make_pod("pod-00001", address_number(1), ready=states.pop()))

    world.server.before_each = flip
    world.put(make_pod("pod-00001", address_number(1), ready=False, ready_since=LATER))
    await world.settle()
    assert world.published() == {"pod-00001": False}
    assert len(world.take_writes()) == 3
    assert not world.failures


async def test_a_service_that_changes_while_its_slices_are_written_is_written_again() -> None:
    world = await world_with(1)
    changes = [make_service(labels={"tier": "front"})]

    async def relabel(call: Call) -> None:
        if changes:
            world.put(changes.pop())

    world.server.before_each = relabel
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    (endpoint_slice,) = world.slices_of()
    assert labels_of(endpoint_slice)["tier"] == "front"
    assert world.published() == {"pod-00001": False}


async def test_nothing_is_written_when_nothing_has_changed() -> None:
    """I4; k/k#108231, #82995: empty slices were rewritten at each resync, deleted services retried."""
    world = await world_with(3)
    world.put(make_service(), make_node(), *make_pods(3))  # a resync: other versions, same content
    assert await world.sync() == 0
    assert world.take_writes() == []
    empty = await world_with(0)
    empty.put(make_service(), make_service("other", selector={"x": "y"}, uid="o"))
    await empty.settle()
    assert verbs(empty.take_writes()) == ["create"]  # of the other service
    empty.put(make_service())
    await empty.settle()
    assert empty.take_writes() == []


# --------------------------------------------------------------------------- refused writes


async def test_a_conflicting_slice_is_read_and_planned_again_without_an_event() -> None:
    """S-74; k/k#92928: each rollout caused an hour of conflict Events."""
    world = await world_with(2)
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, annotations={"a": "b"}))
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert verbs(world.take_writes()) == ["update", "update"]
    assert world.published() == {"pod-00001": False, "pod-00002": True}
    assert (world.slices_of()[0].metadata.annotations or {})["a"] == "b"
    assert (world.failures, world.events) == ([], [])
    world.watch()
    assert await world.sync() == 0


async def test_a_deleted_slice_is_recreated_immediately_without_an_event() -> None:
    world = await world_with(2)
    (endpoint_slice,) = world.slices_of()
    world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert verbs(world.take_writes()) == ["update", "create"]
    assert world.published() == {"pod-00001": False, "pod-00002": True}
    assert (world.failures, world.events) == ([], [])
    world.watch()
    assert await world.sync() == 0


async def test_deleting_an_already_deleted_slice_succeeds() -> None:
    """Unlike S-72, which treats it as an error."""
    world = await world_with(0, settings=EndpointSliceSettings(max_endpoints_per_slice=1))
    world.put(*make_pods(3))
    await world.settle()
    first, second, _ = world.slices_of()
    world.take_writes()
    for endpoint_slice in (first, second):
        world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    world.remove(*make_pods(3))
    world.put(make_pod("other", "10.9.9.9"))
    await world.settle()
    assert (world.failures, world.events) == ([], [])
    assert world.published() == {"other": True}


async def test_a_slice_that_we_deleted_is_not_deleted_again_while_the_watch_lags() -> None:
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=1))
    world.remove(make_pods(1)[0])
    await world.sync()
    world.put(make_pod("pod-00002", address_number(2), ready=False))
    await world.sync()
    assert verbs(world.take_writes()) == ["delete", "update"]
    world.watch()
    assert await world.sync() == 0


async def test_a_slice_that_took_the_name_of_a_deleted_one_is_kept() -> None:
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=1))
    (mine,) = [
        endpoint_slice for endpoint_slice in world.slices_of() if "pod-00001" in str(endpoint_slice.endpoints)
    ]
    world.server.delete_foreign(ENDPOINT_SLICES, mine.metadata.key)
    other = world.server.create_foreign(
        ENDPOINT_SLICES, make_slice(make_service("other"), mine.metadata.name, (make_endpoint(make_pod()),))
    )
    world.remove(make_pods(1)[0])
    await world.settle()
    assert world.server.objects(ENDPOINT_SLICES)[other.metadata.key] == other
    assert world.published() == {"pod-00002": True}
    assert not world.failures


async def test_a_slice_deleted_between_a_conflict_and_its_read_is_recreated() -> None:
    world = await world_with(1)
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, annotations={"a": "b"}))

    async def delete_before_the_look(call: Call) -> None:
        if call.verb == "get":
            world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)

    world.server.before_each = delete_before_the_look
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert verbs(world.take_writes()) == ["update", "create"]
    assert world.published() == {"pod-00001": False}
    assert not world.failures


@pytest.mark.parametrize("verb", ["update", "delete"])
async def test_a_404_that_does_not_name_a_slice_does_not_count_as_deletion(verb: str) -> None:
    """A starting server, or a proxy in front of it, returns it for any path; trusting it would duplicate slices."""
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=1))
    before = world.slices_of()
    world.server.fail_next(api_error(Status(code=404, message="404 page not found")), verb=verb)  # type: ignore[arg-type]
    if verb == "update":
        world.put(make_pod("pod-00001", address_number(1), ready=False))
    else:
        world.remove(make_pods(1)[0])
    await world.settle()
    assert {endpoint_slice.metadata.name for endpoint_slice in world.slices.values()} == {
        endpoint_slice.metadata.name for endpoint_slice in before
    }
    assert [str(error).rpartition(": ")[2] for error in world.failures] == ["404 page not found"]
    world.advance(1000.0)
    await world.settle()
    expected = {"pod-00001": False, "pod-00002": True} if verb == "update" else {"pod-00002": True}
    assert world.published() == expected
    assert len(world.slices_of()) == len(expected)


async def test_a_conflict_that_cannot_be_read_waits_for_the_watch() -> None:
    world = await world_with(1)
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, annotations={"a": "b"}))
    world.server.fail_next(api_error(Status(code=503, message="overloaded")), verb="get")
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert verbs(world.take_writes()) == ["update"]
    assert len(world.failures) == 1
    world.watch()
    world.advance(1000.0)
    await world.settle()
    assert world.published() == {"pod-00001": False}
    assert len(world.failures) == 1


async def test_repeated_conflicts_over_a_slice_fall_back_to_backoff() -> None:
    world = await world_with(1)

    async def edit_externally(call: Call) -> None:
        if call.verb == "update":
            (endpoint_slice,) = world.slices_of()
            note = {"count": str(len(world.server.calls))}
            world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, annotations=note))

    world.server.before_each = edit_externally
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert len(world.take_writes()) <= 10
    assert [event.reason for event in world.events] == ["FailedToUpdateEndpointSlices"]
    assert "the object has been modified" in world.events[0].message


async def test_another_slice_with_a_reused_name_is_never_overwritten() -> None:
    world = await world_with(1)
    (endpoint_slice,) = world.slices_of()
    world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    other = world.server.create_foreign(
        ENDPOINT_SLICES,
        make_slice(make_service("other"), endpoint_slice.metadata.name, (make_endpoint(make_pod()),)),
    )
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    assert world.server.objects(ENDPOINT_SLICES)[other.metadata.key] == other
    assert world.published() == {"pod-00001": False}
    assert not world.failures


async def test_a_server_failure_is_retried_and_reported_once_per_attempt() -> None:
    """S-17, with its texts."""
    world = await world_with(1)
    (endpoint_slice,) = world.slices_of()
    world.server.fail_next(
        api_error(Status(code=500, message="etcdserver: no leader")), verb="update", times=2
    )
    world.put(make_pod("pod-00001", address_number(1), ready=False, ready_since=LATER))
    assert await world.sync() == 1
    text = f"failed to update {endpoint_slice.metadata.name} EndpointSlice for Service default/web: etcdserver: no leader"
    assert [str(error) for error in world.failures] == [text]
    (event,) = world.events
    assert (event.type, event.reason) == ("Warning", "FailedToUpdateEndpointSlices")
    assert event.message == f"Error updating Endpoint Slices for Service default/web: {text}"
    assert (event.regarding.kind, event.regarding.name) == ("Service", "web")
    for _ in range(3):
        world.advance(1000.0)
        await world.sync()
    assert world.published() == {"pod-00001": False}
    assert len(world.failures) == 2
    # The successful write publishes the trigger time of the failed ones.
    assert trigger_time(world.slices_of()[0]) == LATER


@pytest.mark.parametrize(
    ("error", "unavailable"),
    [
        (ConnectionFailedError("cannot reach api:6443: connection refused"), True),
        (api_error(Status(code=503, message="no backend")), True),
        (api_error(Status(code=403, message="no right to update endpointslices")), False),
    ],
)
async def test_a_sync_without_a_server_is_retried_when_the_server_responds(
    error: Exception, unavailable: bool
) -> None:
    """Server failures were hidden in the text, and waited for the growing backoff of their service."""
    world = await world_with(2)
    world.server.fail_next(error, verb="update")
    world.put(*make_pods(2, ready=False))
    await world.settle()
    [failure] = world.failures
    assert is_unavailable(failure) is unavailable


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
@pytest.mark.parametrize(
    "error",
    [
        RequestTimedOutError("no response within 30 s"),
        ConnectionFailedError("cannot reach api:6443: connection reset", may_have_acted=True),
        api_error(Status(code=500, message="timed out")),
    ],
)
@pytest.mark.parametrize("acts", [False, True])
async def test_slices_become_correct_after_any_outcome_of_a_lost_response(
    verb: str, error: Exception, acts: bool
) -> None:
    """7c: a timeout does not reveal whether the server executed the write."""
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=2))
    world.server.fail_next(error, verb=verb, acts=acts)  # type: ignore[arg-type]
    world.put(*make_pods(5, ready=False))
    await world.settle()
    world.remove(*make_pods(2))
    await world.settle()
    for _ in range(8):
        world.advance(1000.0)
        await world.settle()
    assert world.published() == {f"pod-0000{number}": False for number in (3, 4, 5)}
    assert sum(len(endpoint_slice.endpoints or ()) for endpoint_slice in world.slices_of()) == 3
    assert len(world.failures) <= 1


async def test_a_terminating_namespace_gets_no_new_slices_and_no_event() -> None:
    """S-72; k/k#38612: an error storm."""
    world = SliceWorld()
    world.server.terminating_namespaces.add("default")
    world.put(make_node(), make_service(), *make_pods(3))
    world.start()
    await world.settle()
    assert verbs(world.take_writes()) == ["create"]
    assert (world.failures, world.events, len(world.queue)) == ([], [], 0)
    world.advance(100_000.0)
    assert await world.sync() == 0


async def test_existing_slices_are_updated_while_their_namespace_terminates() -> None:
    world = await world_with(2)
    world.server.terminating_namespaces.add("default")
    world.remove(make_pods(1)[0])
    await world.settle()
    assert world.published() == {"pod-00002": True}
    assert not world.failures


async def test_other_services_are_served_while_one_cannot_be_written() -> None:
    world = SliceWorld()
    world.put(make_node(), make_service("one"), make_service("two"), make_pod())
    world.start()
    world.server.fail_next(api_error(Status(code=403, reason="Forbidden", message="quota")), times=1)
    await world.settle()
    assert len(world.failures) == 1
    assert sum(bool(world.published(name)) for name in ("one", "two")) == 1


# ------------------------------------------------------------------------------------ other clients


@pytest.mark.parametrize(
    "edit",
    [
        {"endpoints": None},
        {"endpoints": (make_endpoint(make_pod("stranger", "10.1.1.1")),)},
        {"ports": None},
        {"labels": {MANAGED_BY_LABEL: "endpointslice-controller.k8s.io", SERVICE_NAME_LABEL: "web"}},
        {"labels": None},
        {"labels": {MANAGED_BY_LABEL: "somebody", SERVICE_NAME_LABEL: "web", "tier": "front"}},
        {"labels": {MANAGED_BY_LABEL: "endpointslice-controller.k8s.io", SERVICE_NAME_LABEL: "other"}},
        {"owner_references": None},
    ],
)
async def test_an_external_edit_of_our_slice_is_repaired_immediately(edit: dict[str, object]) -> None:
    """S-3 (upstream waits a second); k/k#85353; S-113: a slice that is relabelled away blocks nothing."""
    world = SliceWorld()
    world.put(make_node(), make_service(labels={"tier": "front"}), *make_pods(2))
    world.start()
    await world.settle()
    world.take_writes()
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, **edit))
    world.watch()
    await world.settle()
    assert world.published() == {"pod-00001": True, "pod-00002": True}
    ours = [
        each
        for each in world.slices_of()
        if labels_of(each).get(MANAGED_BY_LABEL, "").startswith("endpointslice-")
    ]
    assert [labels_of(each)["tier"] for each in ours] == ["front"]
    assert not world.failures
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    assert world.published()["pod-00001"] is False


async def test_an_annotation_of_another_client_is_kept() -> None:
    """S-3, S-63."""
    world = await world_with(1)
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(
        ENDPOINT_SLICES,
        edited(endpoint_slice, annotations={**(endpoint_slice.metadata.annotations or {}), "a": "b"}),
    )
    world.watch()
    assert await world.sync() == 0
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    assert (world.slices_of()[0].metadata.annotations or {})["a"] == "b"
    assert not world.failures


async def test_a_manually_deleted_slice_is_recreated_even_right_after_a_start() -> None:
    """S-3: upstream has not tracked it yet, and leaves the service without it."""
    before = await world_with(2)
    world = SliceWorld(server=before.server)
    world.put(make_node(), make_service(), *make_pods(2))
    world.start()
    await world.sync()
    assert world.take_writes() == []  # all is right
    (endpoint_slice,) = world.slices_of()
    world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    world.watch()
    await world.settle()
    assert world.published() == {"pod-00001": True, "pod-00002": True}


async def test_a_manually_deleted_placeholder_is_recreated() -> None:
    world = await world_with(0)
    (endpoint_slice,) = world.slices_of()
    world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    world.watch()
    await world.settle()
    assert len(world.slices_of()) == 1


async def test_conflicting_repairs_happen_at_most_once_per_second() -> None:
    """Two disagreeing controllers must not fight at network speed."""
    world = await world_with(1)
    for tenth in range(100):
        (endpoint_slice,) = world.slices_of()
        if endpoint_slice.endpoints:
            world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, endpoints=None))
            world.watch()
        await world.sync()
        assert len(world.take_writes()) <= 1, tenth
        world.advance(0.1)
    repairs = (
        world.server.objects(ENDPOINT_SLICES)[world.slices_of()[0].metadata.key].metadata.generation or 0
    )
    assert repairs <= 2 * 10 + 3  # each repair is an edit and its repair


async def test_a_repair_is_immediate_after_a_quiet_second_and_pods_never_wait() -> None:
    world = await world_with(1)

    async def edit_externally() -> int:
        (endpoint_slice,) = world.slices_of()
        world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, endpoints=None))
        world.watch()
        return await world.sync()

    assert await edit_externally() == 1
    world.advance(0.2)
    assert await edit_externally() == 0
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    assert await world.sync() == 1
    assert world.published() == {"pod-00001": False}
    world.advance(10.0)
    await world.settle()
    assert await edit_externally() == 1


async def test_slices_of_other_managers_are_never_touched() -> None:
    """S-112, I5."""
    world = SliceWorld()
    service = make_service()
    foreign = [
        world.server.create_foreign(ENDPOINT_SLICES, make_slice(service, "web-custom", labels=labels))
        for labels in ({SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: "somebody"},)
    ] + [
        world.server.create_foreign(
            ENDPOINT_SLICES, make_slice(service, "web-unmanaged", labels={SERVICE_NAME_LABEL: "web"})
        ),
        world.server.create_foreign(
            ENDPOINT_SLICES,
            make_slice(
                make_service("other"),
                "nameless",
                labels={MANAGED_BY_LABEL: "endpointslice-controller.k8s.io"},
            ),
        ),
    ]
    world.put(make_node(), service, *make_pods(2))
    world.start()
    await world.settle()
    for endpoint_slice in foreign:
        assert world.server.objects(ENDPOINT_SLICES)[endpoint_slice.metadata.key] == endpoint_slice


async def test_a_slice_with_our_label_but_another_owner_is_deleted() -> None:
    """S-30, S-112."""
    world = await world_with(1)
    stray = world.server.create_foreign(ENDPOINT_SLICES, make_slice(make_service(), "web-stray", owned=False))
    world.watch()
    await world.settle()
    assert stray.metadata.key not in world.server.objects(ENDPOINT_SLICES)
    assert world.published() == {"pod-00001": True}


async def test_a_relabelled_slice_is_adopted_if_the_service_owns_it() -> None:
    """S-112."""
    world = await world_with(1)
    endpoint_slice = world.server.create_foreign(
        ENDPOINT_SLICES,
        make_slice(
            make_service(), "web-x", (make_endpoint(make_pod("ghost")),), labels={SERVICE_NAME_LABEL: "web"}
        ),
    )
    world.watch()
    assert await world.sync() == 0
    ours = make_slice(make_service()).metadata.labels
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, labels=ours))
    world.watch()
    await world.settle()
    assert world.published() == {"pod-00001": True}


async def test_a_slice_held_by_a_finalizer_counts_as_deleted_and_blocks_nothing() -> None:
    """S-14; k/k#108267, #108779: such a slice made the service stale permanently."""
    world = await world_with(2)
    (endpoint_slice,) = world.slices_of()
    held = world.server.update_foreign(
        ENDPOINT_SLICES, edited(endpoint_slice, finalizers=("example.com/hold",))
    )
    world.server.delete_foreign(ENDPOINT_SLICES, held.metadata.key)
    world.watch()
    await world.settle()
    live = [each for each in world.slices_of() if each.metadata.deletion_timestamp is None]
    assert [len(each.endpoints or ()) for each in live] == [2]
    world.take_writes()
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    assert verbs(world.take_writes()) == ["update"]
    dying = world.server.objects(ENDPOINT_SLICES)[held.metadata.key]
    world.server.update_foreign(ENDPOINT_SLICES, edited(dying, finalizers=None))
    world.watch()
    await world.settle()
    assert world.take_writes() == []
    assert not world.failures


async def test_a_slice_with_a_finalizer_that_we_delete_ourselves_is_deleted_once() -> None:
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=1))
    first, _ = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(first, finalizers=("example.com/hold",)))
    world.watch()
    holder = (first.endpoints or ())[0].target_ref
    assert holder is not None
    world.take_writes()
    world.remove(make_pod(holder.name or ""))
    await world.settle()
    assert verbs(world.take_writes()) == ["delete"]
    await world.settle()
    assert world.take_writes() == []


# --------------------------------------------------------------------------------- services are deleted and recreated


async def test_an_immediately_recreated_service_gets_its_slices() -> None:
    """k/k#141592, #47711: a phantom entry of the tracker left the new service without any."""
    for lag in (False, True):
        world = await world_with(2)
        world.remove(make_service())
        if not lag:
            assert await world.sync() == 0  # S-10: garbage collection takes the slices
        again = make_service(uid="another-uid", creation_timestamp=LATER)
        world.put(again)
        await world.settle()
        live = world.slices_of()
        assert [(each.metadata.owner_references or ())[0].uid for each in live] == ["another-uid"]
        assert world.published() == {"pod-00001": True, "pod-00002": True}
        assert trigger_time(live[0]) == LATER  # 0.6
        assert not world.failures


async def test_late_garbage_collection_does_not_take_the_new_service_down() -> None:
    world = await world_with(2)
    (old,) = world.slices_of()
    world.remove(make_service())
    world.put(make_service(uid="another-uid"))
    world.server.delete_foreign(ENDPOINT_SLICES, old.metadata.key)  # GC, before we delete it ourselves
    await world.settle()
    assert len(world.slices_of()) == 1
    assert world.published() == {"pod-00001": True, "pod-00002": True}
    assert not world.failures


@pytest.mark.parametrize(
    "service", [make_service(selector=None), make_service(service_type="ExternalName")], ids=["none", "alias"]
)
async def test_a_service_without_its_selector_keeps_its_slices(service: Service) -> None:
    """S-11, S-12."""
    world = await world_with(2)
    world.put(service)
    world.remove(*make_pods(1))
    await world.settle()
    assert world.take_writes() == []
    assert len(world.published()) == 2
    world.put(make_service())
    await world.settle()
    assert world.published() == {"pod-00002": True}


async def test_a_terminating_service_gets_updates_but_no_new_slices() -> None:
    """S-18, S-73."""
    world = await world_with(2, settings=EndpointSliceSettings(max_endpoints_per_slice=2))
    world.put(make_service(terminating=True))
    world.put(*make_pods(3))
    world.remove(make_pods(1)[0])
    await world.settle()
    assert world.published() == {"pod-00002": True, "pod-00003": True}
    assert "create" not in verbs(world.take_writes())
    fresh = SliceWorld()
    fresh.put(make_node(), make_service(terminating=True), *make_pods(3))
    fresh.start()
    await fresh.settle()
    assert fresh.take_writes() == []


async def test_a_new_selector_publishes_its_pods_and_the_oldest_trigger_time() -> None:
    world = await world_with(1)
    world.put(make_pod("db-1", "10.5.5.1", labels={"app": "db"}, ready_since=LATER_STILL))
    world.put(make_pod("db-2", "10.5.5.2", labels={"app": "db"}, ready_since=LATER))
    world.put(make_service(selector={"app": "db"}))
    await world.settle()
    assert world.published() == {"db-1": True, "db-2": True}
    assert trigger_time(world.slices_of()[0]) == LATER


# ------------------------------------------------------------------------------------------ nodes and pods


async def test_a_late_node_publishes_its_pods_immediately() -> None:
    """S-31.4: reported and retried until then; upstream waits for the backoff (S-4)."""
    world = SliceWorld()
    world.put(make_node(), make_service(), make_pod("a", "10.0.0.1"))
    world.put(make_pod("b", "10.0.0.2", node_name="late"))
    world.start()
    await world.settle()
    assert world.published() == {"a": True}
    text = "skipping Pod b for Service default/web: Node late Not Found"
    assert [str(error) for error in world.failures] == [text]
    assert [event.message for event in world.events] == [
        f"Error updating Endpoint Slices for Service default/web: {text}"
    ]
    world.put(make_node("late", zone="zone-b"))
    await world.settle()
    assert world.published() == {"a": True, "b": True}
    assert len(world.failures) == 1
    world.advance(10_000.0)
    await world.settle()
    assert len(world.failures) == 1


async def test_a_pod_on_an_unknown_node_is_reported_without_a_write() -> None:
    """S-31.4."""
    world = await world_with(1)
    world.put(make_pod("lost", "10.0.0.2", node_name="late"))
    await world.settle()
    assert world.take_writes() == []
    assert [str(error) for error in world.failures] == [
        "skipping Pod lost for Service default/web: Node late Not Found"
    ]
    world.remove(make_pod("lost"))
    world.advance(1000.0)
    await world.settle()
    assert len(world.failures) == 1


async def test_a_zone_put_on_a_node_reaches_the_endpoints_of_its_pods() -> None:
    """S-4: upstream leaves them unchanged."""
    world = SliceWorld()
    world.put(make_node(zone=""), make_node("node-2"), make_service(), make_pod("a"))
    world.put(make_pod("b", "10.0.0.2", node_name="node-2"))
    world.start()
    await world.settle()
    world.put(make_node(zone="zone-9"))
    await world.settle()
    zones = {
        endpoint.target_ref.name: endpoint.zone
        for endpoint in world.slices_of()[0].endpoints or ()
        if endpoint.target_ref
    }
    assert zones == {"a": "zone-9", "b": "zone-a"}
    world.take_writes()
    world.put(make_node(zone="zone-9", ready=False))  # S-5: no other field of a node matters
    await world.settle()
    assert world.take_writes() == []


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_finishes_while_unready_is_removed(phase: str) -> None:
    """0.3: upstream misses it; k/k#109414: its address may belong to another pod by then."""
    world = await world_with(2)
    world.put(make_pod("pod-00001", address_number(1), ready=False))
    await world.settle()
    world.put(make_pod("pod-00001", address_number(1), ready=False, phase=phase))
    await world.settle()
    assert world.published() == {"pod-00002": True}


async def test_a_recreated_pod_with_the_same_name_is_another_pod() -> None:
    """S-33: the uid is not part of the identity, but a new one is written."""
    world = await world_with(1)
    world.remove(make_pod("pod-00001"))
    world.put(make_pod("pod-00001", address_number(1), uid="another"))
    await world.settle()
    (endpoint,) = world.slices_of()[0].endpoints or ()
    assert endpoint.target_ref is not None
    assert endpoint.target_ref.uid == "another"
    assert verbs(world.take_writes()) == ["update"]


async def test_an_address_that_moves_to_another_pod_is_never_published_for_both() -> None:
    world = await world_with(2)
    world.put(make_pod("pod-00001", ""), make_pod("pod-00002", address_number(1)))
    await world.settle()
    assert [endpoint.addresses for endpoint in world.slices_of()[0].endpoints or ()] == [(address_number(1),)]


async def test_scaling_to_zero_and_back_keeps_one_name() -> None:
    """S-52."""
    world = await world_with(3)
    (before,) = world.slices_of()
    world.remove(*make_pods(3))
    await world.settle()
    (empty,) = world.slices_of()
    assert (empty.endpoints, empty.ports) == (None, None)
    world.put(*make_pods(3))
    await world.settle()
    (after,) = world.slices_of()
    assert before.metadata.name == empty.metadata.name == after.metadata.name
    assert verbs(world.take_writes()) == ["update", "update"]


async def test_the_name_is_kept_across_a_restart_while_scaled_to_zero() -> None:
    before = await world_with(0)
    world = SliceWorld(server=before.server)
    world.put(make_node(), make_service())
    world.take_writes()
    world.start()
    await world.settle()
    assert world.take_writes() == []
    world.put(*make_pods(2))
    await world.settle()
    assert verbs(world.take_writes()) == ["update"]
    assert len(world.slices_of()) == 1


async def test_a_burst_becomes_few_writes_and_a_batch_period_fewer() -> None:
    world = await world_with(0, settings=EndpointSliceSettings(batch_period_seconds=0.5))
    for pod in make_pods(50):
        world.put(pod)
        world.advance(0.001)
        assert await world.sync() == 0
    world.advance(0.5)
    assert await world.sync() == 1
    assert len(world.published()) == 50
    # S-1: services do not wait for the batch.
    world.put(make_service(labels={"x": "y"}))
    assert await world.sync() == 1


# ---------------------------------------------------------------------------------------- trigger times


async def test_a_write_carries_its_oldest_trigger_time_and_a_repair_none() -> None:
    """0.6, S-62."""
    world = await world_with(2)
    world.put(make_pod("pod-00001", address_number(1), ready=False, ready_since=LATER_STILL))
    world.put(make_pod("pod-00002", address_number(2), ready=False, ready_since=LATER))
    await world.settle()
    assert trigger_time(world.slices_of()[0]) == LATER
    (endpoint_slice,) = world.slices_of()
    world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, endpoints=None))
    world.watch()
    await world.settle()
    assert trigger_time(world.slices_of()[0]) is None


async def test_the_first_write_after_a_restart_omits_the_age_of_the_service() -> None:
    """0.6: the first sync takes the creation time but writes nothing."""
    before = await world_with(2)
    world = SliceWorld(server=before.server)
    world.put(make_node(), make_service(), *make_pods(2))
    world.start()
    await world.settle()
    world.put(make_pod("pod-00001", address_number(1), ready=False, ready_since=LATER))
    await world.settle()
    assert trigger_time(world.slices_of()[0]) == LATER


async def test_a_later_write_omits_the_time_of_an_unpublished_change() -> None:
    """0.6: the state advances even if a sync writes nothing."""
    world = await world_with(1)
    unpublished = make_pod("finished", "10.7.7.7", phase="Succeeded", ready=False, ready_since=LATER)
    world.put(unpublished)
    await world.settle()
    world.put(make_pod("pod-00001", address_number(1), ready=False, ready_since=LATER_STILL))
    await world.settle()
    assert trigger_time(world.slices_of()[0]) == LATER_STILL


async def test_a_port_change_has_no_trigger_time() -> None:
    world = await world_with(1)
    world.put(make_service(ports=(make_service_port(81, 8081),)))
    await world.settle()
    (endpoint_slice,) = world.slices_of()
    assert [port.port for port in endpoint_slice.ports or ()] == [8081]
    assert trigger_time(endpoint_slice) is None


# --------------------------------------------------------------------------------------- large and dual-stack services


async def test_a_dual_stack_service_has_slices_of_both_types_and_drops_unwanted() -> None:
    """S-20, S-22: strays go last."""
    world = SliceWorld()
    both = make_service(ip_families=("IPv4", "IPv6"))
    world.put(make_node(), both, make_pod("a", "10.0.0.1", "fd00::1"))
    world.start()
    await world.settle()
    assert sorted(endpoint_slice.address_type for endpoint_slice in world.slices_of()) == ["IPv4", "IPv6"]
    world.take_writes()
    world.put(msgspec.structs.replace(both, ip_families=("IPv6",), labels={"x": "y"}))
    await world.settle()
    assert verbs(world.take_writes()) == ["update", "delete"]
    assert [endpoint_slice.address_type for endpoint_slice in world.slices_of()] == ["IPv6"]


async def test_an_error_in_one_family_does_not_stop_the_other_and_both_are_reported() -> None:
    """S-21."""
    world = SliceWorld()
    world.put(make_node(), make_service(ip_families=("IPv4", "IPv6")), make_pod("a", "10.0.0.1", "fd00::1"))
    world.start()
    world.server.fail_next(api_error(Status(code=500, message="one")), verb="create")
    await world.sync()
    assert [endpoint_slice.address_type for endpoint_slice in world.slices_of()] == ["IPv6"]
    assert [str(error) for error in world.failures] == [
        "failed to create EndpointSlice for Service default/web: one"
    ]
    both = SliceWorld()
    both.put(make_node(), make_service(ip_families=("IPv4", "IPv6")), make_pod("a", "10.0.0.1", "fd00::1"))
    both.start()
    both.server.fail_next(api_error(Status(code=500, message="one")), verb="create")
    both.server.fail_next(api_error(Status(code=500, message="two")), verb="create")
    await both.sync()
    prefix = "failed to create EndpointSlice for Service default/web"
    assert [str(error) for error in both.failures] == [f"[{prefix}: one, {prefix}: two]"]
    same = SliceWorld()
    same.put(make_node(), make_service(ip_families=("IPv4", "IPv6")), make_pod("a", "10.0.0.1", "fd00::1"))
    same.start()
    same.server.fail_next(api_error(Status(code=500, message="one")), verb="create", times=2)
    await same.sync()
    assert [str(error) for error in same.failures] == [f"{prefix}: one"]


async def test_a_failed_create_postpones_updates_and_deletes_of_its_family() -> None:
    """S-71, I3: a slice stays until its replacement exists."""
    world = await world_with(4, settings=EndpointSliceSettings(max_endpoints_per_slice=2))
    world.server.fail_next(api_error(Status(code=500, message="no")), verb="create", times=9)
    world.put(make_pod("pod-00001", address_number(1), ready=False), *make_pods(5)[4:])
    await world.sync()
    assert verbs(world.take_writes()) == ["create"]
    assert len(world.published()) == 4
    world.server.heal()
    world.advance(1000.0)
    await world.settle()
    assert len(world.published()) == 5


async def test_hint_events_are_sent_even_when_the_writes_fail() -> None:
    """S-75."""
    world = SliceWorld()
    world.put(*(make_node(f"node-{zone}", zone=zone) for zone in "ab"), make_service(topology_mode="Auto"))
    world.put(
        *(
            make_pod(f"pod-{zone}", address_number(n), node_name=f"node-{zone}")
            for n, zone in enumerate("ab", 1)
        )
    )
    world.start()
    world.server.fail_next(api_error(Status(code=500, message="no")), verb="create")
    await world.sync()
    assert [event.reason for event in world.events] == [
        "TopologyAwareHintsEnabled",
        "FailedToUpdateEndpointSlices",
    ]


async def test_a_refusal_of_hints_for_a_new_reason_is_reported() -> None:
    """S-93, S-93.1: the service has no hints either way, so no slice is written."""
    world = SliceWorld()
    world.put(*(make_node(f"node-{zone}", zone=zone) for zone in "ab"), make_service(topology_mode="Auto"))
    world.put(make_pod("pod-a", address_number(1), node_name="node-a"))
    world.start()
    await world.settle()
    world.take_writes()
    assert "Insufficient number of endpoints (1 endpoints, 2 zones)" in world.events[-1].message
    count = len(world.events)

    world.put(make_node("node-c", zone=""))
    await world.settle()
    await world.settle()

    assert "Insufficient Node information" in world.events[-1].message
    assert len(world.events) == count + 1
    assert world.take_writes() == []


class KilledError(Exception):
    """The process ended here."""


async def test_a_restart_after_any_write_converges_without_extra_writes() -> None:
    """7c: killed after each single write of a sequence."""
    for writes_before_the_end in range(6):
        world = await world_with(
            0, settings=EndpointSliceSettings(max_endpoints_per_slice=2, max_concurrent_writes=1)
        )
        world.put(*make_pods(7))
        done = 0

        async def killed(call: Call, limit: int = writes_before_the_end) -> None:
            nonlocal done
            done += 1
            if done > limit:
                raise KilledError

        world.server.before_each = killed
        with contextlib.suppress(KilledError, ExceptionGroup):
            await world.settle()
        world.server.before_each = None
        again = SliceWorld(
            server=world.server,
            settings=EndpointSliceSettings(max_endpoints_per_slice=2, max_concurrent_writes=1),
        )
        again.put(make_node(), make_service(), *make_pods(7))
        world.server.calls.clear()
        again.start()
        await again.settle()
        assert len(again.published()) == 7
        assert sum(len(endpoint_slice.endpoints or ()) for endpoint_slice in again.slices_of()) == 7
        assert all(len(endpoint_slice.endpoints or ()) <= 2 for endpoint_slice in again.slices_of())
