"""The Endpoints controller in a manually driven world: triggers, writes and Events."""

from typing import Any

import msgspec
import pytest
from tests.unit.controllers.endpoints.builders import make_pod, make_service
from tests.unit.controllers.endpoints.world import World, change

from aiokube.api.core import Pod, ServicePort
from aiokube.api.endpoints import (
    ENDPOINTS,
    HEADLESS_LABEL,
    LAST_CHANGE_TRIGGER_TIME_ANNOTATION,
    LEADER_ANNOTATION,
    MANAGED_BY_LABEL,
    OVER_CAPACITY_ANNOTATION,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
)
from aiokube.api.meta import NarrowMeta, ObjectKey, ObjectMeta, ObjectReference
from aiokube.api.status import Status
from aiokube.client.errors import ConnectionFailedError, api_error
from aiokube.testing.memory_server import Call
from endpointd.controllers.endpoints import plan as plan_module
from endpointd.controllers.endpoints.controller import RETRY_BACKOFF, EndpointsSettings
from endpointd.controllers.endpoints.state import ServiceState

pytestmark = pytest.mark.usefixtures("both_answers")

KEY = ObjectKey("ns", "svc")
FOREIGN = (EndpointSubset((EndpointAddress("6.7.8.9"),), None, (EndpointPort(port=1000),)),)


def pod(number: int, **changes: object) -> Pod:
    return make_pod(
        metadata=NarrowMeta(name=f"p{number}", namespace="ns", uid=f"u{number}", resource_version="1"),
        pod_ips=(f"10.0.{number // 250}.{number % 250}",),
        **changes,
    )


def endpoints(
    subsets: tuple[EndpointSubset, ...] | None = FOREIGN, name: str = "svc", **metadata: object
) -> Endpoints:
    return Endpoints(msgspec.structs.replace(ObjectMeta(name=name, namespace="ns"), **metadata), subsets)


async def running(*items: Pod, settings: EndpointsSettings | None = None) -> World:
    """Return a settled world with the service and these pods, and no recorded writes."""
    world = World(settings)
    for item in items:
        world.put(item)
    world.put(make_service())
    world.start()
    await world.settle()
    world.writes()
    return world


# --------------------------------------------------------------------------------------------- events


async def test_a_new_service_gets_its_endpoints_immediately() -> None:
    """E-1."""
    world = World()
    world.start()
    world.put(pod(1))
    world.put(make_service())
    assert await world.work() == [KEY]
    assert world.writes() == ["create"]
    assert world.ips() == (["10.0.0.1"], [])


async def test_a_pod_that_changes_is_published_with_one_update() -> None:
    """E-2."""
    world = await running(pod(1), pod(2))
    world.put(pod(1, ready=False))
    assert await world.work() == [KEY]
    assert world.writes() == ["update"]
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    world.remove(pod(2))
    world.put(pod(3))
    await world.work()
    assert world.ips() == (["10.0.0.3"], ["10.0.0.1"])


async def test_a_pod_that_no_longer_matches_the_selector_leaves_the_endpoints() -> None:
    """E-13."""
    world = await running(pod(1), pod(2))
    world.put(pod(1, labels={"foo": "else"}))
    await world.work()
    assert world.ips() == (["10.0.0.2"], [])


async def test_a_pod_of_another_namespace_is_ignored() -> None:
    """E-13."""
    world = await running(pod(1))
    world.put(make_pod(metadata=NarrowMeta(name="x", namespace="else", uid="ux", resource_version="1")))
    assert await world.work() == []


async def test_an_irrelevant_change_does_not_cause_a_sync() -> None:
    world = await running(pod(1))
    world.put(pod(1))  # another version with the same content
    world.put(pod(1, labels={"foo": "bar", "more": "x"}))
    world.put(make_service())
    assert await world.work() == []
    assert world.writes() == []


