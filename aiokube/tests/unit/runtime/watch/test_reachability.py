"""Sources of one server after an outage: the order of retries, wake-ups and logs. In virtual time."""

import asyncio
import logging
import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.unit.runtime.watch.running import LIST_FIRST, new, now
from tests.unit.runtime.watch.things import Thing, contents, key

from aiokube.api.resource import Page
from aiokube.client.errors import ClientError, ConnectionFailedError, ResponseTruncatedError
from aiokube.runtime.informer import Informer
from aiokube.runtime.reachability import Reachability
from aiokube.testing.api_errors import status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle

NAMES = ("pods", "services", "nodes", "endpoints", "slices")
REFUSED = ConnectionFailedError("localhost:6443: connection refused")
RESET = ConnectionFailedError("closed the connection before it responded", may_have_acted=True)
TORN = ResponseTruncatedError("the connection broke within the response")
BUSY = status_error(429, "TooManyRequests", "later", retry_after_seconds=1)
UNAVAILABLE = status_error(503, "ServiceUnavailable", "no backend")


def new_reachability(seed: int = 1) -> Reachability:
    return Reachability(clock=FakeClock(), rng=random.Random(seed), server="https://one")


class Client:
    """The informers of one program and server."""

    def __init__(self, seed: int = 1) -> None:
        self.sources = {name: FakeSource([new("a"), new("b")]) for name in NAMES}
        self.reachability = new_reachability(seed)
        self.informers = {
            name: Informer(
                source,
                name=name,
                clock=FakeClock(),
                rng=random.Random(seed),
                settings=LIST_FIRST,
                reachability=self.reachability,
            )
            for name, source in self.sources.items()
        }

    def fail(self, error: ClientError) -> None:
        for source in self.sources.values():
            source.fail_next(*[error] * 100_000)
            source.break_watches(TORN)

    def heal(self) -> None:
        for source in self.sources.values():
            source.clear_faults()

    def attempts(self, since: float) -> list[float]:
        return sorted(
            request.at_seconds
            for source in self.sources.values()
            for request in source.requests
            if request.at_seconds >= since
        )

    def matches_server(self) -> bool:
        return all(contents(self.informers[name].store) == self.sources[name].objects for name in NAMES)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, informer in self.informers.items():
                group.create_task(informer.run(), name=name)


@pytest.mark.parametrize("away_seconds", [0.5, 15.0, 65.0])
@pytest.mark.parametrize(
    "error", [REFUSED, RESET, TORN, BUSY, UNAVAILABLE], ids=["refused", "reset", "torn", "429", "503"]
)
async def test_all_caches_are_current_two_seconds_after_the_server_returns(
    error: ClientError, away_seconds: float
) -> None:
    """It took 26 s after an outage of 65 s: each watch waited for its separate backoff."""
    for seed in range(3):
        client = Client(seed)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(client.run(), name=f"client seed {seed}")
            await asyncio.sleep(10)
            client.fail(error)
            began = now()
            await asyncio.sleep(away_seconds)
            for source in client.sources.values():
                source.modify(new("a", "missed"))
            assert len(client.attempts(began)) <= 2 * away_seconds + 2, "one attempt in half a second"
            client.heal()
            await asyncio.sleep(1.5)
            assert client.matches_server(), f"seed {seed}"
            task.cancel()


async def test_a_source_retries_at_most_once_a_second_even_if_others_wake_it_constantly() -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        pods = client.sources["pods"]
        pods.fail_next(*[UNAVAILABLE] * 1000)
        pods.break_watches(TORN)
        began = now()
        for _ in range(600):
            client.sources["nodes"].break_watches(TORN)
            await asyncio.sleep(0.1)
        for name in ("pods", "nodes"):
            at = [
                request.at_seconds for request in client.sources[name].requests if request.at_seconds > began
            ]
            assert all(after - before >= 0.999 for before, after in pairwise(at)), name
            assert len(at) > 30, "nothing is given up"
        task.cancel()


async def test_retry_after_is_honoured_even_if_another_source_gets_a_response() -> None:
    reachability = new_reachability()
    async with asyncio.TaskGroup() as group:
        group.create_task(reachability.wait_turn("pods", "429", at_least_seconds=20.0), name="pods")
        nodes = group.create_task(reachability.wait_turn("nodes", "refused"), name="nodes")
        await nodes
        reachability.answered("nodes")
    assert 20.0 <= now() <= 25.0


async def test_a_retry_after_of_a_day_is_capped_at_a_minute() -> None:
    await new_reachability().wait_turn("pods", "429", at_least_seconds=86_400.0)
    assert 60.0 <= now() <= 75.0


