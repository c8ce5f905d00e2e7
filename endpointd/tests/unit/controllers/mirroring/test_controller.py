"""The triggers, syncs, Events and metrics of mirroring (behaviour 3.2, 3.3, 3.6, 3.7)."""

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

from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey
from aiokube.client.errors import ConnectionFailedError, ForbiddenError
from aiokube.testing.builders import make_service
from aiokube.testing.memory_server import Call
from endpointd.controllers.mirroring.controller import (
    EVENT_COMPONENT,
    NAME,
    QUEUE_NAME,
    RETRY_BACKOFF,
    MirroringFailedError,
    MirroringSettings,
)
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites

pytestmark = pytest.mark.usefixtures("both_answers")

LEADER = "control-plane.alpha.kubernetes.io/leader"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
ONE = subset("10.0.0.1")


def test_names_and_defaults_match_upstream() -> None:
    """Behaviour 0.1."""
    assert NAME == "endpointslice-mirroring-controller"
    assert EVENT_COMPONENT == "endpoint-slice-mirroring-controller"
    assert QUEUE_NAME == "endpoint_slice_mirroring"
    assert MirroringSettings().max_endpoints_per_subset == 1000
    assert (RETRY_BACKOFF.base_seconds, RETRY_BACKOFF.factor, RETRY_BACKOFF.cap_seconds) == (1.0, 2.0, 60.0)


# ------------------------------------------------------------------------------------- TestSyncEndpoints


async def test_an_endpoints_of_a_service_without_a_selector_is_mirrored() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    await world.settle()
    assert world.writes() == ["create"]
    (endpoint_slice,) = world.slices_of()
    assert endpoint_slice.metadata.name.startswith("web-")
    assert [e.addresses for e in members(endpoint_slice)] == [("10.0.0.1",)]


@pytest.mark.parametrize(
    "item",
    [
        make_endpoints(),
        make_endpoints(ONE, labels={SKIP: "true"}),
        make_endpoints(ONE, annotations={LEADER: ""}),
    ],
    ids=["no addresses", "skipped", "a leader's lock"],
)
async def test_an_endpoints_without_mirrorable_addresses_costs_no_request(item: Endpoints) -> None:
    """M-1, M-30."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(item)
    await world.settle()
    assert world.server.calls == []


async def test_an_endpoints_without_a_service_is_not_mirrored() -> None:
    """M-1."""
    world = World()
    world.start()
    world.put(make_endpoints(ONE))
    await world.settle()
    assert world.server.calls == []


async def test_endpoints_of_a_service_with_a_selector_cause_no_sync() -> None:
    """M-1; there is one such for each ordinary service, and it changes with every pod."""
    world = World()
    world.put_service(make_service())
    world.start()
    world.put(make_endpoints(ONE))
    assert await world.work() == []


async def test_slices_of_other_managers_services_and_namespaces_are_unchanged() -> None:
    """TestEndpointSlicesMirroredForService."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    others = [
        change(endpoint_slice, name="other-manager", labels={SERVICE_NAME: "web", MANAGED_BY: "somebody"}),
        change(endpoint_slice, name="no-manager", labels={SERVICE_NAME: "web"}),
        change(endpoint_slice, name="no-service", labels={MANAGED_BY: OURS}),
        change(
            endpoint_slice, name="other-namespace", namespace="elsewhere", labels=labels_of(endpoint_slice)
        ),
    ]
    for other in others:
        world.put(change(other, uid="", resource_version=""))
    await world.rest()
    world.put(make_endpoints())
    await world.rest()
    left = {key.name for key in world.server.objects(ENDPOINT_SLICES)}
    # The slice in the other namespace claims to mirror an Endpoints that does not exist there.
    assert left == {"other-manager", "no-manager", "no-service"}


# ------------------------------------------------------------------------------------- triggers