@pytest.mark.parametrize("gap_seconds", [0.0, 0.1])
async def test_the_batch_period_is_a_window_that_the_first_change_opens(gap_seconds: float) -> None:
    """E-2: TestPodUpdatesBatching and its siblings: three events within the period are one write, a fourth is another."""
    world = await running(pod(1), pod(2), pod(3), settings=EndpointsSettings(batch_period_seconds=1.0))
    for number in (1, 2, 3):
        world.put(pod(number, ready=False))
        assert await world.work() == []
        world.clock.now += gap_seconds
    world.clock.now += 1.0
    assert await world.work() == [KEY]
    assert world.writes() == ["update"]
    world.put(pod(1))
    world.clock.now += 1.0
    await world.work()
    assert world.writes() == ["update"]


async def test_a_large_service_rests_after_a_write_and_a_small_one_does_not() -> None:
    small = await running(pod(1), settings=EndpointsSettings())
    for ready in (False, True, False):
        small.put(pod(1, ready=ready))
        assert await small.work() == [KEY]

    large = await running(*(pod(number) for number in range(500)), settings=EndpointsSettings())
    large.put(pod(1, ready=False))
    assert await large.work() == [KEY]  # the first change after a quiet time does not wait
    for number in range(2, 20):
        large.put(pod(number, ready=False))
        assert await large.work() == []
    large.clock.now += 0.0501  # 500 addresses of 0.1 ms
    assert await large.work() == [KEY]
    assert large.writes() == ["update", "update"]
    assert len(large.ips()[1]) == 19


async def test_changes_during_the_write_of_a_large_service_rest_too() -> None:
    world = await running(*(pod(number) for number in range(500)), settings=EndpointsSettings())

    async def flip(call: Call) -> None:
        world.server.before_each = None
        world.put(pod(2, ready=False))

    world.server.before_each = flip
    world.put(pod(1, ready=False))
    assert await world.work() == [KEY]
    world.put(make_service(labels={"a": "b"}))
    assert await world.work() == [KEY]  # changes by users do not wait


async def test_a_service_does_not_wait_for_the_batch_period() -> None:
    """E-1."""
    world = await running(pod(1), settings=EndpointsSettings(batch_period_seconds=1.0))
    world.put(pod(1, ready=False))
    world.put(make_service(labels={"a": "b"}))
    assert await world.work() == [KEY]
    assert world.writes() == ["update"]
    assert world.ips() == ([], ["10.0.0.1"])


async def test_deleted_endpoints_are_recreated_immediately() -> None:
    """E-3."""
    world = await running(pod(1))
    world.server.delete_foreign(ENDPOINTS, KEY)
    world.watch()
    assert await world.work() == [KEY]
    assert world.writes() == ["create"]


async def test_an_external_edit_is_repaired_immediately_unlike_upstream() -> None:
    """E-3."""
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    world.server.update_foreign(ENDPOINTS, change(item, subsets=FOREIGN))
    world.watch()
    assert await world.work() == [KEY]
    assert world.writes() == ["update"]
    assert world.ips() == (["10.0.0.1"], [])


async def test_a_removed_label_is_repaired_and_a_foreign_annotation_stays() -> None:
    """E-19b, E-20."""
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    metadata = change(item.metadata, labels={}, annotations={"theirs": "x"})
    world.server.update_foreign(ENDPOINTS, change(item, metadata=metadata))
    world.watch()
    await world.work()
    item = world.stored()
    assert item is not None
    assert MANAGED_BY_LABEL in (item.metadata.labels or {})
    assert item.metadata.annotations == {"theirs": "x"}


def _admitted(body: Endpoints) -> Any:
    """A mutating webhook that adds a label and a host name."""
    subsets = tuple(
        change(
            subset, addresses=tuple(change(one, hostname="mesh") for one in subset.addresses or ()) or None
        )
        for subset in body.subsets or ()
    )
    labels = {**(body.metadata.labels or {}), "mesh": "on"}
    return change(body, subsets=subsets or None, metadata=change(body.metadata, labels=labels))


async def test_a_mutating_webhook_is_not_fought() -> None:
    world = World()
    world.server.admission = _admitted
    for item in (pod(1), pod(2), make_service()):
        world.put(item)
    world.start()
    await world.settle()
    assert world.writes() == ["create"]
    world.put(pod(1, ready=False))
    for _ in range(3):
        await world.settle()
        assert world.controller.audit(KEY) is None
    assert world.writes() == ["update"]
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    stored = world.stored()
    assert stored is not None
    world.server.update_foreign(ENDPOINTS, change(stored, subsets=FOREIGN))
    await world.settle()
    assert world.writes() == ["update"]
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])


