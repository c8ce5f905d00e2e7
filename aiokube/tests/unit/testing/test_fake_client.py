"""The in-memory client: its documented subset of a real server's behaviour."""

import asyncio
from typing import Any

import msgspec
import pytest

from aiokube import (
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    AlreadyExistsError,
    ApplyConflictError,
    ConfigMap,
    ConflictError,
    NotFoundError,
    ObjectKey,
    ObjectMeta,
    PartialTypeError,
    ReconcileError,
)
from aiokube.api.core import PODS as NARROW_PODS
from aiokube.testing import FakeClient

KEY = ObjectKey("shop", "a")


def config_map(text: str | None = None, **data: str) -> ConfigMap:
    return ConfigMap(
        ObjectMeta(name="a", namespace="shop"), data=data if text is None else {"text": text} | data
    )


async def test_an_object_can_be_created_once_and_read_back() -> None:
    client = FakeClient()
    created = await client.create(CONFIG_MAPS, config_map("x"))
    assert (created.metadata.uid, created.metadata.generation) == ("uid-1", 1)
    assert await client.get(CONFIG_MAPS, KEY) == created
    with pytest.raises(AlreadyExistsError, match='configmaps "a" already exists'):
        await client.create(CONFIG_MAPS, config_map("x"))


async def test_an_update_requires_the_latest_version_and_a_complete_type() -> None:
    client = FakeClient((CONFIG_MAPS, config_map("x")))
    first = await client.get(CONFIG_MAPS, KEY)
    second = await client.update(CONFIG_MAPS, msgspec.structs.replace(first, data={"text": "y"}))
    assert (second.data, second.metadata.generation) == ({"text": "y"}, 2)
    with pytest.raises(ConflictError, match="has been modified"):
        await client.update(CONFIG_MAPS, first)
    with pytest.raises(PartialTypeError):
        await client.update(PODS, PODS.decode(b"{}"), key=KEY)


async def test_a_no_op_write_does_not_change_the_resource_version() -> None:
    client = FakeClient()
    first = await client.apply(CONFIG_MAPS, config_map("x"), field_manager="me")
    assert await client.apply(CONFIG_MAPS, config_map("x"), field_manager="me") == first
    assert await client.patch(CONFIG_MAPS, KEY, b'{"data":{"text":"x"}}', patch_type=MERGE_PATCH) == first


async def test_apply_removes_fields_that_its_manager_no_longer_sends_and_keeps_the_rest() -> None:
    client = FakeClient()
    await client.apply(CONFIG_MAPS, config_map("x", extra="1"), field_manager="me")
    await client.patch(CONFIG_MAPS, KEY, b'{"data":{"theirs":"2"}}', patch_type=MERGE_PATCH)
    applied = await client.apply(CONFIG_MAPS, config_map("x"), field_manager="me")
    assert applied.data == {"text": "x", "theirs": "2"}


async def test_an_apply_conflict_names_the_field_unless_forced() -> None:
    client = FakeClient()
    await client.apply(CONFIG_MAPS, config_map("x"), field_manager="one")
    with pytest.raises(ApplyConflictError, match=r'conflict with "one" using v1: \.data\.text') as caught:
        await client.apply(CONFIG_MAPS, config_map("y"), field_manager="two")
    assert [conflict.field for conflict in caught.value.conflicts] == [".data.text"]
    await client.apply(CONFIG_MAPS, config_map("x"), field_manager="two")  # the same value is shared
    await client.apply(CONFIG_MAPS, config_map("y"), field_manager="two", force=True)
    with pytest.raises(ApplyConflictError, match='conflict with "two"'):
        await client.apply(CONFIG_MAPS, config_map("x"), field_manager="one")


async def test_a_delete_checks_its_preconditions_and_clears_field_ownership() -> None:
    client = FakeClient()
    await client.apply(CONFIG_MAPS, config_map("x"), field_manager="one")
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAPS, KEY, uid="another")
    await client.delete(CONFIG_MAPS, KEY, uid="uid-1")
    with pytest.raises(NotFoundError, match=r'"a" not found .*/namespaces/shop/configmaps/a'):
        await client.get(CONFIG_MAPS, KEY)
    await client.apply(CONFIG_MAPS, config_map("y"), field_manager="two")


async def test_an_object_with_finalizers_terminates_until_the_last_is_removed() -> None:
    body = msgspec.structs.replace(
        config_map("x"), metadata=ObjectMeta(name="a", namespace="shop", finalizers=("f",))
    )
    client = FakeClient((CONFIG_MAPS, body))
    await client.delete(CONFIG_MAPS, KEY)
    assert (await client.get(CONFIG_MAPS, KEY)).metadata.deletion_timestamp
    await client.patch(CONFIG_MAPS, KEY, b'{"metadata":{"finalizers":null}}', patch_type=MERGE_PATCH)
    assert client.objects(CONFIG_MAPS) == {}


async def test_writes_are_recorded_and_injected_failures_are_raised() -> None:
    client = FakeClient()
    client.fail_next(ConnectionError("broken"))
    with pytest.raises(ConnectionError):
        await client.create(CONFIG_MAPS, config_map("x"))
    await client.create(CONFIG_MAPS, config_map("x"))
    assert client.writes == [("create", "configmaps shop/a")] * 2


async def test_a_guarded_client_calls_its_guard_before_writing() -> None:
    def refuse() -> None:
        raise ReconcileError("not the leader")

    client = FakeClient()
    with pytest.raises(ReconcileError, match="not the leader"):
        await client.guarded(refuse).create(CONFIG_MAPS, config_map("x"))
    await client.create(CONFIG_MAPS, config_map("x"))


async def test_a_list_is_filtered_by_namespace_and_selectors() -> None:
    other = ConfigMap(ObjectMeta(name="b", namespace="office", labels={"app": "web"}))
    client = FakeClient((CONFIG_MAPS, config_map("x")), (CONFIG_MAPS, other))

    async def names(**options: Any) -> list[str]:
        return [item.metadata.name for item in (await client.list_page(CONFIG_MAPS, **options)).items]

    assert sorted(await names()) == ["a", "b"]
    assert await names(namespace="shop") == ["a"]
    assert await names(label_selector="app=web") == ["b"]
    assert await names(field_selector="metadata.name=a") == ["a"]
    with pytest.raises(NotImplementedError, match=r"spec\.nodeName"):
        await names(field_selector="spec.nodeName=x")


async def test_unsupported_operations_raise_a_clear_error() -> None:
    client = FakeClient((PODS, PODS.decode(b'{"metadata":{"name":"p","namespace":"shop"}}')))
    with pytest.raises(TypeError, match="already has them as another type"):
        await client.get(NARROW_PODS, ObjectKey("shop", "p"))
    with pytest.raises(NotImplementedError, match="merge patch"):
        await client.patch(PODS, ObjectKey("shop", "p"), b"[]", patch_type=JSON_PATCH)
    with pytest.raises(NotImplementedError, match="tinykube"):
        await client.request("GET", "/version")
    await asyncio.sleep(0)
