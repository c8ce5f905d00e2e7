# ruff: noqa: D103, S101 - a test
"""The controller of ``welcome.py``, tested without a cluster, in virtual time. Copy both files to try it."""

import asyncio

from welcome import LABEL, welcome

from aiokube import (
    CONFIG_MAPS,
    EVENTS,
    MERGE_PATCH,
    NAMESPACES,
    ConfigMap,
    Namespace,
    ObjectKey,
    ObjectMeta,
    TransportError,
)
from aiokube.testing import FakeClient, run_virtual, running

SHOP = ObjectKey("", "shop")
WELCOME = ObjectKey("shop", "welcome")


def shop(text: str) -> Namespace:
    return Namespace(ObjectMeta(name="shop", labels={LABEL: text}))


def text_of(client: FakeClient) -> str | None:
    found = client.objects(CONFIG_MAPS).get(WELCOME)
    return None if found is None else (found.data or {}).get("text")


def test_the_config_map_follows_the_label() -> None:
    async def scenario() -> None:
        client = FakeClient((NAMESPACES, shop("hello")))
        async with running(client, welcome):
            await asyncio.sleep(1)
            assert text_of(client) == "hello"
            await client.apply(NAMESPACES, shop("good evening"), field_manager="kubectl")
            await asyncio.sleep(1)
            assert text_of(client) == "good evening"
            await client.patch(
                NAMESPACES,
                SHOP,
                b'{"metadata":{"labels":{"%s":null}}}' % LABEL.encode(),
                patch_type=MERGE_PATCH,
            )
            await asyncio.sleep(1)
            assert text_of(client) is None
        assert {event.reason for event in client.objects(EVENTS).values()} == {"Welcomed"}

    run_virtual(scenario())


def test_fields_of_others_are_kept() -> None:
    async def scenario() -> None:
        client = FakeClient((NAMESPACES, shop("hello")))
        async with running(client, welcome):
            await asyncio.sleep(1)
            await client.patch(
                CONFIG_MAPS, WELCOME, b'{"binaryData":{"logo":"aA=="}}', patch_type=MERGE_PATCH
            )
            await client.apply(NAMESPACES, shop("good evening"), field_manager="kubectl")
            await asyncio.sleep(1)
        found = client.objects(CONFIG_MAPS)[WELCOME]
        assert (found.data, found.binary_data) == ({"text": "good evening"}, {"logo": b"h"})

    run_virtual(scenario())


def test_manual_changes_are_reverted() -> None:
    async def scenario() -> None:
        client = FakeClient((NAMESPACES, shop("hello")))
        async with running(client, welcome):
            await asyncio.sleep(1)
            edited = ConfigMap(ObjectMeta(name="welcome", namespace="shop"), data={"text": "bye"})
            await client.apply(CONFIG_MAPS, edited, field_manager="kubectl", force=True)
            await asyncio.sleep(1)
            assert text_of(client) == "hello"
            await client.delete(CONFIG_MAPS, WELCOME)
            await asyncio.sleep(1)
            assert text_of(client) == "hello"

    run_virtual(scenario())


def test_a_failed_write_is_retried_until_it_succeeds() -> None:
    async def scenario() -> None:
        client = FakeClient((NAMESPACES, shop("hello")))
        client.fail_next(TransportError("connection reset"), times=10)
        async with running(client, welcome):
            await asyncio.sleep(1)
            assert text_of(client) is None
            await asyncio.sleep(60)
            assert text_of(client) == "hello"

    run_virtual(scenario())


def test_nothing_is_written_twice_however_late_the_watch_is() -> None:
    async def scenario() -> None:
        client = FakeClient((NAMESPACES, shop("hello")))
        client.fake_source(CONFIG_MAPS).hold()  # the watch delivers nothing
        async with running(client, welcome):
            await asyncio.sleep(1)
            client.fake_source(CONFIG_MAPS).release()
            await asyncio.sleep(1)
        writes = [write for write in client.writes if "configmaps" in write[1]]
        assert writes == [("apply", "configmaps shop/welcome")]

    run_virtual(scenario())