async def test_a_harmless_edit_is_kept() -> None:
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    metadata = change(item.metadata, annotations={"theirs": "x"})
    world.server.update_foreign(ENDPOINTS, change(item, metadata=metadata))
    world.watch()
    assert await world.work() == []


async def test_repeated_external_edits_are_repaired_once_per_interval() -> None:
    world = await running(pod(1))
    writes = []
    for _ in range(40):  # four seconds of conflicting edits
        item = world.stored()
        assert item is not None
        world.server.update_foreign(ENDPOINTS, change(item, subsets=FOREIGN))
        world.watch()
        await world.work()
        writes += world.writes()
        world.clock.now += 0.1
    assert 3 <= len(writes) <= 6
    await world.settle()
    assert world.ips() == (["10.0.0.1"], [])


async def test_endpoints_of_a_service_without_selector_are_not_managed() -> None:
    """E-12."""
    world = World()
    world.put(make_service(selector=None))
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.start()
    await world.settle()
    world.server.update_foreign(ENDPOINTS, endpoints(subsets=None))
    await world.settle()
    assert world.writes() == []


async def test_a_service_that_loses_its_selector_or_becomes_an_alias_leaves_its_endpoints() -> None:
    """E-11, E-12."""
    world = await running(pod(1))
    world.put(make_service(selector=None))
    world.put(make_service(type="ExternalName"))
    world.put(pod(1, ready=False))
    await world.settle()
    assert world.writes() == []
    assert world.ips() == (["10.0.0.1"], [])


async def test_an_alias_that_becomes_a_cluster_ip_gets_endpoints_without_the_headless_label() -> None:
    """TestExternalNameToClusterIPTransition."""
    world = World()
    world.put(pod(1))
    world.put(make_service(type="ExternalName", cluster_ip=""))
    world.start()
    await world.settle()
    assert world.stored() is None
    world.put(make_service())
    await world.work()
    item = world.stored()
    assert item is not None
    assert HEADLESS_LABEL not in (item.metadata.labels or {})


async def test_pod_changes_are_published_when_the_selector_of_a_service_is_restored() -> None:
    world = await running(pod(1), pod(2))
    world.put(make_service(selector=None))
    world.put(pod(1, ready=False))
    world.remove(pod(2))
    world.put(make_service())
    await world.settle()
    assert world.ips() == ([], ["10.0.0.1"])


# ---------------------------------------------------------------------------- deleted services and orphans


async def test_pod_changes_are_published_when_a_service_is_recreated() -> None:
    world = await running(pod(1), pod(2))
    world.remove(make_service())
    world.put(pod(1, ready=False))
    world.remove(pod(2))
    world.put(make_service())
    await world.settle()
    assert world.ips() == ([], ["10.0.0.1"])


async def test_own_deletions_are_known_before_the_watch_reports_them() -> None:
    world = await running(pod(1))
    world.remove(make_service())
    world.clock.now += 1.0
    await world.work()
    assert world.endpoints.get(KEY) is None
    world.server.calls.clear()
    world.queue.add(KEY)
    await world.work()
    assert world.server.calls == []


async def test_the_endpoints_are_deleted_with_their_service_whoever_created_them() -> None:
    """E-10."""
    world = await running(pod(1))
    world.put(make_service(selector=None))
    world.server.update_foreign(ENDPOINTS, endpoints())
    world.watch()
    world.remove(make_service(selector=None))
    await world.settle()
    assert world.writes() == ["delete"]
    assert world.stored() is None


async def test_endpoints_deleted_by_the_api_server_cost_no_request() -> None:
    """E-10."""
    world = await running(pod(1))
    world.remove(make_service())
    world.server.delete_foreign(ENDPOINTS, KEY)
    await world.settle()
    assert world.server.calls == []


async def test_an_orphan_is_deleted_at_the_start_and_an_election_record_never() -> None:
    """E-5."""
    world = World()
    world.server.create_foreign(ENDPOINTS, endpoints(name="orphan"))
    world.server.create_foreign(ENDPOINTS, endpoints(name="leader", annotations={LEADER_ANNOTATION: "{}"}))
    world.start()
    await world.settle()
    assert world.stored("orphan") is None
    assert world.stored("leader") is not None