async def test_only_service_changes_that_enable_or_disable_mirroring_cause_a_sync() -> None:
    """M-2."""
    world = World()
    world.start()

    async def woken() -> bool:
        return await world.work() != []

    world.put_service(make_service())
    assert not await woken()
    world.put_service(make_service(labels={"a": "b"}))
    assert not await woken()
    world.put_service(make_plain_service())
    assert await woken()
    world.put_service(make_plain_service(labels={"a": "b"}))
    assert not await woken()
    world.put_service(make_service())
    assert await woken()
    world.remove_service()
    assert not await woken()
    world.put_service(make_plain_service())
    assert await woken()
    world.remove_service()
    assert await woken()


async def test_changes_of_endpoints_that_are_or_were_mirrorable_cause_a_sync() -> None:
    """M-3."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    await world.work()

    async def woken(item: Endpoints) -> bool:
        world.put(item)
        return await world.work() != []

    assert await woken(make_endpoints(ONE))
    assert await woken(make_endpoints(ONE, labels={"a": "b"}))
    await world.settle()
    assert await woken(make_endpoints(ONE, labels={SKIP: "true"}))
    assert not await woken(make_endpoints(labels={SKIP: "true"}))
    assert await woken(make_endpoints(labels={SKIP: "false"}))
    assert await woken(make_endpoints(annotations={LEADER: "x"}))
    assert not await woken(make_endpoints(ONE, annotations={LEADER: "x"}))
    world.remove(make_endpoints())
    assert await world.work() == []


async def test_slices_of_other_managers_cause_no_sync() -> None:
    """M-4."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, name="x", uid="", labels={SERVICE_NAME: "web", MANAGED_BY: "somebody"}))
    assert await world.work() == []


async def test_the_batch_period_delays_slice_changes_but_not_endpoints_changes() -> None:
    """M-4: a window that the first change opens."""
    world = await mirrored_world(ONE, settings=MirroringSettings(batch_period_seconds=5.0))
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, endpoints=None))
    world.clock.now += 3.0
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, labels={**labels_of(endpoint_slice), "a": "b"}))
    assert await world.work() == []
    world.clock.now += 2.0
    await world.settle()
    assert world.writes() == ["update"]
    world.put(make_endpoints(subset("10.0.0.2")))
    await world.settle()
    assert world.writes() == ["update"]


async def test_own_writes_cause_no_sync_when_the_watch_reports_them() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    await world.work()
    assert world.watch() == 1
    assert await world.work() == []


async def test_the_start_syncs_only_mirrorable_endpoints_and_keys_with_slices() -> None:
    world = await mirrored_world(ONE)
    world.put_service(make_plain_service("gone"))
    world.put(make_endpoints(ONE, name="gone"))
    await world.settle()
    world.put_service(make_service("gone"))
    world.put_service(make_plain_service("bare"))
    world.put_service(make_service("selected"))
    world.put(make_endpoints(ONE, name="selected"))
    world.put(make_endpoints(ONE, name="orphan"))
    again = world.restarted()
    assert sorted(await again.work()) == [ObjectKey("default", "gone"), WEB]
    assert again.slices_of("gone") == []


async def test_a_restart_writes_nothing_if_all_slices_are_correct() -> None:
    world = await mirrored_world(ONE, subset("10.0.0.2", "fd00::1", ports=(ADMIN,)))
    again = world.restarted()
    await again.settle()
    assert again.writes() == []


# ------------------------------------------------------------------------------------- clean-up


@pytest.mark.parametrize("reason", ["skipped", "leader", "selector", "no service", "no endpoints"])
async def test_slices_of_an_endpoints_that_is_no_longer_mirrored_are_deleted(reason: str) -> None:
    """M-10; k/k#105987, #103576: left behind when a selector came, with old addresses in them."""
    world = await mirrored_world(ONE, subset("10.0.0.2", ports=(ADMIN,)))
    match reason:
        case "skipped":
            world.put(make_endpoints(ONE, labels={SKIP: "true"}))
        case "leader":
            world.put(make_endpoints(ONE, annotations={LEADER: "x"}))
        case "selector":
            world.put_service(make_service())
        case "no service":
            world.remove_service()
        case _:
            world.remove(make_endpoints())
    await world.settle()
    assert world.writes() == ["delete", "delete"]
    assert world.slices_of() == []
    assert world.failures == []
    assert world.counted.forgotten[-1] == WEB