async def test_a_hanging_attempt_does_not_block_other_sources() -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        client.fail(REFUSED)
        await asyncio.sleep(10)
        client.heal()
        for name in NAMES[1:]:
            client.sources[name].hang_next()
        client.sources["pods"].modify(new("a", "missed"))
        await asyncio.sleep(4)
        assert contents(client.informers["pods"].store) == client.sources["pods"].objects
        await asyncio.sleep(20)
        assert client.matches_server()
        task.cancel()


async def test_an_outage_logs_its_start_its_end_and_increasingly_rare_reminders(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        with caplog.at_level(logging.INFO):
            client.fail(REFUSED)
            await asyncio.sleep(3600)
            client.heal()
            await asyncio.sleep(5)
        task.cancel()
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("reachability")]
    assert len(lines) == 17, "the beginning, 10 s, 30 s, 70 s, 150 s, 310 s, then each 5 min; and the end"
    assert all(line.startswith("the API server is unreachable") for line in lines[:-1])
    assert lines[-1].startswith("the API server is reachable again: server=https://one after_seconds=3600")
    assert [line for line in caplog.messages if "watch interrupted" in line] == []


async def test_a_repeatedly_broken_watch_is_logged_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        with caplog.at_level(logging.INFO):
            for _ in range(600):
                client.sources["pods"].break_watches(TORN)
                await asyncio.sleep(1)
        task.cancel()
    lines = [record for record in caplog.records if record.name.endswith("reachability")]
    assert 2 < len(lines) <= 16


async def test_recovery_from_non_network_failures_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        with caplog.at_level(logging.INFO):
            pods = client.sources["pods"]
            pods.fail_next(*[status_error(403, "Forbidden", "no right to watch pods")] * 6)
            pods.break_watches(TORN)
            await asyncio.sleep(60)
        task.cancel()
    assert "watch recovered: resource=pods after_seconds=" in caplog.text


async def test_a_cache_without_a_watch_gap_is_current_immediately() -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(1000)
        before = now()
        await client.informers["pods"].wait_current()
        assert now() == before
        assert len(client.sources["pods"].lists) == 1
        task.cancel()


async def test_a_cache_that_lost_its_watch_is_current_only_after_a_relist() -> None:
    client = Client()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(client.run(), name="client")
        await asyncio.sleep(10)
        pods = client.sources["pods"]
        client.fail(REFUSED)
        await asyncio.sleep(5)
        pods.modify(new("a", "missed"))
        current = group.create_task(client.informers["pods"].wait_current(), name="current")
        await asyncio.sleep(30)
        assert not current.done()
        client.heal()
        await current
        stored = client.informers["pods"].store.get(key("a"))
        assert stored is not None
        assert stored.value == "missed"
        assert pods.lists[-1].resource_version is None, "the newest there is"
        await settle()
        await client.informers["pods"].wait_current()
        task.cancel()


async def test_an_endless_list_is_retried_with_growing_delays() -> None:
    source: FakeSource[Thing] = FakeSource([new(f"thing-{number:04}") for number in range(600)])
    endless = EndlessSource(source)
    informer = Informer(endless, name="things", clock=FakeClock(), rng=random.Random(1), settings=LIST_FIRST)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run(), name="informer")
        await asyncio.sleep(60)
        assert endless.pages < 120, "4,850 a second before"
        task.cancel()


async def test_an_endless_list_of_new_objects_is_abandoned_and_its_memory_released() -> None:
    """Each page has new valid objects and a new token: 3 GB were stored before."""
    endless = InventingSource()
    settings = msgspec.structs.replace(LIST_FIRST, max_objects=2_000)
    informer = Informer(endless, name="things", clock=FakeClock(), rng=random.Random(1), settings=settings)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run(), name="informer")
        await asyncio.sleep(300)
        assert endless.pages < 100
        assert not informer.store.synced
        assert "more than 2000 objects" in informer.statistics().reflector.last_error
        task.cancel()


class InventingSource(FakeSource[Thing]):
    """A server that invents objects for as long as it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = 0

    async def list_page(self, **asked: Any) -> Page[Thing]:
        self.pages += 1
        items = tuple(new(f"thing-{self.pages}-{number}") for number in range(500))
        return Page(items, "7", f"token-{self.pages}")


class EndlessSource(FakeSource[Thing]):
    """A server with an endless list: the same page under a new token."""

    def __init__(self, source: FakeSource[Thing]) -> None:
        super().__init__()
        self._page = source
        self.pages = 0

    async def list_page(self, **asked: Any) -> Page[Thing]:
        self.pages += 1
        page = await self._page.list_page(limit=500)
        return Page(page.items, page.resource_version, f"token-{self.pages}")