async def test_endpoints_that_come_before_their_service_are_not_orphans() -> None:
    """E-5."""
    world = World()
    world.start()
    world.server.create_foreign(ENDPOINTS, endpoints())
    await world.settle()
    assert world.stored() is not None


async def test_nothing_is_deleted_while_the_server_has_a_service_missing_from_the_store() -> None:
    """E-10."""
    world = World()
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.server._objects["services"] = {KEY: make_service()}
    world.start()
    await world.settle()
    assert world.writes() == []
    assert world.stored() is not None


async def test_nothing_is_deleted_while_the_server_cannot_confirm_the_missing_service() -> None:
    """E-10."""
    world = World()
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.server.fail_next(api_error(Status(code=500, message="broken")), verb="get")
    world.start()
    world.clock.now += 1.0
    await world.work()
    assert world.errors == ["failed to delete endpoint ns/svc: broken"]
    assert world.writes() == []
    assert world.events == []
    await world.settle()
    assert world.stored() is None


NO_SUCH_PAGE = Status(code=404, message="GET /api: HTTP 404 Not Found: 404 page not found")


async def test_a_404_that_does_not_name_the_service_deletes_no_endpoints() -> None:
    """E-10."""
    world = World()
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.server._objects["services"] = {KEY: make_service()}
    world.server.fail_next(api_error(NO_SUCH_PAGE), verb="get")
    world.start()
    await world.settle()
    assert world.errors == [f"failed to delete endpoint ns/svc: {NO_SUCH_PAGE.message}"]
    assert world.writes() == []
    assert world.stored() is not None


async def test_a_404_that_does_not_name_the_endpoints_does_not_count_as_deletion() -> None:
    """E-22."""
    world = await running(pod(1), pod(2))
    for verb in ("update", "get"):
        world.server.fail_next(api_error(NO_SUCH_PAGE), verb=verb)
    world.put(pod(1, ready=False))
    await world.work()
    assert world.endpoints.get(KEY) is not None
    assert len(world.errors) == 1
    world.clock.now += RETRY_BACKOFF.base_seconds
    world.server.heal()
    await world.work()
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])


async def test_a_404_that_does_not_name_it_does_not_confirm_the_deletion_of_an_orphan() -> None:
    """E-10."""
    world = World()
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.start()
    world.server.fail_next(api_error(NO_SUCH_PAGE), verb="delete")
    world.clock.now += 1.0
    await world.work()
    assert world.errors == [f"failed to delete endpoint ns/svc: {NO_SUCH_PAGE.message}"]
    assert world.endpoints.get(KEY) is not None
    await world.settle()
    assert world.stored() is None


async def test_already_exists_overrides_a_deletion_recorded_in_the_store() -> None:
    """E-22: regardless of the earlier deletion report, the read after AlreadyExists proves that the object exists."""
    world = await running(pod(1), pod(2))
    item = world.stored()
    assert item is not None
    world.endpoints.record_delete(KEY, item.metadata.uid)
    world.put(pod(1, ready=False))
    await world.work()
    assert world.writes() == ["create", "update"]
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    assert world.errors == []


async def test_an_orphan_that_changes_during_its_deletion_is_checked_again() -> None:
    """Another client may have started to use it for leader election."""
    world = World()
    created = world.server.create_foreign(ENDPOINTS, endpoints())
    world.start()
    metadata = change(created.metadata, annotations={LEADER_ANNOTATION: "{}"})
    world.server.update_foreign(ENDPOINTS, change(created, metadata=metadata))
    world.clock.now += 1.0
    await world.work()
    assert world.stored() is not None
    assert world.errors == []


async def test_a_recreated_service_keeps_and_updates_its_endpoints() -> None:
    """TestMultipleServiceChanges; k/k#141592, k/k#47711."""
    world = await running(pod(1))
    world.remove(make_service())
    world.put(make_service(metadata=NarrowMeta("svc", "ns", "s1", "1"), labels={"new": "one"}))
    world.server.delete_foreign(ENDPOINTS, KEY)  # by the API server, reported late
    await world.work()
    world.watch()
    await world.settle()
    item = world.stored()
    assert item is not None
    assert (item.metadata.labels or {})["new"] == "one"
    assert world.ips() == (["10.0.0.1"], [])