async def test_a_clean_up_deletes_slices_without_owner_references() -> None:
    """M-10."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, owner_references=None))
    world.put(make_endpoints(labels={SKIP: "true"}))
    await world.rest()
    assert world.slices_of() == []


async def test_slices_already_garbage_collected_are_no_clean_up_failure() -> None:
    """M-10: upstream counts a 404 as an error."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.remove(make_endpoints())
    world.remove(endpoint_slice, seen=False)
    await world.settle()
    assert world.failures == []
    assert world.slices_of() == []


async def test_a_failed_clean_up_reports_count_and_cause_and_is_retried() -> None:
    """M-10."""
    world = await mirrored_world(ONE, subset("10.0.0.2", ports=(ADMIN,)))
    world.server.fail_next(refusal(500, "InternalError", "etcd is busy"), verb="delete")
    world.put(make_endpoints(labels={SKIP: "true"}))
    await world.settle()
    (failure,) = world.failures
    assert failure.startswith(
        "error(s) deleting 1/2 EndpointSlices for default/web Endpoints, including: failed to delete web-"
    )
    assert failure.endswith("EndpointSlice for Endpoints default/web: etcd is busy")
    await world.rest()
    assert world.slices_of() == []


async def test_a_slice_held_by_a_finalizer_is_deleted_once_and_not_awaited() -> None:
    """M-11, M-42: upstream treats the key as stale as long as the slice exists; k/k#108267."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, finalizers=("example.com/hold",)))
    await world.rest()
    world.writes()
    world.put(make_endpoints())
    await world.rest()
    assert world.writes() == ["delete"]
    world.put(make_endpoints(subset("10.0.0.9")))
    await world.rest()
    assert world.writes() == ["create"]
    alive = [p for p in world.slices_of() if p.metadata.deletion_timestamp is None]
    assert [e.addresses for p in alive for e in members(p)] == [("10.0.0.9",)]
    assert world.failures == []


async def test_slices_are_deleted_only_after_the_server_confirms_the_missing_endpoints() -> None:
    """A cache of Endpoints may be behind that of slices after a leader change: slices must not disappear briefly."""
    world = await mirrored_world(ONE)
    again = World(server=world.server)
    again.services.replace(world.server.services.values(), "1")
    again.slices.replace(world.server.objects(ENDPOINT_SLICES).values(), "99999999")
    again.controller.start()  # no Endpoints has been observed yet
    await again.settle()
    assert again.writes() == []
    assert len(again.slices_of()) == 1
    assert again.failures == []
    assert again.endpoints.get(WEB) is not None


async def test_slices_are_deleted_only_after_the_server_confirms_the_missing_service() -> None:
    world = await mirrored_world(ONE)
    again = World(server=world.server)
    again.start()  # no service has been observed yet
    await again.settle()
    assert again.writes() == []
    assert again.failures == []
    assert len(again.slices_of()) == 1


async def test_an_unobserved_service_with_a_selector_does_not_keep_slices() -> None:
    world = await mirrored_world(ONE)
    again = World(server=world.server)
    again.server.services = {WEB: make_service(resource_version="20000000")}
    again.start()
    await again.settle()
    assert again.slices_of() == []


async def test_slices_stay_until_the_server_confirms_the_missing_endpoints() -> None:
    world = await mirrored_world(ONE)
    world.server.fail_next(
        refusal(503, "ServiceUnavailable", "try later", retry_after_seconds=30), verb="get"
    )
    world.remove(make_endpoints())
    await world.settle()
    assert world.writes() == []
    assert world.failures == [
        "keeping slices of Endpoints default/web: cannot confirm its deletion: try later"
    ]
    await world.rest()
    assert world.slices_of() == []


async def test_a_404_without_a_name_does_not_confirm_a_deletion() -> None:
    world = await mirrored_world(ONE)
    world.server.fail_next(refusal(404, "", "404 page not found"), verb="get")
    world.remove(make_endpoints())
    await world.settle()
    assert world.writes() == []
    assert "cannot confirm its deletion: 404 page not found" in world.failures[0]


async def test_a_cache_that_never_receives_an_endpoints_causes_no_request_storm() -> None:
    """The store drops objects older than the watch without an event: retries fall back to backoff."""
    world = await mirrored_world(ONE)
    world.endpoints.replace([], "99999999")
    await world.settle()
    assert len(world.server.calls) <= 6
    assert world.writes() == []
    assert world.failures == [
        "keeping slices of Endpoints default/web: it exists and is only missing from the cache"
    ]


# ------------------------------------------------------------------------------------- failures


async def test_a_failure_names_the_endpoints_and_the_cause_without_an_event() -> None:
    """M-12, M-41."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    world.server.fail_next(refusal(500, "InternalError", "etcd is busy"))
    await world.settle()
    assert world.failures == ["failed to create EndpointSlice for Endpoints default/web: etcd is busy"]
    assert world.events == []
    await world.rest()
    assert len(world.slices_of()) == 1


