"""Mirroring with lag, failures and external edits (behaviour 3, 5.7 to 5.9; reliability 7b, 7c).

The stores, the queue and the controller are real; the server is in memory.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.controllers.mirroring.world import (
    ADMIN,
    HTTP,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    WEB,
    World,
    addresses,
    change,
    labels_of,
    make_endpoints,
    make_plain_service,
    members,
    mirrored_world,
    refusal,
    subset,
)

from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointHints, EndpointSlice, ForZone
from aiokube.api.endpoints import ENDPOINTS, Endpoints, EndpointSubset
from aiokube.api.meta import key_of
from aiokube.client.errors import RequestTimedOutError
from aiokube.testing.builders import make_service
from aiokube.testing.memory_server import Call

pytestmark = pytest.mark.usefixtures("both_answers")

ONE = subset("10.0.0.1")
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def ports_of(endpoint_slice: EndpointSlice) -> set[int | None]:
    return {port.port for port in endpoint_slice.ports or ()}


# ------------------------------------------------------------------------------------- lifecycle


async def test_a_hand_written_endpoints_is_mirrored_updated_and_deleted() -> None:
    """e2e endpointslicemirroring: create, update, delete."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    await world.settle()
    (endpoint_slice,) = world.slices_of()
    assert endpoint_slice.ports
    assert world.published() == {"10.0.0.1": True}
    world.put(make_endpoints(subset("10.0.0.9", ports=(HTTP,))))
    await world.settle()
    assert world.published() == {"10.0.0.9": True}
    assert [p.metadata.name for p in world.slices_of()] == [endpoint_slice.metadata.name]
    world.remove(make_endpoints())
    await world.settle()
    assert world.slices_of() == []
    assert world.failures == []


async def test_another_port_keeps_the_name_of_the_slice() -> None:
    """M-40: recycled, so that consumers see only an update."""
    world = await mirrored_world(ONE)
    (before,) = world.slices_of()
    world.put(make_endpoints(subset("10.0.0.1", ports=(ADMIN,))))
    await world.settle()
    assert world.writes() == ["update"]
    (after,) = world.slices_of()
    assert after.metadata.name == before.metadata.name
    assert ports_of(after) == {9090}