# ------------------------------------------------------------------------------------ a lagging watch


async def test_flips_faster_than_the_watch_build_on_the_last_write() -> None:
    """E-50: TestMultiplePodChanges; k/k#125638: upstream compared with an old cache and was stuck."""
    world = await running(pod(1))
    for ready in (False, True, False, True):
        world.put(pod(1, ready=ready))
        await world.work()  # the watch of endpoints delivers nothing during this time
    assert world.writes() == ["update"] * 4
    assert world.ips() == (["10.0.0.1"], [])
    assert world.errors == []
    world.watch()
    assert await world.work() == []


async def test_a_second_sync_before_the_watch_does_not_create_again() -> None:
    """E-50."""
    world = World()
    world.start()
    world.put(pod(1))
    world.put(make_service())
    await world.work()
    world.put(pod(2))
    await world.work()
    assert world.writes() == ["create", "update"]
    assert world.events == []


async def test_a_watch_faster_than_the_response_costs_no_sync() -> None:
    world = await running(pod(1))

    async def tell(call: Call) -> None:
        world.watch()

    world.server.after_each = tell
    world.put(pod(1, ready=False))
    assert await world.work() == [KEY]
    assert world.writes() == ["update"]


async def test_own_writes_are_known_to_be_canonical_and_never_repacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await running(pod(1))

    def refuse(subsets: object) -> tuple[EndpointSubset, ...]:
        raise AssertionError("repacked")

    monkeypatch.setattr(plan_module, "repack", refuse)
    for ready in (False, True):
        world.put(pod(1, ready=ready))
        await world.work()
    assert world.writes() == ["update", "update"]


async def test_a_change_during_a_write_is_written_after_it() -> None:
    world = await running(pod(1), pod(2))

    async def flip(call: Call) -> None:
        world.server.before_each = None
        world.put(pod(2, ready=False))

    world.server.before_each = flip
    world.put(pod(1, ready=False))
    assert await world.work() == [KEY, KEY]
    assert world.ips() == ([], ["10.0.0.1", "10.0.0.2"])


# ---------------------------------------------------------------------------------------------- failures


async def test_a_conflict_is_planned_again_immediately_from_the_servers_object() -> None:
    """E-22."""
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    metadata = change(item.metadata, annotations={"theirs": "x"})
    world.server.update_foreign(ENDPOINTS, change(item, metadata=metadata))
    world.put(pod(1, ready=False))
    assert await world.work() == [KEY]
    assert world.writes() == ["update", "update"]
    assert world.errors == []
    assert world.events == []
    item = world.stored()
    assert item is not None
    assert (item.metadata.annotations or {})["theirs"] == "x"


async def test_an_update_of_a_deleted_object_becomes_a_create_immediately() -> None:
    world = await running(pod(1))
    world.server.delete_foreign(ENDPOINTS, KEY)
    world.put(pod(1, ready=False))
    await world.work()
    assert world.writes() == ["update", "create"]
    assert world.ips() == ([], ["10.0.0.1"])
    world.watch()
    assert await world.work() == []


async def test_a_create_of_an_existing_object_becomes_an_update_immediately() -> None:
    world = World()
    world.start()
    world.server.create_foreign(ENDPOINTS, endpoints())
    world.put(pod(1))
    world.put(make_service())
    await world.work()
    assert world.writes() == ["create", "update"]
    assert world.errors == []
    assert world.ips() == (["10.0.0.1"], [])


async def test_a_failed_create_is_reported_and_retried() -> None:
    """E-22."""
    world = World()
    world.start()
    world.server.fail_next(api_error(Status(code=500, message="the store is broken")), verb="create")
    world.put(make_service())
    await world.work()
    message = "Failed to create endpoint for service ns/svc: the store is broken"
    assert world.errors == [message]
    (event,) = world.events
    assert (event.type, event.reason, event.message) == ("Warning", "FailedToCreateEndpoint", message)
    # Upstream's object has no namespace yet, so the Event is created in "default".
    assert event.regarding == ObjectReference(kind="Endpoints", api_version="v1", name="svc")
    world.clock.now += 0.005
    await world.work()
    assert world.stored() is not None