async def test_a_key_is_retried_forever() -> None:
    """Upstream drops it after 16 attempts; here it waits at most a minute."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    world.server.fail_next(ConnectionFailedError("refused"), times=40)
    for _ in range(60):
        await world.settle()
        world.clock.now += 60.0
    assert len(world.failures) == 40
    assert len(world.slices_of()) == 1


async def test_retry_after_is_passed_on() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))
    world.server.fail_next(refusal(429, "TooManyRequests", retry_after_seconds=17))
    with pytest.raises(MirroringFailedError) as caught:
        await world.controller.reconcile(WEB)
    assert caught.value.retry_after_seconds == 17


async def test_a_conflict_is_planned_again_immediately_without_an_event() -> None:
    """k/k#92928: conflicts reported after every rollout."""
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, labels={**labels_of(endpoint_slice), "a": "b"}), seen=False)
    world.put(make_endpoints(subset("10.0.0.2")), seen=False)
    world.server.feed(ENDPOINTS, world.endpoints)
    await world.work()
    assert world.failures == []
    assert world.published() == {"10.0.0.2": True}
    assert world.writes() == ["update", "update"]


async def test_an_update_of_a_deleted_slice_creates_another_immediately() -> None:
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.remove(endpoint_slice, seen=False)
    world.put(make_endpoints(subset("10.0.0.2")), seen=False)
    world.server.feed(ENDPOINTS, world.endpoints)
    await world.work()
    assert world.failures == []
    assert world.published() == {"10.0.0.2": True}
    assert world.writes() == ["update", "create"]


async def test_one_rejected_port_list_does_not_block_the_rest() -> None:
    """M-41 ends at the first failure: the rest would be stale for as long as the bad one is there."""
    world = await mirrored_world(ONE)
    twice = (msgspec.structs.replace(HTTP, port=81), msgspec.structs.replace(HTTP, port=82))

    async def refuse(call: Call) -> None:
        if call.verb == "create" and len({port.name for port in call.body.ports}) < len(call.body.ports):
            raise refusal(422, "Invalid", "ports[1].name: Duplicate value")

    world.server.before_each = refuse
    world.put(make_endpoints(subset("10.0.0.2"), subset("10.0.0.3", ports=twice)))
    await world.settle()
    assert world.published() == {"10.0.0.2": True}
    assert "Duplicate value" in world.failures[0]


async def test_a_terminating_namespace_is_abandoned_without_an_event() -> None:
    """M-41; k/k#38612."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.server.terminating_namespaces.add("default")
    world.endpoints.replace([make_endpoints(ONE)], "999")
    await world.settle()
    assert world.failures == []
    assert world.writes() == ["create"]
    assert world.controller.audit(WEB) is None
    assert await world.work() == []


async def test_a_cancelled_sync_stays_pending() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))

    async def cancel(call: Call) -> None:
        raise TimeoutError

    world.server.before_each = cancel
    with pytest.raises(TimeoutError):
        await world.controller.reconcile(WEB)
    assert world.controller.audit(WEB) is None  # pending work is no finding


# ------------------------------------------------------------------------------------- Events


async def test_unmirrored_addresses_are_reported_once_on_the_endpoints() -> None:
    """M-25; upstream tells it again at every sync."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    item = world.put(make_endpoints(subset(*addresses(1001))))
    await world.settle()
    (event,) = world.events
    assert (event.type, event.reason) == ("Warning", "TooManyAddressesToMirror")
    assert event.message == (
        "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset."
        " 1 addresses were skipped"
    )
    regarding = event.regarding
    assert (regarding.kind, regarding.namespace, regarding.name) == ("Endpoints", "default", "web")
    assert regarding.uid == item.metadata.uid
    world.put(make_endpoints(subset(*addresses(1001)), labels={"a": "b"}))
    await world.settle()
    assert len(world.events) == 1
    assert world.writes() == ["create", "update"]


