"""The in-memory server behaves like a real API server in all ways that matter to the controllers."""

import msgspec
import pytest

from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import WatchEvent
from aiokube.api.status import NAMESPACE_TERMINATING, Status
from aiokube.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InternalServerError,
    InvalidError,
    NotFoundError,
    api_error,
)
from aiokube.testing.builders import edited, make_endpoint, make_pod, make_service, make_slice
from aiokube.testing.memory_server import MemoryServer

NEW = EndpointSlice(metadata=ObjectMeta(generate_name="web-", namespace="default"), address_type="IPv4")


async def create(server: MemoryServer, body: EndpointSlice = NEW) -> EndpointSlice:
    return await server.create(ENDPOINT_SLICES, body, namespace="default")


async def test_a_new_slice_gets_a_name_a_uid_a_version_and_generation_one() -> None:
    server = MemoryServer()
    one, two = await create(server), await create(server)
    assert one.metadata.name.startswith("web-")
    assert len(one.metadata.name) == len("web-") + 5
    assert one.metadata.name != two.metadata.name
    assert one.metadata.uid != two.metadata.uid
    assert int(two.metadata.resource_version) > int(one.metadata.resource_version)
    assert one.metadata.generation == 1


async def test_a_long_generate_name_is_truncated_to_keep_the_name_within_its_limit() -> None:
    body = edited(NEW, generate_name="x" * 63)
    assert len((await create(MemoryServer(), body)).metadata.name) == 63


async def test_empty_lists_are_stored_as_null() -> None:
    """S-53."""
    server = MemoryServer()
    await create(server, edited(NEW, endpoints=(), ports=()))
    (created,) = server.objects(ENDPOINT_SLICES).values()
    assert created.endpoints is None
    assert created.ports is None


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        ({"annotations": {"a": "b"}}, 1),
        ({"labels": {"a": "b"}}, 2),
        ({"endpoints": (make_endpoint(make_pod()),)}, 2),
    ],
)
async def test_content_and_label_changes_raise_the_generation_and_annotations_do_not(
    change: dict[str, object], generation: int
) -> None:
    """0.8."""
    server = MemoryServer()
    old = await create(server)
    new = await server.update(ENDPOINT_SLICES, edited(old, **change), key=old.metadata.key)
    assert new.metadata.generation == generation
    assert new.metadata.resource_version != old.metadata.resource_version


async def test_a_no_op_update_does_not_change_the_resource_version() -> None:
    server = MemoryServer()
    old = await create(server)
    assert await server.update(ENDPOINT_SLICES, old, key=old.metadata.key) == old
    assert server.pending_events(ENDPOINT_SLICES) == 1


async def test_writes_of_stale_mismatched_missing_or_existing_objects_are_rejected() -> None:
    server = MemoryServer()
    old = await create(server)
    key = old.metadata.key
    new = await server.update(ENDPOINT_SLICES, edited(old, labels={"a": "b"}), key=key)
    with pytest.raises(ConflictError, match="the object has been modified"):
        await server.update(ENDPOINT_SLICES, old, key=key)
    with pytest.raises(ConflictError, match="UID in precondition"):
        await server.update(ENDPOINT_SLICES, edited(new, uid="other"), key=key)
    with pytest.raises(ConflictError, match="UID in precondition"):
        await server.delete(ENDPOINT_SLICES, key, uid="other")
    with pytest.raises(InvalidError, match="field is immutable"):
        await server.update(ENDPOINT_SLICES, edited(new, address_type="IPv6"), key=key)
    with pytest.raises(AlreadyExistsError):
        await create(server, edited(new, resource_version=""))
    with pytest.raises(NotFoundError, match='"x" not found'):
        await server.get(ENDPOINT_SLICES, ObjectKey("default", "x"))
    with pytest.raises(NotFoundError):
        await server.update(ENDPOINT_SLICES, new, key=ObjectKey("default", "x"))
    assert await server.get(ENDPOINT_SLICES, key) == new
    # Without a version an update is unconditional.
    await server.update(ENDPOINT_SLICES, edited(new, resource_version="", labels=None), key=key)
    await server.delete(ENDPOINT_SLICES, key, uid=new.metadata.uid)
    with pytest.raises(NotFoundError):
        await server.delete(ENDPOINT_SLICES, key)


async def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed() -> None:
    server = MemoryServer()
    held = await create(server, edited(NEW, finalizers=("example.com/hold",)))
    await server.delete(ENDPOINT_SLICES, held.metadata.key)
    dying = await server.get(ENDPOINT_SLICES, held.metadata.key)
    assert dying.metadata.deletion_timestamp is not None
    assert dying.metadata.generation == 2
    await server.update(ENDPOINT_SLICES, edited(dying, finalizers=None), key=dying.metadata.key)
    assert not server.objects(ENDPOINT_SLICES)


async def test_creates_in_a_terminating_namespace_are_rejected() -> None:
    server = MemoryServer()
    server.terminating_namespaces.add("default")
    with pytest.raises(ForbiddenError) as caught:
        await create(server)
    assert caught.value.status.has_cause(NAMESPACE_TERMINATING)


async def test_injected_failures_occur_before_or_after_the_write_as_often_as_requested() -> None:
    server = MemoryServer()
    error = api_error(Status(code=500, message="no"))
    server.fail_next(error, verb="create", times=2)
    server.fail_next(error, verb="create", acts=True)
    for there in (0, 0, 1):
        with pytest.raises(InternalServerError):
            await create(server)
        assert len(server.objects(ENDPOINT_SLICES)) == there
    await create(server)
    assert [call.verb for call in server.calls] == ["create"] * 4


async def test_foreign_writes_are_not_recorded_as_requests() -> None:
    server = MemoryServer()
    endpoint_slice = server.create_foreign(ENDPOINT_SLICES, make_slice(make_service()))
    server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, labels=None))
    server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    assert server.calls == []
    assert server.pending_events(ENDPOINT_SLICES) == 3


async def test_events_are_fed_to_a_store_in_order_and_in_limited_batches() -> None:
    server = MemoryServer()
    endpoint_slice = await create(server)
    await server.delete(ENDPOINT_SLICES, endpoint_slice.metadata.key)
    fed: list[list[str]] = []

    class Store:
        def apply(self, events: list[WatchEvent[EndpointSlice]]) -> None:
            fed.append([event.type for event in events])

    assert server.feed(ENDPOINT_SLICES, Store(), 1) == 1
    assert server.feed(ENDPOINT_SLICES, Store()) == 1
    assert server.feed(ENDPOINT_SLICES, Store()) == 0
    assert fed == [["ADDED"], ["DELETED"]]


async def test_endpoints_are_stored_without_generation() -> None:
    server = MemoryServer()
    body = Endpoints(metadata=ObjectMeta(name="web", namespace="default"))
    created = await server.create(ENDPOINTS, body, namespace="default")
    assert created.metadata.generation is None
    changed = msgspec.structs.replace(
        created, metadata=msgspec.structs.replace(created.metadata, labels={"a": "b"})
    )
    assert (await server.update(ENDPOINTS, changed, key=created.metadata.key)).metadata.labels == {"a": "b"}