async def test_a_failed_update_is_reported_on_the_endpoints() -> None:
    """E-22."""
    world = await running(pod(1))
    world.server.fail_next(ConnectionFailedError("connection to localhost:1 refused"), verb="update")
    world.put(pod(1, ready=False))
    await world.work()
    item = world.stored()
    assert item is not None
    (event,) = world.events
    assert event.reason == "FailedToUpdateEndpoint"
    assert event.message == "Failed to update endpoint ns/svc: connection to localhost:1 refused"
    assert event.regarding.namespace == "ns"
    assert event.regarding.uid == item.metadata.uid
    await world.settle()
    assert world.ips() == ([], ["10.0.0.1"])


async def test_a_persistent_conflict_is_reported_like_any_failure() -> None:
    """E-22."""
    world = await running(pod(1))
    world.server.fail_next(
        api_error(Status(code=409, reason="Conflict", message="no")), verb="update", times=9
    )
    world.put(pod(1, ready=False))
    await world.work()
    assert world.errors == ["Failed to update endpoint ns/svc: no"]
    assert [event.reason for event in world.events] == ["FailedToUpdateEndpoint"]


async def test_forbidden_on_an_update_is_a_failure_like_any_other() -> None:
    """E-22."""
    world = await running(pod(1))
    world.server.terminating_namespaces.add("ns")
    world.put(pod(1, ready=False))
    await world.work()
    assert world.writes() == ["update"]
    assert world.ips() == ([], ["10.0.0.1"])


async def test_a_pod_with_an_address_that_the_server_rejects_does_not_block_the_others() -> None:
    world = await running(pod(1), pod(2))
    world.put(change(pod(3), pod_ips=("169.254.1.1",)))
    world.put(pod(1, ready=False))
    await world.settle()
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    assert (world.writes(), world.errors) == (["update"], [])
    assert [event.reason for event in world.events] == ["EndpointRejected"]
    assert len(world.controller.rejections) == 1
    assert world.controller.audit(KEY) is None
    world.remove(change(pod(3), pod_ips=("169.254.1.1",)))
    assert len(world.controller.rejections) == 0


async def test_an_address_rejected_by_an_unknown_server_rule_is_isolated() -> None:
    world = World()
    world.server.rejected_range = lambda address: "forbidden" if address == "10.0.0.2" else None
    for item in (pod(1, ready=False), pod(2, ready=False), pod(3), pod(4), make_service()):
        world.put(item)
    world.start()
    await world.work()
    assert world.ips() == (["10.0.0.3", "10.0.0.4"], ["10.0.0.1"])
    assert (world.writes(), world.errors) == (["create", "create"], [])
    (event,) = world.events
    assert event.message.startswith(
        "Pod ns/p2 is omitted because the API server rejects its endpoint: Invalid value"
    )
    await world.settle()
    assert world.controller.audit(KEY) is None
    world.put(pod(3, ready=False))
    await world.settle()
    assert world.writes() == ["update"]
    world.put(change(pod(2), pod_ips=("10.0.0.9",)))
    await world.settle()
    assert world.ips() == (["10.0.0.4", "10.0.0.9"], ["10.0.0.1", "10.0.0.3"])
    assert len(world.controller.rejections) == 0


async def test_a_terminating_namespace_gets_no_endpoints() -> None:
    """E-22."""
    world = World()
    world.start()
    world.server.terminating_namespaces.add("ns")
    world.put(make_service())
    await world.work()
    assert world.errors == []
    assert world.events == []
    assert world.queue.statistics().delayed == 0


async def test_a_write_with_a_lost_response_is_recognised() -> None:
    world = World()
    world.start()
    world.server.fail_next(ConnectionFailedError("hung up", may_have_acted=True), verb="create", acts=True)
    world.put(pod(1))
    world.put(make_service())
    await world.settle()
    assert world.ips() == (["10.0.0.1"], [])
    world.put(pod(1, ready=False))
    await world.settle()
    assert world.ips() == ([], ["10.0.0.1"])