async def test_unmirrored_addresses_are_reported_again_after_a_change() -> None:
    """M-25."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    told = []
    for item in (
        make_endpoints(subset("10.0.0.1", "x")),
        make_endpoints(subset("10.0.0.1", "x", "y")),
        make_endpoints(subset("10.0.0.1", "z", "y")),
        make_endpoints(subset("10.0.0.1")),
        make_endpoints(subset("10.0.0.1", "x", "y")),
        make_endpoints(subset("10.0.0.1", "x", "y"), labels={SKIP: "true"}),
        make_endpoints(subset("10.0.0.1", "x", "y")),
    ):
        world.put(item)
        await world.settle()
        told.append([event.message for event in world.events])
        world.events.clear()
    one, two = (f"Skipped {count} invalid IP addresses when mirroring to EndpointSlices" for count in (1, 2))
    assert told == [[one], [two], [], [], [two], [], [two]]


async def test_a_recreated_endpoints_gets_its_own_event() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    item = make_endpoints(subset("10.0.0.1", "x"))
    world.put(item)
    await world.settle()
    world.remove(item, seen=False)
    world.put(item)
    await world.settle()
    first, second = world.events
    assert first.message == second.message
    assert first.regarding.uid != second.regarding.uid


# ------------------------------------------------------------------------------------- metrics


async def test_each_plan_write_and_sync_is_reported_to_the_observer() -> None:
    """3.7."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(
        make_endpoints(subset("10.0.0.1", "10.0.0.2", "x", ports=(HTTP,)), subset("fd00::1", ports=(ADMIN,)))
    )
    await world.settle()
    figures = MirrorCounts(added=3, skipped=1, endpoints=3, slices_desired=2, slices_actual=2)
    assert world.counted.plans == [(WEB, figures)]
    assert world.counted.writes == [SliceWrites(created=2)]
    assert len(world.counted.syncs) == 1
    world.put(make_endpoints(subset("10.0.0.1", not_ready=["10.0.0.3"])))
    await world.settle()
    assert world.counted.plans[1:] == [
        (WEB, MirrorCounts(added=1, removed=2, endpoints=2, slices_desired=1, slices_actual=1))
    ]
    assert world.counted.writes[1:] == [SliceWrites(updated=1, deleted=1)]


async def test_deletions_of_a_clean_up_are_not_counted_as_changes() -> None:
    """M-10."""
    world = await mirrored_world(ONE)
    world.counted.writes.clear()
    world.put(make_endpoints(labels={SKIP: "true"}))
    await world.settle()
    assert world.counted.writes == []
    assert world.counted.forgotten == [WEB]
    world.put(make_endpoints(ONE))
    await world.settle()
    world.put(make_endpoints())
    await world.settle()
    assert world.counted.writes == [SliceWrites(created=1), SliceWrites(deleted=1)]


async def test_the_duration_of_a_sync_is_reported_for_any_outcome() -> None:
    """M-13."""
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.put(make_endpoints(ONE))

    async def take_time(call: Call) -> None:
        world.clock.now += 0.25

    world.server.before_each = take_time
    world.server.fail_next(refusal(500, "InternalError"))
    await world.work()
    assert world.counted.syncs == [0.25]


# ------------------------------------------------------------------------------------- audits