@pytest.mark.parametrize(
    ("service", "subsets", "slices"),
    [
        ("plain", (ONE,), 1),
        ("plain", (subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.1", ports=(ADMIN,))), 1),
        ("plain", (subset("10.0.0.1", ports=(HTTP,)), subset("10.0.0.2", ports=(ADMIN,))), 2),
        ("selector", (ONE,), 0),
        ("plain", None, 0),
        (None, (ONE,), 0),
    ],
)
async def test_the_groups_determine_the_number_of_slices(
    service: str | None, subsets: tuple[EndpointSubset, ...] | None, slices: int
) -> None:
    """Integration: TestEndpointSliceMirroring; k/k#114155: one address in two subsets."""
    world = World()
    if service is not None:
        world.put_service(make_plain_service() if service == "plain" else make_service())
    world.start()
    if subsets is not None:
        world.put(make_endpoints(*subsets))
    await world.settle()
    assert len(world.slices_of()) == slices


@pytest.mark.parametrize(
    "edited",
    [
        make_endpoints(ONE, labels={"new": "label"}),
        make_endpoints(ONE, annotations={"new": "annotation"}),
        make_endpoints(ONE, annotations={"new": "annotation", TRIGGER_TIME: "2026-01-01T00:00:00Z"}),
        make_endpoints(subset("10.0.0.1", "10.0.0.2")),
    ],
    ids=["label", "annotation", "annotation and trigger time", "addresses"],
)
async def test_every_edit_of_an_endpoints_reaches_its_slice(edited: Endpoints) -> None:
    """Integration: TestEndpointSliceMirroringUpdates; k/k#98116: labels and annotations were not mirrored."""
    world = await mirrored_world(ONE)
    world.put(edited)
    await world.settle()
    assert world.writes() == ["update"]
    (endpoint_slice,) = world.slices_of()
    foreign = {k: v for k, v in labels_of(endpoint_slice).items() if k not in (SERVICE_NAME, MANAGED_BY)}
    assert foreign == (edited.metadata.labels or {})
    annotations = dict(edited.metadata.annotations or {})
    annotations.pop(TRIGGER_TIME, None)
    assert (endpoint_slice.metadata.annotations or {}) == annotations
    subsets = edited.subsets or ()
    assert set(world.published()) == {a.ip for s in subsets for a in s.addresses or ()}


async def test_a_changed_trigger_time_alone_causes_no_write() -> None:
    """M-32."""
    world = await mirrored_world(ONE)
    for second in range(3):
        world.put(make_endpoints(ONE, annotations={TRIGGER_TIME: f"2026-01-01T00:00:0{second}Z"}))
        await world.settle()
    assert world.writes() == []


async def test_adding_a_selector_deletes_the_mirror_and_removing_it_restores_it() -> None:
    """Integration: TestEndpointSliceMirroringSelectorTransition; k/k#105987, #103576: leaked mirrors."""
    world = await mirrored_world(ONE)
    for _ in range(3):
        world.put_service(make_service())
        await world.settle()
        assert world.slices_of() == []
        world.put_service(make_plain_service())
        await world.settle()
        assert len(world.slices_of()) == 1
    assert world.writes() == ["delete", "create"] * 3


async def test_a_selector_added_during_downtime_leaves_no_mirror() -> None:
    """k/k#105987."""
    world = await mirrored_world(ONE)
    world.server.services[WEB] = make_service(resource_version="10000099")
    again = world.restarted()
    await again.settle()
    assert again.slices_of() == []


async def test_an_unready_address_is_never_published_as_ready() -> None:
    """k/k#102683: not-ready addresses were mirrored as ready."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    for item in (
        make_endpoints(subset(not_ready=["10.0.0.1"])),
        make_endpoints(subset("10.0.0.2", not_ready=["10.0.0.1"])),
        make_endpoints(subset("10.0.0.1"), subset(not_ready=["10.0.0.1"])),
    ):
        world.put(item)
        await world.settle()
        assert world.published()["10.0.0.1"] is False
    world.put(make_endpoints(ONE))
    await world.settle()
    assert world.published() == {"10.0.0.1": True}


# ------------------------------------------------------------------------------------- own writes


@pytest.mark.parametrize("flips", [1, 2, 3, 10])
async def test_a_watch_of_slices_that_lags_behind_loses_no_change(flips: int) -> None:
    """k/k#125638, #117193: the cache equalled the desired state, and the write was skipped permanently."""
    world = await mirrored_world(ONE)
    for flip in range(1, flips + 1):
        item = make_endpoints(ONE if flip % 2 == 0 else subset(not_ready=["10.0.0.1"]))
        world.put(item, seen=False)
        world.server.feed(ENDPOINTS, world.endpoints)
        await world.work()
        assert world.published() == {"10.0.0.1": flip % 2 == 0}
    while world.server.feed(ENDPOINT_SLICES, world.slices, 1):  # stale events, one by one
        assert await world.work() == []
    assert len(world.writes()) == flips
    assert world.failures == []


async def test_a_sync_before_the_watch_knows_of_the_create_creates_nothing_twice() -> None:
    """k/k#93374, #100033: a second identical slice."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    await world.work()
    world.put(make_endpoints(subset("10.0.0.1", "10.0.0.2")), seen=False)
    world.server.feed(ENDPOINTS, world.endpoints)
    await world.work()
    assert world.writes() == ["create", "update"]
    assert len(world.slices_of()) == 1


async def test_a_create_with_a_lost_response_finally_leaves_one_slice() -> None:
    """7c: it may have been executed; a duplicate is deleted later."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.server.fail_next(RequestTimedOutError("no answer"), verb="create", acts=True, times=2)
    world.put(make_endpoints(ONE))
    await world.work()
    world.clock.now += 60.0
    await world.work()
    assert len(world.slices_of()) == 2
    await world.rest()
    (endpoint_slice,) = world.slices_of()
    assert [e.addresses for e in members(endpoint_slice)] == [("10.0.0.1",)]


async def test_endpoints_that_change_while_their_slices_are_written_are_written_again() -> None:
    world = await mirrored_world(ONE)
    later = [make_endpoints(subset("10.0.0.3")), make_endpoints(subset("10.0.0.4"))]

    async def change_under_it(call: Call) -> None:
        if later and call.verb == "update":
            world.put(later.pop(0))

    world.server.before_each = change_under_it
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.settle()
    assert world.published() == {"10.0.0.4": True}
    assert world.failures == []


async def test_a_watch_faster_than_the_response_causes_no_second_write_or_sync() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()

    async def watch_first(call: Call) -> None:
        world.watch()

    world.server.after_each = watch_first
    world.put(make_endpoints(ONE))
    assert await world.work() == [WEB]
    world.put(make_endpoints(subset("10.0.0.2")))
    assert await world.work() == [WEB]
    world.put(make_endpoints())
    assert await world.work() == [WEB]
    assert world.writes() == ["create", "update", "delete"]
    assert world.queue.statistics().delayed == 0


async def test_an_external_edit_during_a_sync_is_handled_after_it() -> None:
    world = await mirrored_world(ONE)
    left = 1

    async def edit_externally(call: Call) -> None:
        nonlocal left
        if left and call.verb == "update":
            left = 0
            world.watch()
            (endpoint_slice,) = world.slices_of()
            world.put(change(endpoint_slice, endpoints=None))

    world.server.after_each = edit_externally
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.settle()
    assert world.published() == {"10.0.0.2": True}
    assert world.writes() == ["update", "update"]


async def test_a_slice_deleted_during_a_sync_is_recreated_after_it() -> None:
    world = await mirrored_world(ONE, subset("fd00::1"))
    (_four, six) = world.slices_of()
    left = 1

    async def delete_another(call: Call) -> None:
        nonlocal left
        if left:
            left = 0
            world.remove(six)

    world.server.before_each = delete_another
    world.put(make_endpoints(subset("10.0.0.2"), subset("fd00::1")))
    await world.settle()
    assert world.published() == {"10.0.0.2": True, "fd00::1": True}
    assert world.failures == []


async def test_repeated_events_without_changes_cause_no_write() -> None:
    """k/k#108231, #127370: rewritten at each resync; treated as stale after a write without effect."""
    world = await mirrored_world(ONE, subset("fd00::1", ports=(ADMIN,)))
    for number in range(20):
        world.put(make_endpoints(ONE, subset("fd00::1", ports=(ADMIN,))))
        world.put_service(make_plain_service(labels={"n": str(number)}))
        await world.settle()
    assert world.writes() == []
    assert world.failures == []


async def test_one_flip_among_twelve_hundred_addresses_is_one_update() -> None:
    both = subset(*addresses(600, start=601), ports=(ADMIN,))
    world = await mirrored_world(subset(*addresses(600), ports=(HTTP,)), both)
    (http,) = [p for p in world.slices_of() if ports_of(p) == {80}]
    first, *rest = addresses(600)
    world.put(make_endpoints(subset(*rest, not_ready=[first], ports=(HTTP,)), both))
    await world.settle()
    (call,) = world.server.writes
    assert (call.verb, call.key) == ("update", key_of(http))
    assert len(call.body.endpoints) == 600


# ------------------------------------------------------------------------------------- external edits

ExternalEdit = Callable[[EndpointSlice], EndpointSlice]
EXTERNAL_EDITS: dict[str, ExternalEdit] = {
    "content": lambda p: change(p, endpoints=(Endpoint(addresses=("10.66.6.6",)),)),
    "nothing left": lambda p: change(p, endpoints=None),
    "ports": lambda p: change(p, ports=None),
    "labels": lambda p: change(p, labels={**labels_of(p), "x": "y"}),
    "annotations": lambda p: change(p, annotations={"x": "y"}),
    "owner": lambda p: change(p, owner_references=None),
    "another manager": lambda p: change(p, labels={**labels_of(p), MANAGED_BY: "somebody"}),
    "another service": lambda p: change(p, labels={**labels_of(p), SERVICE_NAME: "other"}),
}


@pytest.mark.parametrize("edit_externally", EXTERNAL_EDITS.values(), ids=EXTERNAL_EDITS)
async def test_an_external_edit_of_a_slice_is_repaired_immediately(edit_externally: ExternalEdit) -> None:
    """k/k#85353; M-4 misses edits that do not raise the generation, M-42 gets stuck on a slice labelled away."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(edit_externally(endpoint_slice))
    await world.settle()
    assert world.published() == {"10.0.0.1": True}
    (endpoint_slice,) = world.slices_of()
    assert world.failures == []
    assert endpoint_slice.metadata.annotations is None
    assert endpoint_slice.metadata.owner_references is not None


async def test_a_slice_labelled_away_and_back_does_not_become_a_duplicate() -> None:
    """S-113, M-42: upstream treats the key as stale from then on."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    away = world.put(change(endpoint_slice, labels={**labels_of(endpoint_slice), MANAGED_BY: "somebody"}))
    await world.rest()
    assert len(world.slices_of()) == 1
    world.put(change(away, labels=labels_of(endpoint_slice)))
    await world.rest()
    assert len(world.slices_of()) == 1
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.rest()
    assert world.published() == {"10.0.0.2": True}
    assert world.failures == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_externally_deleted_slice_is_recreated_immediately(restarted: bool) -> None:
    """k/k#85353, and S-3: upstream misses it unless it wrote the slice itself."""
    world = await mirrored_world(ONE)
    if restarted:
        world = world.restarted()
        await world.settle()
    world.remove(world.slices_of()[0])
    await world.settle()
    assert world.published() == {"10.0.0.1": True}


async def test_a_foreign_slice_with_our_label_is_adopted_or_deleted() -> None:
    """S-112 via M-4."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    copy = change(endpoint_slice, name="copy", uid="", resource_version="")
    world.put(change(copy, endpoints=(Endpoint(addresses=("10.66.6.6",)),)))
    world.put(change(copy, name="orphan", labels={SERVICE_NAME: "nobody", MANAGED_BY: OURS}))
    await world.rest()
    assert len(world.server.objects(ENDPOINT_SLICES)) == 1
    assert world.published() == {"10.0.0.1": True}


async def test_a_conflict_over_a_slice_costs_one_write_per_second() -> None:
    """7c: another controller that restores its own content immediately."""
    world = await mirrored_world(ONE)
    writes = 0
    for _ in range(300):
        (endpoint_slice,) = world.slices_of()
        if labels_of(endpoint_slice).get("theirs") is None:
            world.put(change(endpoint_slice, labels={**labels_of(endpoint_slice), "theirs": "yes"}))
        await world.settle()
        writes += len(world.writes())
        world.clock.now += 0.1
    assert 28 <= writes <= 32


async def test_a_mutating_webhook_is_not_fought() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()

    def admit(body: Any) -> Any:
        if not isinstance(body, EndpointSlice):
            return body
        hints = EndpointHints(for_zones=(ForZone("mesh"),))
        hinted = [msgspec.structs.replace(one, hints=hints) for one in body.endpoints or ()]
        return change(body, endpoints=tuple(hinted), labels={**labels_of(body), "mesh": "on"})

    world.server.admission = admit
    world.put(make_endpoints(ONE))
    await world.rest()
    assert world.writes() == ["create"]
    for _ in range(3):
        assert world.controller.audit(WEB) is None
        world.put(make_endpoints(ONE, annotations={TRIGGER_TIME: "2026-01-01T00:00:00Z"}))
        await world.rest()
        world.put(make_endpoints(ONE))
        await world.rest()
    assert world.writes() == []
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.rest()
    assert world.writes() == ["update"]
    assert world.published() == {"10.0.0.2": True}


async def test_fields_of_a_newer_server_survive_an_update() -> None:
    world = await mirrored_world(subset("10.0.0.1", "10.0.0.2"))
    (endpoint_slice,) = world.slices_of()
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(endpoint_slice))
    document["futureTop"] = 1
    document["endpoints"][0]["weight"] = 9
    world.put(ENDPOINT_SLICES.decode(msgspec.json.encode(document)))
    await world.rest()
    assert world.writes() == []
    world.put(make_endpoints(subset("10.0.0.1", "10.0.0.3")))
    await world.rest()
    (endpoint_slice,) = world.slices_of()
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(endpoint_slice))
    assert {one["addresses"][0]: one.get("weight") for one in document["endpoints"]} == {
        "10.0.0.1": 9,
        "10.0.0.3": None,
    }
    assert document["futureTop"] == 1


async def test_an_address_that_the_server_rejects_does_not_block_its_slice() -> None:
    """The server rejects it in an Endpoints as well; a rule that applies only to slices is discovered from its 422."""
    world = await mirrored_world(subset("10.0.0.1", "10.0.0.2"))
    world.server.rejected_range = lambda address: None
    world.put(make_endpoints(subset("10.0.0.1", "10.0.0.3", "169.254.1.1", "10.7.7.7")))
    world.server.rejected_range = lambda address: "forbidden" if address == "10.7.7.7" else None
    await world.settle()
    assert sorted(world.published()) == ["10.0.0.1", "10.0.0.3"]
    assert (world.writes(), world.failures) == (["update", "update"], [])
    assert {event.message for event in world.events} == {
        f"Skipped {count} invalid IP addresses when mirroring to EndpointSlices" for count in (1, 2)
    }
    assert world.controller.audit(WEB) is None
    world.server.rejected_range = lambda address: None
    world.put(make_endpoints(subset("10.0.0.1", "10.7.7.7")))
    await world.settle()
    assert sorted(world.published()) == ["10.0.0.1", "10.7.7.7"]


# ------------------------------------------------------------------------------------- restarts


async def test_after_a_restart_a_recreated_endpoints_has_its_slice() -> None:
    """k/k#125354, #125359: never created, because the tracker was empty and the old slice was terminating."""
    world = await mirrored_world(ONE)
    (before,) = world.slices_of()
    world = world.restarted()
    await world.settle()
    world.remove(make_endpoints())
    world.put(make_endpoints(ONE))
    await world.settle()
    world.put(make_endpoints(ONE))
    world.server.feed(ENDPOINT_SLICES, world.slices)
    await world.rest()
    (after,) = world.slices_of()
    (owner,) = after.metadata.owner_references or ()
    assert owner.uid == world.server.objects(ENDPOINTS)[WEB].metadata.uid
    assert after.metadata.owner_references != before.metadata.owner_references
    assert world.published() == {"10.0.0.1": True}


async def test_a_slice_garbage_collected_after_its_endpoints_returned_is_recreated() -> None:
    """k/k#125359: the slice still belongs to the old Endpoints when it is read, and is deleted a moment later."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.remove(make_endpoints(), seen=False)
    world.put(make_endpoints(ONE))
    world.remove(endpoint_slice, seen=False)  # before the update that gives it to the new one
    await world.settle()
    assert world.failures == []
    assert world.published() == {"10.0.0.1": True}


@pytest.mark.parametrize("writes_before_the_crash", range(6))
async def test_the_next_start_repairs_a_crash_after_any_write(
    writes_before_the_crash: int,
) -> None:
    """7c: without churn, and without removing an address that stays."""
    stays = subset("10.0.0.1", ports=(HTTP,))
    world = await mirrored_world(
        stays, subset("10.0.0.2", ports=(ADMIN,)), subset("fd00::2", ports=(ADMIN,)), subset("fd00::3")
    )
    assert len(world.slices_of()) == 4
    left = writes_before_the_crash

    async def crash(call: Call) -> None:
        nonlocal left
        if call.verb != "get":
            if left == 0:
                raise SystemError("killed")
            left -= 1

    world.server.before_each = crash
    world.put(
        make_endpoints(
            stays,
            subset("10.0.0.5", ports=(msgspec.structs.replace(HTTP, port=1),)),
            subset("10.0.0.6", ports=(msgspec.structs.replace(HTTP, port=2),)),
            subset("fd00::4", ports=(msgspec.structs.replace(HTTP, port=3),)),
        ),
    )
    try:
        await world.work()
    except* SystemError:
        pass
    assert world.published()["10.0.0.1"] is True
    world.server.before_each = None
    again = world.restarted()
    await again.rest()
    assert sorted(again.published()) == ["10.0.0.1", "10.0.0.5", "10.0.0.6", "fd00::4"]
    assert len(again.slices_of()) == 4
    again.writes()
    final = again.restarted()
    await final.rest()
    assert final.writes() == []


# ------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("failing", range(5))
async def test_a_port_change_never_drops_an_address_that_stays(failing: int) -> None:
    """7c, I3: also if a write in between fails."""
    before = (subset("10.0.0.1", "10.0.0.2", ports=(HTTP,)), subset("fd00::1", ports=(ADMIN,)))
    after = (subset("10.0.0.1", "10.0.0.2", "fd00::1", ports=(HTTP,)), subset("10.0.0.9", ports=(ADMIN,)))
    world = await mirrored_world(*before)
    seen: list[set[str]] = []

    async def note(call: Call) -> None:
        seen.append(set(world.published()))
        if call.verb != "get" and len(seen) == failing:
            raise refusal(503, "ServiceUnavailable")

    world.server.before_each = note
    world.put(make_endpoints(*after))
    await world.rest()
    assert all({"10.0.0.1", "10.0.0.2", "fd00::1"} <= published for published in seen)
    assert set(world.published()) == {"10.0.0.1", "10.0.0.2", "fd00::1", "10.0.0.9"}


async def test_creates_of_both_families_with_one_recycled_slice_need_one_attempt() -> None:
    """M-40: upstream loses the other family's create, posts an existing name, and fails until random choice helps."""
    six = msgspec.structs.replace(ADMIN, port=6)
    for doomed in (subset("10.0.0.9", ports=(six,)), subset("fd00::9", ports=(six,))):
        world = await mirrored_world(doomed)
        world.put(make_endpoints(subset("10.0.0.1", "fd00::1")))
        await world.settle()
        assert sorted(world.writes()) == ["create", "update"]
        assert world.published() == {"10.0.0.1": True, "fd00::1": True}
        assert world.failures == []


async def test_a_terminating_namespace_causes_no_request_storm() -> None:
    """k/k#38612."""
    world = await mirrored_world(ONE)
    world.server.terminating_namespaces.add("default")
    world.put_service(make_plain_service("late"))
    late = change(make_endpoints(ONE, name="late"), resource_version="5000")
    world.endpoints.replace([*world.endpoints.values(), late], "5000")
    await world.rest()
    assert world.failures == []
    assert world.writes() == ["create"]
    world.remove(world.slices_of()[0])
    await world.rest()
    assert world.failures == []


async def test_an_unwritable_endpoints_does_not_delay_others() -> None:
    """7c: a quota, webhook or RBAC failure does not affect other services."""
    world = World()
    world.put_service(make_plain_service("bad"))
    world.put_service(make_plain_service())
    world.start()

    async def refuse(call: Call) -> None:
        if call.verb == "create" and call.body.metadata.generate_name == "bad-":
            raise refusal(403, "Forbidden", 'admission webhook "x" denied the request')

    world.server.before_each = refuse
    world.put(make_endpoints(ONE, name="bad"))
    world.put(make_endpoints(ONE))
    await world.settle()
    assert world.published() == {"10.0.0.1": True}
    assert world.failures == [
        'failed to create EndpointSlice for Endpoints default/bad: admission webhook "x" denied the request'
    ]
    world.server.before_each = None
    await world.rest()
    assert len(world.slices_of("bad")) == 1


async def test_a_finalizer_on_a_slice_does_not_block_it_or_its_endpoints() -> None:
    """k/k#108267, #108779."""
    world = await mirrored_world(ONE)
    (held,) = world.slices_of()
    world.put(change(held, finalizers=("example.com/hold",)))
    await world.rest()
    world.remove(world.slices_of()[0])
    await world.rest()
    alive = [p for p in world.slices_of() if p.metadata.deletion_timestamp is None]
    assert len(alive) == 1
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.rest()
    (alive_now,) = [p for p in world.slices_of() if p.metadata.deletion_timestamp is None]
    assert [e.addresses for e in members(alive_now)] == [("10.0.0.2",)]
    (dying,) = [p for p in world.slices_of() if p.metadata.deletion_timestamp is not None]
    world.put(change(dying, finalizers=None))
    await world.rest()
    assert world.slices_of() == [alive_now]
    assert world.failures == []


async def test_complete_and_empty_relists_are_both_handled() -> None:
    """7c: an atomic replace with derived deletions."""
    world = await mirrored_world(ONE)
    server = world.server
    world.slices.replace(server.objects(ENDPOINT_SLICES).values(), server.resource_version)
    await world.settle()
    assert world.writes() == []
    server.delete_foreign(ENDPOINT_SLICES, key_of(world.slices_of()[0]))
    world.slices.replace(server.objects(ENDPOINT_SLICES).values(), server.resource_version)
    await world.settle()
    assert world.writes() == ["create"]


async def test_a_cancelled_sync_is_repeated() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    begun = asyncio.Event()

    async def hang(call: Call) -> None:
        begun.set()
        await asyncio.Event().wait()

    world.server.before_each = hang
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.controller.reconcile(WEB), name="sync")
        await begun.wait()
        task.cancel()
    world.server.before_each = None
    assert world.controller.audit(WEB) is None
    await world.settle()
    assert world.published() == {"10.0.0.1": True}