async def test_a_failing_service_is_retried_at_least_every_minute() -> None:
    world = World()
    world.start()
    refused = api_error(Status(code=422, reason="Invalid", message="no"))
    world.server.fail_next(refused, verb="create", times=30)
    world.put(make_service())
    for _ in range(30):
        await world.work()
        world.clock.now += 60.0
    assert len(world.errors) == 30
    await world.work()
    assert world.stored() is not None
    assert world.queue.failures(KEY) == 0


async def test_a_failed_write_keeps_the_trigger_time_for_the_next() -> None:
    world = await running(pod(1))
    world.server.fail_next(api_error(Status(code=500, message="no")), verb="update")
    world.put(pod(1, ready=False, ready_since="2026-02-02T00:00:00Z"))
    await world.settle()
    item = world.stored()
    assert item is not None
    assert (item.metadata.annotations or {})[LAST_CHANGE_TRIGGER_TIME_ANNOTATION] == "2026-02-02T00:00:00Z"


async def test_a_later_write_omits_an_unpublished_ready_time() -> None:
    world = await running(pod(1), pod(2))
    service = make_service(publish_not_ready_addresses=True)
    world.put(service)
    await world.settle()
    world.put(pod(1, ready=False, ready_since="2026-02-02T01:00:00Z"))
    await world.settle()
    world.put(pod(3, ready_since="2026-02-02T05:00:00Z"))
    await world.settle()
    item = world.stored()
    assert item is not None
    assert (item.metadata.annotations or {})[LAST_CHANGE_TRIGGER_TIME_ANNOTATION] == "2026-02-02T05:00:00Z"


async def test_a_late_address_does_not_carry_the_ready_time_of_the_pod() -> None:
    world = await running(pod(1))
    for pod_ips in ((), ("10.0.0.2",)):
        late = change(pod(2, ready=False, ready_since="2026-02-02T00:10:00Z"), pod_ips=pod_ips)
        world.put(change(late, pod_ip=pod_ips[0] if pod_ips else None))
        await world.settle()
    item = world.stored()
    assert item is not None
    assert world.ips() == (["10.0.0.1"], ["10.0.0.2"])
    assert LAST_CHANGE_TRIGGER_TIME_ANNOTATION not in (item.metadata.annotations or {})


async def test_retry_after_is_honoured() -> None:
    world = World()
    world.start()
    busy = api_error(Status(code=429, reason="TooManyRequests", message="busy"), retry_after_seconds=7.0)
    world.server.fail_next(busy, verb="create")
    world.put(make_service())
    key = world.queue.get_nowait()
    assert key == KEY
    with pytest.raises(Exception, match="busy") as caught:
        await world.controller.reconcile(key)
    assert caught.value.retry_after_seconds == 7.0  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------ start-up


async def test_correct_endpoints_are_not_written_at_the_start() -> None:
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    again = World()
    again.server.create_foreign(ENDPOINTS, item)
    again.put(pod(1))
    again.put(make_service())
    again.start()
    await again.settle()
    assert again.writes() == []


async def test_pods_that_change_before_the_first_sync_are_seen_by_it() -> None:
    world = World()
    world.put(pod(1))
    world.put(make_service())
    world.start()
    world.put(pod(1, ready=False))
    world.put(pod(2))
    world.put(make_service(ports=(ServicePort("x", "TCP", 1, 2),)))
    assert await world.work() == [KEY]
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])


async def test_pods_beyond_the_limit_are_truncated_and_cost_no_write() -> None:
    """E-40, E-42: TestEndpointTruncate."""
    world = await running(*(pod(number) for number in range(1001)))
    item = world.stored()
    assert item is not None
    assert len(world.ips()[0]) == 1000
    assert (item.metadata.annotations or {})[OVER_CAPACITY_ANNOTATION] == "truncated"
    out = sorted({f"10.0.{number // 250}.{number % 250}" for number in range(1001)} - set(world.ips()[0]))
    (left_out,) = [number for number in range(1001) if pod(number).pod_ips[0] in out]
    for ready in (False, True) * 5:
        world.put(pod(left_out, ready=ready))
        await world.settle()
    assert world.writes() == []
    for number in range(501):
        world.remove(pod(number))
    await world.settle()
    assert len(world.ips()[0]) == 500
    item = world.stored()
    assert item is not None
    assert OVER_CAPACITY_ANNOTATION not in (item.metadata.annotations or {})