async def test_an_audit_of_correct_slices_finds_nothing() -> None:
    world = await mirrored_world(ONE)
    world.put_service(make_plain_service("bare"))
    world.put_service(make_service("selected"))
    await world.settle()
    assert sorted(world.controller.audited_keys()) == [ObjectKey("default", "bare"), WEB]
    assert [world.controller.audit(key) for key in world.controller.audited_keys()] == [None, None]
    assert await world.work() == []


async def test_an_audit_finds_a_change_without_an_event() -> None:
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.controller._writes.under_way = True  # as if an external change had been taken for our own
    world.put(change(endpoint_slice, endpoints=None))
    world.controller._writes.under_way = False
    assert world.controller.audit(WEB) == "the slices"
    await world.settle()
    assert world.published() == {"10.0.0.1": True}


async def test_an_audit_finds_slices_of_endpoints_that_are_not_mirrored() -> None:
    world = await mirrored_world(ONE)
    world.put_service(make_service())
    key = world.queue.get_nowait()  # the pending sync is lost
    assert key == WEB
    world.queue.done(key)
    world.controller._due.clear()
    assert world.controller.audit(WEB) == "slices that should not be mirrored"
    await world.settle()
    assert world.slices_of() == []


async def test_an_audit_covers_slices_of_services_with_a_selector() -> None:
    world = await mirrored_world(ONE)
    world.put_service(make_service())
    world.server.fail_next(refusal(500, "InternalError"))
    await world.work()
    assert world.controller.audited_keys() == [WEB]
    await world.rest()
    assert world.controller.audited_keys() == []


async def test_an_audit_accepts_a_slice_held_by_a_finalizer() -> None:
    world = await mirrored_world(ONE)
    (endpoint_slice,) = world.slices_of()
    world.put(change(endpoint_slice, finalizers=("example.com/hold",)))
    world.put(make_endpoints(labels={SKIP: "true"}))
    await world.rest()
    assert len(world.slices_of()) == 1
    assert world.controller.audit(WEB) is None
    assert await world.work() == []


async def test_an_audit_covers_endpoints_whose_writes_a_terminating_namespace_rejected() -> None:
    world = World()
    world.put_service(make_plain_service())
    world.start()
    world.server.terminating_namespaces.add("default")
    world.endpoints.replace([make_endpoints(ONE)], "999")
    await world.settle()
    world.server.terminating_namespaces.clear()
    world.endpoints.replace([change(make_endpoints(), resource_version="2000")], "2000")
    await world.settle()
    world.endpoints.replace([change(make_endpoints(ONE), resource_version="2001")], "2001")
    key = world.queue.get_nowait()  # the pending sync is lost
    assert key == WEB
    world.queue.done(key)
    world.controller._due.clear()
    assert world.controller.audit(WEB) == "the slices"


async def test_an_audit_skips_queued_and_syncing_keys() -> None:
    world = await mirrored_world(ONE)
    world.put(make_endpoints(subset("10.0.0.2")))
    findings: list[str | None] = [world.controller.audit(WEB)]

    async def audit(call: Call) -> None:
        findings.append(world.controller.audit(WEB))

    world.server.before_each = audit
    world.server.fail_next(refusal(500, "InternalError"))
    await world.work()
    findings.append(world.controller.audit(WEB))
    assert findings == [None, None, None]


async def test_a_forbidden_confirmation_fails_the_clean_up() -> None:
    world = await mirrored_world(ONE)
    error = refusal(403, "Forbidden", 'cannot get resource "endpoints"')
    assert isinstance(error, ForbiddenError)
    world.server.fail_next(error, verb="get")
    world.remove(make_endpoints())
    await world.settle()
    assert "cannot get resource" in world.failures[0]
    assert len(world.slices_of()) == 1


async def test_an_audit_finds_an_endpoints_whose_wake_up_was_lost() -> None:
    world = await mirrored_world()
    world.put(make_endpoints(subset("10.0.0.9")))
    while (key := world.queue.get_nowait()) is not None:
        world.queue.done(key)
    assert world.controller.audit(WEB) == "a lost wake-up, the slices"
    await world.rest()
    assert world.published() == {"10.0.0.9": True}
    assert world.controller.audit(WEB) is None
