"""Declared controllers: their triggers, their writes, and the program around them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import aiokube
from aiokube import (
    CONFIG_MAPS,
    LEASES,
    MERGE_PATCH,
    NAMESPACES,
    ConfigMap,
    Context,
    Namespace,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    RequeueAfter,
    Watch,
    run_controllers,
)
from aiokube.testing import FakeClient, FakeClock, run_virtual, running

SHOP = ObjectKey("", "shop")
LEASE = ObjectKey("default", "controllers")
Scenario = Callable[[], Awaitable[None]]


def namespace(name: str = "shop", **meta: Any) -> Namespace:
    return Namespace(ObjectMeta(name=name, **meta))


def config_map(name: str, text: str = "", **meta: Any) -> ConfigMap:
    return ConfigMap(ObjectMeta(name=name, namespace="shop", **meta), data={"text": text})


def virtually(scenario: Callable[[], Any]) -> Callable[[], None]:
    def test() -> None:
        run_virtual(scenario())

    test.__name__ = scenario.__name__
    return test


class Seen:
    """A controller that records the keys of its calls."""

    def __init__(self, **declaration: Any) -> None:
        self.keys: list[str] = []

        @aiokube.controller(NAMESPACES, name="seen", **declaration)
        async def seen(ctx: Context, key: ObjectKey) -> None:
            self.keys.append(str(key))

        self.definition = seen

    def take(self) -> list[str]:
        keys, self.keys = sorted(self.keys), []
        return keys


@virtually
async def test_reconcile_is_called_for_each_object_at_startup_and_after_each_change() -> None:
    seen, client = Seen(), FakeClient((NAMESPACES, namespace()), (NAMESPACES, namespace("office")))
    async with running(client, seen.definition):
        await asyncio.sleep(1)
        assert seen.take() == ["office", "shop"]
        await client.apply(NAMESPACES, namespace(labels={"a": "b"}), field_manager="me")
        await asyncio.sleep(1)
        assert seen.take() == ["shop"]
        await client.delete(NAMESPACES, SHOP)
        await asyncio.sleep(1)
        assert seen.take() == ["shop"]


@virtually
async def test_a_change_of_an_owned_object_reconciles_only_its_owner() -> None:
    seen, client = Seen(owns=[CONFIG_MAPS]), FakeClient((NAMESPACES, namespace()))
    owner = aiokube.owner_reference(NAMESPACES, client.objects(NAMESPACES)[SHOP])
    async with running(client, seen.definition):
        await asyncio.sleep(1)
        seen.take()
        await client.create(CONFIG_MAPS, config_map("owned", owner_references=(owner,)))
        await asyncio.sleep(1)
        assert seen.take() == ["shop"]
        other = msgspec.structs.replace(owner, kind="Node")
        second = msgspec.structs.replace(owner, controller=None)
        await client.create(CONFIG_MAPS, config_map("of-another-kind", owner_references=(other,)))
        await client.create(CONFIG_MAPS, config_map("not-controlled", owner_references=(second,)))
        await asyncio.sleep(1)
        assert seen.take() == []


@virtually
async def test_a_watched_object_enqueues_the_keys_from_before_and_after_a_change() -> None:
    def keys(item: ConfigMap) -> list[ObjectKey]:
        return [ObjectKey("", name) for name in (item.data or {})["text"].split()]

    seen = Seen(watches=[Watch(CONFIG_MAPS, keys)])
    client = FakeClient((CONFIG_MAPS, config_map("list", "a b")))
    async with running(client, seen.definition):
        await asyncio.sleep(1)
        assert seen.take() == ["a", "b"]
        await client.apply(CONFIG_MAPS, config_map("list", "b c"), field_manager="me")
        await asyncio.sleep(1)
        assert seen.take() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("when", "patch", "wakes"),
    [
        (aiokube.generation_changed, '{"status":{"phase":"Active"}}', False),
        (aiokube.generation_changed, '{"spec":{"finalizers":["kubernetes"]}}', True),
        (aiokube.labels_changed, '{"metadata":{"annotations":{"a":"b"}}}', False),
        (aiokube.labels_changed, '{"metadata":{"labels":{"a":"b"}}}', True),
        (aiokube.annotations_changed, '{"metadata":{"labels":{"a":"b"}}}', False),
        (aiokube.annotations_changed, '{"metadata":{"annotations":{"a":"b"}}}', True),
        (
            aiokube.any_of(aiokube.labels_changed, aiokube.annotations_changed),
            '{"metadata":{"labels":{"a":"b"}}}',
            True,
        ),
        (
            aiokube.any_of(aiokube.labels_changed, aiokube.annotations_changed),
            '{"status":{"phase":"Active"}}',
            False,
        ),
    ],
)
def test_a_predicate_filters_changes(when: Any, patch: str, wakes: bool) -> None:
    async def scenario() -> None:
        seen, client = Seen(when=when), FakeClient((NAMESPACES, namespace()))
        async with running(client, seen.definition):
            await asyncio.sleep(1)
            assert seen.take() == ["shop"]
            await client.patch(NAMESPACES, SHOP, patch.encode(), patch_type=MERGE_PATCH)
            await asyncio.sleep(1)
            assert seen.take() == (["shop"] if wakes else [])

    run_virtual(scenario())


@virtually
async def test_an_object_that_no_longer_matches_the_selector_appears_deleted() -> None:
    seen = Seen(label_selector="app=web")
    client = FakeClient((NAMESPACES, namespace(labels={"app": "web"})), (NAMESPACES, namespace("office")))
    async with running(client, seen.definition):
        await asyncio.sleep(1)
        assert seen.take() == ["shop"]
        await client.patch(NAMESPACES, SHOP, b'{"metadata":{"labels":{"app":"db"}}}', patch_type=MERGE_PATCH)
        await asyncio.sleep(1)
        assert seen.take() == ["shop"]


@virtually
async def test_writes_are_visible_in_the_cache_immediately() -> None:
    texts: list[Any] = []

    @aiokube.controller(NAMESPACES, owns=[CONFIG_MAPS])
    async def writer(ctx: Context, key: ObjectKey) -> None:
        if texts:
            return

        def cached() -> ConfigMap | None:
            return ctx.get(CONFIG_MAPS, ObjectKey("shop", "a"))

        await ctx.create(CONFIG_MAPS, config_map("a", "created"))
        texts.append(cached())
        await ctx.apply(CONFIG_MAPS, config_map("a", "applied"))
        texts.append(cached())
        await ctx.patch(
            CONFIG_MAPS, ObjectKey("shop", "a"), b'{"data":{"text":"patched"}}', patch_type=MERGE_PATCH
        )
        found = cached()
        texts.append(found)
        assert found is not None
        await ctx.delete(CONFIG_MAPS, found)
        texts.append(cached())
        await ctx.delete(CONFIG_MAPS, found)  # it is already deleted

    client = FakeClient((NAMESPACES, namespace()))
    client.fake_source(CONFIG_MAPS).hold()  # the watch delivers nothing
    async with running(client, writer):
        await asyncio.sleep(1)
    assert [found and found.data for found in texts] == [
        {"text": "created"},
        {"text": "applied"},
        {"text": "patched"},
        None,
    ]


@virtually
async def test_a_written_object_outside_the_selector_is_not_cached() -> None:
    seen: list[ConfigMap | None] = []

    @aiokube.controller(NAMESPACES, watches=[Watch(CONFIG_MAPS, lambda item: (), label_selector="app=web")])
    async def writer(ctx: Context, key: ObjectKey) -> None:
        await ctx.apply(CONFIG_MAPS, config_map("other"))
        await ctx.apply(CONFIG_MAPS, config_map("ours", labels={"app": "web"}))
        seen.extend(ctx.get(CONFIG_MAPS, ObjectKey("shop", name)) for name in ("other", "ours"))

    async with running(FakeClient((NAMESPACES, namespace())), writer):
        await asyncio.sleep(1)
    assert [item is not None for item in seen] == [False, True]


@virtually
async def test_reading_a_resource_that_is_not_watched_from_the_cache_is_an_error() -> None:
    errors: list[str] = []

    @aiokube.controller(NAMESPACES)
    async def reader(ctx: Context, key: ObjectKey) -> RequeueAfter | None:
        try:
            ctx.get(CONFIG_MAPS, ObjectKey("shop", "a"))
        except LookupError as error:
            errors.append(str(error))
        return RequeueAfter(60)

    async with running(FakeClient((NAMESPACES, namespace())), reader):
        await asyncio.sleep(90)
    assert len(errors) == 2
    assert "does not watch configmaps: add it to owns= or watches=" in errors[0]


@virtually
async def test_controllers_that_watch_the_same_objects_share_a_cache() -> None:
    one, client = Seen(), FakeClient((NAMESPACES, namespace()))
    two = aiokube.controller(NAMESPACES, name="two")(one.definition.reconcile)
    async with running(client, one.definition, two):
        await asyncio.sleep(1)
        assert one.take() == ["shop", "shop"]
        assert client.fake_source(NAMESPACES).open_watches == 1


@virtually
async def test_only_the_lease_holder_reconciles_and_it_releases_the_lease_on_stop() -> None:
    client = FakeClient((NAMESPACES, namespace()))
    first, second, stops = Seen(), Seen(), (asyncio.Event(), asyncio.Event())
    async with asyncio.TaskGroup() as group:
        for seen, stop in zip((first, second), stops, strict=True):
            group.create_task(
                run_controllers(client, seen.definition, stop=stop, clock=FakeClock(), leader_election=LEASE)
            )
            await asyncio.sleep(5)
        assert (first.take(), second.take()) == (["shop"], [])
        assert client.objects(LEASES)[LEASE].spec.holder
        stops[0].set()
        await asyncio.sleep(30)
        assert second.take() == ["shop"]
        stops[1].set()
    assert client.objects(LEASES)[LEASE].spec.holder == ""


def test_controllers_need_unique_names_and_at_least_one_is_required() -> None:
    async def nothing(*definitions: Any) -> None:
        await run_controllers(FakeClient(), *definitions, stop=asyncio.Event())

    with pytest.raises(ValueError, match="different names, got none"):
        run_virtual(nothing())
    with pytest.raises(ValueError, match=r"got \['seen', 'seen'\]"):
        run_virtual(nothing(Seen().definition, Seen().definition))


def test_an_invalid_configuration_prints_one_line_and_exits_with_code_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING)  # restores the root logger's level, which run() sets
    monkeypatch.setattr("aiokube.runtime.program.configure", lambda *_: None)  # logging is the process's
    with pytest.raises(SystemExit) as exit_:
        aiokube.run(Seen().definition, kubeconfig=str(tmp_path / "missing"))
    assert exit_.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "missing" in line


def test_the_owner_reference_marks_the_owner_as_controller() -> None:
    shop = Namespace(ObjectMeta(name="shop", uid="u"))
    assert aiokube.owner_reference(NAMESPACES, shop) == OwnerReference(
        api_version="v1", kind="Namespace", name="shop", uid="u", controller=True, block_owner_deletion=True
    )