# ------------------------------------------------------------------------------------------------ audit


async def test_an_audit_of_correct_state_finds_nothing() -> None:
    world = await running(pod(1))
    assert world.controller.audited_keys() == [KEY]
    assert world.controller.audit(KEY) is None
    assert await world.work() == []


async def test_an_audit_finds_and_repairs_a_state_that_went_wrong() -> None:
    world = await running(pod(1), pod(2))
    state = world.controller._states[KEY]
    state.desired.set("p2", None)  # as if an event had been lost
    assert world.controller.audit(KEY) == "its endpoints, its endpoints in order"
    assert await world.work() == [KEY]
    assert world.writes() == []  # the published endpoints were correct
    assert world.controller.audit(KEY) is None


async def test_an_audit_finds_a_store_change_without_an_event() -> None:
    world = await running(pod(1))
    item = world.stored()
    assert item is not None
    with world.controller._writes._own_write():  # so that the handler ignores the event
        world.server.update_foreign(ENDPOINTS, change(item, subsets=FOREIGN))
        world.watch()
    assert world.controller.audit(KEY) == "the stored object"
    await world.settle()
    assert world.ips() == (["10.0.0.1"], [])


async def test_a_state_rebuilt_by_an_audit_keeps_unpublished_times() -> None:
    world = await running(pod(1))
    state = world.controller._states[KEY]
    state.trigger_times.pod_changed(None, "2026-02-02T00:00:00Z")
    state.desired.set("p1", None)
    assert world.controller.audit(KEY) is not None
    assert world.controller._states[KEY] is not state
    assert world.controller._states[KEY].trigger_times.take() == "2026-02-02T00:00:00Z"


async def test_an_audit_skips_a_key_in_backoff() -> None:
    world = await running(pod(1))
    world.server.fail_next(api_error(Status(code=500, message="no")), verb="update")
    world.put(pod(1, ready=False))
    await world.work()
    assert world.controller.audit(KEY) is None
    await world.settle()
    assert world.controller.audit(KEY) is None
    assert world.ips() == ([], ["10.0.0.1"])


async def test_an_audit_skips_queued_and_deleted_keys() -> None:
    world = await running(pod(1))
    world.put(pod(1, ready=False))
    assert world.controller.audit(KEY) is None
    assert world.controller.audit(ObjectKey("ns", "other")) is None
    assert await world.work() == [KEY]


def _lose_wake_ups(world: World) -> None:
    while (key := world.queue.get_nowait()) is not None:
        world.queue.done(key)


async def test_an_audit_finds_a_change_whose_wake_up_was_lost() -> None:
    world = await running(pod(1), pod(2))
    world.put(pod(1, ready=False))
    _lose_wake_ups(world)
    assert world.controller.audit(KEY) == "a lost wake-up"
    await world.settle()
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    assert world.controller.audit(KEY) is None


async def test_an_audit_finds_a_service_whose_state_and_wake_up_were_lost() -> None:
    world = await running(pod(1), pod(2))
    world.put(pod(1, ready=False))
    _lose_wake_ups(world)
    del world.controller._states[KEY]
    assert world.controller.audited_keys() == [KEY]
    assert world.controller.audit(KEY) == "no state"
    await world.settle()
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
    assert world.controller.audit(KEY) is None


async def test_an_audit_finds_an_address_that_was_lost_from_the_sorted_list() -> None:
    world = await running(pod(1), pod(2))
    (group,) = world.controller._states[KEY].desired._groups.values()
    del group.ready[0]
    assert world.controller.audit(KEY) == "its endpoints in order"
    world.put(pod(3))
    await world.settle()
    assert world.ips() == (["10.0.0.1", "10.0.0.2", "10.0.0.3"], [])


async def test_a_partially_applied_change_is_repaired_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await running(pod(1), pod(2))
    change_pod = ServiceState.pod_changed

    def raises(state: ServiceState, old: Pod | None, new: Pod | None) -> bool:
        change_pod(state, old, new)
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(ServiceState, "pod_changed", raises)
        world.put(pod(1, ready=False))
    await world.settle()
    assert world.ips() == (["10.0.0.2"], ["10.0.0.1"])
