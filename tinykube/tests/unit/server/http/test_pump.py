"""Many watches written by one callback: each gets all events in order, independent of the others."""

import asyncio
import json

import aiohttp
import pytest
from tests.unit.server.http.served import ServedApi, a_server
from tests.unit.server.verbs.world import World, a_world, config_map

from tinykube.server.http.frames import Framer
from tinykube.server.http.negotiation import Form
from tinykube.server.http.streams import pace_seconds
from tinykube.server.verbs.watch import Batch, Bookmark, Event, Watch

MAPS = "/api/v1/namespaces/default/configmaps"
MANY = 40  # enough watches for pacing


def a_map(name: str, label: str = "v", size: int = 0) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"l": label}},
        "data": {"x": "x" * size},
    }


async def event_names(api: ServedApi, query: str, count: int, opened: asyncio.Semaphore) -> list[str]:
    async with api.session.get(f"{MAPS}?watch=1{query}") as response:
        opened.release()
        lines = [await response.content.readline() for _ in range(count)]
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


async def all_open(opened: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        await opened.acquire()


async def test_each_of_many_watchers_gets_every_matching_event_once_and_in_order() -> None:
    opened = asyncio.Semaphore(0)
    async with a_server() as api, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(event_names(api, query, count, opened), name="watcher")
            for query, count in [("", 6), ("&labelSelector=l%3Dv", 3)] * (MANY // 2)
        ]
        await all_open(opened, MANY)
        for number in range(6):
            await api("POST", MAPS, a_map(f"m{number}", "v" if number % 2 else "w"))
        everything, selected = [f"m{number}" for number in range(6)], ["m1", "m3", "m5"]
        for number, task in enumerate(tasks):
            assert await task == (selected if number % 2 else everything)


async def test_watchers_that_disconnect_do_not_affect_those_that_stay() -> None:
    opened = asyncio.Semaphore(0)
    async with a_server() as api, asyncio.TaskGroup() as group:
        short = [group.create_task(event_names(api, "", 1, opened), name="leaves") for _ in range(MANY // 2)]
        long = [group.create_task(event_names(api, "", 4, opened), name="stays") for _ in range(MANY // 2)]
        await all_open(opened, MANY)
        for number in range(4):
            await api("POST", MAPS, a_map(f"m{number}"))
        assert {tuple(await task) for task in short} == {("m0",)}
        assert {tuple(await task) for task in long} == {("m0", "m1", "m2", "m3")}


async def test_a_slow_reader_gets_all_events_and_delays_nobody() -> None:
    opened = asyncio.Semaphore(0)
    async with a_server() as api, api.session.get(f"{MAPS}?watch=1") as late:
        async with asyncio.TaskGroup() as group:
            quick = group.create_task(event_names(api, "", 30, opened), name="quick")
            await all_open(opened, 1)
            for number in range(30):
                await api("POST", MAPS, a_map(f"m{number:02d}", size=300_000))
            names = await quick
        # More than all buffers between the two hold: the watch was handed back, and waited for its client.
        lines = [json.loads(await late.content.readuntil(b"\n")) for _ in range(30)]
        assert [line["object"]["metadata"]["name"] for line in lines] == names


def test_write_intervals_grow_under_cpu_pressure_up_to_a_limit() -> None:
    assert pace_seconds(1_000, 20e-6) == pace_seconds(1_000) == 0.05
    assert pace_seconds(1_000, 50e-6) == pytest.approx(0.125)
    assert pace_seconds(1_000, 1.0) == 0.15
    assert pace_seconds(0, 1.0) == 0.0


async def test_a_failing_stream_ends_without_affecting_others(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = Framer.chunk

    def failing(self: Framer, batch: Batch) -> bytes:
        if len(batch) and isinstance(batch[0], Event) and batch[0].stored.key.name == "w":
            raise RuntimeError("cannot be encoded")
        return chunk(self, batch)

    monkeypatch.setattr(Framer, "chunk", failing)
    opened = asyncio.Semaphore(0)
    async with (
        a_server() as api,
        api.session.get(f"{MAPS}?watch=1") as failed,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(event_names(api, "&labelSelector=l%3Dv", 1, opened), name="continues")
        await all_open(opened, 1)
        await api("POST", MAPS, a_map("w", "w"))
        with pytest.raises(aiohttp.ClientError):
            await failed.read()
        await api("POST", MAPS, a_map("v", "v"))
        assert await task == ["v"]


async def two_watches(world: World, first: str, second: str) -> list[Watch]:
    revision = str(world.backend.storage.revision)
    watches = [await world.watch(resource_version=revision, label_selector=one) for one in (first, second)]
    return [watch for watch in watches if isinstance(watch, Watch)]


async def test_equal_watches_share_the_encoded_bytes_of_a_batch() -> None:
    async with a_world() as world:
        framers = [Framer(world.definition("configmaps"), Form(), world.clock.wall) for _ in range(2)]
        one, other = await two_watches(world, "l=v", "l=v")
        await world.create(config_map("a", labels={"l": "v"}))
        batches = [await one.next_batch(), await other.next_batch()]
        assert batches[0] is batches[1]
        chunks = [framer.chunk(batch) for framer, batch in zip(framers, batches, strict=True)]
        assert chunks[0] is chunks[1]


async def test_events_for_one_selector_are_not_sent_to_another() -> None:
    async with a_world() as world:
        one, other = await two_watches(world, "l=v", "l=w")
        await world.create(config_map("a", labels={"l": "v"}))
        await world.create(config_map("b", labels={"l": "w"}))
        names = [
            [item.stored.key.name for item in await watch.next_batch() if not isinstance(item, Bookmark)]  # type: ignore[union-attr]
            for watch in (one, other)
        ]
        assert names == [["a"], ["b"]]


async def test_take_returns_none_without_events_and_an_empty_batch_after_the_end() -> None:
    async with a_world() as world:
        watch, _ = await two_watches(world, "", "")
        assert watch.take() is None
        woken: list[str] = []
        watch.arm(lambda: woken.append("woken"))
        await world.create(config_map("a"))
        assert woken == ["woken"]
        assert len(watch.take() or ()) == 1
        watch.arm(lambda: woken.append("closed"))
        watch.close()
        assert woken == ["woken", "closed"]
        assert watch.take() == ()


async def test_a_disarmed_watch_does_not_call_back() -> None:
    async with a_world() as world:
        watch, _ = await two_watches(world, "", "")
        woken: list[str] = []
        assert watch.take() is None
        watch.arm(lambda: woken.append("woken"))
        watch.disarm()
        await world.create(config_map("a"))
        assert woken == []
        assert len(watch.take() or ()) == 1
